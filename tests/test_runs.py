"""The run store: what is found by which name, and listings that never break."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.errors import UsageError, WorkbenchError
from workbench.files import read_json, write_json, write_text
from workbench.runs import Run, Status, Store, is_locked
from workbench.writer import Header, RunWriter

HEADER = Header("tiny", 0, 100, "cpu", {"python": "3"})
CONFIG = "[task]\nlengths = [1, 8]\n"
MakeRun = Callable[..., Run]

REPOSITORY = Path(__file__).resolve().parent.parent

many = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def score(length: int, exact_match: float) -> dict:
    return {
        "distribution": "uniform",
        "length": length,
        "shortest": length,
        "strings": 4,
        "exact_match": exact_match,
        "token_accuracy": 1.0,
        "interval": [0.0, 1.0],
        "first_errors": [],
    }


def test_open_by_id_prefix_and_latest(store: Store, make_run: MakeRun) -> None:
    first, other = make_run(store), make_run(store, header=Header("other", 1, 9, "cpu", {}))
    info = read_json(first.path / "run.json")
    write_json(first.path / "run.json", info | {"created": "2030-01-01T00:00:00+00:00"})
    assert store.open("latest").id == first.id
    assert store.open("oth").id == store.open(other.id).id == other.id
    longer = first.path.with_name(first.id + "0")
    longer.mkdir()
    (longer / "run.json").write_text(json.dumps(info))
    (longer / "config.toml").write_text(CONFIG)
    (longer / "weights.safetensors").write_bytes(b"\x02" + bytes(7) + b"{}")
    assert store.open(first.id).id == first.id, "an exact id wins over longer ones"
    with pytest.raises(UsageError, match="begins several runs.*" + first.id):
        store.open("tiny")
    with pytest.raises(UsageError, match=f"Did you mean '{other.id}'"):
        store.open(other.id.replace("other", "ohter"))


def test_latest_of_an_empty_store_says_what_to_do(store: Store) -> None:
    assert store.runs() == []
    with pytest.raises(UsageError, match="workbench train"):
        store.open("latest")


def test_checkpoints_and_captures_by_name(store: Store, make_run: MakeRun) -> None:
    run = make_run(store)
    (run.path / "checkpoints").mkdir()
    for name in ("00000010.safetensors", "00000005.safetensors", "state.safetensors", ".00000007.safetensors.ab.tmp"):
        (run.path / "checkpoints" / name).write_bytes(b"")
    assert run.checkpoints == (5, 10)
    assert run.checkpoint_path(5).name == "00000005.safetensors"
    with pytest.raises(UsageError, match="Kept: 5, 10"):
        run.checkpoint_path(7)
    for name in ("good", "unfinished", ".hidden.partial"):
        (run.path / "captures" / name).mkdir(parents=True)
    (run.path / "captures" / "good" / "capture.json").write_text("{}")
    (run.path / "captures" / ".hidden.partial" / "capture.json").write_text("{}")
    assert run.captures == ("good",)
    with pytest.raises(UsageError, match="Known: good"):
        run.capture_path("unfinished")


def test_training_is_told_from_killed_by_the_lock(store: Store) -> None:
    writer = RunWriter.create(store, HEADER, CONFIG)
    writer.append({"step": 42, "loss": 0.5})
    (run,) = store.runs()
    assert run.status is Status.TRAINING and run.step == 42 and is_locked(run.path)
    writer.close()
    (run,) = store.runs()
    assert run.status is Status.KILLED and run.step == 42


def damage(folder: Path, name: str, content: bytes | None) -> None:
    folder.mkdir(parents=True)
    if content is None:
        (folder / name).mkdir()
    else:
        (folder / name).write_bytes(content)


BROKEN = {
    "empty-json": ("run.json", b""),
    "not-json": ("run.json", b"{"),
    "binary": ("run.json", bytes(range(256))),
    "a-list": ("run.json", b"[1, 2]"),
    "deep": ("run.json", b"[" * 100_000),
    "a-folder": ("run.json", None),
    "no-fields": ("run.json", b'{"format": 1}'),
    "newer": ("run.json", b'{"format": 99}'),
    "only-config": ("config.toml", b"x = 1"),
    "only-metrics": ("metrics.jsonl", b"{}\n"),
    "[red]markup": ("run.json", b"{"),
}


def test_broken_and_foreign_folders_are_listed_as_such(store: Store, make_run: MakeRun) -> None:
    good = make_run(store)
    for name, (file, content) in BROKEN.items():
        damage(store.root / name, file, content)
    damage(store.root / "photos", "cat.jpg", b"")
    (store.root / "notes.txt").write_text("not a folder")
    (store.root / ".cache").mkdir()
    listed = {run.id: run for run in store.runs()}
    assert listed.keys() == BROKEN.keys() | {good.id, "photos"}
    assert listed["photos"].status is Status.FOREIGN
    for name in BROKEN:
        assert listed[name].status is Status.UNREADABLE and listed[name].message, name
        assert listed[name].exact_match is None and listed[name].train_lengths is None
    assert store.runs()[0].id == good.id, "runs come before what is none"
    with pytest.raises(UsageError, match="not a run"):
        store.open("photos")
    with pytest.raises(WorkbenchError, match="format 99"):
        store.open("newer")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@many
@given(data=st.data())
def test_no_run_json_breaks_the_listing(tmp_path: Path, data: st.DataObject, make_run: MakeRun) -> None:
    store = Store(tmp_path / "fuzzed")
    run = store.runs()[0] if store.root.exists() else make_run(store)
    info = json.loads((run.path / "run.json").read_text()) if run.readable else {"format": 1}
    field = data.draw(st.sampled_from([*info, "format", "state", "created", "steps", "versions"]))
    write_text(run.path / "run.json", json.dumps(info | {field: data.draw(json_values)}))
    (listed,) = store.runs()
    assert listed.status in Status and isinstance(listed.step, int) and isinstance(listed.recipe, str)
    write_text(run.path / "run.json", json.dumps(info))


def test_a_finished_run_without_weights_is_unreadable(store: Store, make_run: MakeRun) -> None:
    run = make_run(store)
    (run.path / "weights.safetensors").unlink()
    assert store.runs()[0].status is Status.UNREADABLE
    with pytest.raises(WorkbenchError, match=r"weights\.safetensors is missing"):
        store.open(run.id)


def tensors(entries: str, data: bytes = b"") -> bytes:
    return len(entries).to_bytes(8, "little") + entries.encode() + data


W = '{"__metadata__": {"a": "b"}, "w": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}'


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("config.toml", b"[task", "config.toml is not valid TOML"),
        ("config.toml", b"\xff\xfe", "config.toml is not valid TOML"),
        ("config.toml", None, "config.toml cannot be read: is a directory"),
        ("config.toml", "gone", "config.toml cannot be read: no such file"),
        ("weights.safetensors", b"", "truncated or no safetensors file"),
        ("weights.safetensors", b"\xff" * 40, "truncated or no safetensors file"),
        ("weights.safetensors", tensors(W)[:30], "header is incomplete"),
        ("weights.safetensors", tensors(W, b"abc"), "is truncated or damaged"),
        ("weights.safetensors", tensors(W, b"abcde"), "is truncated or damaged"),
        ("weights.safetensors", tensors("[1, 2]"), "not that of a safetensors file"),
        ("weights.safetensors", tensors('{"w": {"data_offsets": [0]}}'), "not that of a safetensors file"),
        ("weights.safetensors", tensors("{"), "not that of a safetensors file"),
        ("weights.safetensors", tensors("[" * 100_000), "not that of a safetensors file"),
        ("weights.safetensors", None, "weights.safetensors is missing"),
    ],
)
def test_a_run_whose_files_are_damaged_is_unreadable(
    store: Store, make_run: MakeRun, name: str, content: bytes | str | None, said: str
) -> None:
    run = make_run(store)
    (run.path / "weights.safetensors").write_bytes(tensors(W, b"abcd"))
    assert store.open(run.id).status is Status.FINISHED
    (run.path / name).unlink()
    if content is None:
        (run.path / name).mkdir()
    elif isinstance(content, bytes):
        (run.path / name).write_bytes(content)
    (listed,) = store.runs()
    assert listed.status is Status.UNREADABLE and said in (listed.message or ""), listed.message
    for found in (run.id, "latest"):
        with pytest.raises(WorkbenchError, match=name.replace(".", r"\.")) as error:
            store.open(found)
        assert error.value.exit_code == 1
    store.remove(listed)
    assert store.runs() == []


def test_a_damaged_recipe_is_seen_in_an_unfinished_run_too(store: Store, make_run: MakeRun) -> None:
    run = make_run(store, Status.INTERRUPTED)
    (run.path / "config.toml").write_text("x = ")
    assert store.runs()[0].status is Status.UNREADABLE


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ('{"results": []}', None),
        ("{", "evaluation.json is not valid JSON"),
        ('{"results": [{"length": "x"}]}', "evaluation.json holds no results"),
    ],
)
def test_a_damaged_evaluation_is_said(store: Store, make_run: MakeRun, content: str, fault: str | None) -> None:
    run = make_run(store)
    assert run.evaluation_fault is None
    (run.path / "evaluation.json").write_text(content)
    assert run.evaluation_fault == fault


def test_a_store_that_cannot_be_one_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    Store(tmp_path).require()
    Store(tmp_path / "new" / "deeper").require()
    for path, said in (("file", "it is a file"), ("file/deeper", "file is a file")):
        for ask in (Store(tmp_path / path).require, lambda path=path: Store(tmp_path / path).open("latest")):
            with pytest.raises(UsageError, match=said):
                ask()


@pytest.mark.parametrize("mode", [0o555, 0o000])
def test_a_store_without_permission_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int) -> None:
    (tmp_path / "locked").mkdir()
    monkeypatch.setattr("workbench.runs._may", lambda path, what: not what & ~mode >> 6)
    path = tmp_path / "locked" / ("store" if mode else "")
    with pytest.raises(UsageError, match=r"cannot be made: .*written to" if mode else "cannot be read"):
        Store(path).require()


def test_exact_match_is_the_mean_in_range_of_the_newest_evaluation(store: Store, make_run: MakeRun) -> None:
    run = make_run(store, Status.INTERRUPTED)
    assert run.exact_match is None
    lines = [{"step": s, "evaluation": [score(8, 0.25 * s), score(16, 0.0)]} for s in (1, 2)] + [{"step": 3}]
    (run.path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert run.exact_match == 0.5
    write_json(run.path / "evaluation.json", {"results": [score(4, 1.0), score(8, 0.5), score(9, 0.0)]})
    assert run.exact_match == 0.75
    (run.path / "evaluation.json").write_text('{"results": [{"length": "x"}]}')
    assert run.evaluation is None and run.exact_match == 0.5


def test_remove_takes_only_runs_and_leaves_nothing_hidden(store: Store, make_run: MakeRun) -> None:
    run, other = make_run(store), make_run(store)
    damage(store.root / "broken", "run.json", b"{")
    damage(store.root / "photos", "cat.jpg", b"")
    abandoned = store.root / ".removed-0123"
    abandoned.mkdir()
    os.utime(abandoned, (0, 0))
    with pytest.raises(UsageError, match="left alone"):
        store.remove(store.find("photos"))
    store.remove(run)
    store.remove(store.find("broken"))
    assert sorted(os.listdir(store.root)) == sorted([other.id, "photos"])


def test_the_store_does_without_torch() -> None:
    """The dashboard starts with it."""
    heavy = ("torch", "numpy", "pydantic")
    check = f"import sys, workbench.runs, workbench.writer; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
