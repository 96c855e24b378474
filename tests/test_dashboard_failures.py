"""The Failures page without a browser: reports and lists, the grid, edits run again, captures, hostile input."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dash import Dash
from flask.testing import FlaskClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.config import TaskSettings
from models.errors import UsageError
from models.tasks import CopyTask, Vocabulary
from tests import fake_reports, fake_store
from tests.test_dashboard import answering, call, hostile, request_for, server_callbacks
from workbench.dashboard import create_app
from workbench.dashboard.data import Data
from workbench.dashboard.job_files import Kind
from workbench.dashboard.jobs import Jobs
from workbench.dashboard.live_models import Loading
from workbench.dashboard.pages import failures_edits, failures_work
from workbench.dashboard.pages.failures_captured import Captured, attention_view
from workbench.dashboard.pages.failures_drawn import clicked_failure, draw, lengths_finding
from workbench.dashboard.pages.failures_grid import MOST_WHOLE, segments
from workbench.dashboard.pages.failures_reports import Layout, Reports, tokens_of
from workbench.dashboard.parts import Nothing
from workbench.dashboard.state import DRAWN, ORDERS, ViewState
from workbench.figures.failure_places import error_places
from workbench.reports import keep
from workbench.runs import Store

MOST_BYTES = 1_500_000  # bytes of the largest answer that a page may send


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A store with a space in its name: a run with two reports, one with a captured failure, one damaged."""
    root = tmp_path_factory.mktemp("failures") / "my store"
    ids = fake_store.fill(root)
    fake_reports.keep_failures(root, ids["rope"])
    fake_reports.keep_failures(root, ids["rope"], [fake_reports.failure("0011", 2)], step=300)
    captured = Data(Store(root)).capture(ids["rope2d"], fake_reports.run_of(root, ids["rope2d"]).captures[0]).string(1)
    string = "".join(map(str, captured.tokens[2 : 2 + captured.length]))
    assert captured.first_error is not None
    other = string[:-1] + str(1 - int(string[-1]))
    failures = [fake_reports.failure(text, captured.first_error, "length") for text in (string, other)]
    fake_reports.keep_failures(root, ids["rope2d"], failures)
    damaged = fake_reports.run_of(root, ids["again"])
    keep.failures_file(damaged, 500).parent.mkdir()
    keep.failures_file(damaged, 500).write_text('{"format": 1, "failures": [')
    return root, ids


@pytest.fixture(scope="module")
def app(filled: tuple[Path, dict[str, str]]) -> Dash:
    return create_app(filled[0])


@pytest.fixture
def data(filled: tuple[Path, dict[str, str]]) -> Data:
    return Data(Store(filled[0]))


@pytest.fixture
def reports(data: Data) -> Reports:
    return Reports(data)


def failures_callbacks(app: Dash) -> list[str]:
    return [name for name in server_callbacks(app) if name.startswith(("failures-", "..failures-"))]


def as_text(answer: Any) -> str:
    return json.dumps(answer, ensure_ascii=False)


def cells(answer: Any, line: int) -> dict[int, dict[str, Any]]:
    """Properties of the cells of a line of the token grid, by column."""
    found: dict[int, dict[str, Any]] = {}

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            props = node.get("props", {})
            if props.get("data-line") == str(line):
                found[int(props["data-k"])] = props
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for part in node:
                walk(part)

    walk(answer)
    return found


# ---- which report and which failures ---------------------------------------------------------------------------------


def test_the_newest_report_is_shown_and_others_by_their_step(reports: Reports, filled: tuple[Path, dict]) -> None:
    rope = filled[1]["rope"]
    newest = reports.choose(ViewState(run=rope))
    assert newest.steps == (500, 300) and newest.content.step == 500 and newest.view.failure == 0
    assert reports.choose(ViewState(run=rope, checkpoint=300)).tokens == (0, 0, 1, 1)
    near = reports.choose(ViewState(run=rope, checkpoint=77))
    assert near.content.step == 300, "the nearest, as other pages may have chosen a step without a report"
    assert "Step 77 has no report" in near.notes[0]


def test_a_run_without_a_report_says_the_command_and_offers_to_start_it(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict]
) -> None:
    root, ids = filled
    answer = call(app, client, "failures-about.children", f"?run={ids['nope']}")
    command = f"workbench failures {ids['nope']} --store {shlex.quote(str(root))}"
    said = as_text(answer["failures-state"])
    assert json.dumps(command)[1:-1] in said and '"data-asks": "explain"' in said
    assert answer["failures-page"]["className"] == "nothing"
    for output in failures_callbacks(app):
        body = request_for(app, output, {"url.search": f"?run={ids['nope']}"})
        assert client.post("/_dash-update-component", json=body).status_code in (200, 204), output


def test_a_damaged_report_and_one_that_contradicts_itself_are_told(
    reports: Reports, filled: tuple[Path, dict], tmp_path: Path
) -> None:
    with pytest.raises(Nothing, match="damaged"):
        reports.choose(ViewState(run=filled[1]["again"]))
    ids = fake_store.fill(tmp_path / "store")
    whole = fake_reports.failure("00110011", 3, competitors=[6])
    for change in (
        {"first_error": 9}, {"string": "0011"}, {"string": "00<i>0011"}, {"length": 7}, {"distribution": "<b>\u202e"},
        {"cause": "a\u200b"},
    ):  # fmt: skip
        fake_reports.keep_failures(tmp_path / "store", ids["rope"], [whole.model_copy(update=change)])
        with pytest.raises(Nothing, match="damaged"):
            Reports(Data(Store(tmp_path / "store"))).choose(ViewState(run=ids["rope"]))


@pytest.mark.parametrize("order", [*ORDERS, *(f"-{name}" for name in ORDERS)])
def test_every_order_lists_every_failure_once_and_the_other_way_round(
    reports: Reports, filled: tuple[Path, dict], order: str
) -> None:
    chosen = reports.choose(ViewState(run=filled[1]["rope"], order=order))
    assert sorted(chosen.listed) == list(range(8))
    if order.endswith("length"):
        lengths = [chosen.content.failures[i].length for i in chosen.listed]
        assert lengths == sorted(lengths, reverse=order.startswith("-"))


def test_filters_leave_what_is_like_them(reports: Reports, filled: tuple[Path, dict]) -> None:
    rope = filled[1]["rope"]
    everything = reports.choose(ViewState(run=rope)).content.failures
    by_cause = reports.choose(ViewState(run=rope, cause="length"))
    assert {everything[i].cause for i in by_cause.listed} == {"length"} and by_cause.view.failure == by_cause.listed[0]
    unsure = reports.choose(ViewState(run=rope, confirmed=False, failed_distribution="uniform"))
    assert unsure.listed == tuple(
        i for i, f in enumerate(everything) if not f.confirmed and f.distribution == "uniform"
    )
    none = reports.choose(ViewState(run=rope, failed_length=7))
    assert none.listed == () and none.failure is None
    elsewhere = reports.choose(ViewState(run=rope, cause="length", failure=0))
    assert elsewhere.view.failure == by_cause.listed[0] and "not among those listed" in elsewhere.notes[0]


def test_an_empty_list_and_no_such_failure_break_no_region(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict]
) -> None:
    for query in ("failed_length=7", "failure=99999", "cause=stop&failed_length=7&text=0101&whole=on"):
        for output in failures_callbacks(app):
            body = request_for(app, output, {"url.search": f"?run={filled[1]['rope']}&{query}"})
            answer = client.post("/_dash-update-component", json=body)
            assert answer.status_code in (200, 204) and "could not be shown" not in answer.text, output


def test_a_long_report_is_sent_a_page_at_a_time(tmp_path: Path) -> None:
    ids = fake_store.fill(tmp_path / "store")
    fake_reports.keep_failures(tmp_path / "store", ids["rope"], fake_reports.some_failures(3000, 600))
    app = create_app(tmp_path / "store")
    client = app.server.test_client()
    client.get("/")
    for query in ("&whole=on", "&failure=2999&drawn=strings", "&order=-after&drawn=causes"):
        for output in failures_callbacks(app):
            body = request_for(app, output, {"url.search": f"?run={ids['rope']}{query}"})
            answer = client.post("/_dash-update-component", json=body)
            assert answer.status_code in (200, 204) and len(answer.data) < MOST_BYTES, (output, len(answer.data))
    listed = call(app, client, "failures-list.children", f"?run={ids['rope']}&failure=2999")
    assert "2,941–3,000 of 3,000" in as_text(listed["failures-pager"])
    assert as_text(listed["failures-list"]).count('"Tr"') == 61


def test_what_is_listed_and_edited_is_in_the_address() -> None:
    view = ViewState(
        run="a", checkpoint=3, failure=7, cause="stop", confirmed=False, failed_distribution="uniform",
        failed_length=20, order="-place", drawn="rows", whole=True, text="0110",
    )  # fmt: skip
    assert ViewState.parse(view.query()) == (view, [])
    assert view.change(failure=8).text is None and view.change(failure=7).text == "0110"
    for change in ({"run": "b"}, {"checkpoint": 4}, {"cause": None}, {"confirmed": True}, {"failed_length": 3}):
        assert view.change(**change).failure is None
    _, notes = ViewState.parse("?cause=bad&confirmed=maybe&order=up&drawn=x&failure=-1&failed_length=1e9")
    assert len(notes) == 6


# ---- one failure, token by token -------------------------------------------------------------------------------------


def test_the_layout_is_that_of_the_task() -> None:
    defaults = TaskSettings()
    assert Layout() == Layout(defaults.alphabet, defaults.a, defaults.b, defaults.separator)
    for alphabet, a, b, separator in ((2, 2, 4, "\n"), (30, 1, 2, "*")):
        layout, vocabulary = Layout(alphabet, a, b, separator), Vocabulary(alphabet, a, b, separator)
        assert [layout.name(i) for i in range(len(vocabulary))] == list(vocabulary.names)
        task = CopyTask(TaskSettings(alphabet=alphabet, a=a, b=b, separator=separator))  # type: ignore[arg-type]
        rows = task.encode([[0, 1, 1, 0]]).scored_rows[0][0].tolist()
        assert rows == [layout.row(4, k) for k in range(5)]


def test_strings_of_large_alphabets_are_read_back() -> None:
    failure = fake_reports.failure("0123", 1, alphabet=4)
    assert tokens_of(failure) == (0, 1, 2, 3)
    assert tokens_of(failure.model_copy(update={"string": "12 7 30 1"})) == (12, 7, 30, 1)
    assert tokens_of(failure.model_copy(update={"string": "12", "length": 1})) == (12,)


def test_error_source_competitors_and_context_are_marked_in_words_and_shape(
    app: Dash, client: FlaskClient, tmp_path: Path
) -> None:
    ids = fake_store.fill(tmp_path / "store")
    string = "0110100110010110"
    fake_reports.keep_failures(tmp_path / "store", ids["rope"], [fake_reports.failure(string, 6, competitors=[10, 3])])
    app = create_app(tmp_path / "store")
    client = app.server.test_client()
    client.get("/")
    answer = call(app, client, "failures-case.children", f"?run={ids['rope']}")["failures-case"]
    given, copied, edited = (cells(answer, line) for line in range(3))
    assert "".join(given[i]["children"] for i in range(16)) == string and given[16]["children"] == "⏎"
    assert "asked" in given[6]["className"] and "should have been copied" in given[6]["title"]
    assert "strongest" in given[10]["className"] and "0.50 of the deciding attention" in given[10]["title"]
    assert "rival" in given[3]["className"] and "strongest" not in given[3]["className"]
    assert {i for i in given if "context" in given[i]["className"]} == {3, 4, 5, 7, 8, 9}
    assert copied[6]["className"].endswith("wrong first") and copied[6]["children"] == "1"
    assert [i for i in copied if "wrong" in copied[i].get("className", "")] == [6]
    assert copied[16]["children"] == "EOS"
    rows = {i: int(cell["data-row"]) for i, cell in copied.items()}
    assert rows == {i: 2 + 16 + 3 + i for i in range(17)}
    assert [edited[i]["data-flip"] for i in range(16)] == [str(i) for i in range(16)]


@settings(max_examples=60, deadline=None)
@given(
    length=st.integers(1, 3000),
    where=st.floats(0, 1),
    rivals=st.lists(st.floats(0, 1), max_size=6),
    whole=st.booleans(),
)
def test_windows_show_the_error_and_the_strongest_competitors(
    length: int, where: float, rivals: list[float], whole: bool
) -> None:
    string = "0" * length
    k = round(where * length)
    places = list(dict.fromkeys(i for rival in rivals if (i := round(rival * length)) != k))
    shown = segments(fake_reports.failure(string, k, competitors=places), whole, length + 1)
    columns = [i for start, stop in shown for i in range(start, stop)]
    assert columns == sorted(set(columns)) and columns[0] >= 0 and columns[-1] <= length
    assert k in columns and len(columns) <= MOST_WHOLE
    if whole and length < MOST_WHOLE:
        assert columns == list(range(length + 1))
    if not whole:
        assert set(places[:3]) <= set(columns)


def test_an_error_at_eos_is_said_to_be_one(app: Dash, client: FlaskClient, filled: tuple[Path, dict]) -> None:
    answer = as_text(call(app, client, "failures-case.children", f"?run={filled[1]['rope']}&cause=stop"))
    assert "EOS is wrong" in answer and "could not be shown" not in answer


@pytest.mark.parametrize("drawn", DRAWN)
def test_every_figure_says_what_is_seen_and_has_its_numbers(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict], drawn: str
) -> None:
    answer = call(app, client, "failures-graph.figure", f"?run={filled[1]['rope']}&drawn={drawn}")
    assert len(answer["failures-said"]["children"]) > 20
    opened = {"failures-graph-opened.data": 1}
    shown = call(app, client, "failures-graph-numbers.children", f"?run={filled[1]['rope']}&drawn={drawn}", **opened)
    table = json.loads(shown["failures-graph-numbers"]["children"]["props"]["data-plain"])
    assert json.dumps(table).count('"tr"') >= 2
    assert answer["failures-graph"]["figure"]["data"]


def test_lengths_reached_are_said(reports: Reports, filled: tuple[Path, dict]) -> None:
    content = reports.choose(ViewState(run=filled[1]["rope"])).content
    points = [
        content.curves[0].model_copy(update={"distribution": "uniform", "length": n, "exact_match": share})
        for n, share in ((10, 1.0), (20, 0.5), (40, 0.4), (80, 0.6))
    ]
    said = lengths_finding(content.model_copy(update={"curves": tuple(points)}))
    assert said == "At least half of the strings are copied up to a length of 20 (uniform)."


def test_a_point_leads_to_its_failure_and_nothing_else_does(reports: Reports, filled: tuple[Path, dict]) -> None:
    chosen = reports.choose(ViewState(run=filled[1]["rope"], drawn="strings", cause="length"))
    figure = draw(chosen, chosen.view).figure
    indices = [point[0] for trace in figure.data if trace.customdata is not None for point in trace.customdata]
    assert sorted(indices) == sorted(chosen.listed)
    assert clicked_failure(chosen, {"points": [{"customdata": [chosen.listed[-1], "x"]}]}) == chosen.listed[-1]
    for click in (None, {}, {"points": []}, {"points": [{"customdata": [0, "x"]}]}, {"points": [{"customdata": "ab"}]}):
        assert clicked_failure(chosen, click) is None
    assert len(error_places({}).data) == 0


# ---- a token changed and run again -----------------------------------------------------------------------------------


def test_tokens_are_cycled_set_and_refused(reports: Reports, filled: tuple[Path, dict]) -> None:
    chosen = reports.choose(ViewState(run=filled[1]["rope"], checkpoint=300))  # 0011
    assert failures_edits.with_token(chosen, 1, None) == "0111"
    assert failures_edits.with_token(chosen, 1, 0) is None, "the failed string itself is no edit"
    edited = reports.choose(ViewState(run=filled[1]["rope"], checkpoint=300, text="0111"))
    assert failures_edits.with_token(edited, 1, None) is None
    assert failures_edits.with_token(edited, 3, None) == "0110"
    for index, token in ((4, None), (-1, None), (0, 2), (0, -1)):
        with pytest.raises(UsageError):
            failures_edits.with_token(chosen, index, token)
    for text in ("0121", "0" * 1500):
        with pytest.raises(UsageError):
            failures_edits.edited_tokens(reports.choose(ViewState(run=filled[1]["rope"], checkpoint=300, text=text)))


def test_breaking_the_repeat_leaves_no_competitor_its_context(tmp_path: Path) -> None:
    ids = fake_store.fill(tmp_path / "store")
    string, k, rivals = "0110100110010110" * 3, 30, [14, 46]
    fake_reports.keep_failures(tmp_path / "store", ids["rope"], [fake_reports.failure(string, k, competitors=rivals)])
    chosen = Reports(Data(Store(tmp_path / "store"))).choose(ViewState(run=ids["rope"]))
    assert failures_edits.offered(chosen) == ["break", "elsewhere", "cut", "exchange"]
    for seed in range(5):
        broken = failures_edits.drawn_edit("break", chosen, seed)
        assert broken is not None and broken[k] == string[k]
        assert all(broken[i - 3 : i] != broken[k - 3 : k] for i in rivals)
        flips = sum(a != b for a, b in zip(broken, string, strict=True))
        control = failures_edits.drawn_edit("elsewhere", chosen, seed)
        assert control is not None and control[k] == string[k]
        assert sum(a != b for a, b in zip(control, string, strict=True)) == flips
        assert all(control[i - 3 : i] == control[k - 3 : k] for i in rivals), "the control leaves the repeats alone"
        cut = failures_edits.drawn_edit("cut", chosen, seed)
        assert cut is not None and 10 <= len(cut) <= 20
    with pytest.raises(UsageError):
        failures_edits.drawn_edit("__import__", chosen, 0)


@pytest.fixture(scope="module")
def live(trained_store: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Dash, FlaskClient, str]:
    """A dashboard over a trained run, with a report on its failures as the analysis makes it, and its model loaded."""
    from workbench.reports.failures import explain
    from workbench.subjects import load_subject

    root = Path(shutil.copytree(trained_store, tmp_path_factory.mktemp("live") / "store"))
    store = Store(root)
    run = store.open("latest")
    subject = load_subject(store, run.id, "cpu")
    keep.keep_failures(run, explain(subject, lengths=[8], distributions=["uniform"], strings=4, law_length=8))
    app = create_app(root)
    client = app.server.test_client()
    client.get("/")
    models = app.server.extensions["workbench-models"]
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            models.get(run.id, run.step)
            break
        except Loading:
            time.sleep(0.05)
    return app, client, run.id


def test_an_edited_string_is_run_and_shown_beside_the_failed_one(live: tuple[Dash, FlaskClient, str]) -> None:
    app, client, run_id = live
    data = Data(app.server.extensions["workbench"].store)
    chosen = Reports(data).choose(ViewState(run=run_id))
    assert chosen.failure is not None
    before = call(app, client, "failures-case.children", f"?run={run_id}")["failures-case"]
    assert "new copy" not in as_text(before), "nothing is run before an edit"
    edited = failures_edits.with_token(chosen, 3, None)
    answer = call(app, client, "failures-case.children", f"?run={run_id}&text={edited}")
    said = as_text(answer["failures-case"])
    assert "new copy" in said and "1 token changed" in said and "Edited string" in said
    assert "answer the failed string otherwise" not in said, "the report's first error is the model's"

    from models.evaluation import answer as answer_of
    from workbench.subjects import load_subject

    subject = load_subject(data.store, run_id, "cpu")
    outcome = answer_of(subject.model, CopyTask(subject.recipe.task).encode([edited or ""]))
    first = int(outcome.first_error[0])
    assert ("copied exactly" in said) == (first < 0)
    where = "EOS is wrong" if first == len(edited or "") else f"first error at token {first}"
    assert first < 0 or where in said
    assert "changed" in cells(answer["failures-case"], 2)[3]["className"]


def test_a_token_that_is_clicked_leads_to_the_edited_string(live: tuple[Dash, FlaskClient, str]) -> None:
    app, client, run_id = live
    output = answering(app, "failures-flip")

    def flip(asked: Any, query: str = "") -> Any:
        body = request_for(app, output, {"url.search": f"?run={run_id}{query}", "failures-flip.data": asked})
        answer = client.post("/_dash-update-component", json=body)
        assert answer.status_code in (200, 204), answer.text
        return answer.get_json()["response"] if answer.data else None

    there = flip({"k": 0, "token": None})["failures-go"]["data"]
    view, notes = ViewState.parse(there.partition("?")[2])
    assert notes == [] and view.failure == 0 and view.text is not None and len(view.text) == 8
    for asked in (
        None,
        3,
        {},
        {"k": "0"},
        {"k": True},
        {"k": 0, "token": "1"},
        {"k": 1.5},
        {"k": 10**9},
        {"k": float(9)},
    ):
        answer = flip(asked)
        assert answer is None or "failures-go" not in answer


def test_opening_the_page_and_pressing_hostile_buttons_loads_and_starts_nothing(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Jobs, "_start", lambda *args: pytest.fail("nothing may be started"))
    output = answering(app, "failures-ask")
    for asked in (
        None, 1, [], {"what": "explain"}, {"what": "explain", "on": "../../etc"}, {"what": "explain", "on": 3},
        {"what": "stop", "on": "zzzzzzzz"}, {"what": "forget", "on": "\x00"}, {"what": "__class__", "on": "x"},
        {"what": ["explain"], "on": "x"}, {"what": "explain", "on": "nothing-here"},
    ):  # fmt: skip
        body = request_for(app, output, {"url.search": f"?run={filled[1]['rope']}", "failures-ask.data": asked})
        assert client.post("/_dash-update-component", json=body).status_code in (200, 204), asked


# ---- captures and jobs -----------------------------------------------------------------------------------------------


def test_a_captured_failure_is_found_by_its_tokens_alone(
    data: Data, reports: Reports, filled: tuple[Path, dict]
) -> None:
    run = filled[1]["rope2d"]
    captured = Captured(data)
    chosen = reports.choose(ViewState(run=run, failure=0))
    found = captured.find(chosen)
    assert found is not None and found[1] == 1
    assert captured.find(reports.choose(ViewState(run=run, failure=1))) is None, "one token differs"
    view = attention_view(chosen, found, row=chosen.row)
    string = data.string(data.capture(run, found[0]), found[1])
    wrong = np.flatnonzero((string.predicted >= 0) & (string.predicted != string.targets))
    assert view.row == wrong[0] and view.layer == 0


def test_a_capture_of_other_weights_is_not_that_of_the_report(tmp_path: Path, filled: tuple[Path, dict]) -> None:
    root = Path(shutil.copytree(filled[0], tmp_path / "store"))
    run = filled[1]["rope2d"]
    about = next((root / run / "captures").iterdir()) / "capture.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "step": 400}))
    data = Data(Store(root))
    assert Captured(data).find(Reports(data).choose(ViewState(run=run))) is None


def test_a_cell_leads_to_attention_where_the_string_is_captured_and_else_to_the_playground(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict]
) -> None:
    for failure, page, way in ((0, "/attention?", "Attention at the failed row"), (1, "/playground?", "Capture, then")):
        query = f"?run={filled[1]['rope2d']}&failure={failure}"
        answer = as_text(call(app, client, "failures-case.children", query)["failures-case"])
        assert f'"data-opens": "{page}' in answer and way in answer


def test_jobs_are_the_command_line_word_by_word(tmp_path: Path) -> None:
    ids = fake_store.fill(tmp_path / "store")
    jobs = Jobs(Store(tmp_path / "store"), at_once=9, program=("/bin/echo",))
    measured = jobs.measure(ids["rope"], Kind.FAILURES)
    capture = jobs.capture(ids["rope"], "0110", 300)
    newest = jobs.capture(ids["rope"], "0" * 5000, 500)
    assert (measured.kind, capture.settings) == (Kind.FAILURES, ("text=0110", "checkpoint=300"))
    assert newest.settings == ("text=" + "0" * 5000,) and len(newest.title) < 300
    assert failures_work.is_working([capture], ids["rope"], Kind.CAPTURE)
    until = time.monotonic() + 20
    while jobs.working() and time.monotonic() < until:
        time.sleep(0.05)


def test_progress_is_read_from_what_a_job_says(tmp_path: Path) -> None:
    ids = fake_store.fill(tmp_path / "store")
    jobs = Jobs(Store(tmp_path / "store"), program=("/bin/echo",))
    job = jobs.measure(ids["rope"], Kind.FAILURES)
    said = replace(job, outcome=None, message=f"{ids['rope']}: 42/100  explaining  12 s left")
    shown = repr(failures_work.work([said], ids["rope"]))
    assert "value='42'" in shown and "12 s left" in shown and "Stop" in shown
    assert failures_work.work([replace(said, run="another")], ids["rope"]) == []


# ---- hostile input ---------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(value=hostile)
def test_no_argument_of_any_callback_makes_it_fail(app: Dash, client: FlaskClient, value: Any) -> None:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        value = "NaN"
    for output in failures_callbacks(app):
        answer = client.post("/_dash-update-component", json=request_for(app, output, {}, value))
        assert answer.status_code in (200, 204, 413), (output, answer.text)
        assert "Traceback" not in answer.text


def test_text_of_a_report_is_never_markup_and_never_invisible(tmp_path: Path) -> None:
    ids = fake_store.fill(tmp_path / "store")
    nasty = "</script><b>\u202e\u200b"
    made = fake_reports.failure("0011" * 4, 5, competitors=[9], inside=True)
    made = made.model_copy(update={"right": nasty, "predicted": "\n", "sentence": nasty, "also": (nasty,)})
    fake_reports.keep_failures(tmp_path / "store", ids["rope"], [made])
    app = create_app(tmp_path / "store")
    client = app.server.test_client()
    client.get("/")
    for drawn in DRAWN:
        for output in failures_callbacks(app):
            body = request_for(app, output, {"url.search": f"?run={ids['rope']}&drawn={drawn}"})
            answer = client.post("/_dash-update-component", json=body)
            assert answer.status_code in (200, 204) and "could not be shown" not in answer.text, output
            text = as_text(answer.get_json() or {})
            assert "\u200b" not in text and "\u202e" not in text, output


def test_the_page_is_served_without_torch(filled: tuple[Path, dict[str, str]]) -> None:
    script = """
import json, sys
from tests.test_dashboard import request_for, server_callbacks
from workbench.dashboard import create_app
app = create_app(sys.argv[1])
client = app.server.test_client()
client.get("/")
for output in server_callbacks(app):
    if "failures-" in output:
        body = request_for(app, output, {"url.search": "?run=" + sys.argv[2], "url.pathname": "/failures"})
        assert client.post("/_dash-update-component", json=body).status_code in (200, 204)
print("torch" in sys.modules)
"""
    home = Path(__file__).resolve().parent.parent
    done = subprocess.run(
        [sys.executable, "-c", script, str(filled[0]), filled[1]["rope"]],
        cwd=home, env={**os.environ, "PYTHONPATH": str(home)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "False"
