"""What is selected, and how an address, a click or a drag changes it."""

import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.dashboard.beside import Beside
from workbench.dashboard.pages.attention_map import cells_for, clicked_cell, zoom_of
from workbench.dashboard.pages.attention_row import around
from workbench.dashboard.state import MAX_QUERY, ViewState, Zoom

# ---- the address -----------------------------------------------------------------------------------------------------


ids = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,40}", fullmatch=True)
counts = st.integers(0, 10**9 - 1)
spans = st.tuples(counts, counts).filter(lambda pair: pair[0] != pair[1]).map(sorted)
zooms = st.builds(lambda rows, cols: Zoom(*rows, *cols), spans, spans)
views = st.builds(
    ViewState,
    run=st.none() | ids,
    runs=st.lists(ids, max_size=5, unique=True).map(tuple),
    capture=st.none() | ids,
    string=st.none() | counts,
    layer=counts,
    head=counts,
    row=st.none() | counts,
    zoom=st.none() | zooms,
    scale=st.sampled_from(["sqrt", "linear"]),
    palette=st.sampled_from(["cividis", "viridis"]),
    source=st.booleans(),
    checkpoint=st.none() | counts,
    of=st.none() | ids,
    failing=st.booleans(),
    fed=st.none() | st.dictionaries(counts, counts, min_size=1, max_size=5).map(lambda fed: tuple(sorted(fed.items()))),
    beside=st.none() | st.builds(Beside, head=st.none() | counts, run=st.none() | ids, checkpoint=st.none() | counts),
)


@given(views)
def test_every_view_is_a_link_and_back(view: ViewState) -> None:
    query = view.query()
    assert ViewState.parse(query) == (view, [])
    assert query.isascii()
    assert " " not in query


def test_the_address_carries_only_what_is_not_default() -> None:
    assert ViewState().query() == ""
    assert ViewState(layer=2, source=False).query() == "?layer=2&source=off"
    assert ViewState(run="a", layer=2).query(("layer",)) == "?layer=2"


def test_unknown_keys_are_ignored_with_a_note() -> None:
    view, notes = ViewState.parse("?layer=1&laier=2")
    assert view == ViewState(layer=1)
    assert len(notes) == 1
    assert "laier" in notes[0]
    assert "layer" in notes[0], "the note names what is known"


@pytest.mark.parametrize(
    "query",
    ["?layer=x", "?layer=-1", "?layer=1e9", "?run=../etc", "?run=", "?zoom=5-2.0-1", "?zoom=1", "?scale=log",
     "?source=maybe", "?string=١", "?runs=a,,b", "?row=NaN", "?layer=99999999999999", "?fed=",
     "?fed=3", "?fed=3:x", "?fed=1:0,"],
)  # fmt: skip
def test_bad_values_fall_back_to_the_default_with_a_readable_note(query: str) -> None:
    view, notes = ViewState.parse(query)
    assert view == ViewState()
    assert len(notes) == 1
    assert "expected" in notes[0]
    assert not notes[0].endswith("..")


@given(st.text(max_size=300) | st.integers() | st.lists(st.integers()) | st.none() | st.booleans())
def test_parsing_an_address_never_raises(query: Any) -> None:
    view, notes = ViewState.parse(query)
    assert isinstance(view, ViewState)
    assert all(isinstance(note, str) and len(note) < 300 for note in notes)


def test_an_endless_address_is_refused_in_a_line() -> None:
    assert ViewState.parse("?run=" + "a" * MAX_QUERY)[0] == ViewState()
    assert len(ViewState.parse("?" + "&".join(f"k{i}=1" for i in range(500)))[1]) <= 8


def test_a_new_choice_forgets_what_belonged_to_the_one_before() -> None:
    view = ViewState(run="a", capture="c", string=3, layer=1, head=2, row=9, zoom=Zoom(0, 2, 0, 2))
    other = view.change(run="b")
    assert other == ViewState(run="b", layer=1, head=2)
    assert view.change(string=4) == dataclasses.replace(view, string=4, row=None, zoom=None)
    assert view.change(head=0) == dataclasses.replace(view, head=0), "the same rows of another head"
    assert view.change(run="a") == view


def test_weights_belong_to_a_run_and_stay_from_string_to_string() -> None:
    view = ViewState(run="a", capture="c", string=3, checkpoint=50, of="z")
    assert view.change(string=4).checkpoint == 50
    assert view.change(run="b") == ViewState(run="b")


def test_ticking_runs_is_by_id_and_keeps_the_order() -> None:
    view = ViewState().toggle_run("b").toggle_run("a")
    assert view.runs == ("b", "a")
    assert view.toggle_run("b").runs == ("a",)


@given(zooms, st.integers(1, 500))
def test_a_zoom_is_cut_to_the_map(zoom: Zoom, length: int) -> None:
    inside = zoom.within(length)
    assert 0 <= inside.top < inside.bottom <= length
    assert 0 <= inside.left < inside.right <= length


# ---- events of the map -----------------------------------------------------------------------------------------------


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)
axis_keys = st.sampled_from(
    ["xaxis.range[0]", "xaxis.range[1]", "yaxis.range[0]", "yaxis.range[1]", "xaxis.range", "yaxis.autorange"]
)


@given(junk | st.dictionaries(axis_keys, junk, max_size=4), st.none() | zooms, st.integers(1, 300))
def test_no_event_makes_an_impossible_zoom(event: Any, before: Zoom | None, length: int) -> None:
    zoom = zoom_of(event, before.within(length) if before else None, length)
    assert zoom is None or zoom == zoom.within(length)


def test_a_dragged_box_becomes_whole_tokens() -> None:
    event = {"xaxis.range[0]": 2.7, "xaxis.range[1]": 9.2, "yaxis.range[0]": 30.4, "yaxis.range[1]": 11.6}
    assert zoom_of(event, None, 100) == Zoom(12, 31, 3, 10)
    assert zoom_of({"xaxis.range[0]": 5.0, "xaxis.range[1]": 7.0}, Zoom(1, 9, 0, 50), 100) == Zoom(1, 9, 5, 8)
    assert zoom_of({"xaxis.range": [-9, 1e6], "yaxis.range": [1e6, -9]}, Zoom(1, 9, 0, 50), 100) is None
    assert zoom_of({"autosize": True}, Zoom(1, 9, 0, 50), 100) == Zoom(1, 9, 0, 50)


@given(junk)
def test_no_click_makes_an_impossible_cell(click: Any) -> None:
    for event in (click, {"points": click}, {"points": [{"x": 1, "y": click}]}, {"points": [{"x": click, "y": 1}]}):
        cell = clicked_cell(event)
        assert cell is None or all(0 <= at < 10**9 for at in cell)


def test_a_click_names_the_cell_it_fell_on() -> None:
    assert clicked_cell({"points": [{"x": 3, "y": 71}]}) == (71, 3)
    assert clicked_cell({"points": [{"x": 3, "y": math.nan}]}) is None


def test_a_map_that_is_dragged_over_its_edge_keeps_its_size() -> None:
    event = {"xaxis.range[0]": -20.5, "xaxis.range[1]": 19.5, "yaxis.range[0]": 109.5, "yaxis.range[1]": 69.5}
    assert zoom_of(event, Zoom(10, 50, 10, 50), 100) == Zoom(60, 100, 0, 40)


@given(st.none() | st.integers())
def test_a_pooled_map_never_has_more_cells_than_pixels_nor_more_than_may_be_sent(pixels: int | None) -> None:
    cells = cells_for(pixels)
    assert 256 <= cells <= 960
    assert pixels is None or cells <= max(pixels, 256)


@given(st.integers(1, 30_000), st.data())
def test_jumping_to_a_key_shows_its_cell_and_pins_the_row(length: int, data: st.DataObject) -> None:
    row, key = (data.draw(st.integers(0, length - 1)) for _ in range(2))
    view = around(ViewState(tab="tokens"), row, key, length)
    zoom = view.zoom or Zoom(0, length, 0, length)
    assert zoom == zoom.within(length)
    assert zoom.top <= row < zoom.bottom and zoom.left <= key < zoom.right
    assert zoom.bottom - zoom.top == zoom.right - zoom.left == min(64, length)
    assert (view.row, view.tab) == (row, "map")


@pytest.mark.parametrize("query", ["?step=300", "?checkpoint=300", "?step=300&checkpoint=300"])
def test_weights_are_named_alike_on_all_pages_and_in_older_links(query: str) -> None:
    view, notes = ViewState.parse(query)
    assert (view, notes) == (ViewState(checkpoint=300), [])
    assert view.query() == "?checkpoint=300"


def test_a_note_calls_a_setting_as_the_address_does() -> None:
    assert ViewState.parse("?step=x")[1] == ["Ignored step=x in the address: expected a whole number from 0."]
