"""The dashboard in Chromium: first page, change of head, size of answers, memory of the server.

A run of an untrained model (2 layers, 4 heads each) with captures of 200 and 2,000 tokens, beside finished ones that
fill the first page. Each number is what a person waits for: from the key or click to the drawn picture.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import psutil
import torch
from safetensors.torch import save_file

from models.capture import capture_strings
from models.config import Recipe
from models.errors import WorkbenchError
from models.evaluation import evaluate
from models.recipes import dump_recipe
from models.tasks import CopyTask
from models.transformer import CopyTransformer
from workbench.bench import Measurement
from workbench.files import write_json
from workbench.ports import DEFAULT_PORT, HOST, next_free, wait_until_answered
from workbench.runs import Status, Store
from workbench.writer import Header, RunWriter

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
              "--disable-component-update", "--disable-sync"]  # fmt: skip
_SOURCES = {200: 97, 2_000: 997}  # source string of each number of tokens
_HEADS = (4, 4)
_FINISHED, _RECORDS = 20, 2_000
_OPENED, _CHANGES, _INTERACTIONS, _WARM = 5, 16, 500, 100
_MEGA = 1e6

# Resolves with the milliseconds from a key to the first frame in which the map's title names another head.
_CHANGE = """key => new Promise((resolve, reject) => {
    const title = () => document.querySelector("#attention-map .gtitle")?.textContent.slice(0, 20);
    const before = title(), start = performance.now();
    const look = () => {
        const now = title();
        if (now && now !== before) { resolve(performance.now() - start); }
        else if (performance.now() - start > 20000) { reject(new Error("no other head was drawn")); }
        else { requestAnimationFrame(look); }
    };
    document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
    requestAnimationFrame(look);
})"""
# Milliseconds from the start of the navigation to the first frame with the table of runs, and to that with the figures.
_FIRST = """() => new Promise((resolve, reject) => {
    let listed = null;
    const look = () => {
        if (listed === null && document.querySelector("#page table tbody tr")) { listed = performance.now(); }
        if (listed !== null && document.querySelector("#page .main-svg")) { resolve([listed, performance.now()]); }
        else if (performance.now() > 30000) { reject(new Error("the first page was not drawn")); }
        else { requestAnimationFrame(look); }
    };
    look();
})"""


def measure_dashboard() -> Iterator[Measurement]:
    """Yield what is measured in a browser; nothing where playwright or Chromium is missing."""
    executable = browser_path()
    if executable is None:
        return
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "runs")
        run = _fill(store)
        with _served(store) as (address, process), sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=executable, args=_ARGUMENTS)
            try:
                yield from _first_page(browser, address)
                yield from _journey(browser, address, run, process)
            finally:
                browser.close()


def browser_path() -> str | None:
    """Return Chromium's path, from CHROMIUM, BROWSER_PATH or a known name; None without it, or without playwright."""
    try:
        import playwright  # noqa: F401
    except ImportError:
        return None
    named = (os.environ.get(variable) for variable in ("CHROMIUM", "BROWSER_PATH"))
    return next((path for path in (*named, *map(shutil.which, NAMES)) if path), None)


def _first_page(browser: "Browser", address: str) -> Iterator[Measurement]:
    """Open the first page in fresh windows, whose caches are empty: plotly's 4.8 MB are read and run anew in each."""
    times = []
    for _ in range(_OPENED):
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        page = context.new_page()
        page.goto(address, wait_until="commit")
        times.append(page.evaluate(_FIRST))
        context.close()
    against = f"median of {_OPENED} fresh windows, {_FINISHED} finished runs"
    for name, at in (("table", 0), ("figures", 1)):
        seconds = median(time[at] for time in times) / 1e3
        yield Measurement(f"page.first.{name}", seconds, "s", better="lower", target=1.5, against=against)


def _journey(browser: "Browser", address: str, run: str, process: psutil.Process) -> Iterator[Measurement]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    sizes: dict[str, int] = {}
    page.on("response", lambda answer: _weigh(answer, sizes))
    for tokens, target in ((200, 200.0), (2_000, 500.0)):
        page.goto(f"{address}attention?run={run}&capture=tokens-{tokens}")
        page.wait_for_selector("#attention-map .gtitle", timeout=120_000)
        for key in _round(len(_HEADS) * _HEADS[0]):  # every head once: overviews are computed and kept
            page.evaluate(_CHANGE, key)
        times = [page.evaluate(_CHANGE, key) for key in _round(_CHANGES)]
        yield Measurement(
            f"page.head.{tokens}", median(times), "ms", better="lower", target=target,
            against=f"median of {_CHANGES} keys, key to drawn map at {tokens:,} tokens",
        )  # fmt: skip
    for path in ("", "heads", "failures", "coordinates", "playground", "intervene", "help"):
        page.goto(f"{address}{path}?run={run}")
        page.wait_for_load_state("networkidle")
    largest = max(sizes, key=lambda asked: sizes[asked])
    yield Measurement(
        "page.payload", sizes[largest] / _MEGA, "MB", better="lower", target=1.5,
        against=f"largest answer of a callback over all pages, to {largest}",
    )  # fmt: skip
    page.goto(f"{address}attention?run={run}&capture=tokens-200")
    page.wait_for_selector("#attention-map .gtitle")
    keys = _round(_WARM + _INTERACTIONS)
    for key in keys[:_WARM]:
        page.evaluate(_CHANGE, key)
    before = process.memory_info().rss
    for key in keys[_WARM:]:
        page.evaluate(_CHANGE, key)
    yield Measurement(
        "page.memory", (process.memory_info().rss - before) / _MEGA, "MB", better="lower", target=20.0,
        against=f"growth of the server over {_INTERACTIONS} changes of head, after {_WARM}",
    )  # fmt: skip
    context.close()


def _round(count: int) -> list[str]:
    """Keys that walk all heads of both layers again and again, each to another head."""
    width = _HEADS[0]
    once = [*["ArrowRight"] * (width - 1), "ArrowDown", *["ArrowLeft"] * (width - 1), "ArrowUp"]
    return [once[at % len(once)] for at in range(count)]


def _weigh(answer: Any, sizes: dict[str, int]) -> None:
    """Note the size of a callback's answer under the first thing that it sets."""
    if "/_dash-update-component" in answer.url:
        asked = json.loads(answer.request.post_data or "{}").get("output", "?").strip(".").split("...")[0]
        sizes[asked] = max(sizes.get(asked, 0), int(answer.headers.get("content-length", 0)))


def _fill(store: Store) -> str:
    """Write finished runs with evaluations, and captures of the newest one; return its id."""
    recipe = Recipe.model_validate(
        {
            "name": "bench",
            "task": {"lengths": [1, 100]},
            "model": {"heads": list(_HEADS), "d_head": 64, "d_model": 128, "positions": "rope2d"},
        }
    )
    task = CopyTask(recipe.task)
    model = CopyTransformer(recipe.model, task.vocabulary, seed=0).eval()
    scores = [
        score.as_dict()
        for score in evaluate(
            model, task, intervals=[(10, 10), (20, 20), (40, 40)], distributions=["uniform"], strings=2
        )
    ]
    path = None
    for seed in range(_FINISHED):
        with RunWriter.create(store, Header("bench", seed, _RECORDS, "cpu", {}), dump_recipe(recipe)) as writer:
            for step in range(1, _RECORDS + 1):
                writer.append({"step": step, "loss": 2.0 / step, "learning_rate": 1e-3, "seconds": step * 0.01})
            path = writer.path
            save_file(model.state_dict(), path / "weights.safetensors")
            write_json(path / "evaluation.json", {"results": scores, "seed": 0, "seconds": 1.0})
            writer.set_state(Status.FINISHED, step=_RECORDS)
    assert path is not None
    for tokens, length in _SOURCES.items():
        batch = task.sample(1, torch.Generator().manual_seed(0), lengths=length)
        capture_strings(model, batch, path / "captures" / f"tokens-{tokens}", {"id": f"tokens-{tokens}"})
    return path.name


@contextmanager
def _served(store: Store) -> Iterator[tuple[str, psutil.Process]]:
    """Serve the dashboard in a process of its own; yields its address and that process."""
    port = next_free(DEFAULT_PORT)
    if port is None:
        raise WorkbenchError(f"no port after {DEFAULT_PORT} is free for the dashboard")
    command = [sys.executable, "-m", "workbench", "app", "--store", str(store.root), "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            if not wait_until_answered(port, lambda: process.poll() is None):
                raise WorkbenchError("the dashboard did not start")
            yield f"http://{HOST}:{port}/", psutil.Process(process.pid)
        finally:
            process.terminate()
