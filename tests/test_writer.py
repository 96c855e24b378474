"""Writing runs: full disks, read-only stores, two writers, and kill -9."""

import errno
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from models.errors import UsageError, WorkbenchError
from workbench.files import read_json, write_json
from workbench.records import read_records
from workbench.runs import Run, Status, Store, read_metrics
from workbench.writer import Header, RunWriter

MakeRun = Callable[..., Run]

HEADER = Header("tiny", 0, 100, "cpu", {"python": "3"})

CONFIG = "[task]\nlengths = [1, 8]\n"

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("state", [Status.FINISHED, Status.INTERRUPTED, Status.FAILED])
def test_round_trip_of_what_a_run_says_of_itself(store: Store, state: Status) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    with RunWriter.create(store, Header("r-1", 7, 50, "cuda", {"torch": "2"}), CONFIG) as writer:
        (writer.path / "weights.safetensors").write_bytes(b"\x02" + bytes(7) + b"{}")
        writer.set_state(state, "because", step=20)
    run = store.open("r-1")
    assert (run.recipe, run.seed, run.step, run.steps, run.device) == ("r-1", 7, 20, 50, "cuda")
    assert (run.status, run.message, run.versions) == (state, "because", (("torch", "2"),))
    assert run.created is not None and before <= run.created <= datetime.now(UTC)
    assert run.id.startswith("r-1-s7-") and run.config == {"task": {"lengths": [1, 8]}} and run.train_lengths == (1, 8)


@contextmanager
def disk_that_is_full_after(size: int) -> Iterator[None]:
    """Let no file grow over `size` bytes, which fails in the middle of a write as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_one_error_and_no_half_file(store: Store) -> None:
    writer = RunWriter.create(store, HEADER, CONFIG)
    writer.append({"step": 1})
    before = {path.name: path.read_bytes() for path in writer.path.iterdir()}
    with disk_that_is_full_after(1000):
        with pytest.raises(WorkbenchError, match=r"cannot write .*run\.json"):
            writer.set_state(Status.FAILED, "x" * 5000)
        with pytest.raises(WorkbenchError, match=r"cannot write .*metrics.jsonl"):
            writer.append({"step": 2, "text": "x" * 5000})
    assert {path.name: path.read_bytes() for path in writer.path.iterdir()} == before
    writer.append({"step": 2})
    writer.close()
    assert [record["step"] for record in read_records(writer.path)[0]] == [1, 2]


def test_a_store_that_fills_up_gets_no_run(store: Store) -> None:
    with disk_that_is_full_after(100), pytest.raises(WorkbenchError):
        RunWriter.create(store, HEADER, "x" * 500)
    assert os.listdir(store.root) == []


def test_tensors_over_a_limit_say_what_to_do(tmp_path: Path) -> None:
    import torch

    from workbench.train import save_tensors

    with disk_that_is_full_after(1000), pytest.raises(WorkbenchError, match="file too large; free some space"):
        save_tensors({"w": torch.zeros(1000)}, tmp_path / "w.safetensors")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_files_get_the_mode_of_any_new_file(tmp_path: Path, umask: int, mode: int) -> None:
    import torch

    from workbench.train import save_tensors

    before = os.umask(umask)
    try:
        save_tensors({"w": torch.zeros(3)}, tmp_path / "w.safetensors")
        write_json(tmp_path / "x.json", {})
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {mode}


def test_a_read_only_store_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o555)
    user = os.geteuid()
    if user == 0:  # root writes everywhere
        os.chmod(tmp_path, 0o755)
        for parent in tmp_path.parents[:2]:
            os.chmod(parent, 0o755)
        os.seteuid(65_534)
    try:
        with pytest.raises(WorkbenchError, match="permission denied; choose a folder that can be written to"):
            RunWriter.create(Store(tmp_path / "locked"), HEADER, CONFIG)
        with pytest.raises(WorkbenchError, match="permission denied"):
            RunWriter.create(Store(tmp_path / "locked" / "deeper"), HEADER, CONFIG)
    finally:
        if user == 0:
            os.seteuid(0)
    assert os.listdir(tmp_path / "locked") == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_system_errors_say_what_to_do(store: Store, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def fail(*args: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(WorkbenchError, match=os.strerror(number).lower() + "; (free some space|choose a folder)"):
        RunWriter.create(store, HEADER, CONFIG)
    assert os.listdir(store.root) == []


def test_a_store_that_is_a_file_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert Store(tmp_path / "file").runs() == []
    with pytest.raises(WorkbenchError, match="choose a folder, not a file"):
        RunWriter.create(Store(tmp_path / "file"), HEADER, CONFIG)


def test_a_run_has_one_writer_and_cannot_be_removed_meanwhile(store: Store) -> None:
    writer = RunWriter.create(store, HEADER, CONFIG)
    run = store.open("latest")
    with pytest.raises(WorkbenchError, match="another process"):
        RunWriter.resume(run)
    with pytest.raises(WorkbenchError, match="training"):
        store.remove(run)
    writer.close()
    store.remove(run)
    assert os.listdir(store.root) == []


def test_looking_at_a_run_never_keeps_a_writer_out(store: Store) -> None:
    """A listing takes the lock for an instant; a writer that comes then waits for it."""
    with RunWriter.create(store, HEADER, CONFIG):
        pass
    watch = (
        "import sys\nfrom workbench.runs import Store\ns = Store(sys.argv[1])\nprint(flush=True)\nwhile True: s.runs()"
    )
    watcher = subprocess.Popen([sys.executable, "-c", watch, store.root], cwd=REPOSITORY, stdout=subprocess.PIPE)
    try:
        assert watcher.stdout is not None
        watcher.stdout.readline()
        for _ in range(100):
            RunWriter.resume(store.open("latest")).close()
    finally:
        watcher.kill()
        watcher.wait()


def test_resuming_takes_back_what_came_after_the_checkpoint(store: Store, make_run: MakeRun) -> None:
    run = make_run(store, Status.INTERRUPTED, records=9)
    with RunWriter.resume(run) as writer:
        writer.begin(HEADER, 5)
        writer.append({"step": 6, "loss": 7.0})
    again = store.open(run.id)
    assert [record["step"] for record in read_metrics(again)[0]] == [1, 2, 3, 4, 5, 6]
    assert again.created == run.created
    with pytest.raises(UsageError, match="nothing to resume"):
        RunWriter.resume(make_run(store))


KEEP_WRITING = """
import sys
from workbench.runs import Status, Store
from workbench.writer import Header, RunWriter
store = Store(sys.argv[1])
while True:
    with RunWriter.create(store, Header("tiny", 0, 10**9, "cpu", {"python": "x" * 3000}), "[task]\\n" * 1) as writer:
        for step in range(1, 20):
            writer.append({"step": step, "text": "x" * 2000})
            writer.set_state(Status.TRAINING, "y" * 3000, step=step)
"""


@pytest.mark.parametrize("moment", range(6))
def test_kill_9_at_any_moment_leaves_whole_files(store: Store, moment: int) -> None:
    writing = subprocess.Popen([sys.executable, "-c", KEEP_WRITING, store.root], cwd=REPOSITORY)
    deadline = time.monotonic() + 60
    while not store.runs():
        assert writing.poll() is None and time.monotonic() < deadline, "nothing was written"
        time.sleep(0.005)
    time.sleep(0.05 + 0.037 * moment)
    writing.send_signal(signal.SIGKILL)
    writing.wait()
    runs = store.runs()
    assert runs, "nothing was written yet"
    for run in runs:
        assert run.status is Status.KILLED, run.message
        records, _ = read_records(run.path)
        assert [record["step"] for record in records] == list(range(1, len(records) + 1))
        assert len(records) - read_json(run.path / "run.json")["step"] in (0, 1)
        with RunWriter.resume(run) as writer:
            writer.begin(HEADER, run.step)
        assert not read_records(run.path)[0] or read_records(run.path)[0][-1]["step"] <= run.step
