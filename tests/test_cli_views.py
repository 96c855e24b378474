"""`workbench export-view`."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from models.attention import open_capture
from workbench.runs import Store

Workbench = Callable[..., tuple[int, str, str]]


@pytest.fixture
def export(workbench: Workbench, trained_store: Path) -> Callable[..., tuple[int, str, str]]:
    """`export("--out", path)` of the newest capture of the newest run."""
    return lambda *options: workbench("export-view", "latest", "latest", "--store", trained_store, *options)


def test_tables_and_arrays_are_the_exact_cells(export: Workbench, trained_store: Path, tmp_path: Path) -> None:
    run = Store(trained_store).open("latest")
    string = open_capture(run.capture_path(run.captures[0])).string(1)
    exact = string.head(0, 0).tile(slice(3, 12), slice(0, 5))
    crop = ("--string", 1, "--rows", "3-11", "--cols", "0-4")
    code, out, _ = export("--out", tmp_path / "view.csv", *crop, "--json", "-")
    told = json.loads(out)
    assert code == 0 and told["cells"] == [9, 5] and (told["run"], told["string"]) == (run.id, 1)
    with open(tmp_path / "view.csv", newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    np.testing.assert_array_equal(np.float32([line["weight"] for line in table]).reshape(9, 5), exact)
    assert table[0]["query"] == "3" and table[-1]["key_token"] == string.token_names[4]
    assert export("--out", tmp_path / "view.npz", *crop)[0] == 0
    held = np.load(tmp_path / "view.npz")
    np.testing.assert_array_equal(held["weights"], exact)
    assert (str(held["run"]), str(held["capture"]), int(held["string"])) == (run.id, run.captures[0], 1)


def test_pooled_and_single_positions(export: Workbench, tmp_path: Path) -> None:
    code, out, _ = export("--out", tmp_path / "v.npz", "--pooled", 4, "--json", "-")
    assert code == 0 and max(json.loads(out)["cells"]) <= 4
    code, out, _ = export("--out", tmp_path / "v.npz", "--rows", 7, "--json", "-")
    assert code == 0 and json.loads(out)["cells"][0] == 1


@pytest.mark.browser
@pytest.mark.parametrize(("name", "begins"), [("v.png", b"\x89PNG"), ("v.SVG", b"<svg")])
def test_pictures(
    export: Workbench, tmp_path: Path, chromium_path: str, monkeypatch: pytest.MonkeyPatch, name: str, begins: bytes
) -> None:
    monkeypatch.setenv("BROWSER_PATH", chromium_path)
    code, out, err = export("--out", tmp_path / name, "--palette", "viridis", "--scale", "linear")
    assert code == 0 and "wrote" in out, err
    assert (tmp_path / name).read_bytes().startswith(begins)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--out", "v.gif"], "png, svg, csv, npz"),
        (["--out", "v"], "png, svg, csv, npz"),
        (["--out", "no/such/folder/v.csv"], "there is no folder"),
        (["--out", "v.csv", "--rows", "0-99999"], "are no positions of a string of"),
        (["--out", "v.csv", "--rows", "9-3"], "are no positions"),
        (["--out", "v.csv", "--cols", "a-b"], "--cols: 'a-b' are no positions"),
        (["--out", "v.csv", "--string", "99"], "has no string 99"),
        (["--out", "v.csv", "--layer", "5"], "there is no layer 5"),
        (["--out", "v.csv", "--head", "5"], "layer 0 has no head 5"),
        (["--out", "v.png", "--scale", "log"], "--scale log: give sqrt or linear"),
        (["--out", "v.png", "--palette", "jet"], "--palette jet: give cividis or viridis"),
        (["--out", "v.png", "--pooled", "0"], "--pooled"),
        ([], "--out"),
    ],
)
def test_wrong_requests_are_one_line(
    export: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = export(*options)
    lines = err.splitlines()
    assert (code, out) == (2, "") and len(lines) == 1 and lines[0].startswith("error: ") and said in lines[0], err
    assert list(tmp_path.iterdir()) == []


def test_a_failed_export_leaves_the_old_file(
    export: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "v.csv").write_text("old")

    def fail(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("workbench.views.write_csv", fail)
    code, _, err = export("--out", tmp_path / "v.csv")
    assert code == 1 and "no space left" in err.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["v.csv"] and (tmp_path / "v.csv").read_text() == "old"


def test_a_table_too_long_says_what_to_do(export: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.views.TABLE_CELLS", 100)
    code, _, err = export("--out", tmp_path / "v.csv")
    assert code == 2 and "--pooled 10" in err and list(tmp_path.iterdir()) == []
    assert export("--out", tmp_path / "v.csv", "--pooled", 10)[0] == 0
