"""Where a layer places the tokens of a copy on the Playground, of one subject or of both in one figure."""

from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go
from dash import html
from dash.development.base_component import Component

from workbench.dashboard.live_models import LiveModels
from workbench.dashboard.live_pairs import LivePair
from workbench.dashboard.numbers import at_most, listed
from workbench.dashboard.pages.playground_copies import copy_of, modes
from workbench.dashboard.pages.playground_pairs import called_by_copy, same_copy
from workbench.dashboard.pages.playground_strings import Chosen
from workbench.dashboard.parts import token
from workbench.figures import TokenPath, both_paths, coordinate_path, empty_figure, index_line
from workbench.figures.style import scheme_style

if TYPE_CHECKING:
    from analyses.decoding import Decoded

_REST = "All of them: capture the string, and open Coordinates."


def places(models: LiveModels, chosen: Chosen, pair: LivePair | None) -> tuple[go.Figure, str, str]:
    """Return where the chosen layer places the tokens of the copy, that in a line, and what is not compared.

    Of two subjects both paths are drawn where both have rows and columns; else that of the one which has, or the first.
    """
    if pair is None:
        return *_places_of(models, chosen), ""
    if same_places(pair):
        note = "Both subjects look at the same layer of the same weights on the same string: one placement."
        return *_places_of(models, chosen), note
    one, other = (path_of(models, subject, chosen) for subject in (pair.first, pair.second))
    if one is not None and other is not None:
        figure = both_paths(one, other, _called(pair))
        return figure, str(figure.layout.title.text), ""
    if one is None and other is not None:
        return *_places_of(models, pair.second, chosen), "Drawn is the second: the first has no rows and columns."
    lacks = "neither subject has rows and columns to compare" if one is None else "the second has no rows and columns"
    return *_places_of(models, chosen), f"Drawn is the first: {lacks}."


def same_places(pair: LivePair) -> bool:
    """Whether both subjects look at the same layer of the same weights on the same string."""
    return same_copy(pair) and pair.first.view.layer == pair.second.view.layer


def path_of(models: LiveModels, chosen: Chosen, first: Chosen) -> TokenPath | None:
    """Return where a subject's layer places the tokens of its copy; None where it has no rows and columns.

    Args:
        models: what is read.
        chosen: the subject.
        first: the first subject, whose view says which copy is looked at.
    """
    decoded, coords, end = _read(models, chosen, first)
    if coords is None or coords.shape[1] == 1:
        return None
    return TokenPath(_names(chosen, decoded, end), token_kinds(chosen, end), coords[:, 0], coords[:, 1])


def places_table(models: LiveModels, chosen: Chosen, pair: LivePair | None) -> Component:
    """Return the coordinates of the tokens of the copy, or of both copies, as a table."""
    subjects = [chosen] if pair is None or same_places(pair) else [pair.first, pair.second]
    sides = [""] if len(subjects) == 1 else ["First: ", "Second: "]
    columns, parts, count = [("Index", "number")], [], 0
    for side, subject in zip(sides, subjects, strict=True):
        decoded, coords, end = _read(models, subject, chosen)
        if coords is None:
            continue
        names = ("coordinate",) if coords.shape[1] == 1 else ("row", "column")
        named = [(f"{side}{name}" if side else name.capitalize(), "number") for name in names]
        columns += [(f"{side}token" if side else "Token", ""), *named]
        parts.append((_names(subject, decoded, end), coords))
        count = max(count, end)
    if not parts:
        return html.P("This layer gives tokens no coordinates.", className="quiet")
    rows = []
    for i in at_most(count).tolist():
        row = [str(i)]
        for names_of, coords in parts:
            there = i < len(coords)
            row += [token(names_of[i]) if there else ""]
            row += [f"{value:.3f}" for value in coords[i]] if there else [""] * coords.shape[1]
        rows.append(row)
    return listed(columns, rows, "Coordinates of every token", of=count, rest=_REST)


def token_kinds(chosen: Chosen, count: int) -> list[str]:
    """Return the kind of the first `count` tokens, keys of figures.style.KIND_STYLES."""
    a, b = chosen.live.task.a, chosen.live.task.b
    kinds = ["prefix"] * a + ["source"] * chosen.length + ["separator"] + ["delimiter"] * (b - 1)
    return (kinds + ["copy"] * count)[:count]


def _places_of(models: LiveModels, chosen: Chosen, first: Chosen | None = None) -> tuple[go.Figure, str]:
    """The figure of one subject; `first` is the one whose view says which copy is looked at."""
    decoded, coords, end = _read(models, chosen, first or chosen)
    layer = chosen.view.layer
    scheme = scheme_style(chosen.live.schemes[layer]).label
    if coords is None:
        said = f"Layer {layer} ({scheme}) gives tokens no coordinates."
        return empty_figure(said), said
    names, kinds = _names(chosen, decoded, end), token_kinds(chosen, end)
    if coords.shape[1] == 1:
        path = TokenPath(names, kinds, np.zeros(end), coords[:, 0])
        title = f"Layer {layer}, {scheme}: coordinate of every token"
        said = f"{title}, {coords.min():.1f} to {coords.max():.1f}"
        return index_line(path, title=title, value_name="coordinate"), said
    path = TokenPath(names, kinds, coords[:, 0], coords[:, 1])
    rows = f"rows {coords[:, 0].min():.1f} to {coords[:, 0].max():.1f}"
    title = f"Layer {layer}, {scheme}: {rows}, columns {coords[:, 1].min():.1f} to {coords[:, 1].max():.1f}"
    return coordinate_path(path, title=title, column_name="column (tokens)", row_name="row"), title


def _read(models: LiveModels, chosen: Chosen, first: Chosen) -> tuple["Decoded", np.ndarray | None, int]:
    """The copy that is looked at, Float[T, C] coordinates of its tokens in the chosen layer, and T."""
    decoded = copy_of(models, chosen, modes(first.view)[0])
    coords, end = decoded.coords[chosen.view.layer], decoded.last_row + 1
    return decoded, None if coords is None else coords[:end], end


def _names(chosen: Chosen, decoded: "Decoded", end: int) -> list[str]:
    return [chosen.names[i] for i in decoded.string.tokens[:end]]


def _called(pair: LivePair) -> tuple[str, str]:
    """What to call the subjects: what of weights, string and layer is not the same."""
    layers = pair.first.view.layer, pair.second.view.layer
    if layers[0] == layers[1]:
        return called_by_copy(pair)
    if same_copy(pair):
        return f"layer {layers[0]}", f"layer {layers[1]}"
    one, other = called_by_copy(pair)
    return f"{one}, layer {layers[0]}", f"{other}, layer {layers[1]}"
