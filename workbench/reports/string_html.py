"""One captured string as an HTML page: the copy, where every head looks, what the first error attends to.

Never imports torch.
"""

import html as markup_of
from collections.abc import Iterator

import numpy as np

from models.attention import Capture, CapturedString
from workbench.coordinate_views import coordinate_figures
from workbench.figures.attention import encode
from workbench.figures.pictures import THUMBNAIL, colors, png
from workbench.figures.style import scheme_style
from workbench.figures.tokens import visible
from workbench.reports.html import Document, Mark, Picture, Tokens
from workbench.views import EXACT_UP_TO, Crop, draw

MOST_MAPS = 8  # interactive maps on a page, about 350 kB each; further heads are pictures
_MARKED = 160  # tokens up to which boxes around the true sources leave the weights in them to be seen
_UNMARKED = (
    "True sources are not marked, since boxes would hide the weights: they lie on the diagonal that begins where the "
    "rows of the copy begin."
)
_LINE = 64  # tokens of the copy in a line
_LINES = 32
_TOP = 8
_PALETTE = ("cividis", "sqrt")


def string_page(run: str, name: str, capture: Capture, index: int) -> Document:
    """Return the page of string `index` of the capture called `name`."""
    string = capture.string(index)
    page = Document(f"{name} #{index}", f"{run} at step {capture.about.get('step', '?')}: {copy_of(capture, index)}.")
    page.section("The copy", "Right tokens above, the model's below where they differ.")
    _copy(page, capture, string)
    _attention(page, run, capture, string)
    _coordinates(page, capture, string)
    _first_error(page, capture, string)
    return page


def copy_of(capture: Capture, index: int) -> str:
    """Return in words how the copy of a string went."""
    entry = capture.about["strings"][index]
    what = f"{entry.get('length', 0):,} tokens, {capture.about.get('distribution', 'unknown')}"
    if entry.get("exact", True):
        return f"{what}: copied exactly"
    first = entry.get("first_error")
    where = "only EOS is wrong" if first == entry.get("length") else f"first wrong token of the copy: {first}"
    return f"{what}: {where}"


def pattern_codes(string: CapturedString, layer: int, head: int) -> np.ndarray:
    """Return UInt8[R, C], at most 128 a side: a head's pattern, max-pooled, as `figures.attention.encode` codes it."""
    pooled = string.head(layer, head).pooled(out=THUMBNAIL)
    return encode(pooled.values, pooled.row_edges, pooled.col_edges)


def _heads(capture: Capture) -> Iterator[tuple[int, int]]:
    return ((layer, head) for layer, count in enumerate(capture.heads) for head in range(count))


def _copy(page: Document, capture: Capture, string: CapturedString) -> None:
    """The copied tokens in lines, wrong predictions below the right tokens."""
    scored = np.flatnonzero(string.predicted >= 0)
    rows = []
    for start in range(0, min(len(scored), _LINE * _LINES), _LINE):
        part = scored[start : start + _LINE]
        wrong = string.predicted[part] != string.targets[part]
        names = [(visible(capture.names[t]), visible(capture.names[p])) for t, p in _pairs(string, part)]
        widths = [max(len(a), len(b)) for a, b in names]
        right = [
            Mark(a.ljust(w), "strong") if bad else a.ljust(w)
            for (a, _), w, bad in zip(names, widths, wrong, strict=True)
        ]
        given = [
            Mark(b.ljust(w), "bad") if bad else " " * w for (_, b), w, bad in zip(names, widths, wrong, strict=True)
        ]
        rows.append([start, Tokens(right)])
        if wrong.any():
            rows.append(["", Tokens(given)])
    page.table([">from token", "copy"], rows)
    left = len(scored) - _LINE * _LINES
    if left > 0:
        page.paragraphs(f"{left:,} more tokens are not listed.")


def _pairs(string: CapturedString, part: np.ndarray) -> list[tuple[int, int]]:
    return list(zip(string.targets[part].tolist(), string.predicted[part].tolist(), strict=True))


def _attention(page: Document, run: str, capture: Capture, string: CapturedString) -> None:
    length = len(string.tokens)
    page.section(
        "Where every head looks",
        "Queries run down, keys across; the paper's horizontal stripes are vertical here. Colours are the square root "
        "of the weight." + (" Each cell is the largest weight in it." if length > EXACT_UP_TO else ""),
    )
    heads = list(_heads(capture))
    marked = length <= _MARKED
    page.paragraphs("The true source of every copied token is boxed." if marked else _UNMARKED)
    for layer, head in heads[:MOST_MAPS]:
        crop = Crop(string, layer, head, slice(0, length), slice(0, length))
        figure = draw(crop, title=run, bins=EXACT_UP_TO if length > EXACT_UP_TO else None, source=marked)
        figure.update_layout(paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", height=560, width=680)
        page.figure(figure, f"Layer {layer}, head {head}: {_on_source(string, layer, head)}")
    if len(heads) > MOST_MAPS:
        page.subheading("Further heads")
        page.pictures([_picture(string, layer, head) for layer, head in heads[MOST_MAPS:]])


def _coordinates(page: Document, capture: Capture, string: CapturedString) -> None:
    """Where every layer puts the tokens; a scheme without coordinates has none to draw."""
    placed = [layer for layer in range(capture.n_layers) if string.coords(layer) is not None]
    if not placed:
        return
    page.section("Where tokens stand")
    for layer in placed:
        page.subheading(f"Layer {layer}: {scheme_style(capture.rules[layer].scheme).label}")
        for figure in coordinate_figures(string, layer, str(capture.about.get("separator", "\n"))).values():
            page.figure(figure.update_layout(height=420), markup_of.unescape(figure.layout.title.text))


def _picture(string: CapturedString, layer: int, head: int) -> Picture:
    content = png(pattern_codes(string, layer, head), colors(*_PALETTE))
    said = _on_source(string, layer, head)
    return Picture(content, f"attention pattern of layer {layer}, head {head}", f"{layer}.{head}: {said}")


def _on_source(string: CapturedString, layer: int, head: int) -> str:
    """The mean weight of the scored queries on their true sources, in words."""
    source = np.asarray(string.source_position)
    queries = np.flatnonzero(source >= 0)
    if not len(queries):
        return "no query has a source"
    weights = string.head(layer, head).weights_at(queries, source[queries])
    return f"mean weight on the true source {weights.mean():.2f}"


def _first_error(page: Document, capture: Capture, string: CapturedString) -> None:
    """What every head attends to at the first wrong row."""
    wrong = np.flatnonzero((string.predicted >= 0) & (string.predicted != string.targets))
    if not len(wrong):
        return
    row = int(wrong[0])
    right, given = (visible(capture.names[int(t[row])]) for t in (string.targets, string.predicted))
    source = int(string.source_position[row])
    page.section(
        "The first error",
        f"The query at position {row} answers {given} where {right} is right; its true source is position {source}.",
    )
    names, anchors = string.token_names, set(np.asarray(string.anchor_positions).tolist())
    rows = []
    for layer, head in _heads(capture):
        keys, weights = string.head(layer, head).top_keys(row, _TOP)
        said = [
            f"{key} {visible(names[key])} {weight:.2f}"
            + (" source" if key == source else " anchor" if key in anchors else "")
            for key, weight in zip(keys.tolist(), weights.tolist(), strict=True)
            if weight >= 0.005
        ]
        scheme = scheme_style(capture.rules[layer].scheme).label
        rows.append([Mark(f"{layer}.{head}", "strong"), markup_of.unescape(scheme), "; ".join(said)])
    page.table(["head", "scheme", "attends most to: position, token, weight"], rows)
