"""What a notebook needs around the analyses: a model trained on the spot or found, heads to look at, small tables.

Nothing here contacts the network: figures carry plotly's script, CircuitsVis is put into the cell whole.
"""

import html
import os
import tempfile
from atexit import register
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import plotly.io
from plotly.io.base_renderers import HtmlRenderer
from rich.console import Console

from models.attention import Capture, CapturedString, open_capture
from models.capture import capture_strings
from models.config import Recipe
from models.recipes import load_recipe
from models.tasks import CopyBatch
from models.transformer import CopyTransformer
from workbench import views
from workbench.figures.token_heads import document, heads_shown, inline_script
from workbench.runs import STORE_VARIABLE, Run, Status, Store
from workbench.sessions import train_with_bar
from workbench.subjects import FoundSubject, Subject, find_run

RENDERER = "offline"


class OfflineRenderer(HtmlRenderer):
    """Figures as HTML; plotly's script comes once, with the first of them. Its own one asks a CDN for MathJax."""

    def __init__(self) -> None:
        """Let the script be put into the notebook when the renderer is first used."""
        super().__init__(global_init=True)

    def to_mimebundle(self, fig_dict: dict[str, Any]) -> dict[str, str]:
        """The figure for a cell's output."""
        page = plotly.io.to_html(
            fig_dict, include_plotlyjs=False, include_mathjax=False, full_html=False, config={"displaylogo": False}
        )
        return {"text/html": page}


def offline_figures() -> None:
    """Let figures show without a network, in Jupyter and in notebooks that are exported as HTML.

    An own choice, $PLOTLY_RENDERER, goes first.
    """
    plotly.io.renderers[RENDERER] = OfflineRenderer()
    plotly.io.renderers.default = os.environ.get("PLOTLY_RENDERER", RENDERER)


def temporary_store() -> Store:
    """Return a store of runs that lasts as long as the process."""
    return Store(_folder() / "runs")


def own_subject(recipe: str) -> Subject | None:
    """Return the newest finished run of a recipe in the store that $COPY_WORKBENCH_STORE names; None without one."""
    named = os.environ.get(STORE_VARIABLE)
    runs = Store(Path(named)).runs() if named else []
    mine = [run for run in runs if run.recipe == recipe and run.status is Status.FINISHED]
    return find_run(mine[0]).load() if mine else None


def train_here(recipe: str | Recipe, overrides: Sequence[str] = (), store: Store | None = None) -> FoundSubject:
    """Train a recipe, with progress below the cell, and return the finished run as a subject.

    Args:
        recipe: a name or a recipe.
        overrides: "field.field=value", of a recipe that is named; what is only kept for later is left out.
        store: where the run goes; by default into `temporary_store`.

    Raises:
        UsageError: an unknown name or field, or an impossible value.
    """
    chosen = load_recipe(recipe, overrides) if isinstance(recipe, str) else recipe
    # As in a file, where the bar is a line now and then: redrawn, it would be hundreds of lines of output.
    console = Console(force_jupyter=False, force_terminal=False)
    run: Run = train_with_bar(console, store or temporary_store(), chosen)[0]
    return find_run(run)


def captured(model: CopyTransformer, batch: CopyBatch) -> Capture:
    """Capture strings into a folder that lasts as long as the process; `capture.string(0)` is the first of them."""
    folder = Path(tempfile.mkdtemp(dir=_folder())) / "capture"
    capture_strings(model, batch, folder, {})
    return open_capture(folder)


def head_map(
    string: CapturedString,
    layer: int,
    head: int,
    title: str = "",
    rows: slice = slice(None),
    cols: slice = slice(None),
) -> go.Figure:
    """The attention of one head, queries down and keys across, with the true source marked.

    Args:
        string: of a capture.
        layer: index.
        head: of the layer.
        title: of the figure's second line.
        rows: queries that are shown; all by default.
        cols: keys that are shown; all by default.
    """
    whole = [slice(*part.indices(len(string.tokens))[:2]) for part in (rows, cols)]
    return views.draw(views.Crop(string, layer, head, *whole), title=title).update_layout(width=720, height=640)


class TokenHeads:
    """The heads of a layer in CircuitsVis: hover a token to see what it attends to, in a frame of its own."""

    def __init__(self, string: CapturedString, layer: int, height: int = 340) -> None:
        """Take a captured string of at most 200 tokens; the height is in pixels."""
        heads = heads_shown(string.heads[layer], 0)
        self._page, self._height = document(string, layer, heads, inline_script()), height
        shown = ", ".join(f"{layer}.{head}" for head in heads)
        self._named = f"CircuitsVis: heads {shown} on {len(string.tokens)} tokens"

    def __repr__(self) -> str:
        return self._named

    def _repr_html_(self) -> str:
        """The document in a frame that may run scripts and nothing else: no origin, no storage."""
        return (
            f'<iframe sandbox="allow-scripts" srcdoc="{html.escape(self._page, quote=True)}" title="{self._named}" '
            f'style="width:100%;height:{self._height}px;border:1px solid #dfe3e8"></iframe>'
        )


class Table:
    """A small table, as HTML in a notebook and as text elsewhere; everything in it is escaped."""

    def __init__(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Take column names and rows of anything; numbers that are no whole ones show two decimals."""
        self._columns = list(columns)
        self._rows = [[f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]

    def __repr__(self) -> str:
        lines = [self._columns, *self._rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self._columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self._rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def marked(string: Sequence[int], error: int | None = None, competitors: Iterable[int] = ()) -> str:
    """A string of token ids above a line of marks: ^ the token that failed (behind the end for EOS), * competitors."""
    marks = [""] * (len(string) + 1)
    for index in competitors:
        marks[index] = "*"
    if error is not None:
        marks[error] = "^"
    width = max(len(str(token)) for token in string)
    gap = "" if width == 1 else " "
    lines = ([*map(str, string), ""], marks)
    return "\n".join(gap.join(cell.rjust(width) for cell in line).rstrip() for line in lines)


@cache
def _folder() -> Path:
    """A folder that is removed when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="copy-workbench-")
    register(folder.cleanup)
    return Path(folder.name)
