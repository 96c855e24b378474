"""What is done on the Intervene page: heads to tick, one by one or by label, and the way they are altered."""

import re
from typing import Any

from dash import html
from dash.development.base_component import Component

from models.errors import WorkbenchError
from workbench.dashboard.pages.heads_reports import Reports
from workbench.dashboard.pages.intervene_outcome import heads_of
from workbench.dashboard.pages.playground_strings import Chosen
from workbench.dashboard.parts import link, switch
from workbench.dashboard.pickers import visible_text
from workbench.dashboard.state import ViewState

_WAYS = (
    ("zero", "Zero", "What they write is set to zero"),
    ("mean", "Mean", "What they write is its mean over the positions of a segment and over strings"),
    ("resample", "Resample", "What they write is taken from another index of another, shorter string"),
    ("same-place", "Same place", "What they write is taken from the same place in another string"),
)
_KEYS = (
    ("anchors", "Anchors", "A1…, B1…: the tokens around the string"),
    ("source", "True source", "The token that is to be copied"),
    ("wrong-candidates", "Competitors", "Keys with the same context that are not the true source"),
    ("first", "First token", "The first token of the input"),
)
_M = range(1, 9)
_DEFAULT_M = 2

Heads = tuple[tuple[int, int], ...]


def what(chosen: Chosen, view: ViewState, path: str, reports: Reports, compare: Component) -> Component:
    """Return the heads to tick, `compare`, which begins a comparison, and the ways to alter the heads."""
    ticked, notes = heads_of(chosen.live, view)
    if chosen.fed:
        notes = (*notes, "The copy is fed rightly here: what Playground feeds in place of right tokens is left out.")
    labels, told = labels_of(chosen, reports)
    return html.Div(
        [
            html.Div([html.H2("Heads"), classes(chosen, view, path, ticked, labels), compare], className="what-line"),
            head_ticks(chosen, view, path, ticked, labels),
            *told,
            html.Div([html.H2("What is done"), *ways(view, path)], className="what-line"),
            *(html.P(note, className="note") for note in notes),
        ]
    )


def labels_of(chosen: Chosen, reports: Reports) -> tuple[dict[tuple[int, int], str], list[Component]]:
    """Return the label of every head in a kept report, and what is to be said of that report."""
    run_id, step = chosen.run.id, chosen.live.subject.step
    try:
        steps = reports.steps(run_id)
        kept = step if step in steps else steps[0] if steps else None
        content = None if kept is None else reports.heads(run_id, kept)
    except WorkbenchError:
        content = None
    if content is None:
        command = html.Code(reports.command(run_id), className="command inline", tabIndex=0)
        return {}, [html.P(["Heads can be ticked by label once there is a report: ", command], className="quiet")]
    labels = {(head.layer, head.head): visible_text(head.label) for head in content.heads}
    if content.step == step:
        return labels, []
    said = f"The labels are those of step {content.step:,}; the weights are those of step {step:,}."
    return labels, [html.P(said, className="quiet")]


def classes(chosen: Chosen, view: ViewState, path: str, ticked: Heads, labels: dict[tuple[int, int], str]) -> Component:
    """Return the links that tick all heads, none, or those of a label."""
    everything = tuple((layer, head) for layer, count in enumerate(chosen.live.heads) for head in range(count))
    groups = [("all", everything), ("none", ())]
    for label in dict.fromkeys(labels.values()):
        groups.append((label, tuple(at for at in everything if labels.get(at) == label)))
    segments = [
        (name if name in ("all", "none") else f"{name} · {len(heads)}", _to(view, path, heads), heads == ticked)
        for name, heads in groups
    ]
    return switch("Tick", segments)


def head_ticks(
    chosen: Chosen, view: ViewState, path: str, ticked: Heads, labels: dict[tuple[int, int], str]
) -> Component:
    """Return a box to tick for every head, a line a layer."""
    rows = []
    for layer, count in enumerate(chosen.live.heads):
        boxes = [_tick(view, path, (layer, head), ticked, labels.get((layer, head))) for head in range(count)]
        rows.append(
            html.Div([html.Span(f"Layer {layer}", className="tick-layer"), *boxes], className="tick-row", role="group",
                     **{"aria-label": f"Heads of layer {layer}"})
        )  # fmt: skip
    return html.Div(rows, className="ticks")


def _tick(view: ViewState, path: str, at: tuple[int, int], ticked: Heads, label: str | None) -> Component:
    on = at in ticked
    heads = tuple(other for other in ticked if other != at) if on else tuple(sorted({*ticked, at}))
    name = f"{at[0]}.{at[1]}"
    box = html.Span("✓" if on else "", className="box", **{"aria-hidden": "true"})
    more = [] if label is None else [html.Span(label, className="quiet")]
    return link(
        [box, html.Span(name), *more],
        _to(view, path, heads),
        className="checkbox tick-head",
        role="checkbox",
        **{"aria-checked": "true" if on else "false", "aria-label": f"head {name}{f', {label}' if label else ''}"},
    )


def ways(view: ViewState, path: str) -> list[Component]:
    """Return the choices of what is done to the ticked heads."""

    def to(**changes: Any) -> str:
        return path + view.change(**changes).query()

    knocks_out = view.keys is not None
    name, m = _class_of(view.keys)
    kinds = [
        ("Ablate", to(keys=None), not knocks_out),
        ("Knock out attention", to(keys=view.keys or "anchors"), knocks_out),
    ]
    made = [switch("Do", kinds, named=False)]
    if not knocks_out:
        hints = dict((way, hint) for way, _, hint in _WAYS)
        made.append(switch("Output", [(label, to(way=way), view.way == way) for way, label, _ in _WAYS]))
        return [*made, html.Span(hints[view.way], className="quiet")]
    keys = [
        (label, to(keys=f"{key}({m})" if key == "wrong-candidates" else key), key == name) for key, label, _ in _KEYS
    ]
    made.append(switch("Keys", keys))
    if name == "wrong-candidates":
        made.append(switch("Same last m =", [(str(n), to(keys=f"{name}({n})"), n == m) for n in _M]))
    made.append(
        switch(
            "Their weight",
            [
                ("to the other keys", to(how="mask"), view.how == "mask"),
                ("is lost", to(how="zero"), view.how == "zero"),
            ],
        )
    )
    hint = next((hint for key, _, hint in _KEYS if key == name), view.keys or "")
    return [*made, html.Span(hint, className="quiet")]


def _class_of(keys: str | None) -> tuple[str, int]:
    """Name and number of a class of keys: "wrong-candidates(2)" is ("wrong-candidates", 2)."""
    match = re.fullmatch(r"([a-z-]+)(?:\((\d+)\))?", keys or "anchors")
    return (match[1], int(match[2] or _DEFAULT_M)) if match else ("", _DEFAULT_M)


def _to(view: ViewState, path: str, heads: Heads) -> str:
    return path + view.change(heads=heads or None).query()
