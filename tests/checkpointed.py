"""A store of two tiny trained runs that kept their checkpoints, each with a capture, for tests of comparisons."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from models.recipes import parse_recipe
from workbench.captures import capture_samples
from workbench.dashboard.comparison import Pair, pair_of
from workbench.dashboard.data import Data
from workbench.dashboard.recaptures import Recapturing
from workbench.dashboard.selection import Selection, select
from workbench.dashboard.state import ViewState
from workbench.runs import Store
from workbench.train import start, train

RECIPE = """\
name = "tiny-{scheme}"
[task]
lengths = [1, 8]
[model]
heads = {heads}
d_model = 16
d_head = 8
positions = "{scheme}"
[train]
steps = 20
batch_size = 8
warmup = 5
checkpoint_every = 5
keep_checkpoints = true
evaluate_every = 10
evaluation_strings = 4
"""


def fill(root: Path) -> dict[str, str]:
    """Train the runs; return their ids: "rope" has heads 0.0, 0.1 and 1.0, "auto2d" has 0.0 and 0.1."""
    store, ids = Store(root), {}
    for scheme, heads in (("rope", [2, 1]), ("auto2d", [2])):
        recipe = parse_recipe(RECIPE.format(scheme=scheme, heads=heads))
        writer, trainer = start(store, recipe, "cpu")
        train(writer, trainer, lambda progress: None)
        run = store.open(writer.path.name)
        capture_samples(run, trainer.model, recipe)
        ids[scheme] = run.id
    return ids


def patiently(ask: Callable[[], Any]) -> Any:
    """The answer once nothing is being run under other weights any more."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            return ask()
        except Recapturing:
            time.sleep(0.02)
    raise AssertionError("the string was never run")


def chosen(data: Data, view: ViewState) -> Selection:
    found: Selection = patiently(lambda: select(data, view))
    return found


def compared(data: Data, view: ViewState) -> Pair:
    found: Pair = patiently(lambda: pair_of(data, view))
    return found
