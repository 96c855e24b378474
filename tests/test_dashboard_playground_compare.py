"""Two subjects on the Playground: their copies line by line, one query of both, both placements; without a browser."""

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dash import Dash
from flask.testing import FlaskClient
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.test_dashboard import request_for, server_callbacks
from tests.test_dashboard_playground import OPEN, _numbers, cells, models_of, ready, show, text_of
from workbench.dashboard import create_app, live_models, live_pairs
from workbench.dashboard.beside import second_view
from workbench.dashboard.live_models import Live, LiveModels
from workbench.dashboard.live_pairs import LivePair
from workbench.dashboard.pages.playground import query_at
from workbench.dashboard.pages.playground_compare import Both, both_of, finding
from workbench.dashboard.pages.playground_copies import copies, copy_of
from workbench.dashboard.pages.playground_pairs import pair_of, panel_of, same_copy
from workbench.dashboard.pages.playground_places import places
from workbench.dashboard.pages.playground_strings import choose, stamp
from workbench.dashboard.state import ViewState
from workbench.figures.difference import symmetric_reach
from workbench.figures.playground import Strip, compared_bars

PATH = "/playground"


@pytest.fixture(scope="module")
def ids(checkpointed_store: tuple[Path, dict[str, str]]) -> dict[str, str]:
    return checkpointed_store[1]


@pytest.fixture(scope="module")
def app(checkpointed_store: tuple[Path, dict[str, str]]) -> Dash:
    app = create_app(checkpointed_store[0])
    for run in checkpointed_store[1].values():
        for step in (None, 5):
            ready(models_of(app), ViewState(run=run, checkpoint=step))
    return app


@pytest.fixture(scope="module")
def models(app: Dash) -> LiveModels:
    return models_of(app)


def view_of(query: str) -> ViewState:
    view, notes = ViewState.parse(query)
    assert notes == []
    return view


def pair_at(models: LiveModels, query: str) -> LivePair:
    view = view_of(query)
    pair = pair_of(models, choose(models, view), view)
    assert pair is not None
    return pair


def written(cells_of: list[dict[str, Any]]) -> list[str]:
    return [cell["children"] for cell in cells_of]


# ---- copies ----------------------------------------------------------------------------------------------------------


def test_both_copies_and_the_difference_of_right_tokens_are_those_of_the_models(
    app: Dash, client: FlaskClient, models: LiveModels, ids: dict[str, str]
) -> None:
    query = f"?run={ids['rope']}&text=0110101101&beside=checkpoint:5"
    answered = show(app, client, "playground-copy.children", query)
    pair = pair_at(models, query)
    assert not same_copy(pair)
    line = 1
    for free in (False, True):
        one, other = (copy_of(models, chosen, free) for chosen in (pair.first, pair.second))
        for copy in (one, other):
            assert written(cells(answered, line)) == [pair.first.names[i] for i in copy.predicted]
            line += 1
        count = min(len(one.predicted), len(other.predicted))
        apart = one.right_probability[:count] - other.right_probability[:count]
        shown = cells(answered, line)
        line += 1
        assert len(shown) == count
        for cell, value in zip(shown, apart.tolist(), strict=True):
            assert cell["children"] == ("·" if abs(value) < 0.005 else "+" if value > 0 else "−")
            assert f"{value:+.3f}".replace("-", "−") in cell["title"]
            assert float(cell["style"]["--d"]) == pytest.approx(abs(value) ** 0.5, abs=1e-3)
        assert f"{float(apart.mean()):+.3f} on average".replace("-", "−") in text_of(answered)
    assert cells(answered, line) == []
    verdicts = text_of(answered["playground-verdicts"])
    for mode in ("Teacher-forced", "Free-running"):
        assert f"{mode}, first: step 20" in verdicts and f"{mode}, second: step 5" in verdicts
    assert "likelier in the first" in text_of(answered["playground-copy"])


def test_all_lines_of_a_token_look_from_its_query(app: Dash, client: FlaskClient, ids: dict[str, str]) -> None:
    answered = show(app, client, "playground-copy.children", f"?run={ids['rope']}&text=0110&beside=checkpoint:5")
    first, second, difference = (cells(answered, line) for line in (1, 2, 3))
    assert [cell["data-at"] for cell in first] == [cell["data-at"] for cell in second]
    assert [cell["data-at"] for cell in difference] == [cell["data-at"] for cell in first[: len(difference)]]


def test_one_copy_where_only_heads_differ(app: Dash, client: FlaskClient, ids: dict[str, str]) -> None:
    alone = show(app, client, "playground-copy.children", f"?run={ids['rope']}&text=0110")
    both = show(app, client, "playground-copy.children", f"?run={ids['rope']}&text=0110&beside=head:1")
    assert both["playground-copy"] == alone["playground-copy"]
    assert "there is one copy" in text_of(both["playground-verdicts"])


@pytest.mark.parametrize(("first", "second"), [("0110100", "011110010"), ("011110010", "0110100"), ("0110", "0100")])
def test_both_strings_stand_where_they_are_two(
    app: Dash, client: FlaskClient, models: LiveModels, ids: dict[str, str], first: str, second: str
) -> None:
    query = f"?run={ids['rope']}&text={first}&mode=forced&beside=text:{second}"
    answered = show(app, client, "playground-copy.children", query)
    lines = [cells(answered, line) for line in range(5)]
    common = min(len(first), len(second))
    for line, string in ((0, first), (1, second)):
        assert "".join(written(lines[line]))[: len(string)] == string
        marked = [k for k, cell in enumerate(lines[line]) if "differs" in cell["className"].split()]
        assert marked == [k for k in range(common) if first[k] != second[k]]
    assert all("source" in cell["className"] for cell in lines[0][: len(first)])
    assert not any("source" in cell["className"].split() for cell in lines[1]), "only the first is typed over"
    compared = common + (len(first) == len(second))
    assert len(lines[4]) == compared, "EOS is compared where it is at one place"
    assert [cell.get("data-at") for cell in lines[1][common + 1 :]] == [None] * max(0, len(second) - len(first))
    said = text_of(answered["playground-verdicts"])
    assert (f"{len(first)} and {len(second)} tokens" in said) == (len(first) != len(second))
    assert f"{sum(a != b for a, b in zip(first, second, strict=False))} of {common} tokens differ" in said


def test_what_is_fed_is_fed_to_both_on_one_string_and_to_the_first_on_two(
    app: Dash, client: FlaskClient, models: LiveModels, ids: dict[str, str]
) -> None:
    query = f"?run={ids['rope']}&text=011010&fed=2:0&beside=checkpoint:5"
    pair = pair_at(models, query)
    assert pair.first.fed == pair.second.fed == ((2, 0),)
    answered = text_of(show(app, client, "playground-copy.children", query))
    assert answered.count("fed otherwise at 2") == 2 and answered.count("Feed the right copy") == 1
    other = pair_at(models, f"?run={ids['rope']}&text=011010&fed=2:0&beside=text:011011")
    assert other.first.fed == ((2, 0),) and other.second.fed == ()
    back = ViewState.parse(answered.split("Undo")[0].rsplit("/playground?", 1)[-1].split('"')[0])[0]
    assert back.fed is None and back.beside is not None, "the way back stays in the comparison"


def test_editing_and_feeding_change_the_first_and_stay_in_the_comparison(
    app: Dash, client: FlaskClient, ids: dict[str, str]
) -> None:
    bar = text_of(show(app, client, "playground-row.figure", f"?run={ids['rope']}&text=0010&row=3&beside=checkpoint:5"))
    assert "text=0110" in bar and "beside=checkpoint:5" in bar
    assert "First, step 20" in bar and "Second, step 5" in bar


# ---- one query -------------------------------------------------------------------------------------------------------


def test_three_strips_are_both_heads_and_their_difference(
    app: Dash, client: FlaskClient, models: LiveModels, ids: dict[str, str]
) -> None:
    query = f"?run={ids['rope']}&text=01101011&row=17&beside=checkpoint:5,layer:1,head:0"
    answered = show(app, client, "playground-row.figure", query)
    pair = pair_at(models, query)
    weights = [
        copy_of(models, chosen, False).string.head(layer, 0).row(17)[:18]
        for chosen, layer in ((pair.first, 0), (pair.second, 1))
    ]
    bars = answered["playground-row"]["figure"]["data"]
    assert [bar.get("yaxis") for bar in bars] == ["y", "y2", "y3"]
    for bar, expected in zip(bars, (*weights, weights[0] - weights[1]), strict=True):
        assert np.allclose(_numbers(bar["y"]), expected, atol=1e-6)
    layout = answered["playground-row"]["figure"]["layout"]
    assert layout["yaxis"]["range"] == layout["yaxis2"]["range"], "weights on one scale"
    assert layout["yaxis3"]["range"][0] == -layout["yaxis3"]["range"][1]
    apart = weights[0] - weights[1]
    most = int(np.abs(apart).argmax())
    said = answered["playground-finding"]["children"]
    alike = float(np.abs(apart).max()) < 0.005
    assert ("both heads attend alike" if alike else f"most apart on key {most}: first {weights[0][most]:.2f}") in said
    assert answered["playground-row-figure"]["aria-label"] == said
    table = text_of(answered["playground-keys"])
    assert f"{apart[most]:+.4f}".replace("-", "−") in table and f"{weights[0][most]:.4f}" in table


def test_the_finding_names_the_key_and_the_share_of_attention_elsewhere(
    models: LiveModels, ids: dict[str, str]
) -> None:
    pair = pair_at(models, f"?run={ids['rope']}&text=01101011&beside=head:1")
    query, _ = query_at(models, pair.first, 2 * 5)

    class Known(Both):
        weights = (np.array([0.1, 0.7, 0.2, 0, 0, 0]), np.array([0.1, 0.1, 0.3, 0.5, 0, 0]))

    both = both_of(models, pair, query)
    assert both is not None
    said = finding(Known(both.first, both.second, both.called))
    assert said == (
        "From query 5 most apart on key 1: first 0.70, second 0.10, +0.60; 60% of the attention lies on other keys."
    )


def test_a_token_that_is_pointed_at_is_looked_from_in_both(
    app: Dash, client: FlaskClient, models: LiveModels, ids: dict[str, str]
) -> None:
    query = f"?run={ids['rope']}&text=0110100&beside=text:011110010"
    pair = pair_at(models, query)
    one, other = (copy_of(models, chosen, True) for chosen in (pair.first, pair.second))
    pointed = 2 * int(one.rows[1]) + 1
    answered = show(app, client, "playground-row.figure", query, **{"playground-at.data": pointed})
    bars = answered["playground-row"]["figure"]["data"]
    rows = int(one.rows[1]), int(other.rows[1])
    assert rows[1] == rows[0] + 2
    assert [len(_numbers(bar["y"])) for bar in bars] == [rows[0] + 1, rows[1] + 1, rows[0] + 1]
    said = answered["playground-finding"]["children"]
    assert f"same token from query {rows[1]}" in said and f"by position, up to {rows[0]}" in said
    assert "free-running" in text_of(answered["playground-row-bar"])


def test_a_query_that_the_second_has_not_is_told(app: Dash, client: FlaskClient, ids: dict[str, str]) -> None:
    query = f"?run={ids['rope']}&text=011010011&mode=forced&row=20&beside=text:01"
    answered = show(app, client, "playground-row.figure", query)
    assert "no such query" in text_of(answered["playground-finding"])
    assert "no such query" in text_of(answered["playground-row-bar"])
    assert len(answered["playground-row"]["figure"]["data"]) == 2, "where the heads of the first look"


def test_the_keys_in_sight_are_those_of_the_address(app: Dash, client: FlaskClient, ids: dict[str, str]) -> None:
    query = f"?run={ids['rope']}&text=01101011&row=17&beside=head:1&zoom="
    answered = show(app, client, "playground-row.figure", f"{query}0-18.4-9")
    assert answered["playground-row"]["figure"]["layout"]["xaxis"]["range"] == [3.4, 8.6]
    assert [len(_numbers(bar["y"])) for bar in answered["playground-row"]["figure"]["data"]] == [5, 5, 5]
    assert "Keys 4 to 8 are in sight" in text_of(answered) and "All keys" in text_of(answered)
    beyond = show(app, client, "playground-row.figure", f"{query}900-990.900-990")
    assert "Keys 17 to 17 are in sight" in text_of(beyond)


def test_weights_that_are_alike_are_told_so_in_the_figure() -> None:
    strip = Strip("First, head 0.0", np.full(4, 0.25), ["0"] * 4, -1)
    for apart, said in ((0.001, "alike"), (0.02, "most on key 1: +0.02")):
        other = Strip("Second, head 0.0", np.array([0.25, 0.25 - apart, 0.25, 0.25]), ["0"] * 4, -1)
        drawn = compared_bars(strip, other, keys=slice(0, 4))
        assert drawn.layout.annotations[2].text == f"First − second · {said}"


def test_the_difference_of_several_keys_is_the_one_furthest_from_zero() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.dirichlet(np.ones(1000)), rng.dirichlet(np.ones(997))
    strips = [Strip(f"<b>{n}", w, ["<i>0"] * len(w), 5) for n, w in enumerate((one, other))]
    figure = compared_bars(*strips, keys=slice(0, 1000))
    apart = one[:997] - other
    values = np.asarray(figure.data[2]["y"])
    width = -(-1000 // len(figure.data[0]["y"]))
    for at, value in enumerate(values):
        part = apart[width * at : width * (at + 1)]
        assert abs(value) == pytest.approx(np.abs(part).max()) and value in part
    assert figure.layout.yaxis3.range[1] == symmetric_reach(float(np.abs(apart).max()))
    assert "<b>0" not in figure.layout.annotations[0].text
    assert np.max(figure.data[0]["y"]) == pytest.approx(one.max())


# ---- places ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "beside", "traces", "said"),
    [
        ("auto2d", "checkpoint:5", True, ""),
        ("auto2d", "head:1", False, "one placement"),
        ("rope", "checkpoint:5", False, "neither"),
        ("rope", "run:auto2d", False, "Drawn is the second"),
        ("auto2d", "run:rope", False, "Drawn is the first"),
    ],
)
def test_both_placements_are_drawn_where_both_have_rows(
    models: LiveModels, ids: dict[str, str], first: str, beside: str, traces: bool, said: str
) -> None:
    for name, run in ids.items():
        beside = beside.replace(f"run:{name}", f"run:{run}")
    pair = pair_at(models, f"?run={ids[first]}&text=0110&beside={beside}")
    figure, _, note = places(models, pair.first, pair)
    assert said in note and bool(note) == bool(said)
    assert ("dashed" in str(figure.layout.title.text)) == traces
    assert len(figure.data) > 0


def test_the_table_of_places_has_both(app: Dash, client: FlaskClient, ids: dict[str, str]) -> None:
    query = f"?run={ids['auto2d']}&text=0110&beside=checkpoint:5,text:011001"
    opened = {"playground-places-opened.data": 1}
    table = text_of(show(app, client, "playground-places-numbers.children", query, **opened))
    assert "First: column" in table and "Second: row" in table


# ---- the panel -------------------------------------------------------------------------------------------------------


def test_the_button_begins_with_an_earlier_step_and_leaves_again(
    app: Dash, client: FlaskClient, ids: dict[str, str]
) -> None:
    bar = show(app, client, "playground-bar.children", f"?run={ids['rope']}&text=0110&row=3")
    assert bar["playground-beside"]["children"] == []
    assert '"aria-keyshortcuts": "c"' in text_of(bar) and "beside=checkpoint:10" in text_of(bar)
    open_bar = show(app, client, "playground-bar.children", f"?run={ids['rope']}&text=0110&beside=checkpoint:5")
    panel = text_of(open_bar["playground-beside"])
    assert "step 20" in panel and "step 5" in panel and "Swap" in panel and "Close" in panel


def test_swapping_shows_the_other_first_and_twice_the_same(models: LiveModels, ids: dict[str, str]) -> None:
    for beside in ("checkpoint:5", "head:1", "text:010011", f"run:{ids['auto2d']}"):
        pair = pair_at(models, f"?run={ids['rope']}&text=0110&mode=free&row=4&beside={beside}")
        turned = live_pairs.swapped(pair)
        again = pair_at(models, turned.query())
        assert (again.first.tokens, again.first.live.key) == (pair.second.tokens, pair.second.live.key), beside
        assert (again.second.tokens, again.second.live.key) == (pair.first.tokens, pair.first.live.key), beside
        assert (turned.mode, turned.row) == ("free", 4)


def test_swapping_keeps_what_both_are_fed(models: LiveModels, ids: dict[str, str]) -> None:
    for beside in ("checkpoint:5", f"run:{ids['auto2d']}"):
        pair = pair_at(models, f"?run={ids['rope']}&text=011010&fed=2:0&beside={beside}")
        again = pair_at(models, live_pairs.swapped(pair).query())
        assert again.first.fed == again.second.fed == ((2, 0),), beside
    pair = pair_at(models, f"?run={ids['rope']}&text=011010&fed=2:0&beside=text:0000")
    assert live_pairs.swapped(pair).fed is None, "another string is fed rightly"


@pytest.mark.parametrize("drawn", ["", "&length=9", "&distribution=uniform&seed=3"])
def test_another_run_is_shown_on_the_generated_string_of_the_first(
    models: LiveModels, ids: dict[str, str], drawn: str
) -> None:
    pair = pair_at(models, f"?run={ids['rope']}&input=generated{drawn}&beside=run:{ids['auto2d']}")
    assert pair.same_string and pair.second.run.id == ids["auto2d"]
    again = pair_at(models, live_pairs.swapped(pair).query())
    assert again.same_string and again.first.tokens == pair.first.tokens and again.first.run.id == ids["auto2d"]


def test_two_typed_strings_are_told_apart_by_name(models: LiveModels, ids: dict[str, str]) -> None:
    for first, second in (("0110", "0011"), ("01" * 12 + "0", "01" * 12 + "1"), ("0" * 20, "0" * 21)):
        one, other = live_pairs.names(pair_at(models, f"?run={ids['rope']}&text={first}&beside=text:{second}"))
        assert one != other and one.startswith("typed ") and len(one) < 24, (one, other)


def test_captured_strings_are_offered_beside_a_typed_one(
    app: Dash, client: FlaskClient, models: LiveModels, ids: dict[str, str]
) -> None:
    for query in ("text=0110&beside=same", "input=generated&beside=same", "beside=text:0110", "beside=checkpoint:5"):
        shown = show(app, client, "playground-bar.children", f"?run={ids['rope']}&{query}")
        assert "beside-string" in text_of(shown["playground-beside"]), query
    pair = pair_at(models, f"?run={ids['rope']}&text=0110&beside=string:1")
    assert (pair.first.origin, pair.second.origin, pair.second.view.string) == ("typed", "captured", 1)
    assert live_pairs.names(pair) == ("typed 0110", "string #1")


def test_the_longest_copies_of_two_strings_fit_into_an_answer(
    app: Dash, client: FlaskClient, models: LiveModels, ids: dict[str, str]
) -> None:
    longest = models.get(ids["rope"], None).longest
    query = f"?run={ids['rope']}&text={'01' * (longest // 2)}&beside=text:{'10' * (longest // 2)}&fed=0:1"
    cells_of = show(app, client, "playground-copy.children", query)["playground-copy"]["children"]
    columns = 2 * (longest // 2)
    of_lines = [len(cells({"children": cells_of}, line)) for line in range(9)]
    # A copy that ends itself has fewer cells than one that goes on: as if all nine lines were full.
    assert len(json.dumps(cells_of)) / sum(of_lines) * 9 * (columns + 1) < 1.5e6


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        ("run:nothing", "Unknown run"),
        ("checkpoint:123456", "kept no checkpoint at step 123456"),
        ("string:999", "has no string 999"),
        ("capture:nothing", "nothing"),
        ("text:0171", "oken 7 is not in the alphabet"),
        ("text:1.2222222222222", "more than 9 digits"),
        ("text:" + "01" * 600, "reads at most"),
    ],
)
def test_a_second_that_cannot_be_is_said_and_the_first_stays(
    app: Dash, client: FlaskClient, ids: dict[str, str], beside: str, said: str
) -> None:
    query = f"?run={ids['rope']}&text=0110"
    state = show(app, client, "playground-state.children", f"{query}&beside={beside}")
    assert state["playground-columns"]["className"] == "columns live"
    assert state["playground-wait"]["data"] == 0, "nothing is waited for"
    panel = text_of(show(app, client, "playground-bar.children", f"{query}&beside={beside}")["playground-beside"])
    assert said in panel and "Close" in panel
    for region in ("copy.children", "row.figure", "places.figure"):
        with_second = show(app, client, f"playground-{region}", f"{query}&beside={beside}")
        alone = show(app, client, f"playground-{region}", query)
        for answered in (with_second, alone):
            for name in list(answered):
                if name.endswith("-shows"):
                    del answered[name]
        assert text_of(with_second).replace(f"&beside={beside}", "") == text_of(alone)


def test_a_second_head_that_is_not_there_is_replaced_with_a_note(
    app: Dash, client: FlaskClient, ids: dict[str, str]
) -> None:
    query = f"?run={ids['rope']}&text=0110&beside=layer:99,head:99"
    assert "no head 99.99; showing 1.0" in text_of(show(app, client, "playground-bar.children", query))


values = st.sampled_from(
    ["run:..", "of:x", "failure:3", "layer:999999999", "head:999999999", "string:999999999", "text:9", "same", "%00",
     "text:" + "0" * 5000, "checkpoint:0", "capture:<b>", "run:latest", "string:0", "layer:1,head:0"]
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(parts=st.lists(values, min_size=1, max_size=3), row=st.sampled_from(["", "&row=999999", "&zoom=0-1.900-901"]))
def test_no_second_subject_makes_the_page_fail(
    app: Dash, client: FlaskClient, ids: dict[str, str], parts: list[str], row: str
) -> None:
    query = f"?run={ids['rope']}&text=0110{row}&beside={','.join(parts)}"
    for output in server_callbacks(app):
        if "playground" in output:
            body = request_for(app, output, {**OPEN, "url.search": query, "playground-places-opened.data": 1})
            answer = client.post("/_dash-update-component", json=body)
            assert answer.status_code in (200, 204), (output, answer.text)
            assert "Traceback" not in answer.text


def test_the_page_shows_the_first_while_it_waits_for_the_model_of_the_second(
    checkpointed_store: tuple[Path, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    go, load = threading.Event(), live_models._loaded

    def slow(key: Any, run: Any, checkpoint: int | None) -> Live:
        assert checkpoint is None or go.wait(60)
        return load(key, run, checkpoint)

    monkeypatch.setattr(live_models, "_loaded", slow)
    root, ids = checkpointed_store
    app = create_app(root)
    client = app.server.test_client()
    client.get("/")
    query = f"?run={ids['rope']}&text=0110&beside=checkpoint:5"
    ready(models_of(app), ViewState(run=ids["rope"]))
    state = show(app, client, "playground-state.children", query)
    assert state["playground-wait"]["data"] > 0 and state["playground-columns"]["className"] == "columns live"
    bar = show(app, client, "playground-bar.children", query)
    assert "is being loaded" in text_of(bar["playground-beside"])
    copy = show(app, client, "playground-copy.children", query)
    assert len(cells(copy, 1)) == 5 and "second" not in text_of(copy["playground-verdicts"])
    shown = {"playground-state-shows.data": state["playground-state-shows"]["data"]}
    again = show(app, client, "playground-state.children", query, **shown)
    assert again["playground-wait"]["data"] > 0, "it is looked for again"
    go.set()
    ready(models_of(app), second_view(view_of(query)))
    then = show(app, client, "playground-state.children", query, **shown)
    assert then["playground-wait"]["data"] == 0
    shown = {"playground-copy-shows.data": copy["playground-copy-shows"]["data"]}
    after = show(app, client, "playground-copy.children", query, **shown)
    assert "second: step 5" in text_of(after["playground-verdicts"])


def test_an_unknown_second_does_not_hide_the_state_of_the_first(models: LiveModels, ids: dict[str, str]) -> None:
    for step in (None, 15):  # one is ready, of the other nothing was asked
        alone = ViewState(run=ids["rope"], checkpoint=step)
        both = ViewState.parse(f"{alone.query()}&beside=run:nothing")[0]
        assert stamp(models, both).startswith(stamp(models, alone))


def test_without_a_second_the_page_is_as_it_was(app: Dash, client: FlaskClient, models: LiveModels) -> None:
    view = view_of("?text=0110")
    chosen = choose(models, view)
    assert pair_of(models, chosen, view) is None and panel_of(models, chosen, view, PATH) == []
    verdicts, grid = copies(models, chosen, None, PATH)
    assert len(verdicts) == 2
    assert "difference" not in json.dumps([part.to_plotly_json() for part in grid], default=str)
