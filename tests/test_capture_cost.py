"""What a capture costs is known before it is made, and what is suggested instead fits."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.capture import capture_strings, hooks_named
from models.capture_cost import CaptureSize, Cost, capture_cost, largest_that_fits
from models.config import ModelSettings, TaskSettings
from models.overview import build_overview, ensure_overview, overview_bytes, overview_path
from models.tasks import CopyTask
from models.transformer import CopyTransformer

TASK = CopyTask(TaskSettings())
REPOSITORY = Path(__file__).resolve().parent.parent


def make(scheme: object = "rope2d", d_model: int = 16) -> CopyTransformer:
    settings = {"heads": (2, 1), "d_model": d_model, "d_head": 8, "positions": scheme, "d_mlp": 24}
    return CopyTransformer(ModelSettings.model_validate(settings), TASK.vocabulary)


MODEL = make()


@pytest.mark.parametrize(
    "scheme", ["rope2d", "rope", "nope", "alibi", "auto2d", "learned", ["rope", "auto2d"]], ids=str
)
@pytest.mark.parametrize("names", [(), ("resid_post", "z", "coords", "scale", "post"), ("result", "q_input", "embed")])
def test_the_disk_space_is_that_of_the_files(scheme: object, names: tuple[str, ...], tmp_path: Path) -> None:
    model = make(scheme)
    names = tuple(name for name in names if name != "coords" or scheme != "nope")
    extra = hooks_named(model, names)
    batch = TASK.sample(3, torch.Generator().manual_seed(0), lengths=400)
    capture_strings(model, batch, tmp_path / "one", {"id": "one"}, extra=names)
    size = sum(path.stat().st_size for path in (tmp_path / "one").iterdir())
    estimate = capture_cost(model, CaptureSize(3, 400, extra)).disk
    assert size <= estimate <= 1.03 * size + 8192


def test_overviews_are_counted(tmp_path: Path) -> None:
    from models.attention import open_capture

    model = make()
    for length in (1000, 1300):
        batch = TASK.sample(1, torch.Generator().manual_seed(0), lengths=length)
        capture_strings(model, batch, tmp_path / str(length), {"id": "one"})
        string = open_capture(tmp_path / str(length)).string(0)
        ensure_overview(string, 0, 0)
        kept = overview_path(string, 0, 0).stat().st_size
        expected = overview_bytes(len(string.tokens))
        assert expected == 0 if length == 1000 else kept <= expected <= 1.001 * kept
        with_them, without = (capture_cost(model, CaptureSize(1, length, (), flag)).disk for flag in (True, False))
        assert with_them - without == 3 * expected
    assert build_overview(string.head(0, 0)).widths[0] == 2


MEASURE = """
import sys, tempfile, threading, time, psutil, torch
from pathlib import Path
from tests.test_capture_cost import TASK, make
from models.capture import capture_strings, hooks_named
from models.capture_cost import CaptureSize, capture_cost
scheme, length, strings, d_model = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
model, process, held, done = make(scheme, d_model), psutil.Process(), [], threading.Event()
def watch():
    while not done.is_set():
        held.append(process.memory_info().rss)
        time.sleep(0.001)
def capture(n, count, folder):
    batch = TASK.sample(count, torch.Generator().manual_seed(0), lengths=n)
    capture_strings(model, batch, Path(folder) / str(n), {"id": "x"}, extra=["resid_post"])
with tempfile.TemporaryDirectory() as folder:
    capture(20, 1, folder)
    watcher = threading.Thread(target=watch)
    watcher.start()
    capture(length, strings, folder)
    done.set()
    watcher.join()
size = CaptureSize(strings, length, hooks_named(model, ["resid_post"]), False)
print(max(held) - held[0], capture_cost(model, size).memory)
"""


@pytest.mark.parametrize(
    ("scheme", "length", "strings", "d_model"),
    [pytest.param("rope2d", 6000, 2, 128, marks=pytest.mark.slow), ("alibi", 3000, 1, 64), ("rope", 30, 300, 16)],
)
def test_the_memory_is_not_underestimated(scheme: str, length: int, strings: int, d_model: int) -> None:
    argv = [sys.executable, "-c", MEASURE, scheme, str(length), str(strings), str(d_model)]
    done = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    used, estimate = map(int, done.stdout.split())
    assert used <= estimate <= 4 * used + (64 << 20)


@given(
    strings=st.integers(1, 500),
    length=st.integers(1, 30_000),
    disk=st.integers(10_000, 10**10),
    memory=st.integers(10**6, 10**10),
    extras=st.booleans(),
)
def test_what_is_suggested_fits_and_a_little_more_does_not(
    strings: int, length: int, disk: int, memory: int, extras: bool
) -> None:
    extra = hooks_named(MODEL, ["resid_post", "result"] if extras else [])
    size, limits = CaptureSize(strings, length, extra), Cost(disk, memory)
    if capture_cost(MODEL, size).within(limits):
        return
    for name, fitting in largest_that_fits(MODEL, size, limits).items():
        assert capture_cost(MODEL, fitting).within(limits) and fitting != size
        if name == "extra":
            assert fitting == CaptureSize(strings, length)
            continue
        more = {name: getattr(fitting, name) + 1}
        assert not capture_cost(MODEL, CaptureSize(**vars(fitting) | more)).within(limits)
