"""Captures on disk: listed whatever lies there, found by name, removed whole."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from models.errors import UsageError, WorkbenchError
from tests.fake_store import add_capture
from workbench.capture_files import (
    CaptureStatus,
    find_capture,
    list_captures,
    load_capture,
    new_capture_path,
    remove_capture,
    strings_text,
    sweep,
)
from workbench.runs import Run, Store


@pytest.fixture
def run(store: Store, make_run: Callable[..., Run]) -> Run:
    """A run without captures."""
    return make_run(store)


def add(run: Run, name: str, n: int = 6, strings: int = 2) -> Path:
    return add_capture(run.path, ["rope"], [1], n=n, strings=strings, name=name)


def change(folder: Path, **facts: object) -> None:
    about = json.loads((folder / "capture.json").read_text())
    (folder / "capture.json").write_text(json.dumps(about | facts))


def test_what_is_listed_is_what_was_captured(run: Run) -> None:
    assert list_captures(run) == []
    change(add(run, "older", n=5), created="2024-01-01T00:00:00+00:00", step=7)
    folder = add(run, "newer", n=9, strings=4)
    (folder / "string-0000-overview-0-0.safetensors").write_bytes(bytes(1000))
    newer, older = list_captures(run)
    assert (newer.id, newer.status, newer.strings, newer.failed) == ("newer", CaptureStatus.COMPLETE, 4, 2)
    assert (newer.shortest, newer.longest, newer.distribution) == (9, 9, "imbalanced")
    assert newer.size == sum(path.stat().st_size for path in folder.iterdir()) and newer.overviews == 1000
    assert (older.id, older.step, older.overviews) == ("older", 7, 0)


def broken_json(folder: Path) -> None:
    (folder / "capture.json").write_text("{")


def newer_format(folder: Path) -> None:
    change(folder, format=99)


def no_strings(folder: Path) -> None:
    change(folder, strings=[])


def odd_strings(folder: Path) -> None:
    change(folder, strings=[7])


def no_date(folder: Path) -> None:
    change(folder, created=None)


def string_gone(folder: Path) -> None:
    (folder / "string-0001.safetensors").unlink()


def string_cut(folder: Path) -> None:
    path = folder / "string-0001.safetensors"
    path.write_bytes(path.read_bytes()[:-10])


def not_json_object(folder: Path) -> None:
    (folder / "capture.json").write_text("[1]")


@pytest.mark.parametrize(
    "damage",
    [broken_json, newer_format, no_strings, odd_strings, no_date, string_gone, string_cut, not_json_object],
)
def test_a_damaged_capture_is_listed_as_such_and_can_be_removed(run: Run, damage: Callable[[Path], None]) -> None:
    add(run, "good")
    damage(add(run, "bad"))
    good, bad = list_captures(run)
    assert (good.id, good.status) == ("good", CaptureStatus.COMPLETE)
    assert (bad.id, bad.status) == ("bad", CaptureStatus.UNREADABLE) and bad.message and bad.size > 0
    with pytest.raises(WorkbenchError, match=r"bad of run .* is unreadable"):
        load_capture(run, "bad")
    assert find_capture(run, "latest").id == "good"
    remove_capture(run, bad)
    assert os.listdir(run.path / "captures") == ["good"]


def test_what_is_no_capture_is_listed_and_left_alone(run: Run, tmp_path: Path) -> None:
    folder = run.path / "captures"
    add(run, "mine")
    (folder / "notes").mkdir()
    (folder / "notes" / "text.txt").write_text("keep")
    (folder / "file.txt").write_text("a plain file is not listed")
    (folder / ".partial-x").mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "capture.json").write_text("{}")
    (folder / "link").symlink_to(outside)
    statuses = {entry.id: entry.status.value for entry in list_captures(run)}
    assert statuses == {"mine": "complete", "notes": "foreign", "link": "foreign"}
    with pytest.raises(UsageError, match="left alone"):
        remove_capture(run, find_capture(run, "notes"))
    with pytest.raises(UsageError, match="link"):
        find_capture(run, "link")
    assert (folder / "notes" / "text.txt").exists() and (outside / "capture.json").exists()


def test_a_folder_of_captures_that_is_a_link_holds_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "x").mkdir(parents=True)
    (run.path / "captures").symlink_to(tmp_path / "elsewhere")
    assert list_captures(run) == []
    with pytest.raises(UsageError, match="link"):
        new_capture_path(run, "y")


def test_captures_are_found_by_id_by_prefix_and_as_latest(run: Run) -> None:
    with pytest.raises(UsageError, match="no capture yet; make one with"):
        find_capture(run, "latest")
    for name, year in (("ab", 2021), ("abc", 2023), ("xyz", 2022)):
        change(add(run, name), created=f"{year}-01-01T00:00:00+00:00")
    assert [find_capture(run, name).id for name in ("ab", "abc", "x", "latest")] == ["ab", "abc", "xyz", "abc"]
    with pytest.raises(UsageError, match="begins several captures: abc, ab"):
        find_capture(run, "a")
    with pytest.raises(UsageError, match="Known: abc, xyz, ab"):
        find_capture(run, "nope")


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a\\b", "a\0b", ".hidden", "x" * 300])
def test_no_name_leaves_the_folder(run: Run, name: str) -> None:
    add(run, "mine")
    for use in (find_capture, new_capture_path, load_capture):
        with pytest.raises(UsageError):
            use(run, name)


def test_a_new_name_is_free(run: Run) -> None:
    add(run, "taken")
    assert new_capture_path(run, "free") == run.path / "captures" / "free"
    for name, said in (("taken", "already"), ("latest", "stands for")):
        with pytest.raises(UsageError, match=said):
            new_capture_path(run, name)


@pytest.mark.parametrize("name", ["a b", "-x", "_x", "naïve", "a:b", "x" * 129, "a\tb", "$HOME"])
def test_a_new_name_is_one_that_the_dashboard_takes(run: Run, name: str) -> None:
    with pytest.raises(UsageError):
        new_capture_path(run, name)


def test_a_capture_of_an_older_name_is_still_found(run: Run) -> None:
    add(run, "a b")
    assert find_capture(run, "a b").id == "a b"
    remove_capture(run, find_capture(run, "a b"))


def test_numbers_of_strings_are_written_as_one_says_them() -> None:
    assert strings_text(1, 9997, 9997) == "1 string of 9997 source tokens"
    assert strings_text(8, 25, 1) == "8 strings of 1-25 source tokens"
    assert strings_text(2, 1) == "2 strings of 1 source token"


def test_leftovers_are_swept_when_they_are_old(run: Run) -> None:
    folder = add(run, "mine").parent
    for name, age in ((".partial-old", 9999), (".removed-old", 9999), (".partial-new", 0), (".other", 9999)):
        (folder / name).mkdir()
        (folder / name / "file").write_text("")
        os.utime(folder / name, (time.time() - age,) * 2)
    sweep(folder)
    assert sorted(os.listdir(folder)) == [".other", ".partial-new", "mine"]
    sweep(folder / "not there")
