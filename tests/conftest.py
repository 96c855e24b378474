"""What tests share: a recipe that trains in a second, a store, the browser, and no network."""

import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest

if TYPE_CHECKING:
    from dash import Dash
    from flask.testing import FlaskClient

    from workbench.dashboard.data import Data
    from workbench.runs import Run, Store
    from workbench.writer import Header

REPOSITORY = Path(__file__).resolve().parent.parent
if str(REPOSITORY) not in sys.path:
    sys.path.insert(0, str(REPOSITORY))

TINY = """\
name = "tiny"
[task]
lengths = [1, 8]
[model]
heads = [1]
d_model = 16
d_head = 8
positions = "rope2d"
[train]
steps = 20
batch_size = 8
warmup = 5
checkpoint_every = 5
evaluate_every = 10
evaluation_strings = 4
[evaluation]
intervals = [[1, 8], [9, 16], [17, 32]]
strings = 4
"""
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM_COMMAND = "brew install --cask chromium" if sys.platform == "darwin" else "sudo apt-get install -y chromium"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give a browser test a second try: on a machine with other work, a frame may come later than any sane wait."""
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(scope="module")
def client(app: "Dash") -> Iterator["FlaskClient"]:
    """What asks the dashboard without a browser; `app` is the module's own and is closed with it."""
    client = app.server.test_client()
    assert client.get("/").status_code == 200
    yield client
    app.server.extensions["workbench"].close()


@pytest.fixture(scope="module")
def data(app: "Dash") -> "Data":
    """What the dashboard reads from; `app` is the module's own."""
    kept: Data = app.server.extensions["workbench"]
    return kept


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a developer's own store and terminal out of the tests."""
    for name in ("COPY_WORKBENCH_STORE", "COPY_WORKBENCH_TRACEBACK", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True, scope="session")
def no_network() -> Iterator[None]:
    """Refuse every connection that leaves the machine."""
    connect = socket.socket.connect

    def refuse(self: socket.socket, address: object) -> None:
        host = address[0] if isinstance(address, tuple) else "127.0.0.1"
        if self.family != socket.AF_UNIX and host not in ("127.0.0.1", "localhost", "::1"):
            raise AssertionError(f"a test tried to reach {address}")
        connect(self, address)  # type: ignore[arg-type]

    socket.socket.connect = refuse  # type: ignore[assignment, method-assign]
    yield
    socket.socket.connect = connect  # type: ignore[method-assign]


@pytest.fixture(scope="session")
def tiny_text() -> str:
    """The content of `tiny_recipe`."""
    return TINY


@pytest.fixture
def tiny_recipe(tmp_path: Path) -> Path:
    """A recipe file: 20 steps of a model of width 16, with checkpoints every 5."""
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


@pytest.fixture(scope="session")
def trained_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one finished, evaluated and captured tiny run; tests only read it."""
    from models.recipes import parse_recipe
    from workbench.captures import capture_samples
    from workbench.runs import Store
    from workbench.train import evaluate_run, start, train

    store, recipe = Store(tmp_path_factory.mktemp("trained")), parse_recipe(TINY)
    writer, trainer = start(store, recipe, "cpu")
    train(writer, trainer, lambda progress: None)
    run = store.open("latest")
    evaluate_run(run, trainer.model, recipe)
    capture_samples(run, trainer.model, recipe)
    return store.root


@pytest.fixture(scope="session")
def checkpointed_store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A store of two tiny runs that kept their checkpoints, and their ids; tests only read it."""
    from tests import checkpointed

    root = tmp_path_factory.mktemp("checkpointed") / "store"
    return root, checkpointed.fill(root)


@pytest.fixture
def store(tmp_path: Path) -> "Store":
    """An empty store."""
    from workbench.runs import Store

    return Store(tmp_path / "store")


@pytest.fixture
def make_run() -> "Callable[..., Run]":
    """`make_run(store, state, records, header)`: a run with some records and no tensors worth loading."""
    from workbench.runs import Status
    from workbench.writer import Header, RunWriter

    def make(store: "Store", state: str = "finished", records: int = 3, header: "Header | None" = None) -> "Run":
        header = header or Header("tiny", 0, 100, "cpu", {"python": "3"})
        with RunWriter.create(store, header, "[task]\nlengths = [1, 8]\n") as writer:
            for step in range(1, records + 1):
                writer.append({"step": step, "loss": 1.0 / step})
            (writer.path / "weights.safetensors").write_bytes(b"\x02" + bytes(7) + b"{}")
            writer.set_state(Status(state), step=records)
        return next(run for run in store.runs() if run.path == writer.path)

    return make


@pytest.fixture
def own_store(trained_store: Path, tmp_path: Path) -> Path:
    """A copy of `trained_store` that a test may change."""
    return Path(shutil.copytree(trained_store, tmp_path / "store"))


@pytest.fixture
def in_foreground() -> Callable[[], None]:
    """A `preexec_fn` for a child that heeds Ctrl-C, which a shell's background job and its children ignore."""

    def heed() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    return heed


@pytest.fixture
def free_port() -> int:
    """A port nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """The browser; a machine without one fails the test with the command that installs it."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    if not found:
        pytest.fail(f"browser tests need Chromium; install it with: {CHROMIUM_COMMAND}", pytrace=False)
    return found


@pytest.fixture
def workbench(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run the command line in this process: `workbench("runs", "--json", "-")` is (exit code, stdout, stderr)."""
    from workbench.cli import main

    def run(*argv: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(word) for word in argv])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run
