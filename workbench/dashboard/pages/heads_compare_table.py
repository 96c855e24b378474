"""The table of the heads of two reports: both labels, the score that decides them, and its difference."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from dash import html
from dash.development.base_component import Component

from workbench.content.heads import HeadContent
from workbench.dashboard.beside import Beside
from workbench.dashboard.pages.heads_compare import HeadsPair
from workbench.dashboard.pages.heads_parts import PATH, difference_text, label_look, text_of
from workbench.dashboard.pages.heads_reports import leading_score
from workbench.dashboard.pages.heads_strongest import Strongest
from workbench.dashboard.pages.heads_table import heading_of, to_attention
from workbench.dashboard.pickers import visible_text
from workbench.dashboard.state import ViewState
from workbench.figures.head_pair import CHANGED, Matched, labels_said, subtract_estimates, told_apart

_COLUMNS = {
    "head": ("Head", "", False, ""),
    "label": ("Label: first → second", "", False, "Changed ones in bold, with ≠; ? is an uncertain label"),
    "": ("Deciding score", "", False, ""),
    "first": ("First", "number", False, ""),
    "second": ("Second", "number", False, ""),
    "scores": ("First − second", "number", True, "Of the score that decides the label in the first report"),
}
# Of a difference whose intervals overlap: "≈" before it.
_UNSURE = {"className": "overlaps", "title": "Their 95 % intervals overlap: not distinguishable"}


def compare_table(pair: HeadsPair, view: ViewState, strongest: Mapping[tuple[int, int], Strongest]) -> Component:
    """Return the table; a row selects its head in both reports, and its number leads to Attention.

    Args:
        pair: two reports.
        view: the view that links change.
        strongest: where each head of the first is looked at.
    """
    heading = [
        heading_of(name, *column[:3], view, column[3]) if name in ("head", "label", "scores")
        else html.Th(column[0], scope="col", className=column[1])
        for name, column in _COLUMNS.items()
    ]  # fmt: skip
    rows = [_row(m, pair, view, strongest.get((m.layer, m.head))) for m in sort_matched(pair.heads, view.sort)]
    return html.Div(
        [
            html.Table(
                [
                    html.Caption("Heads of both reports", className="unseen"),
                    html.Thead(html.Tr(heading)),
                    html.Tbody(rows),
                ],
                className="heads-list heads-both",
            ),
            html.P(f"{labels_said(pair.heads)}.", className="quiet"),
        ]
    )


def sort_matched(heads: list[Matched], sort: str) -> list[Matched]:
    """Return heads sorted by a column of this table, else, where the other table has more columns, as they come."""
    key = _KEYS.get(sort.removeprefix("-"), _KEYS["head"])
    return sorted(heads, key=key, reverse=sort.startswith("-") and sort.removeprefix("-") in _KEYS)


def compared_scores(m: Matched) -> list[str]:
    """Return the scores that decide the labels of both, that of the first report first."""
    found = [leading_score(head) for head in (m.first, m.second) if head]
    return list(dict.fromkeys(name for name in found if name))


def _gap(m: Matched) -> float:
    """The difference by which heads are sorted; heads without one come last when the largest come first."""
    values = [subtract_estimates(*m.estimates(name)) for name in compared_scores(m)[:1]]
    return next((value for value in values if value is not None), float("-inf"))


def _labels(m: Matched) -> tuple[bool, str]:
    return (not m.changed, (m.first or m.second).label)  # type: ignore[union-attr]


_KEYS: dict[str, Callable[[Matched], Any]] = {
    "head": lambda m: (m.layer, m.head),
    "label": _labels,
    "scores": _gap,
}


def _row(m: Matched, pair: HeadsPair, view: ViewState, strongest: Strongest | None) -> Component:
    first, second = pair.first.head, pair.second.head
    current, other = m.first is first, m.second is second
    number: Any = to_attention(m.name, strongest.view, strongest.rule) if strongest else m.name
    names = compared_scores(m)
    cells: list[list[Any]] = [[], [], [], []]
    for name in names:
        ours, theirs = m.estimates(name)
        unsure = told_apart(ours, theirs) is False
        shown: list[Any] = [
            html.Span(visible_text(name), className="asked"),
            *("–" if estimate is None else text_of(estimate) for estimate in (ours, theirs)),
            html.Span(difference_text(ours, theirs), **(_UNSURE if unsure else {})),
        ]
        for cell, part in zip(cells, shown, strict=True):
            cell += [part, html.Br()]
    marks = [
        html.Span(which, className="which")
        for which, here in (("first", current), ("second", other))
        if here and not (current and other)
    ]
    numbers = [html.Td(cell[:-1], className="number" if at else "") for at, cell in enumerate(cells)]
    return html.Tr(
        [html.Td(number), html.Td([*_label_cell(m, view, current), *marks]), *numbers],
        className="current" if current else "beside" if other else "",
    )


def _label_cell(m: Matched, view: ViewState, current: bool) -> list[Any]:
    """Both labels and whether they differ; the first that there is is the link that selects the row."""
    shown, there = m.first or m.second, view.change(layer=m.layer, head=m.head)
    assert shown is not None
    if m.first is None:  # which the first report has not: it becomes the second's
        there = replace(view, beside=replace(view.beside or Beside(), layer=m.layer, head=m.head))
    both = m.first is not None and m.second is not None
    only = "" if both else f"only in the {'first' if m.first else 'second'}"
    said = f"{_said(m.first)}, in the second {_said(m.second)}" if both else f"{_said(shown)}, {only}"
    marked = {"aria-current": "true"} if current else {}
    select = html.A(
        **{**label_look(shown.label), "children": _said(shown), "className": "label selects"},
        href=PATH + there.query(),
        **marked,
        **{"aria-label": f"select head {m.name}: {said}"},
    )
    if m.second is None or m.first is None:
        return [
            *([] if m.first else ["– → "]),
            select,
            *([" → –"] if m.first else []),
            html.Span(only, className="which"),
        ]
    kind = "label changed" if m.changed else "label"
    second = html.Span(**{**label_look(m.second.label), "children": _said(m.second), "className": kind})
    sign = [html.B(f" {CHANGED}", className="sign", title="The label is another one", **{"aria-hidden": "true"})]
    return [select, " → ", html.Span([second, *(sign if m.changed else [])], className="together")]


def _said(head: HeadContent | None) -> str:
    return "–" if head is None else visible_text(head.label) + ("" if head.certain else " ?")
