"""What the curves of the Runs page say, in a sentence and as tables."""

from collections.abc import Sequence

import numpy as np
from dash import html
from dash.development.base_component import Component

from workbench.dashboard.numbers import MOST_ROWS, at_most, listed
from workbench.figures import LengthCurve, TrainingCurve

_ALMOST_ALL = 0.9  # exact match from which a length counts as copied
_SAID = 6  # runs or curves of a sentence


def training_said(curves: Sequence[TrainingCurve]) -> str:
    """Return what each run reported last."""
    if not curves:
        return "No run has reported anything yet."
    parts = []
    for curve in curves[:_SAID]:
        part = f"{curve.run} at step {int(curve.steps[-1]):,}: loss {curve.losses[-1]:.3g}"
        if len(curve.exact_match):
            part += f", exact match {curve.exact_match[-1]:.2f}"
        parts.append(part)
    return f"Training of {_count(len(curves), 'run')}. {'; '.join(parts)}{_more(len(curves))}."


def training_table(curves: Sequence[TrainingCurve]) -> Component:
    """Return loss and exact match by step and run, as they are drawn; evenly thinned to a few rows a run."""
    each = max(2, MOST_ROWS // max(1, len(curves)))
    rows, total = [], 0
    for curve in curves:
        steps = np.union1d(curve.steps, curve.evaluated)
        total += len(steps)
        losses = dict(zip(curve.steps.tolist(), curve.losses.tolist(), strict=True))
        matches = dict(zip(curve.evaluated.tolist(), curve.exact_match.tolist(), strict=True))
        evaluated = curve.evaluated[at_most(len(curve.evaluated), each // 2)]
        between = curve.steps[at_most(len(curve.steps), each - len(evaluated))]
        for step in np.union1d(evaluated, between).tolist():
            rows.append([html.Bdi(curve.run), f"{int(step):,}", _number(losses.get(step), ".4g"),
                         _number(matches.get(step), ".3f")])  # fmt: skip
    columns = (("Run", "id"), ("Step", "number"), ("Loss (nats a token)", "number"), ("Exact match", "number"))
    rest = "All of them stand in metrics.jsonl of each run."
    return listed(columns, rows, "Loss and exact match by optimiser step", of=total, rest=rest)


def lengths_said(curves: Sequence[LengthCurve]) -> str:
    """Return up to which length each run copies, by distribution."""
    if not curves:
        return "Nothing is evaluated yet."
    parts = []
    for curve in curves[:_SAID]:
        below = np.flatnonzero(~(curve.exact_match >= _ALMOST_ALL))
        reached = curve.lengths[: below[0]] if len(below) else curve.lengths
        found = f"at least {_ALMOST_ALL} up to length {int(reached[-1]):,}" if len(reached) else f"below {_ALMOST_ALL}"
        parts.append(f"{curve.run} on {curve.distribution} strings: {found}")
    return f"Exact match by length. {'; '.join(parts)}{_more(len(curves))}."


def lengths_table(curves: Sequence[LengthCurve]) -> Component:
    """Return exact match with its interval by run, distribution and length."""
    points = [(curve, i) for curve in curves for i in range(len(curve.lengths))]
    rows = []
    for curve, i in points[:MOST_ROWS]:
        interval = f"{curve.low[i]:.2f} to {curve.high[i]:.2f}"
        shown = [html.Bdi(curve.run), html.Bdi(curve.distribution), f"{int(curve.lengths[i]):,}"]
        rows.append([*shown, f"{curve.exact_match[i]:.3f}", interval, f"{int(curve.strings[i]):,}"])
    columns = (("Run", "id"), ("Distribution", ""), ("Length up to", "number"), ("Exact match", "number"),
               ("95 % interval", "number"), ("Strings", "number"))  # fmt: skip
    rest = "All of them stand in evaluation.json of each run."
    return listed(columns, rows, "Exact match by length", of=len(points), rest=rest)


def _number(value: float | None, form: str) -> str:
    return "–" if value is None or not np.isfinite(value) else format(value, form)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _more(count: int) -> str:
    return f"; and {count - _SAID} more" if count > _SAID else ""
