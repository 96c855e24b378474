"""What the map and the row of the Attention page say to those who do not see them: in a sentence, and as a table."""

import numpy as np
from dash.development.base_component import Component

from workbench.dashboard.numbers import at_most, listed
from workbench.dashboard.pages.attention_map import weight_on_source
from workbench.dashboard.parts import token
from workbench.dashboard.selection import Selection
from workbench.figures import scheme_style
from workbench.figures.numbers import signed
from workbench.figures.tokens import visible

_COLUMNS = (
    ("Query", "number"),
    ("Token", ""),
    ("True source", "number"),
    ("Weight on it", "number"),
    ("Strongest key", "number"),
    ("Weight", "number"),
    ("Answer", ""),
)


def map_said(chosen: Selection) -> str:
    """Return what the head does on the whole string: its weight on the true source, and how many answers are wrong."""
    view, string = chosen.view, chosen.string
    what = f"Attention pattern of layer {view.layer}, head {view.head} ({scheme_style(chosen.scheme).label})"
    on_source = weight_on_source(chosen)
    if on_source is None:
        return f"{what} over {chosen.n_tokens:,} tokens; no query of this string has a true source."
    scored = np.asarray(string.predicted) >= 0
    wrong = int((scored & (np.asarray(string.predicted) != np.asarray(string.targets))).sum())
    return (
        f"{what} over {chosen.n_tokens:,} tokens: the mean weight on the true source is {on_source:.2f}, and {wrong:,} "
        f"of {int(scored.sum()):,} answers are wrong."
    )


def map_table(chosen: Selection) -> Component:
    """Return, by query that has a true source, its weight on it and on its strongest key."""
    string = chosen.string
    sources, predicted, targets = (np.asarray(a) for a in (string.source_position, string.predicted, string.targets))
    pattern = string.head(chosen.view.layer, chosen.view.head)
    queries = np.flatnonzero(sources >= 0)
    rows = []
    for query in queries[at_most(len(queries))].tolist():
        weights = pattern.row(query)
        best, source = int(weights.argmax()), int(sources[query])
        right = "right" if predicted[query] == targets[query] else "wrong"
        shown = [f"{query:,}", token(string.token_names[query]), f"{source:,}", f"{weights[source]:.4f}"]
        rows.append([*shown, f"{best:,}", f"{weights[best]:.4f}", right])
    rest = "Every cell is in the CSV and NPZ files below the map."
    return listed(_COLUMNS, rows, "Weight on the true source by query", of=len(queries), rest=rest)


def row_said(chosen: Selection, second: Selection | None = None) -> str:
    """Return where the pinned query looks, under both subjects of two; its keys stand beside the figure."""
    if second is not None and chosen.row < second.n_tokens:
        return _row_of_both(chosen, second)
    weights = chosen.string.head(chosen.view.layer, chosen.view.head).row(chosen.row)
    best, source = int(weights.argmax()), int(chosen.string.source_position[chosen.row])
    name = visible(chosen.string.token_names[best])
    most = f"Query {chosen.row} attends most to key {best} ({name}), with weight {weights[best]:.2f}"
    return f"{most}, and to its true source, key {source}, with {weights[source]:.2f}." if source >= 0 else f"{most}."


def _row_of_both(chosen: Selection, second: Selection) -> str:
    row = chosen.row
    ours, theirs = (
        of.string.head(of.view.layer, of.view.head).row(row)[: row + 1].astype(float) for of in (chosen, second)
    )
    best = int(ours.argmax()), int(theirs.argmax())
    names = [visible(of.string.token_names[at]) for of, at in zip((chosen, second), best, strict=True)]
    most = int(np.abs(ours - theirs).argmax())
    return (
        f"Query {row} attends most to key {best[0]} ({names[0]}) in the first, with weight {ours[best[0]]:.2f}, and to "
        f"key {best[1]} ({names[1]}) in the second, with {theirs[best[1]]:.2f}. The largest difference is at key "
        f"{most}: {signed(ours[most] - theirs[most])}."
    )
