"""The figures of where one layer puts the tokens of a captured string, for the Coordinates page and exported pages.

Never imports torch.
"""

import numpy as np
import plotly.graph_objects as go

from models.attention import CapturedString
from workbench.figures.coordinates import TokenPath, coordinate_path, coordinates_by_index, index_line, learned_steps
from workbench.figures.tokens import markup

LINE, PLACED, RULE, OVER, STEPS = "line", "path", "rule", "over", "steps"


def coordinate_figures(string: CapturedString, layer: int, separator: str) -> dict[str, go.Figure]:
    """Return the figures that fit the scheme of a layer, by name.

    Args:
        string: of a capture.
        layer: index.
        separator: the token behind which rows begin by rule.

    Returns:
        LINE alone where tokens stand on a line; else PLACED, RULE where it differs from the rule, OVER the string, and
        STEPS where they are learned.
    """
    names, kinds = string.token_names, token_kinds(string)
    coords, steps = string.coords(layer), string.steps(layer)
    if coords is None or coords.shape[1] == 1:
        line = np.arange(len(names)) if coords is None else coords[:, 0]
        path = TokenPath(names, kinds, np.zeros(len(names)), line)
        title = "Tokens by index" if coords is None else "Every token's coordinate is its index"
        value = "token index" if coords is None else "coordinate (tokens)"
        return {LINE: index_line(path, title=title, value_name=value)}
    rule = np.asarray(string.rule_coords)
    placed = TokenPath(names, kinds, coords[:, 0], coords[:, 1])
    by_rule = TokenPath(names, kinds, rule[:, 0], rule[:, 1])
    by_name = rule_name(separator)
    drawn = {
        PLACED: coordinate_path(
            placed,
            title=path_title(coords, rule, by_name),
            column_name="p1: column (tokens)",
            row_name="p2: row",
            beside=by_rule,
        )
    }
    if not np.array_equal(coords, rule):
        drawn[RULE] = coordinate_path(
            by_rule, title=f"Row and column {by_name}", column_name="column (tokens)", row_name="row", beside=placed
        )
    drawn[OVER] = coordinates_by_index(placed, rule, title="Column and row over the string", rule_name=by_name)
    if steps is not None:
        drawn[STEPS] = learned_steps(placed, steps, title=steps_title(string, steps))
    return drawn


def token_kinds(string: CapturedString) -> list[str]:
    """Return the kind of every token, a key of figures.style.KIND_STYLES."""
    anchors = np.asarray(string.anchor_positions)
    index = np.arange(len(string.tokens))
    first_source = int(np.flatnonzero(np.append(~np.isin(index, anchors), True))[0])
    separator = first_source + string.length
    kinds = np.where(index < first_source, "prefix", np.where(index < separator, "source", "copy")).astype(object)
    kinds[np.isin(index, anchors) & (index >= separator)] = "delimiter"
    kinds[index == separator] = "separator"
    return kinds.tolist()


def rule_name(separator: str) -> str:
    """Return what rows by rule follow: line breaks, or the separator that replaces them."""
    return "by line breaks" if separator == "\n" else f"by separator {markup(separator)}"


def path_title(coords: np.ndarray, rule: np.ndarray, by_name: str) -> str:
    """Return what the path shows: how far it is from the one by rule, or its size where they agree."""
    if np.array_equal(coords, rule):
        return f"{int(coords[:, 0].max()) + 1} rows of up to {int(coords[:, 1].max()) + 1} columns, {by_name}"
    off = np.abs(coords - rule).max(axis=0)
    return f"Up to {off[1]:.1f} columns, {off[0]:.1f} rows off those {by_name}"


def steps_title(string: CapturedString, steps: np.ndarray) -> str:
    """Return where the learned gate is lowest: the token that comes closest to starting a new row."""
    lowest = int(steps[:, 0].argmin())
    return (
        f"Learned steps: u is lowest at token {lowest} ({markup(string.token_names[lowest])}), {steps[lowest, 0]:.2f}"
    )
