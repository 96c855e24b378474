"""Making captures of a run: which strings, at what cost, and where they go."""

import json
import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from models.attention import open_capture
from models.capture_cost import CaptureSize, capture_cost
from models.errors import UsageError, WorkbenchError
from models.evaluation import answer
from models.overview import load_overview
from models.tasks import CopyTask
from workbench import captures
from workbench.captures import Request, build_overviews, choose_strings, long_heads, require_room, write_capture
from workbench.runs import Store
from workbench.subjects import Subject, load_subject

Usage = namedtuple("Usage", "total used free")
Memory = namedtuple("Memory", "available")
GB = 10**9


@pytest.fixture
def subject(own_store: Path) -> Subject:
    return load_subject(Store(own_store), "latest", "cpu")


@pytest.fixture
def task(subject: Subject) -> CopyTask:
    return CopyTask(subject.recipe.task)


def limit(monkeypatch: pytest.MonkeyPatch, disk: int = 100 * GB, memory: int = 100 * GB) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(0, 0, disk))
    monkeypatch.setattr("psutil.virtual_memory", lambda: Memory(memory))


def test_strings_depend_on_the_seed_alone(subject: Subject, task: CopyTask) -> None:
    one, again, other = (
        choose_strings(subject.model, task, Request("uniform", (3, 9), 20, seed=seed))[0] for seed in (1, 1, 2)
    )
    assert one.strings.tolist() == again.strings.tolist() != other.strings.tolist()
    assert set(one.lengths.tolist()) <= set(range(3, 10)) and len(one) == 20


def test_failures_are_failures_and_none_is_said(
    subject: Subject, task: CopyTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    request = Request("uniform", (20, 30), 3, failed=True, tries=40)
    batch, tried = choose_strings(subject.model, task, request, seen.append)
    assert not answer(subject.model, batch).exact.any() and len(batch) == 3 <= tried == sum(seen) <= 40
    monkeypatch.setattr(captures, "find_failures", lambda *args, **kwargs: (None, 40))
    with pytest.raises(WorkbenchError, match=r"all 40 uniform strings .* copied exactly") as error:
        choose_strings(subject.model, task, request)
    assert error.value.exit_code == 1


def test_a_capture_says_what_was_asked_for(subject: Subject, task: CopyTask) -> None:
    request = Request("uniform", (4, 6), 2, failed=True, tries=50, seed=3)
    batch, tried = choose_strings(subject.model, task, request)
    path = write_capture(subject.run, subject.model, batch, request, step=15, tried=tried)
    assert path.parent == subject.run.path / "captures" and path.name.startswith("uniform-4-6-")
    about = json.loads((path / "capture.json").read_text())
    expected = {"id": path.name, "run": subject.run.id, "step": 15, "distribution": "uniform", "shortest": 4}
    expected |= {"length": 6, "seed": 3, "tried": tried, "failed_only": True, "extra": []}
    assert {key: about[key] for key in expected} == expected
    assert [list(s.tokens[2 : 2 + s.length]) for s in open_capture(path)] == [
        batch.strings[i, : int(batch.lengths[i])].tolist() for i in range(len(batch))
    ]


def test_a_name_is_used_once(subject: Subject, task: CopyTask) -> None:
    request = Request("uniform", (4, 4), 1)
    batch, tried = choose_strings(subject.model, task, request)
    for name in ("mine", "mine", "../mine", "latest"):
        if name == "mine" and not (subject.run.path / "captures" / name).exists():
            write_capture(subject.run, subject.model, batch, request, step=20, tried=tried, name=name)
            continue
        with pytest.raises(UsageError):
            write_capture(subject.run, subject.model, batch, request, step=20, tried=tried, name=name)


def test_a_full_disk_is_one_line_and_leaves_nothing(
    subject: Subject, task: CopyTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    from models import capture

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(capture, "save_file", full)
    before = sorted((subject.run.path / "captures").rglob("*"))
    request = Request("uniform", (4, 4), 1)
    batch, tried = choose_strings(subject.model, task, request)
    with pytest.raises(WorkbenchError, match="no space left"):
        write_capture(subject.run, subject.model, batch, request, step=20, tried=tried)
    assert sorted((subject.run.path / "captures").rglob("*")) == before


def test_room_is_checked_against_disk_memory_and_budget(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    model, path, size = subject.model, subject.run.path, CaptureSize(8, 5000)
    cost = capture_cost(model, size)
    limit(monkeypatch)
    assert require_room(model, path, size) == cost
    limit(monkeypatch, memory=2 * cost.memory, disk=cost.disk)
    require_room(model, path, size)
    for over, said in (
        ({"memory": 2 * cost.memory - 2}, "of memory, there is room for"),
        ({"disk": cost.disk - 1}, "on disk, there is room for"),
    ):
        limit(monkeypatch, **over)
        with pytest.raises(UsageError, match=said):
            require_room(model, path, size)
    limit(monkeypatch)
    with pytest.raises(UsageError, match=r"the budget is 20 MB; .*--budget \d+\.\d\dGB"):
        require_room(model, path, size, 20_000_000)
    limit(monkeypatch, disk=cost.disk - 1)
    with pytest.raises(UsageError) as error:
        require_room(model, path, size, 100 * GB)
    assert "--budget" not in str(error.value), "a larger budget would not help a full disk"


def test_what_is_suggested_is_accepted(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    from workbench.cli.captures import parse_size

    limit(monkeypatch)
    model, path = subject.model, subject.run.path
    size = CaptureSize(50, 20_000, ("blocks.0.hook_resid_post",))
    with pytest.raises(UsageError) as error:
        require_room(model, path, size, 10**8)
    advice = dict(part.split(" ") for part in str(error.value).split("would fit: ")[1].split(", or "))
    require_room(model, path, CaptureSize(50, int(advice["--length"]), size.extra), 10**8)
    require_room(model, path, size, parse_size(advice["--budget"]))
    with pytest.raises(UsageError):
        require_room(model, path, CaptureSize(50, int(advice["--length"]) + 1, size.extra), 10**8)


def test_overviews_are_built_for_long_strings_only(subject: Subject, task: CopyTask) -> None:
    batch = task.encode([[0, 1] * 600, [0, 1] * 4])
    request = Request("uniform", (8, 1200), 2)
    path = write_capture(subject.run, subject.model, batch, request, step=20, tried=2)
    capture = open_capture(path)
    assert [(string.length, layer, head) for string, layer, head in long_heads(capture)] == [(1200, 0, 0)]
    seen: list[float] = []
    build_overviews(capture, seen.append)
    assert load_overview(capture.string(0), 0, 0) and load_overview(capture.string(1), 0, 0) is None
    assert seen == sorted(seen) and seen[-1] == 1 and 0 < seen[0] < 1
