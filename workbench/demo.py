"""The demo: three small models trained one after the other, evaluated and captured, with the dashboard up meanwhile."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from models.config import Recipe
from models.errors import WorkbenchError
from models.recipes import dump_recipe, load_recipe
from workbench.captures import capture_samples
from workbench.ports import HOST, wait_until_answered
from workbench.records import mean_exact_match
from workbench.runs import Run, Status, Store
from workbench.sessions import evaluate_with_bar, train_with_bar
from workbench.subjects import load_run

RECIPES = ("demo-rope2d", "demo-rope", "demo-auto2d")
_RESUMABLE = (Status.INTERRUPTED, Status.KILLED)


@dataclass(frozen=True)
class Row:
    """One line of the demo's table.

    Attributes:
        recipe, run: names.
        steps: optimiser steps.
        seconds: of training.
        reused: it was trained before.
        exact_match: mean exact match by multiple of the longest training length; key 1 is the training range.
    """

    recipe: str
    run: str
    steps: int
    seconds: float
    reused: bool
    exact_match: dict[int, float | None]


def run_recipes(console: Console, store: Store, names: Sequence[str] | None = None) -> list[Row]:
    """Train, evaluate and capture each recipe (RECIPES by default); what an earlier demo has done is reused.

    Raises:
        KeyboardInterrupt: interrupted; a second demo goes on where this one stopped.
        WorkbenchError: training diverged, or the store cannot be written to.
    """
    recipes = [load_recipe(name) for name in names or RECIPES]
    return [_run_recipe(console, store, recipe) for recipe in recipes]


def _run_recipe(console: Console, store: Store, recipe: Recipe) -> Row:
    earlier = find_run(store, recipe)
    reused = earlier is not None and earlier.status is Status.FINISHED
    if earlier is not None and reused:
        run = earlier
        console.print(Text(f"{recipe.name}: reusing {run.id}"), soft_wrap=True)
        model = None if run.evaluation and run.captures else load_run(run).model
    else:
        run, model, recipe, _ = train_with_bar(console, store, earlier or recipe)
    if model is not None and not run.evaluation:
        evaluate_with_bar(console, store, run, model, recipe)
    if model is not None and not run.captures:
        folder = capture_samples(run, model, recipe)
        console.print(Text(f"captured {folder.name}: strings it fails on and strings it copies"), soft_wrap=True)
    return summarise(store.open(run.id), recipe, reused)


def find_run(store: Store, recipe: Recipe) -> Run | None:
    """Return the newest run with exactly the settings of `recipe`: a finished one, else one that can be resumed."""
    same = [run for run in store.runs() if run.readable and run.recipe == recipe.name and _config_is(run, recipe)]
    for states in ((Status.FINISHED,), _RESUMABLE):
        for run in same:
            if run.status in states:
                return run
    return None


def _config_is(run: Run, recipe: Recipe) -> bool:
    try:
        return run.config_text == dump_recipe(recipe)
    except WorkbenchError:
        return False


def summarise(run: Run, recipe: Recipe, reused: bool) -> Row:
    """Return the table's line for a finished and evaluated run."""
    results = (run.evaluation or {"results": []})["results"]
    low, high = recipe.task.lengths
    exact: dict[int, float | None] = {1: mean_exact_match(results, (low, high))}
    for multiple in (2, 4):
        at = multiple * high
        there = [score for score in results if max(score["shortest"], high + 1) <= at <= score["length"]]
        exact[multiple] = mean_exact_match(there, (low, max((score["length"] for score in there), default=0)))
    return Row(recipe.name, run.id, run.step, float(run.last_record.get("seconds", 0.0)), reused, exact)


@contextmanager
def dashboard(store: Store, port: int, open_browser: bool) -> Iterator[subprocess.Popen[bytes]]:
    """Run the dashboard as a process of its own while the block runs; it answers when the block begins.

    It has its own session, so that Ctrl-C reaches the training alone and ends the dashboard last.

    Raises:
        WorkbenchError: it did not start; the message holds its last words.
    """
    command = [sys.executable, "-m", "workbench", "app", "--store", str(store.root), "--port", str(port)]
    command += ["--open"] if open_browser else []
    with tempfile.TemporaryFile() as words:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=words, stderr=words, start_new_session=True
        )
        try:
            if not wait_until_answered(port, lambda: process.poll() is None):
                words.seek(0)
                said = words.read().decode(errors="replace").strip().splitlines()
                raise WorkbenchError(f"the dashboard did not start: {said[-1] if said else 'it said nothing'}")
            yield process
        finally:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for_ctrl_c(process: subprocess.Popen[bytes], say: Callable[[], None]) -> None:
    """Call `say` and return on Ctrl-C; WorkbenchError when the dashboard ends by itself."""
    try:
        say()
        while process.poll() is None:
            time.sleep(0.2)
    except KeyboardInterrupt:
        return
    raise WorkbenchError(f"the dashboard ended by itself with code {process.returncode}")


def url(port: int) -> str:
    """Return the dashboard's address."""
    return f"http://{HOST}:{port}"


def has_display() -> bool:
    """Return whether a browser window could be opened here."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
