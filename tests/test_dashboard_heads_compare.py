"""Two subjects on the Heads page without a browser: two kept reports, or two heads, and what is said without one."""

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dash import Dash
from flask.testing import FlaskClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import fake_reports, fake_store
from tests.test_dashboard import answering, call, hostile, request_for
from tests.test_dashboard_heads import as_text, heads_callbacks, space_of
from workbench.content.base import EstimateContent
from workbench.dashboard import create_app
from workbench.dashboard.beside import Beside, read_beside, second_view
from workbench.dashboard.data import Data
from workbench.dashboard.pages.heads_compare import HeadsPair, both_in_attention, compared, names, start, swapped
from workbench.dashboard.pages.heads_parts import overlap_text
from workbench.dashboard.pages.heads_reports import Reports
from workbench.dashboard.pages.heads_strongest import Strings
from workbench.dashboard.state import ViewState
from workbench.reports import keep
from workbench.runs import Store

LABELS = [["locator", "look-back(1)"], ["aligned"]]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A store with a space in its name: two runs with reports and histories, one damaged, one without."""
    root = tmp_path_factory.mktemp("heads compare") / "my store"
    ids = fake_store.fill(root)
    fake_reports.keep_heads(root, ids["rope"], LABELS)
    fake_reports.keep_heads(root, ids["rope"], [["mixed", "look-back(1)"], ["mixed"]], step=300)
    fake_reports.keep_history(root, ids["rope"], LABELS)
    fake_reports.keep_heads(root, ids["rope2d"], [["aligned", "diffuse", "sink"]])
    fake_reports.keep_history(root, ids["rope2d"], [["aligned", "diffuse", "sink"]])
    fake_reports.keep_heads(root, ids["failed"], [["self"]])
    damaged = fake_reports.run_of(root, ids["again"])
    keep.heads_file(damaged, 500).parent.mkdir()
    keep.heads_file(damaged, 500).write_text('{"format": 1, "heads": [')
    return root, ids


@pytest.fixture(scope="module")
def app(filled: tuple[Path, dict[str, str]]) -> Dash:
    return create_app(filled[0])


@pytest.fixture
def reports(filled: tuple[Path, dict[str, str]]) -> Reports:
    return Reports(Data(Store(filled[0])))


def pair_of(reports: Reports, view: ViewState) -> HeadsPair:
    pair = compared(reports, reports.choose(view), view)
    assert pair is not None
    return pair


def said_of(answer: dict[str, Any]) -> str:
    return str(answer["heads-said"]["children"])


# ---- which two -------------------------------------------------------------------------------------------------------


def test_a_comparison_begins_with_another_head_else_another_layer_else_an_earlier_report(
    reports: Reports, filled: tuple[Path, dict]
) -> None:
    rope = ViewState(run=filled[1]["rope"])
    assert start(reports.choose(rope)) == Beside(head=1)
    assert start(reports.choose(replace(rope, head=1))) == Beside(head=0)
    assert start(reports.choose(replace(rope, layer=1))) == Beside(layer=0, head=0)
    assert start(reports.choose(ViewState(run=filled[1]["failed"]))) == Beside()
    alone = reports.choose(ViewState(run=filled[1]["failed"]))
    assert start(replace(alone, steps=(500, 300, 200, 100))) == Beside(checkpoint=200)


def test_two_subjects_that_are_one_are_said_to_be_and_notes_name_the_second(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict]
) -> None:
    for beside, same in (("same", True), ("head:0", True), ("checkpoint:500", True), ("head:1", False)):
        shown = call(app, client, "heads-table.children", f"?run={filled[1]['rope']}&beside={beside}")
        assert ("Both are the same" in as_text(shown["heads-beside"])) is same, beside
    shown = call(app, client, "heads-table.children", f"?run={filled[1]['rope']}&beside=head:7")
    assert "Second: The model has no head 0.7" in as_text(shown["heads-beside"])


def test_heads_of_a_run_without_a_report_are_not_those_of_the_first(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict]
) -> None:
    shown = call(app, client, "heads-table.children", f"?run={filled[1]['rope']}&beside=run:{filled[1]['again']}")
    bar = as_text(shown["heads-beside"])
    assert "damaged" in bar and "head 0.0 · locator" not in bar


def test_values_that_differ_by_less_than_is_shown_are_apart_by_less() -> None:
    one, near, far = (
        EstimateContent(value=v, interval=(v - 0.0005, v + 0.0005), rows=9, strings=3, chance=None)
        for v in (0.9, 0.902, 0.95)
    )
    assert overlap_text(one, near) == "apart by less than 0.01"
    assert overlap_text(one, far) == "apart"
    assert overlap_text(one, one) == "overlap: not distinguishable"


@pytest.mark.parametrize(
    "beside", ["head:1", "layer:1,head:0", "checkpoint:300", "run:rope2d", "run:rope2d,head:2", "same"]
)
@pytest.mark.parametrize("query", ["", "&checkpoint=300", "&layer=1&score=entropy&pane=history"])
def test_swapping_twice_is_the_same_comparison(
    reports: Reports, filled: tuple[Path, dict], beside: str, query: str
) -> None:
    view, _ = ViewState.parse(f"?run={filled[1]['rope']}{query}&beside={beside.replace('rope2d', filled[1]['rope2d'])}")
    pair, turned_view = pair_of(reports, view), swapped(pair_of(reports, view), view)
    turned = pair_of(reports, turned_view)
    for one, other in ((pair.first, turned.second), (pair.second, turned.first)):
        assert one.content is other.content
        assert (one.head.layer, one.head.head) == (other.head.layer, other.head.head)
    again = pair_of(reports, swapped(turned, turned_view))
    assert names(again) == names(pair)
    assert turned_view.score == view.score and turned_view.pane == view.pane


def test_subjects_are_called_by_what_differs(reports: Reports, filled: tuple[Path, dict]) -> None:
    ids = filled[1]
    called = {
        "head:1": ("head 0.0", "head 0.1"),
        "checkpoint:300": ("step 500", "step 300"),
        "checkpoint:300,layer:1,head:0": ("step 500, head 0.0", "step 300, head 1.0"),
        f"run:{ids['rope2d']}": (ids["rope"], ids["rope2d"]),
        "same": ("head 0.0", "head 0.0"),
    }
    for beside, expected in called.items():
        assert names(pair_of(reports, ViewState(run=ids["rope"], beside=read_beside(beside)))) == expected


def test_the_panel_lists_runs_that_keep_reports_their_steps_and_their_heads(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict]
) -> None:
    ids = filled[1]
    bar = as_text(call(app, client, "heads-beside.children", f"?run={ids['rope']}&beside=head:1")["heads-beside"])
    assert all(f'"beside-{name}"' in bar for name in ("run", "checkpoint", "head"))
    assert f'"value": "{ids["rope2d"]}"' in bar and f'"value": "{ids["again"]}"' in bar
    assert f'"value": "{ids["nope"]}"' not in bar, "it keeps no report"
    assert "step 300" in bar and "Swap" in bar and "Close" in bar
    other = call(app, client, "heads-beside.children", f"?run={ids['rope']}&beside=run:{ids['rope2d']}")
    assert "head 0.2 · sink" in as_text(other["heads-beside"])
    link = as_text(call(app, client, "heads-compare.children", f"?run={ids['rope']}")["heads-compare"])
    assert '"aria-keyshortcuts": "c"' in link and "beside=head:1" in link


@pytest.mark.parametrize("role", ["nope", "again"])
def test_a_second_without_a_report_leaves_the_first_and_says_the_command(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict], role: str
) -> None:
    root, ids = filled
    query = f"?run={ids['rope']}&beside=run:{ids[role]}"
    answer = call(app, client, "heads-table.children", query)
    command = f"workbench heads {ids[role]} --store {shlex.quote(str(root))}"
    assert json.dumps(command)[1:-1] in as_text(answer["heads-beside"])
    assert "beside-run" in as_text(answer["heads-beside"]), "another can be chosen"
    assert answer["heads-page"]["className"] == "" and "locator.decoding ≥ 0.5" in as_text(answer["heads-table"])
    alone = f"?run={ids['rope']}"
    for part, name in (("heads-graph.figure", "heads-graph"), ("heads-said.children", "heads-said")):
        assert call(app, client, part, query)[name] == call(app, client, part, alone)[name]
    assert "What a locator does" in as_text(call(app, client, "heads-evidence.children", query))


def test_nothing_is_in_the_page_while_nothing_is_compared(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict]
) -> None:
    answer = call(app, client, "heads-table.children", f"?run={filled[1]['rope']}")
    assert answer["heads-beside"] == {"children": [], "className": "panel heads-beside told none"}
    assert "second" not in as_text(answer["heads-table"])


def test_a_report_of_the_second_that_is_made_anew_is_shown_at_the_next_look(tmp_path: Path) -> None:
    ids = [fake_store.add_run(tmp_path, f"rope-2l-s{seed}-0000", "rope-2l", ["rope"], [2, 1]) for seed in (0, 1)]
    fake_reports.keep_heads(tmp_path, ids[0], LABELS)
    app = create_app(tmp_path)
    client = app.server.test_client()
    client.get("/")
    query = f"?run={ids[0]}&beside=run:{ids[1]}"
    output = next(name for name in heads_callbacks(app) if "heads-table.children" in name)
    first = call(app, client, "heads-table.children", query)
    shown = {"url.search": query, "heads-table-shows.data": first["heads-table-shows"]["data"]}
    assert client.post("/_dash-update-component", json=request_for(app, output, shown)).status_code == 204
    fake_reports.keep_heads(tmp_path, ids[1], [["sink", "sink"], ["sink"]])
    assert "3 of 3 labels differ" in client.post("/_dash-update-component", json=request_for(app, output, shown)).text


# ---- the page --------------------------------------------------------------------------------------------------------


def test_the_table_of_two_reports_tells_both_labels_scores_and_differences(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict]
) -> None:
    ids = filled[1]
    table = as_text(call(app, client, "heads-table.children", f"?run={ids['rope']}&beside=run:{ids['rope2d']}"))
    for said in ("locator", "aligned", "≠", "label changed", "only in the first", "only in the second", "– → ",
                 "locator.mass", "aligned.mass", "0.90 [0.85, 0.95]", "2 of 2 labels differ"):  # fmt: skip
        assert said in table, said
    same = as_text(call(app, client, "heads-table.children", f"?run={ids['rope']}&beside=checkpoint:300"))
    assert "2 of 3 labels differ" in same and '"label changed"' in same


def test_a_head_that_only_the_second_has_becomes_its_selected_one(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict]
) -> None:
    ids = filled[1]
    table = as_text(call(app, client, "heads-table.children", f"?run={ids['rope']}&beside=run:{ids['rope2d']}"))
    there = f"/heads?run={ids['rope']}&beside=run:{ids['rope2d']},layer:0,head:2"
    assert there in table


def test_the_table_of_one_report_marks_the_second_head(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict]
) -> None:
    answer = call(app, client, "heads-table.children", f"?run={filled[1]['rope']}&beside=layer:1,head:0")
    table = as_text(answer["heads-table"])
    assert table.count('"second"') == 1 and table.count('"beside"') == 1 and "Intervention" in table


def test_one_score_of_two_reports_is_three_grids_with_a_finding_and_numbers(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict]
) -> None:
    query = f"?run={filled[1]['rope']}&beside=checkpoint:300&score=entropy"
    answer = call(app, client, "heads-graph.figure", query)
    assert [trace["type"] for trace in answer["heads-graph"]["figure"]["data"]].count("heatmap") == 3
    assert "The largest difference of entropy" in said_of(answer) and "2 of 3 labels differ" in said_of(answer)
    numbers = as_text(answer["heads-below"])
    assert "First − second" in numbers and "overlap: not distinguishable" in numbers and "locator → mixed" in numbers
    two = call(app, client, "heads-graph.figure", f"?run={filled[1]['rope']}&beside=head:1&score=entropy")
    assert "head 0.0 0.21" in said_of(two) and "head 0.1 0.24" in said_of(two) and "not distinguishable" in said_of(two)
    assert len(two["heads-graph"]["figure"]["layout"]["shapes"]) == 2, "both heads are outlined"


def test_the_score_that_is_drawn_follows_the_selected_heads_label(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict]
) -> None:
    run = filled[1]["rope"]
    for query, score in (("", "locator.mass"), ("&head=1", "lookback.mass"), ("&layer=1", "aligned.mass"),
                         ("&layer=1&score=entropy", "entropy")):  # fmt: skip
        assert f"most {score}" in said_of(call(app, client, "heads-graph.figure", f"?run={run}{query}"))
        assert call(app, client, "heads-run.options", f"?run={run}{query}")["heads-score"]["value"] == score


@pytest.mark.parametrize(
    "beside, heads",
    [("run:rope2d", "6 heads of 2 runs"), ("checkpoint:300", "6 heads of 2 runs"), ("head:1", "3 heads")],
)
def test_the_space_marks_the_heads_of_the_second(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict], beside: str, heads: str
) -> None:
    ids = filled[1]
    query = f"?run={ids['rope']}&pane=space&beside={beside.replace('rope2d', ids['rope2d'])}"
    answer = space_of(app, client, query)
    assert heads in said_of(answer) and "Squares mark the second" in said_of(answer)
    traces = {trace["name"]: trace for trace in answer["heads-graph"]["figure"]["data"] if trace.get("name")}
    assert len(traces["selected"]["x"]) == 1
    assert len(traces["second"]["x"]) == (1 if beside == "head:1" else 3)
    if beside == "checkpoint:300":
        assert "at step 300" in as_text(answer["heads-below"]), "two reports of one run are told apart"


def test_the_history_shows_both_heads_or_says_what_is_lacking(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict]
) -> None:
    root, ids = filled
    both = call(app, client, "heads-graph.figure", f"?run={ids['rope']}&pane=history&beside=run:{ids['rope2d']}")
    assert "First: head 0.0 is locator from step 300 on. Second: head 0.0 is aligned from step 300 on" in said_of(both)
    assert {trace["line"]["dash"] for trace in both["heads-graph"]["figure"]["data"]} == {"solid", "dash"}
    assert "First: label" in as_text(both["heads-below"])
    two = call(app, client, "heads-graph.figure", f"?run={ids['rope']}&pane=history&beside=head:1")
    assert "Second: head 0.1 is look-back(1)" in said_of(two)
    lacking = call(app, client, "heads-graph.figure", f"?run={ids['rope']}&pane=history&beside=run:{ids['failed']}")
    command = f"workbench heads {ids['failed']} --checkpoints --store {shlex.quote(str(root))}"
    assert command.replace('"', "") in said_of(lacking).replace('"', "")
    assert "locator from step 300 on" in said_of(lacking), "the first is shown all the same"
    assert lacking["heads-graph"]["figure"]["data"]


def test_the_evidence_of_two_heads_stands_side_by_side(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict]
) -> None:
    ids = filled[1]
    text = as_text(call(app, client, "heads-evidence.children", f"?run={ids['rope']}&beside=run:{ids['rope2d']}"))
    for said in ("First: ", "Second: ", "locator.decoding", "aligned.conflict", "first: ≥ 0.5", "second: ≥ 0.5",
                 "apart", "overlap: not distinguishable", "First alone in Attention", "heads-effects",
                 "heads-effects-second", "Shares of both patterns", "not measurable", "confirmed"):  # fmt: skip
        assert said in text, said
    there = f"/attention?run={ids['rope']}"
    assert there in text and f"beside=run:{ids['rope2d']}" in text, "both open beside each other"
    first = call(app, client, "heads-evidence.children", f"?run={ids['rope']}&beside=head:1")["heads-evidence"]
    assert as_text(first).count('"className": "thumbnail"') == 2


def test_interventions_on_both_share_an_axis(app: Dash, client: FlaskClient, filled: tuple[Path, dict]) -> None:
    text = call(app, client, "heads-evidence.children", f"?run={filled[1]['rope']}&beside=head:1")["heads-evidence"]
    ranges = []

    def walk(part: Any) -> None:
        if isinstance(part, dict):
            if str(part.get("id", "")).startswith("heads-effects") and "figure" in part:
                ranges.append(part["figure"]["layout"]["xaxis"]["range"])
            for value in part.values():
                walk(value)
        elif isinstance(part, list):
            for value in part:
                walk(value)

    walk(text)
    assert len(ranges) == 2 and ranges[0] == ranges[1] and ranges[0][0] < 0 <= ranges[0][1]


def test_both_are_opened_in_attention_at_the_steps_of_their_reports(
    reports: Reports, filled: tuple[Path, dict]
) -> None:
    ids, strings = filled[1], Strings(reports.data)

    def opened(beside: str, **more: Any) -> ViewState:
        view = ViewState(run=ids["rope"], beside=read_beside(beside), **more)
        pair = pair_of(reports, view)
        at = strings.of(pair.first, view)[pair.first.head.layer, pair.first.head.head]
        return second_view(both_in_attention(pair, at))

    heads = opened("layer:1,head:0")
    assert (heads.run, heads.layer, heads.head, heads.checkpoint) == (ids["rope"], 1, 0, None)
    assert opened("checkpoint:300").checkpoint == 300
    other = opened(f"run:{ids['rope2d']},head:2")
    assert (other.run, other.of, other.head, other.checkpoint) == (ids["rope2d"], ids["rope"], 2, None)


def test_a_click_in_the_grid_of_the_second_opens_both_with_it_first(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict]
) -> None:
    ids, output = filled[1], answering(app, "heads-graph")

    def leads(query: str, point: dict[str, Any]) -> ViewState | None:
        values = {"heads-graph.clickData": {"points": [point]}, "url.search": query}
        answer = client.post("/_dash-update-component", json=request_for(app, output, values))
        assert answer.status_code in (200, 204)
        if answer.status_code == 204:
            return None
        there = answer.get_json()["response"]["heads-go"]["data"]
        assert there.startswith("/attention?")
        return ViewState.parse(there.partition("?")[2])[0]

    both = f"?run={ids['rope']}&beside=run:{ids['rope2d']}"
    first, second = leads(both, {"x": 0, "y": 1, "curveNumber": 0}), leads(both, {"x": 2, "y": 0, "curveNumber": 2})
    assert first is not None and (first.run, first.layer) == (ids["rope"], 1)
    assert second is not None and (second.run, second.head) == (ids["rope2d"], 2)
    assert second.beside is not None and second.beside.run == ids["rope"]
    assert leads(both, {"x": 2, "y": 0, "curveNumber": 0}) is None, "the first has no such head"
    assert leads(both, {"x": 0, "y": 1, "curveNumber": [2]}) is not None
    space_of(app, client, both + "&pane=space")
    point = leads(both + "&pane=space", {"id": "5"})
    assert point is not None and (point.run, point.head) == (ids["rope2d"], 2)


BESIDES = [
    "same", "head:999999999", "layer:7,head:9", "checkpoint:0", "checkpoint:999999999", "run:nobody",
    "run:rope2d,head:9", "run:again", "run:nope", "run:rope", "capture:none", "string:9", "text:0110", "failure:99",
    "run:rope2d,of:nobody,capture:x", "..%2F..", "%3Cscript%3E", "run:rope2d,run:rope2d", "",
]  # fmt: skip


@pytest.mark.parametrize("beside", BESIDES)
@pytest.mark.parametrize("rest", ["", "&pane=space", "&pane=history", "&score=nothing&sort=-scores", "&checkpoint=7"])
def test_every_second_subject_gives_readable_words(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict], beside: str, rest: str
) -> None:
    for role in ("rope2d", "again", "nope"):
        beside = beside.replace(f"run:{role}", f"run:{filled[1][role]}")
    for run in (f"run={filled[1]['rope']}&", ""):
        for output in heads_callbacks(app):
            values = {"url.search": f"?{run}beside={beside}{rest}"}
            answer = client.post("/_dash-update-component", json=request_for(app, output, values))
            assert answer.status_code in (200, 204), output
            assert "Traceback" not in answer.text and "terminal" not in answer.text
            assert "<script" not in answer.text


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(value=hostile, beside=st.sampled_from(["head:1", "checkpoint:300", "run:x"]))
def test_no_argument_of_a_comparison_makes_it_fail(app: Dash, client: FlaskClient, value: Any, beside: str) -> None:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        value = "NaN"
    for output in heads_callbacks(app):
        body = request_for(app, output, {"url.search": f"?beside={beside}"}, value)
        answer = client.post("/_dash-update-component", json=body)
        assert answer.status_code in (200, 204), (output, answer.text)
        assert "Traceback" not in answer.text
