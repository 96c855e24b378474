"""Copies token by token: columns that wrap like text, one a token of the string, one line below the other in each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dash import html
from dash.development.base_component import Component

from workbench.dashboard.parts import token
from workbench.figures.tokens import visible

_NUMBERED = 10  # every how many columns a number stands


@dataclass(frozen=True)
class Cell:
    """One token of a line.

    Attributes:
        name: of the token.
        title: what is said of it, behind its line and column, when it is pointed at.
        kind: style classes.
        confidence: 0 to 1, drawn as a bar; None for none.
        apart: -1 to 1, a difference, drawn as the strength of the cell's colour; None for none.
        at: what the browser reports when it is pointed at or has the focus: twice the query row, one more where the
            row is one of the free-running copy; None where nothing is to be looked at.
    """

    name: str
    title: str
    kind: str = ""
    confidence: float | None = None
    at: int | None = None
    apart: float | None = None


@dataclass(frozen=True)
class Line:
    """A line of cells, one a column; None where it has none."""

    label: str
    cells: Sequence[Cell | None]


def token_grid(lines: Sequence[Line], grid_id: str, label: str) -> Component:
    """Return lines of tokens one below the other, in columns that wrap.

    assets/live.js tells each cell its line and column, so that they are not sent with each of thousands of cells. One
    cell is reached by Tab, the others by arrow keys; the lines are named again where the columns go on below.
    """
    labels = html.Span(
        [html.Span("", className="col-index"), *(html.Span(line.label, className="col-label") for line in lines)],
        className="col labels",
    )
    count = max(len(line.cells) for line in lines)
    columns = [_column(lines, k) for k in range(count)]
    return html.Div(
        [labels, html.Div(columns, className="cols")],
        id=grid_id,
        className="token-grid",
        role="group",
        **{"aria-label": label, "data-grid": "1"},
    )


def _column(lines: Sequence[Line], k: int) -> Component:
    number = html.Span(str(k) if k % _NUMBERED == 0 else "", className="col-index")
    return html.Span([number, *(_cell(line, k) for line in lines)], className="col")


def _cell(line: Line, k: int) -> Component:
    cell = line.cells[k] if k < len(line.cells) else None
    if cell is None:
        return html.Span("", className="cell none")
    more = {} if cell.at is None else {"data-at": str(cell.at)}
    style: dict[str, Any] = {}
    if cell.confidence is not None:
        style = {"style": {"--p": f"{cell.confidence:.3f}"}}
    elif cell.apart is not None:
        style = {"style": {"--d": f"{abs(cell.apart) ** 0.5:.3f}"}}
    return html.Button(
        visible(cell.name),
        type="button",
        className=f"cell{' long' if len(cell.name) > 1 else ''} {cell.kind}".strip(),
        title=cell.title,
        **more,
        **style,
    )


def answer_cells(
    names: Sequence[str],
    predicted: Sequence[int],
    targets: Sequence[int],
    confidence: Sequence[float] | None = None,
    rows: Sequence[int] | None = None,
    free: bool = False,
) -> list[Cell]:
    """Return the cells of a copy: wrong tokens marked, the first of them with a flag.

    Args:
        names: printable name of every token id.
        predicted: ids of the copy.
        targets: ids of the right answers, at least as many.
        confidence: probability of each predicted token.
        rows: the query that predicts each; those beyond its end are looked from nowhere.
        free: it is a free-running copy.
    """
    cells, seen = [], False
    for k, answer in enumerate(predicted):
        right = answer == targets[k]
        kind = "" if right else "wrong" if seen else "wrong first"
        seen = seen or not right
        said = f"{names[answer]}, right" if right else f"{names[answer]} instead of {names[targets[k]]}"
        if kind == "wrong first":
            said += ", the first error"
        if confidence is not None:
            said += f", probability {confidence[k]:.3f}"
        at = None if rows is None or k >= len(rows) else 2 * int(rows[k]) + int(free)
        cells.append(Cell(names[answer], said, kind, None if confidence is None else float(confidence[k]), at))
    return cells


def verdict(label: str, first_error: int | None, n: int, *more: str | Component) -> Component:
    """Return in a line how a copy went: copied exactly, or where it first goes wrong; `more` is added."""
    exact = first_error is None
    icon = html.Span("✓" if exact else "✕", className=f"icon {'good' if exact else 'bad'}", **{"aria-hidden": "true"})
    where = "EOS is wrong" if first_error == n else f"first error at token {first_error}"
    return html.P([icon, html.B(label), " · ", "copied exactly" if exact else where, *more], className="verdict")


def instead(names: Sequence[str], answer: int, target: int) -> list[str | Component]:
    """Return "0 instead of 1" with tokens as they are shown in text."""
    return [token(names[answer]), " instead of ", token(names[target])]
