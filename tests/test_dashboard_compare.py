"""Two subjects side by side and their difference, without a browser."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from dash import Dash
from flask.testing import FlaskClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.errors import WorkbenchError
from tests import fake_store
from tests.checkpointed import chosen, compared
from tests.test_dashboard import call, hostile, request_for, server_callbacks
from workbench.dashboard import create_app
from workbench.dashboard.beside import Beside, difference, read_beside, second_view, write_beside
from workbench.dashboard.comparison import most_moved, names, pair_of, second_of, start, subtracted, swapped
from workbench.dashboard.data import Data
from workbench.dashboard.pages import attention_choices, attention_compare, coordinates_compare
from workbench.dashboard.selection import select
from workbench.dashboard.state import ViewState
from workbench.figures.coordinates import path_difference
from workbench.figures.difference import difference_map, reach_of
from workbench.runs import Store
from workbench.views import tokens_of

STEPS = (5, 10, 15, 20)


@pytest.fixture(scope="module")
def app(checkpointed_store: tuple[Path, dict[str, str]]) -> Dash:
    return create_app(checkpointed_store[0])


@pytest.fixture
def trained(checkpointed_store: tuple[Path, dict[str, str]]) -> tuple[Path, dict[str, str]]:
    return checkpointed_store


# ---- two subjects ----------------------------------------------------------------------------------------------------


counts = st.none() | st.integers(0, 10**9 - 1)
ids = st.none() | st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
besides = st.builds(
    Beside, run=ids, of=ids, capture=ids, checkpoint=counts, string=counts, layer=counts, head=counts,
    text=st.none() | st.from_regex(r"[0-9]{1,9}(\.[0-9]{1,3}){0,40}", fullmatch=True), failure=counts,
)  # fmt: skip


@given(besides)
def test_what_is_beside_a_view_is_a_link_and_back(beside: Beside) -> None:
    assert read_beside(write_beside(beside)) == beside
    view = ViewState(beside=beside)
    assert ViewState.parse(view.query()) == (view, [])


@pytest.mark.parametrize(
    "text", ["", "head", "head:", "head:x", "head:1,head:2", "row:3", "run:../x", "head:1,", "same,head:1"]
)
def test_a_bad_second_subject_is_noted(text: str) -> None:
    view, notes = ViewState.parse(f"?beside={text}")
    assert view == ViewState()
    assert len(notes) == 1 and "layer:1,head:0" in notes[0]


def test_the_second_subject_follows_what_it_does_not_name() -> None:
    view = ViewState(run="a", capture="c", string=3, layer=1, row=9, beside=Beside(head=2))
    assert second_view(view) == replace(view, head=2, beside=None)
    walked = view.change(string=4)
    assert second_view(walked).string == 4
    other = second_view(replace(view, beside=Beside(run="b")))
    assert (other.run, other.of, other.capture, other.string) == ("b", "a", "c", 3), "the same string"
    own = second_view(replace(view, beside=Beside(run="b", capture="d")))
    assert (own.run, own.of, own.capture, own.string) == ("b", None, "d", None)
    assert view.change(run="z").beside == Beside(head=2)
    kept = replace(view, beside=Beside(checkpoint=5, head=2)).change(run="z")
    assert kept.beside == Beside(head=2), "a step of the old run is dropped"


some = st.sampled_from
subjects = st.builds(
    ViewState, run=some("ab"), of=some([None, "a", "b", "c"]), capture=some("xy"), checkpoint=some([None, 1, 2]),
    string=some([0, 1]), layer=some([0, 1]), head=some([0, 1]),
).map(lambda view: replace(view, of=None if view.of == view.run else view.of))  # fmt: skip


@given(subjects, subjects)
def test_every_second_subject_can_be_said(one: ViewState, other: ViewState) -> None:
    """What `difference` names leads to the subject; a step at rest is named by its number where it has to be."""
    step = 7 if other.checkpoint is None else other.checkpoint
    found = second_view(replace(one, beside=difference(one, other, step)))
    assert replace(found, checkpoint=None) == replace(other, checkpoint=None)
    assert found.checkpoint == other.checkpoint or (other.checkpoint is None and found.checkpoint == 7)


@pytest.mark.parametrize("beside", ["head:1", "layer:1,head:0", "checkpoint:5", "string:1", "same", "run:auto2d"])
def test_swapping_twice_is_the_same_comparison(data: Data, trained: tuple[Path, dict[str, str]], beside: str) -> None:
    view = ViewState(run=trained[1]["rope"], beside=read_beside(beside.replace("auto2d", trained[1]["auto2d"])))
    pair = compared(data, view)
    turned = compared(data, swapped(pair))
    for first, second in ((pair.first, turned.second), (pair.second, turned.first)):
        assert (first.run.id, first.owner.id, first.step) == (second.run.id, second.owner.id, second.step)
        for name in ("capture", "string", "layer", "head"):
            assert getattr(first.view, name) == getattr(second.view, name)
    again = compared(data, swapped(turned))
    assert again.first.view.query(("string", "layer", "head")) == pair.first.view.query(("string", "layer", "head"))
    assert names(again) == names(pair)


def test_a_comparison_begins_with_something_else(data: Data, trained: tuple[Path, dict[str, str]]) -> None:
    rope = ViewState(run=trained[1]["rope"])
    assert start(data, chosen(data, rope)) == Beside(head=1)
    assert start(data, chosen(data, replace(rope, layer=1))) == Beside(layer=0, head=0)
    assert start(data, chosen(data, rope), by_head=False).checkpoint in STEPS[:-1]


def test_both_share_rows_and_zoom(data: Data, trained: tuple[Path, dict[str, str]]) -> None:
    view, _ = ViewState.parse(f"?run={trained[1]['rope']}&row=7&zoom=4-12.0-9&beside=head:1")
    pair = compared(data, view)
    assert pair.first.row == pair.second.row == 7
    assert pair.first.view.zoom == pair.second.view.zoom == pair.part


# ---- differences -----------------------------------------------------------------------------------------------------


def test_the_colour_range_is_symmetric_and_zero_is_not_painted(
    data: Data, trained: tuple[Path, dict[str, str]]
) -> None:
    pair = compared(data, ViewState(run=trained[1]["rope"], beside=Beside(head=1)))
    found = subtracted(data, pair, 256)
    figure = difference_map(found, tokens_of(pair.first.string), title="x", differing=[3])
    heat = figure.data[0]
    assert -heat.zmin == heat.zmax == reach_of(found) >= np.nanmax(np.abs(found.values))
    stops = dict(heat.colorscale)
    assert stops[0.5].endswith(", 0)") or stops[0.5].endswith(",0.0)") or stops[0.5].endswith(",0)")
    places = sorted(stops)
    assert places == pytest.approx([1 - at for at in reversed(places)])


def test_the_finding_names_the_query_that_moved_most(data: Data, trained: tuple[Path, dict[str, str]]) -> None:
    pair = compared(data, ViewState(run=trained[1]["rope"], beside=Beside(head=1)))
    found = subtracted(data, pair, 256)
    rows = most_moved(pair, found)
    assert rows[0].share == pytest.approx(float(found.moved.max()))  # type: ignore[union-attr]
    assert [row.share for row in rows] == sorted((row.share for row in rows), reverse=True)
    weights = pair.first.string.head(0, 0).row(rows[0].query)
    assert rows[0].keys[0] == int(weights.argmax()) and rows[0].weights[0] == pytest.approx(float(weights.max()))
    assert "alike" not in written(attention_compare.finding(pair, found))
    same = compared(data, ViewState(run=trained[1]["rope"], beside=Beside()))
    alike = json.dumps(
        attention_compare.finding(same, subtracted(data, same, 256)), default=lambda part: part.to_plotly_json()
    )
    assert "both attend alike" in alike


def written(parts: Any) -> str:
    return json.dumps(parts, default=lambda part: part.to_plotly_json(), ensure_ascii=False)


def test_the_finding_is_of_one_set_of_queries(tmp_path: Path) -> None:
    """Where it takes the mean of the queries that copy, the one that moved most is one of them."""
    data, view = two_lengths(tmp_path / "store")
    others = 0
    for at in range(2):
        pair = pair_of(data, replace(view, string=at, beside=Beside(head=1)))
        every = slice(0, pair.length)
        one, other = (c.string.head(0, c.view.head).tile(every, every) for c in (pair.first, pair.second))
        moved = np.abs(one - other).sum(axis=1) / 2
        copying = np.flatnonzero(np.asarray(pair.first.string.source_position) >= 0)
        others += int(moved.argmax()) not in copying
        said = written(attention_compare.finding(pair, subtracted(data, pair, 256)))
        assert f"most at query {copying[moved[copying].argmax()]} " in said
        assert f'"{moved[copying].mean():.0%}"' in said and "queries that copy" in said
    assert others, "another query moved more, else this shows nothing"


def two_lengths(root: Path) -> tuple[Data, ViewState]:
    """A view that compares strings of 46 and 126 tokens."""
    ids = fake_store.fill(root)
    fake_store.add_capture(root / ids["rope"], ["rope", "rope"], [2, 1], n=20, strings=2, name="short")
    long = capture_of(root, ids["rope"])
    return Data(Store(root)), ViewState(run=ids["rope"], capture="short", beside=read_beside(f"capture:{long}"))


def test_a_copy_that_begins_elsewhere_is_said(tmp_path: Path) -> None:
    data, view = two_lengths(tmp_path / "store")
    pair = pair_of(data, view)
    first, second = (
        int(np.flatnonzero(np.asarray(c.string.source_position) >= 0)[0]) for c in (pair.first, pair.second)
    )
    assert pair.copies_begin == (first, second) and first < second
    said = written(attention_compare.finding(pair, subtracted(data, pair, 256)))
    assert f"predicted at position {first} in the first and {second} in the second" in said
    assert "of the attention of the first's queries that copy" in said


def test_a_row_that_the_second_has_not_is_no_other_row_of_it(tmp_path: Path) -> None:
    data, view = two_lengths(tmp_path / "store")
    turned = swapped(pair_of(data, view))
    first = select(data, replace(turned, row=100))
    second = second_of(data, first, turned)
    assert (first.row, second.row, second.n_tokens) == (100, 100, 46)
    assert second.notes == ()


def test_two_subjects_that_are_one_are_said_to_be(data: Data, trained: tuple[Path, dict[str, str]]) -> None:
    for beside, same in ((Beside(), True), (Beside(head=0), True), (Beside(head=1), False)):
        pair = compared(data, ViewState(run=trained[1]["rope"], beside=beside))
        assert pair.same is same
        assert ("Both are the same" in " ".join(attention_choices.notes_of(pair))) is same
    replaced = compared(data, ViewState(run=trained[1]["rope"], beside=Beside(head=7)))
    assert attention_choices.notes_of(replaced)[0].startswith("Second: Layer 0 has no head 7")


def test_lists_are_of_the_run_that_the_second_names_before_it_can_be_shown(
    data: Data, trained: tuple[Path, dict[str, str]]
) -> None:
    first = chosen(data, ViewState(run=trained[1]["rope"]))
    beside = Beside(run=trained[1]["auto2d"], capture=data.run(trained[1]["auto2d"]).captures[0], head=1)
    listed = {choice.name: choice for choice in attention_choices.choices(data, beside, first, None)}
    assert [value for value, _ in listed["head"].options or ()] == ["0.0", "0.1"], "rope has 1.0 too"
    assert listed["head"].value == "0.1" and listed["run"].value == trained[1]["auto2d"]
    strings = data.capture(trained[1]["auto2d"], str(beside.capture)).about["strings"]
    assert [text.split(" · ")[1] for _, text in listed["string"].options or ()] == [
        f"n = {s['length']}" for s in strings
    ]


def test_strings_of_other_lengths_and_tokens_are_said(tmp_path: Path) -> None:
    root = tmp_path / "store"
    ids = fake_store.fill(root)
    fake_store.add_capture(root / ids["rope"], ["rope", "rope"], [2, 1], n=20, strings=2, name="short")
    data = Data(Store(root))
    pair = pair_of(
        data,
        ViewState(run=ids["rope"], capture="short", beside=read_beside("capture:" + capture_of(root, ids["rope"]))),
    )
    assert pair.length == 46 == pair.part.bottom
    said = json.dumps(
        attention_compare.finding(pair, subtracted(data, pair, 256)), default=lambda part: part.to_plotly_json()
    )
    assert "46 and 126 tokens" in said and f"{len(pair.differing)} of 46 tokens differ" in said


def capture_of(root: Path, run: str) -> str:
    return next(path.name for path in (root / run / "captures").iterdir() if path.name.startswith("imbalanced"))


def test_maps_of_very_long_strings_say_that_maxima_are_subtracted(tmp_path: Path) -> None:
    root = tmp_path / "store"
    ids = fake_store.fill(root)
    fake_store.add_capture(root / ids["rope"], ["rope", "rope"], [2, 1], n=2200, strings=1, name="longer")
    data = Data(Store(root))
    pair = pair_of(data, ViewState(run=ids["rope"], capture="longer", beside=Beside(head=1)))
    until = time.monotonic() + 60
    while True:
        try:
            found = subtracted(data, pair, 300)
            break
        except WorkbenchError as pending:
            assert "is being computed" in str(pending) and time.monotonic() < until
            time.sleep(0.1)
    assert found.of_maxima
    said = json.dumps(attention_compare.finding(pair, found), default=lambda part: part.to_plotly_json())
    assert "the difference of the two largest weights" in said
    assert attention_compare.moved_table(pair, found) == []
    same = pair_of(data, ViewState(run=ids["rope"], capture="longer", beside=Beside()))
    assert "Both attend alike" in written(attention_compare.finding(same, subtracted(data, same, 300)))


def test_no_answer_is_longer_than_it_may_be_on_the_largest_screen(tmp_path: Path) -> None:
    """Half of a map lies in the future: its cells are one byte that was sent as six."""
    root = tmp_path / "store"
    ids = fake_store.fill(root)
    fake_store.add_capture(root / ids["rope"], ["rope", "rope"], [2, 1], n=1900, strings=1, name="longer")
    app = create_app(root)
    client = app.server.test_client()
    client.get("/")
    values = {"url.search": f"?run={ids['rope']}&capture=longer&beside=head:1", "attention-pixels.data": 100_000}
    for graph in ("attention-map", "compare-difference"):
        output = next(name for name in server_callbacks(app) if f"{graph}.figure" in name)
        answer = client.post("/_dash-update-component", json=request_for(app, output, values))
        cells = answer.get_json()["response"][graph]["figure"]["data"][0]["z"]["bdata"]
        assert len(cells) > 500_000 and "/" in cells
        assert len(answer.data) < 1_500_000, graph


# ---- the page --------------------------------------------------------------------------------------------------------


OPEN = {"attention-pixels.data": 512}


def drawn(app: Dash, client: FlaskClient, query: str) -> dict[str, Any]:
    """What the comparison shows once nothing is waited for."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        shown = call(app, client, "compare-map.figure", query, **OPEN)
        if shown["compare-tick"]["disabled"]:
            return shown
        time.sleep(0.05)
    raise AssertionError("the comparison was never drawn")


@pytest.mark.parametrize(
    "beside", ["head:1", "checkpoint:5", "string:1", "run:auto2d", "run:auto2d,head:1,checkpoint:10"]
)
def test_two_maps_and_their_difference_are_drawn(
    app: Dash, client: FlaskClient, trained: tuple[Path, dict[str, str]], beside: str
) -> None:
    shown = drawn(app, client, f"?run={trained[1]['rope']}&beside={beside.replace('auto2d', trained[1]['auto2d'])}")
    for graph in ("compare-map", "compare-difference"):
        assert shown[graph]["figure"]["data"][0]["type"] == "heatmap"
    assert "Swap" in json.dumps(shown["compare-bar"]["children"])
    assert shown["compare-finding"]["children"]


@pytest.mark.parametrize("beside", ["run:nobody", "capture:nothing", "of:nobody,capture:x"])
def test_a_second_subject_that_is_not_there_says_so_and_can_be_chosen_again(
    app: Dash, client: FlaskClient, trained: tuple[Path, dict[str, str]], beside: str
) -> None:
    shown = drawn(app, client, f"?run={trained[1]['rope']}&beside={beside}")
    assert "Unknown" in json.dumps(shown["compare-said"]["children"])
    assert "beside-run" in json.dumps(shown["compare-bar"]["children"])
    assert shown["compare-map"]["figure"]["data"] == []


def test_a_pinned_row_sends_no_cells_again(
    app: Dash, client: FlaskClient, trained: tuple[Path, dict[str, str]]
) -> None:
    query = f"?run={trained[1]['rope']}&beside=head:1"
    memory = drawn(app, client, query)["attention-compare-shows"]["data"]
    shown = call(
        app, client, "compare-map.figure", query + "&row=9", **OPEN, **{"attention-compare-shows.data": memory}
    )
    for graph in ("compare-map", "compare-difference"):
        assert [operation["location"] for operation in shown[graph]["figure"]["operations"]] == [["layout", "shapes"]]


def test_nothing_is_asked_for_while_nothing_is_compared(app: Dash, client: FlaskClient) -> None:
    """The components of a comparison are not in the page, so that no callback of theirs can be fired."""
    page = json.dumps(call(app, client, "page.children", "", **{"url.pathname": "/attention"}))
    assert '"attention-compare"' in page
    for name in ("compare-map", "compare-bar", "compare-tick", "attention-compare-shows"):
        assert f'"{name}"' not in page
    opened = json.dumps(call(app, client, "attention-compare.children", "", **{"attention-comparing.data": True}))
    assert '"compare-map"' in opened and '"attention-compare-shows"' in opened


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(value=hostile, query=st.sampled_from(["?beside=head:1", "?beside=checkpoint:3,string:99&checkpoint=7", "?of=x"]))
def test_no_argument_of_a_comparison_makes_it_fail(app: Dash, client: FlaskClient, value: Any, query: str) -> None:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        value = "NaN"
    for output in server_callbacks(app):
        if "compare" in output or any("compare" in part["id"] for part in app.callback_map[output]["inputs"]):
            body = request_for(app, output, {"url.search": query}, value)
            answer = client.post("/_dash-update-component", json=body)
            assert answer.status_code in (200, 204), (output, answer.text)


# ---- coordinates -----------------------------------------------------------------------------------------------------


def test_two_placements_are_drawn_in_one_figure(data: Data, trained: tuple[Path, dict[str, str]]) -> None:
    view = ViewState(run=trained[1]["auto2d"], beside=Beside(checkpoint=5))
    pair = compared(data, view)
    first, second = (coordinates_compare.path_of(part) for part in (pair.first, pair.second))
    assert first is not None and second is not None
    figure: go.Figure = coordinates_compare.both_paths(first, second, names(pair))
    apart = float(np.abs(first.columns - second.columns).max())
    assert figure.layout.title.text.startswith(f"Up to {apart:.1f} columns")
    assert np.array_equal(figure.data[-1].x, second.columns)
    assert coordinates_compare.path_of(chosen(data, ViewState(run=trained[1]["rope"]))) is None
    minus = path_difference(first, second)
    for trace, ours, theirs in zip(minus.data, (first.columns, first.rows), (second.columns, second.rows), strict=True):
        assert np.allclose(trace.y, np.asarray(ours) - np.asarray(theirs))
    low, high = minus.layout.yaxis.range
    assert low == -high and high >= apart
    shown = written(coordinates_compare.both(data, view, pair.first, {}))
    assert "Below stands the first alone" in shown and "Show as table" in shown
    same = coordinates_compare.both_paths(first, first, ("a", "b"))
    assert same.layout.title.text == "At the same places: a, dashed b"


def test_who_has_no_rows_and_columns_is_named(data: Data, trained: tuple[Path, dict[str, str]]) -> None:
    for run, beside, said in (
        ("rope", Beside(checkpoint=5), "RoPE, the first, and RoPE, the second, have none."),
        ("auto2d", Beside(run=trained[1]["rope"]), "RoPE, the second, has none."),
    ):
        view = ViewState(run=trained[1][run], beside=beside)
        shown = written(coordinates_compare.both(data, view, compared(data, view).first, {}))
        assert said in shown


def test_placements_of_strings_of_other_lengths_say_so(tmp_path: Path) -> None:
    root = tmp_path / "store"
    ids = fake_store.fill(root)
    for name, n in (("short", 20), ("shorter", 17)):
        fake_store.add_capture(root / ids["rope2d"], ["rope2d"], [2], n=n, strings=1, name=name)
    data, view = Data(Store(root)), ViewState(run=ids["rope2d"], capture="short", beside=Beside(capture="shorter"))
    pair = pair_of(data, view)
    shown = written(coordinates_compare.both(data, view, pair.first, {}))
    assert f"The strings have {pair.first.n_tokens} and {pair.second.n_tokens} tokens" in shown
    assert "The first copied token is predicted at" in shown
    assert f"{pair.length} of" not in shown, "the table lists every token that both have"
