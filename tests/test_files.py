"""Names that cannot leave their folder, and files that are never half-written."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.errors import UsageError
from workbench.files import child_of, read_json, replacing, write_json
from workbench.runs import Run, Status, Store

MakeRun = Callable[..., Run]

ESCAPES = [
    "",
    ".",
    "..",
    "../x",
    "/etc/passwd",
    "a/b",
    "a/../../b",
    "a\\b",
    "a\0b",
    "x" * 256,
    ".hidden",
    "\ud800",
    "a\n",
]

many = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@many
@given(st.text() | st.sampled_from(ESCAPES) | st.from_regex(r"[./\\a~-]{1,12}", fullmatch=True))
def test_a_name_is_refused_or_stays_a_direct_child(tmp_path: Path, name: str) -> None:
    store = Store(tmp_path)
    try:
        path = store.path_of(name)
    except UsageError:
        return
    assert path.parent == tmp_path and path.name == name
    assert os.path.realpath(path) == os.path.join(os.path.realpath(tmp_path), name)
    assert not name.startswith(".") and not set("/\\\0\n") & set(name)


@pytest.mark.parametrize("name", ESCAPES)
def test_every_way_out_is_a_usage_error(store: Store, name: str) -> None:
    for refuse in (store.path_of, store.open, store.find):
        with pytest.raises(UsageError):
            refuse(name)


def test_links_are_not_followed(store: Store, tmp_path: Path, make_run: MakeRun) -> None:
    run = make_run(store)
    (tmp_path / "outside").mkdir()
    (store.root / "out").symlink_to(tmp_path / "outside")
    (store.root / "twin").symlink_to(run.path)
    (store.root / "loop").symlink_to(store.root / "loop")
    for name in ("out", "twin", "loop"):
        with pytest.raises(UsageError):
            store.path_of(name)
    assert {r.id: r.status for r in store.runs()}["out"] is Status.FOREIGN
    (run.path / "captures").symlink_to(tmp_path / "outside")
    (tmp_path / "outside" / "c").mkdir()
    (tmp_path / "outside" / "c" / "capture.json").write_text("{}")
    with pytest.raises(UsageError):
        run.capture_path("c")


def test_a_store_reached_through_a_link_works(store: Store, tmp_path: Path, make_run: MakeRun) -> None:
    run = make_run(store)
    (tmp_path / "link").symlink_to(store.root)
    assert Store(tmp_path / "link").open(run.id).id == run.id


def test_child_of_names_what_it_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'\.\./x' is not a capture name"):
        child_of(tmp_path, "../x", "capture")


def test_a_failed_write_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_json(path, {"a": 1})
    with pytest.raises(RuntimeError), replacing(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    with pytest.raises(ValueError):
        write_json(path, {"a": float("nan")})
    assert read_json(path) == {"a": 1} and os.listdir(tmp_path) == ["file.json"]
