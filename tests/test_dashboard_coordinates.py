"""The numbers of the Coordinates page: what they say of every scheme, in words, figures and tables."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dash import dcc, html
from dash.development.base_component import Component

from analyses.collisions import Collisions
from analyses.coordinates import Alignment, RuleFit
from analyses.saturation import Saturation, TokenClass
from tests import fake_store
from workbench.dashboard.data import Data
from workbench.dashboard.pages.coordinates import figures
from workbench.dashboard.pages.coordinates_numbers import numbers
from workbench.dashboard.selection import select
from workbench.dashboard.state import ViewState
from workbench.figures.coordinate_numbers import (
    alignment_finding,
    collision_finding,
    column_bound,
    fit_finding,
    gap_finding,
    query_offsets,
    saturation_finding,
)
from workbench.runs import Store


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Data, Path, dict[str, str]]:
    root = tmp_path_factory.mktemp("coordinates") / "store"
    ids = fake_store.fill(root)
    fake_store.add_capture(root / ids["nope"], ["nope"], [4], n=20, strings=1, name="short")
    return Data(Store(root)), root, ids


def parts_of(component: Any) -> Iterator[Any]:
    """A component and everything in it."""
    yield component
    children = getattr(component, "children", component if isinstance(component, list | tuple) else None)
    for child in children if isinstance(children, list | tuple) else [children]:
        if isinstance(child, Component | list | tuple):
            yield from parts_of(child)


def text_of(component: Any) -> str:
    return " ".join(
        child
        for part in parts_of(component)
        for child in (
            part.children if isinstance(getattr(part, "children", None), list) else [getattr(part, "children", "")]
        )
        if isinstance(child, str)
    )


def shown(filled: tuple[Data, Path, dict[str, str]], role: str, **view: Any) -> Component:
    data, _, ids = filled
    return numbers(select(data, ViewState(run=ids[role], **view)))


def aligned(offset: np.ndarray, spacing: float = 1.0, rows: bool = True) -> Alignment:
    constant = float(np.median(offset[1:]))
    return Alignment(
        offset=offset,
        row_offset=np.ones(len(offset)) if rows else None,
        spacing=np.full(len(offset), spacing),
        constant=constant,
        drift=float(offset[-1] - offset[1]),
        deviation=float(offset[1:].std()),
        slope=0.0,
        misaligned=(offset - constant) / spacing if spacing else np.where(offset == constant, 0.0, inf),
    )


def test_learned_coordinates_are_told_in_words_figures_and_tables(filled: tuple[Data, Path, dict[str, str]]) -> None:
    page = shown(filled, "auto2d")
    said = text_of(page)
    for finding in ("turned back by", "of its bound of", "R² ", "rows start at token", "tells columns apart"):
        assert finding in said, finding
    graphs = [part.id for part in parts_of(page) if isinstance(part, dcc.Graph)]
    assert graphs == ["coordinates-offset", "coordinates-bound"]
    for figure in (part for part in parts_of(page) if isinstance(part, html.Figure)):
        assert any(isinstance(part, html.Figcaption) for part in parts_of(figure))
        assert any(isinstance(part, html.Details) for part in parts_of(figure))


@pytest.mark.parametrize("role", ["rope", "rope2d", "again"])
def test_what_a_scheme_does_not_have_is_said_so(filled: tuple[Data, Path, dict[str, str]], role: str) -> None:
    if role == "again":
        data, root, ids = filled
        [about] = root.glob(f"{ids['rope2d']}/captures/*/capture.json")
        older = json.loads(about.read_text())
        for layer in older["layers"]:
            del layer["frequencies"]
        copy = root / ids["failed"] / "captures" / "older"
        copy.mkdir(parents=True, exist_ok=True)
        for file in about.parent.iterdir():
            (copy / file.name).write_bytes(file.read_bytes())
        (copy / "capture.json").write_text(json.dumps(older))
        said = text_of(numbers(select(data, ViewState(run=ids["failed"], capture="older"))))
        assert "capture the string again" in said
        return
    said = text_of(shown(filled, role))
    assert "Not measurable: " in said and "learns no steps" in said
    assert "Aligned: every query stands" in said
    assert ("positions from its source" in said) == (role == "rope")
    assert "nan" not in said.lower()


def test_a_layer_without_coordinates_has_no_numbers(filled: tuple[Data, Path, dict[str, str]]) -> None:
    page = shown(filled, "nope")
    assert "Not measurable: nope gives attention no coordinates" in text_of(page)
    assert not [part for part in parts_of(page) if isinstance(part, dcc.Graph)]


def test_every_figure_of_the_page_has_its_finding_as_text(filled: tuple[Data, Path, dict[str, str]]) -> None:
    data, _, ids = filled
    for role in ("auto2d", "rope2d", "rope", "nope"):
        page = figures(select(data, ViewState(run=ids[role])))
        graphs = [part for part in parts_of(page) if isinstance(part, dcc.Graph)]
        captions = [part.children for part in parts_of(page) if isinstance(part, html.Figcaption)]
        assert graphs and len(captions) == len(graphs) and all(captions)


def test_a_long_string_is_sent_thinned(tmp_path: Path) -> None:
    root = tmp_path / "store"
    root.mkdir()
    run = fake_store.add_run(root, "auto2d-1l-s0-77b0", "auto2d-1l", ["auto2d"], [2])
    fake_store.add_capture(root / run, ["auto2d"], [2], n=1200, strings=1)
    page = numbers(select(Data(Store(root)), ViewState()))
    assert len(json.dumps(page.to_plotly_json(), default=lambda part: part.to_plotly_json())) < 600_000
    assert "of 1,201, evenly spaced" in text_of(page)


def test_token_text_is_never_markup(tmp_path: Path) -> None:
    root = tmp_path / "store"
    root.mkdir()
    run = fake_store.add_run(root, "auto2d-1l-s0-77b0", "auto2d-1l", ["auto2d"], [2])
    names = ["<b>x</b>", "\u202ey\u200b", *fake_store.NAMES[2:]]
    fake_store.add_capture(root / run, ["auto2d"], [2], n=20, strings=1, names=names)
    page = numbers(select(Data(Store(root)), ViewState()))
    drawn = json.dumps(
        [part.figure.to_plotly_json() for part in parts_of(page) if isinstance(part, dcc.Graph)],
        default=str,
        ensure_ascii=False,
    )
    assert "<b>x" not in drawn and "\u202e" not in drawn and "&lt;b&gt;" in drawn
    assert "\u202e" not in text_of(page)


def test_alignment_is_judged_against_the_spacing() -> None:
    drifting = np.linspace(0, 0.6, 41)
    assert alignment_finding(aligned(drifting)).startswith("Aligned: one constant, 0.31 columns")
    said = alignment_finding(aligned(drifting, spacing=0.2))
    assert said.startswith("Misaligned") and "from k = 1 on" in said and "1.5 tokens" in said
    jump = np.array([5.0, *([-1.0] * 20)])
    assert alignment_finding(aligned(jump)) == (
        "Aligned: every query stands −1.00 columns from its source. The first query, on the delimiter, is 6.0 tokens "
        "off: only its own token can tell where to look."
    )
    assert "positions" in alignment_finding(aligned(np.full(5, 9.0), rows=False))
    together = alignment_finding(aligned(np.array([0.0, 0.0, 0.0, 0.5]), spacing=0.0))
    assert "inf" not in together and "nan" not in together


def test_the_band_is_half_of_the_spacing() -> None:
    found = aligned(np.full(11, 2.0), spacing=0.5)
    figure = query_offsets(replace(found, spacing=np.append(found.spacing[:-1], inf)), title="t")
    band = np.asarray(figure.data[0].y)
    assert band.max() == 2.25 and band.min() == 1.75
    far = query_offsets(aligned(np.array([90.0, 2.0, 2.0])), title="t")
    assert far.layout.yaxis.range[1] < 10 and "first query" in far.layout.annotations[0].text


def saturated(u: float, bound: float, half: int | None) -> Saturation:
    token = TokenClass("0", 40, u, 1.0, 0.0, bound, inf if u == 1 else 1 / (1 - u), half)
    columns = np.arange(41.0) if u == 1 else bound * (1 - u ** np.arange(41))
    return Saturation((token,), columns, bound, 0.0 if bound == inf else columns[-1] / bound, None, half)


def test_the_bound_is_drawn_where_it_is_within_reach() -> None:
    near = column_bound(saturated(0.95, 20.0, 14), title="t")
    assert near.layout.yaxis.range[1] == pytest.approx(1.08 * 20)
    assert any(shape.y0 == 20 for shape in near.layout.shapes)
    for u, bound in ((1.0, inf), (0.9999, 10_000.0)):
        far = column_bound(saturated(u, bound, None), title="t")
        assert far.layout.yaxis.range[1] < 250 and not any(shape.y0 == bound for shape in far.layout.shapes)
        assert "bound" in far.layout.annotations[0].text
    assert saturation_finding(saturated(1.0, inf, None)) == "No token's gate is below 1: the column has no bound."
    assert "expected less than half of one away from token 14 on" in saturation_finding(saturated(0.95, 20.0, 14))
    measured = replace(saturated(0.95, 20.0, 14), half_at=15)
    assert saturation_finding(measured).endswith("from token 15 on the next column is less than half of one away.")


def test_collisions_are_counted_in_words() -> None:
    at = np.array([10, 20])
    free = Collisions(1, 9.0, 0.4, at, np.array([0, 0]), np.array([0, 0]), np.array([0.9, 0.5]))
    assert collision_finding(free, 2).startswith("Head 2.1 tells columns apart that are 0.400 or more apart")
    assert "so none collide" in collision_finding(free, 2)
    some = replace(free, pairs=np.array([0, 1]))
    assert collision_finding(some, 0).endswith("1 pair of source columns is nearer, none in its first 10 tokens.")
    every = replace(free, pairs=np.array([3, 7]))
    assert collision_finding(every, 0).endswith("7 pairs of source columns are nearer.")
    assert gap_finding(free, 0) == gap_finding(replace(free, located_by=0, gap=np.ones(2)), 0) == ""
    measured = replace(free, located_by=0, gap=np.array([-9.0, *[3.0] * 20, *[-0.5] * 20, -20.0]))
    assert "3.0 logits above the better of its neighbours at first and −0.5 at last" in gap_finding(measured, 2)
    assert "say too little" in collision_finding(replace(free, resolution=inf), 0)


def test_starts_of_rows_are_named() -> None:
    fit = RuleFit(None, None, np.arange(1, 10), np.array([3]))
    said = fit_finding(fit, [f"t{i}" for i in range(12)])
    assert "1 (t1)" in said and "and 3 more" in said and said.endswith("by rule at 3 (t3).")
    assert re.search("Neither rows nor columns change", said)
