"""The Heads page without a browser: kept reports, the table, what is drawn, where a click leads, hostile input."""

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dash import Dash
from flask.testing import FlaskClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import fake_reports, fake_store
from tests.test_dashboard import answering, call, hostile, request_for, server_callbacks
from workbench.dashboard import create_app
from workbench.dashboard.data import Data
from workbench.dashboard.gate import Gate
from workbench.dashboard.pages import heads_panes, heads_strongest
from workbench.dashboard.pages.heads_evidence import neighbours
from workbench.dashboard.pages.heads_reports import Reports, default_score, shares
from workbench.dashboard.pages.heads_spaces import Spaces
from workbench.dashboard.pages.heads_table import sort_heads
from workbench.dashboard.parts import Nothing
from workbench.dashboard.state import SORTS, ViewState
from workbench.figures.head_grid import finding, score_grid
from workbench.reports import keep
from workbench.runs import Store

LABELS = [["locator", "look-back(1)"], ["aligned"]]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A store with a space in its name: one run with two reports and a history, one with one, one damaged."""
    root = tmp_path_factory.mktemp("heads") / "my store"
    ids = fake_store.fill(root)
    fake_reports.keep_heads(root, ids["rope"], LABELS)
    fake_reports.keep_heads(root, ids["rope"], [["mixed", "mixed"], ["mixed"]], step=300)
    fake_reports.keep_history(root, ids["rope"], LABELS)
    fake_reports.keep_heads(root, ids["rope2d"], [["aligned", "diffuse"]])
    damaged = fake_reports.run_of(root, ids["again"])
    keep.heads_file(damaged, 500).parent.mkdir()
    keep.heads_file(damaged, 500).write_text('{"format": 1, "heads": [')
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


def heads_callbacks(app: Dash) -> list[str]:
    return [name for name in server_callbacks(app) if name.startswith(("heads-", "..heads-"))]


def space_of(app: Dash, client: FlaskClient, query: str) -> dict[str, Any]:
    """The pane of an address, as soon as its space is made."""
    until = time.monotonic() + 60
    while True:
        answer = call(app, client, "heads-graph.figure", query)
        if answer["heads-tick"]["interval"] > 2000:
            return answer
        assert "placed" in as_text(answer["heads-said"]) and time.monotonic() < until
        time.sleep(0.05)


def as_text(answer: Any) -> str:
    return json.dumps(answer, ensure_ascii=False)


# ---- which report ----------------------------------------------------------------------------------------------------


def test_the_newest_report_is_shown_and_others_by_their_step(reports: Reports, filled: tuple[Path, dict]) -> None:
    rope = filled[1]["rope"]
    newest = reports.choose(ViewState(run=rope))
    assert newest.steps == (500, 300) and newest.content.step == 500
    assert newest.notes == ()
    assert reports.choose(ViewState(run=rope, checkpoint=300)).content.heads[0].label == "mixed"
    near = reports.choose(ViewState(run=rope, checkpoint=77))
    assert near.content.step == 300, "the nearest, as other pages may have chosen a step without a report"
    assert "step 77 has no report" in near.notes[0].lower() and "this one is of step 300" in near.notes[0]


def test_without_a_choice_the_page_shows_a_run_that_has_a_report(reports: Reports, filled: tuple[Path, dict]) -> None:
    assert reports.choose(ViewState()).run.id in (filled[1]["rope"], filled[1]["rope2d"])


def test_a_head_or_score_that_is_not_there_is_replaced_with_a_note(reports: Reports, filled: tuple[Path, dict]) -> None:
    chosen = reports.choose(ViewState(run=filled[1]["rope"], layer=9, head=9, score="logit.right"))
    assert (chosen.head.layer, chosen.head.head) == (1, 0)
    assert chosen.view.score in shares(chosen.content)
    assert len(chosen.notes) == 2


def test_a_run_without_a_report_says_the_command_that_finds_this_store(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict]
) -> None:
    root, ids = filled
    answer = call(app, client, "heads-table.children", f"?run={ids['nope']}")
    said = as_text(answer["heads-state"])
    command = f"workbench heads {ids['nope']} --store {shlex.quote(str(root))}"
    assert json.dumps(command)[1:-1] in said
    assert answer["heads-page"]["className"] == "nothing"
    for part in ("heads-evidence.children", "heads-graph.figure"):
        assert "Traceback" not in as_text(call(app, client, part, f"?run={ids['nope']}"))


def test_a_store_without_runs_says_how_to_make_one(tmp_path: Path) -> None:
    empty = create_app(tmp_path)
    client = empty.server.test_client()
    client.get("/")
    assert "make demo" in as_text(call(empty, client, "heads-table.children", ""))


def damaged_reports() -> list[bytes]:
    whole = fake_reports.heads_content("x", LABELS).model_dump(mode="json")
    heads = whole["heads"]
    twice = {**whole, "heads": [heads[0], heads[0]]}
    far = {**whole, "heads": [{**heads[0], "layer": 10**9}]}
    negative = {**whole, "heads": [{**heads[0], "layer": -1}]}
    more = {**whole, "surprise": 1}
    infinite = {**whole, "heads": [{**heads[0], "margin": float("nan")}]}
    texts = [json.dumps(content) for content in ({**whole, "heads": []}, twice, far, negative, more, infinite, [], 3)]
    return [b"", b"\xff\xfe", b"{" * 2000, *(text.encode() for text in texts)]


@pytest.mark.parametrize("content", damaged_reports())
def test_a_damaged_report_is_said_so_and_breaks_nothing(tmp_path: Path, content: bytes) -> None:
    ids = [fake_store.add_run(tmp_path, f"rope-2l-s{seed}-0000", "rope-2l", ["rope"], [2, 1]) for seed in (0, 1)]
    for run_id in ids:
        fake_reports.keep_heads(tmp_path, run_id, LABELS)
    run = fake_reports.run_of(tmp_path, ids[0])
    keep.heads_file(run, 900).write_bytes(content)
    keep.history_file(run).write_bytes(content)
    app = create_app(tmp_path)
    client = app.server.test_client()
    client.get("/")
    told = as_text(call(app, client, "heads-table.children", f"?run={ids[0]}")["heads-state"])
    assert "step 900 is damaged" in told and f"workbench heads {ids[0]}" in told
    assert (f"{ids[0]}@900" in told) is (run.step != 900), "the command makes the report of that step"
    options = call(app, client, "heads-run.options", f"?run={ids[0]}")["heads-step"]["options"]
    assert [option["value"] for option in options] == [900, 500], "the other report can still be chosen"
    assert "locator" in as_text(call(app, client, "heads-table.children", f"?run={ids[0]}&step=500"))
    history = call(app, client, "heads-graph.figure", f"?run={ids[0]}&step=500&pane=history")
    assert "damaged" in as_text(history["heads-said"])
    space = space_of(app, client, f"?run={ids[1]}&runs={ids[0]},{ids[1]}&pane=space")
    assert "damaged" in as_text(space["heads-below"]) and "3 heads" in as_text(space["heads-said"])


def test_a_report_that_appears_is_shown_at_the_next_look(tmp_path: Path) -> None:
    run_id = fake_store.add_run(tmp_path, "rope-2l-s0-0000", "rope-2l", ["rope"], [2, 1])
    app = create_app(tmp_path)
    client = app.server.test_client()
    client.get("/")
    output = next(name for name in server_callbacks(app) if "heads-table.children" in name)
    first = call(app, client, "heads-table.children", "")
    shown = {"url.search": "", "heads-table-shows.data": first["heads-table-shows"]["data"]}
    assert client.post("/_dash-update-component", json=request_for(app, output, shown)).status_code == 204
    fake_reports.keep_heads(tmp_path, run_id, LABELS)
    assert "locator" in client.post("/_dash-update-component", json=request_for(app, output, shown)).text


def test_an_older_report_says_that_the_run_went_on(tmp_path: Path) -> None:
    run_id = fake_store.add_run(tmp_path, "rope-2l-s0-0000", "rope-2l", ["rope"], [2, 1])
    fake_reports.keep_heads(tmp_path, run_id, LABELS, step=300)
    (note,) = Reports(Data(Store(tmp_path))).choose(ViewState()).notes
    assert "500" in note and "300" in note


# ---- the table -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", SORTS)
def test_sorting_is_by_the_column_and_the_other_way_round(column: str) -> None:
    heads = fake_reports.heads_content("x", [["sink", "aligned", "mixed"], ["locator", "aligned"]], uncertain=2).heads
    rising, falling = sort_heads(heads, column), sort_heads(heads, f"-{column}")
    assert sorted(map(id, rising)) == sorted(map(id, falling)) == sorted(map(id, heads))
    values = {"head": lambda h: (h.layer, h.head), "label": lambda h: h.label, "margin": lambda h: h.margin,
              "certain": lambda h: h.certain}.get(column)  # fmt: skip
    if values:
        assert [values(h) for h in rising] == sorted(values(h) for h in heads)
        assert [values(h) for h in falling] == sorted((values(h) for h in heads), reverse=True)


def test_a_heading_sorts_by_its_column_and_says_how_the_table_is_sorted(app: Dash, client: FlaskClient) -> None:
    def headings(query: str) -> dict[str, dict[str, Any]]:
        table = call(app, client, "heads-table.children", query)["heads-table"]["children"]
        row = table["props"]["children"][1]["props"]["children"]["props"]["children"]
        return {th["props"]["children"]["props"]["children"][0]: th["props"] for th in row}

    def leads_to(heading: dict[str, Any]) -> str:
        return str(ViewState.parse(heading["children"]["props"]["href"].partition("?")[2])[0].sort)

    first = headings("")
    assert first["Head"]["aria-sort"] == "ascending" and leads_to(first["Head"]) == "-head"
    assert "aria-sort" not in first["Margin"] and leads_to(first["Margin"]) == "-margin"
    then = headings("?sort=-margin")
    assert then["Margin"]["aria-sort"] == "descending" and leads_to(then["Margin"]) == "margin"
    assert all("aria-sort" not in then[name] for name in then if name != "Margin")


def test_every_row_tells_label_certainty_scores_and_verdict_in_words(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict]
) -> None:
    table = call(app, client, "heads-table.children", f"?run={filled[1]['rope']}&layer=1")["heads-table"]
    text = as_text(table)
    for said in ("locator", "look-back(1)", "certain", "uncertain", "locator.decoding ≥ 0.5", "0.90 [0.85, 0.95]",
                 "confirmed", "not confirmed", "no effect"):  # fmt: skip
        assert said in text, said
    assert text.count('"aria-current": "true"') == 1


def test_the_arrow_keys_walk_over_all_heads_and_back() -> None:
    counts = (3, 1, 2)
    assert neighbours(counts, 0, 0) == {"ArrowLeft": None, "ArrowRight": (0, 1), "ArrowUp": None, "ArrowDown": (1, 0)}
    assert neighbours(counts, 0, 2)["ArrowDown"] == (1, 0), "a layer with fewer heads gives its last one"
    assert neighbours(counts, 2, 1) == {"ArrowLeft": (2, 0), "ArrowRight": None, "ArrowUp": (1, 0), "ArrowDown": None}
    reached, new = set(), {(0, 0)}
    while new:
        reached |= new
        new = {to for at in new for to in neighbours(counts, *at).values() if to} - reached
    assert reached == {(layer, head) for layer, count in enumerate(counts) for head in range(count)}


# ---- what is drawn ---------------------------------------------------------------------------------------------------


def test_only_scores_between_0_and_1_are_drawn() -> None:
    content = fake_reports.heads_content("x", LABELS)
    names = shares(content)
    assert "locator.mass" in names and "logit.right" not in names
    assert "aligned.break" not in names, "measured for no head"
    below = [
        head.model_copy(update={"scores": {n: fake_reports.estimate(-0.3) for n in ("locator.decoding", "symbolic")}})
        for head in content.heads
    ]
    assert shares(content.model_copy(update={"heads": tuple(below)})) == ["locator.decoding"], "a label rests on it"
    decides = [default_score(content, names, head) for head in content.heads]
    assert decides == ["locator.mass", "lookback.mass", "aligned.mass"], "the score that decides a head's own label"
    assert default_score(content, ["aligned.mass"], content.heads[0]) == "aligned.mass", "else that decides most"
    assert default_score(content, [], content.heads[0]) is None


def test_the_grid_has_every_head_at_its_place_on_a_fixed_range() -> None:
    content = fake_reports.heads_content("x", LABELS)
    figure = score_grid(content.heads, "locator.decoding", selected=(1, 0))
    cells = figure.data[0]
    assert (cells.zmin, cells.zmax) == (0, 1)
    values = np.asarray(cells.z, float)
    assert values.shape == (2, 2)
    assert values[0, 0] == content.heads[0].scores["locator.decoding"].value
    assert np.isnan(values[0, 1]) and np.isnan(values[1, 0])
    missing = figure.data[1]
    assert set(zip(missing.y, missing.x, strict=True)) == {(0, 1), (1, 0)}
    assert all("measurable" in text for text in missing.text)
    assert all("anchors stand out" in text for text in missing.customdata), "the hover says why"
    assert "Head 0.0" in finding(content.heads, "locator.decoding") and "2 of 3" in finding(
        content.heads, "locator.decoding"
    )


def test_choosing_from_the_lists_leads_to_a_view_and_setting_them_does_not(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict]
) -> None:
    rope, other = filled[1]["rope"], filled[1]["rope2d"]
    set_now = {"run": rope, "step": 500, "score": "locator.mass"}
    values = {"heads-set.data": set_now, "heads-run.value": rope, "heads-step.value": 500,
              "heads-score.value": "locator.mass", "url.search": f"?run={rope}&step=300&layer=1"}  # fmt: skip
    assert client.post("/_dash-update-component", json=request_for(app, "heads-go.data", values)).status_code == 204
    for changed, expected in (
        ({"heads-run.value": other}, f"/heads?run={other}&layer=1"),
        ({"heads-step.value": 100}, f"/heads?run={rope}&checkpoint=100&layer=1"),
        ({"heads-score.value": "entropy"}, f"/heads?run={rope}&checkpoint=300&layer=1&score=entropy"),
    ):
        body = request_for(app, "heads-go.data", {**values, **changed})
        answer = client.post("/_dash-update-component", json=body).get_json()["response"]
        assert answer["heads-go"]["data"] == expected


def test_the_space_holds_the_heads_of_all_ticked_runs(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict]
) -> None:
    root, ids = filled
    runs = ",".join([ids["rope2d"], ids["nope"], ids["killed"]])
    answer = space_of(app, client, f"?run={ids['rope']}&runs={runs}&pane=space&layer=1")
    assert "5 heads of 2 runs" in as_text(answer["heads-said"])
    told = as_text(answer["heads-below"])
    command = f"workbench heads {ids['nope']} {ids['killed']} --store {shlex.quote(str(root))}"
    assert json.dumps(command)[1:-1] in told, "what is lacking, and how to get it"
    markers = [trace for trace in answer["heads-graph"]["figure"]["data"] if trace.get("ids")]
    assert sorted(int(i) for trace in markers for i in trace["ids"]) == list(range(5))
    alone = space_of(app, client, f"?run={ids['rope']}&pane=space")
    assert "3 heads" in as_text(alone["heads-said"]) and "Tick runs" in as_text(alone["heads-below"])


def test_the_history_says_since_when_a_head_has_its_label(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict]
) -> None:
    root, ids = filled
    answer = call(app, client, "heads-graph.figure", f"?run={ids['rope']}&pane=history&head=1")
    assert "look-back(1) from step 300 on" in as_text(answer["heads-said"])
    drawn = answer["heads-graph"]["figure"]["data"]
    assert [trace["name"] for trace in drawn] == ["lookback.mass"], "the scores that this label rests on"
    rows = as_text(answer["heads-below"])
    assert rows.count("mixed") == 6 and "exact match" in rows
    without = as_text(call(app, client, "heads-graph.figure", f"?run={ids['rope2d']}&pane=history")["heads-said"])
    command = f"workbench heads {ids['rope2d']} --checkpoints --store {shlex.quote(str(root))}"
    assert json.dumps(command)[1:-1] in without


def test_the_evidence_names_rule_scores_shares_effects_and_doubts(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict]
) -> None:
    text = as_text(call(app, client, "heads-evidence.children", f"?run={filled[1]['rope']}&layer=1"))
    for said in ("What a aligned does", "aligned.conflict", "is not sure", "no string in which the stripe breaks",
                 "aligned 0.70", "the same mass removed at random", "Open in Attention", "ArrowUp"):  # fmt: skip
        assert said in text, said
    chosen = fake_reports.heads_content("x", LABELS).heads[2]
    assert all(name in text for name in chosen.scores), "all scores are listed"


def test_text_of_a_report_is_never_markup(tmp_path: Path) -> None:
    run_id = fake_store.add_run(tmp_path, "rope-2l-s0-0000", "rope-2l", ["rope"], [2, 1])
    bad = "<img src=x onerror=alert(1)>\u202e"
    content = fake_reports.heads_content(run_id, LABELS)
    scores = {f"locator.mass.{bad}": fake_reports.estimate(0.5), **content.heads[0].scores}
    evil = [
        head.model_copy(update={"label": bad, "scores": scores, "doubts": (bad,), "shares": {bad: 0.5}})
        for head in content.heads
    ]
    run = fake_reports.run_of(tmp_path, run_id)
    keep.keep(run, content.model_copy(update={"heads": tuple(evil), "finding": bad, "schemes": (bad, bad)}))
    history = fake_reports.history_content(run_id, LABELS)
    renamed = [c.model_copy(update={"heads": tuple(evil)}) for c in history.checkpoints]
    keep.keep_history(run, history.model_copy(update={"checkpoints": tuple(renamed)}))
    app = create_app(tmp_path)
    client = app.server.test_client()
    client.get("/")
    for query in ("", "?pane=space", "?pane=history"):
        figure = as_text(space_of(app, client, query)["heads-graph"])
        assert "<img" not in figure, query
        for part in ("heads-table.children", "heads-evidence.children", "heads-run.options"):
            assert "\u202e" not in as_text(call(app, client, part, query)), (part, query)


# ---- where a click leads ---------------------------------------------------------------------------------------------


def dense_mass(data: Data, run: str, index: int, layer: int, head: int, label: str) -> float:
    """Mean mass of the label's keys, from the whole pattern."""
    capture = data.capture(run, data.run(run).captures[0])
    string = capture.string(index)
    n = len(string.tokens)
    pattern = string.head(layer, head).tile(slice(0, n), slice(0, n)).astype(float)
    copy = string.source_position >= 0
    if label == "locator":
        return float(pattern[copy][:, string.anchor_positions].sum(1).mean())
    if label == "aligned":
        return float(pattern[np.flatnonzero(copy), string.source_position[copy]].mean())
    if label == "sink":
        return float(pattern[1:, 0].mean())
    offset = {"self": 0, "look-back(1)": 1, "look-back(4)": 4}[label]
    return float(np.diagonal(pattern, -offset).mean())


@pytest.mark.parametrize("label", ["locator", "aligned", "sink", "self", "look-back(1)", "look-back(4)"])
def test_the_string_that_opens_is_the_one_with_most_mass_on_the_labels_keys(
    data: Data, filled: tuple[Path, dict], label: str
) -> None:
    run = filled[1]["rope"]
    chosen = Reports(data).choose(ViewState(run=run))
    heads = tuple(head.model_copy(update={"label": label}) for head in chosen.content.heads)
    chosen = type(chosen)(
        chosen.view, chosen.run, chosen.steps, chosen.content.model_copy(update={"heads": heads}), heads[0]
    )
    for (layer, head), found in heads_strongest.Strings(data).of(chosen, ViewState(run=run)).items():
        masses = [dense_mass(data, run, index, layer, head, label) for index in range(6)]
        assert found.string == int(np.argmax(masses))
        assert found.view == ViewState(run=run, string=found.string, layer=layer, head=head)
        assert f"({max(masses):.2f})" in found.rule and "6 looked through" in found.rule


def test_where_patterns_do_not_tell_the_first_failed_string_opens(data: Data, filled: tuple[Path, dict]) -> None:
    run = filled[1]["rope"]
    chosen = Reports(data).choose(ViewState(run=run, checkpoint=300))
    found = heads_strongest.Strings(data).of(chosen, ViewState(run=run, checkpoint=300))[1, 0]
    assert found.string == 1 and "the first that fails" in found.rule
    assert found.view.checkpoint == 300, "going back shows the same report"


def test_a_report_of_other_weights_than_the_capture_opens_attention_at_its_own(
    data: Data, filled: tuple[Path, dict], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = filled[1]["rope"]
    chosen = Reports(data).choose(ViewState(run=run, checkpoint=300))
    monkeypatch.setattr(heads_strongest, "captured_step", lambda capture: 500)
    found = heads_strongest.Strings(data).of(chosen, ViewState(run=run, checkpoint=300))[1, 0]
    assert found.view.checkpoint == 300
    assert "Captured at step 500, as pictured" in found.rule
    newest = Reports(data).choose(ViewState(run=run))
    assert heads_strongest.Strings(data).of(newest, ViewState(run=run))[1, 0].view.checkpoint is None


def test_long_strings_are_not_looked_through(
    data: Data, filled: tuple[Path, dict], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads_strongest, "LOOKED_THROUGH", 3 * 126 - 1)
    chosen = Reports(data).choose(ViewState(run=filled[1]["rope"]))
    found = heads_strongest.Strings(data).of(chosen, ViewState())[0, 0]
    assert found.string == 1 and "this long" in found.rule


def test_a_run_without_captures_still_shows_its_heads(data: Data, tmp_path: Path) -> None:
    run_id = fake_store.add_run(tmp_path, "rope-2l-s0-0000", "rope-2l", ["rope"], [2, 1])
    fake_reports.keep_heads(tmp_path, run_id, LABELS)
    own = Data(Store(tmp_path))
    found = heads_strongest.Strings(own).of(Reports(own).choose(ViewState()), ViewState())[0, 1]
    assert found.view == ViewState(run=run_id, head=1) and found.capture is None


def test_a_click_on_a_head_opens_it_in_attention(app: Dash, client: FlaskClient, filled: tuple[Path, dict]) -> None:
    ids = filled[1]
    output = answering(app, "heads-graph")

    def leads(query: str, point: dict[str, Any]) -> str | None:
        values = {"heads-graph.clickData": {"points": [point]}, "url.search": query}
        answer = client.post("/_dash-update-component", json=request_for(app, output, values))
        assert answer.status_code in (200, 204)
        return answer.get_json()["response"]["heads-go"]["data"] if answer.status_code == 200 else None

    there = leads(f"?run={ids['rope']}", {"x": 0, "y": 1})
    assert there is not None and there.startswith("/attention?")
    view = ViewState.parse(there.partition("?")[2])[0]
    assert (view.run, view.layer, view.head) == (ids["rope"], 1, 0) and view.string is not None
    assert leads(f"?run={ids['rope']}", {"x": 1, "y": 1}) is None, "layer 1 has one head"
    both = f"?run={ids['rope']}&runs={ids['rope2d']}&pane=space"
    space_of(app, client, both)
    other = leads(both, {"id": "4", "x": 0, "y": 0})
    assert other is not None and f"run={ids['rope2d']}" in other and "head=1" in other
    for bad in ({"id": "99"}, {"id": "-1"}, {"id": 4}, {"id": "٣"}, {}, {"x": float("1e308"), "y": None}):
        assert leads(both, bad) is None
        assert leads(f"?run={ids['rope']}", bad) is None
    assert leads(f"?run={ids['rope']}&pane=history", {"x": 0, "y": 0}) is None


# ---- views, hostile input, start -------------------------------------------------------------------------------------


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=80).filter(str.isprintable)


@given(
    st.builds(
        ViewState,
        checkpoint=st.none() | st.integers(0, 10**9 - 1),
        score=st.none() | names,
        sort=st.sampled_from([*SORTS, *(f"-{name}" for name in SORTS)]),
        pane=st.sampled_from(["scores", "space", "history"]),
    )
)
def test_every_view_of_heads_is_a_link_and_back(view: ViewState) -> None:
    assert ViewState.parse(view.query()) == (view, [])


def test_another_run_forgets_the_step_of_the_report_and_keeps_the_score() -> None:
    view = ViewState(run="a", checkpoint=3, score="entropy", sort="-margin").change(run="b")
    assert view == ViewState(run="b", score="entropy", sort="-margin")


QUERIES = [
    "", "?pane=space", "?pane=history", "?step=300", "?step=7", "?score=nothing", "?sort=-intervention",
    "?layer=999999999&head=999999999", "?run=nothing", "?run=..%2F..", "?runs=a,b,c&pane=space",
    "?capture=none", "?score=%3Cscript%3E",
]  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
def test_every_region_answers_every_address(app: Dash, client: FlaskClient, query: str) -> None:
    for output in heads_callbacks(app):
        answer = client.post("/_dash-update-component", json=request_for(app, output, {"url.search": query}))
        assert answer.status_code in (200, 204), output
        assert "Traceback" not in answer.text
        assert "terminal" not in answer.text, "nothing fails in a way that was not foreseen"


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(value=hostile, pane=st.sampled_from(["scores", "space", "history"]))
def test_no_argument_of_any_callback_makes_it_fail(app: Dash, client: FlaskClient, value: Any, pane: str) -> None:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        value = "NaN"
    for output in heads_callbacks(app):
        for given_values in ({}, {"url.search": f"?pane={pane}"}):
            answer = client.post("/_dash-update-component", json=request_for(app, output, given_values, value))
            assert answer.status_code in (200, 204), (output, answer.text)
            assert "Traceback" not in answer.text


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(point=st.dictionaries(st.sampled_from(["x", "y", "id", "curveNumber", "customdata"]), hostile))
def test_a_click_anywhere_leads_to_a_head_or_nowhere(filled: tuple[Path, dict], point: dict[str, Any]) -> None:
    reports, spaces = Reports(Data(Store(filled[0]))), Spaces(Gate())
    chosen = reports.choose(ViewState(run=filled[1]["rope"]))
    found = heads_panes.clicked_head(reports, spaces, chosen, ViewState(), {"points": [point]})
    assert found is None or found[1:] in {(0, 0), (0, 1), (1, 0)}


_SERVE = """
import json, sys
from tests.test_dashboard import request_for, server_callbacks
from tests.test_dashboard_heads import space_of
from workbench.dashboard import create_app
app = create_app(sys.argv[1])
client = app.server.test_client()
assert client.get("/").status_code == 200
loaded = []
for query in ("", "?pane=history", "?pane=space"):
    for output in server_callbacks(app):
        if "heads-" in output:
            body = request_for(app, output, {"url.search": query, "url.pathname": "/heads"})
            assert client.post("/_dash-update-component", json=body).status_code in (200, 204)
    if "space" in query:
        space_of(app, client, query)
    loaded.append([name for name in ("torch", "sklearn", "transformer_lens") if name in sys.modules])
print(json.dumps(loaded))
"""


def test_scikit_learn_is_imported_only_for_the_space_and_torch_never(filled: tuple[Path, dict]) -> None:
    home = Path(__file__).resolve().parent.parent
    done = subprocess.run(
        [sys.executable, "-c", _SERVE, str(filled[0])],
        cwd=home,
        env={**os.environ, "PYTHONPATH": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == [[], [], ["sklearn"]]


def test_nothing_is_raised_with_a_command_for_every_lack(reports: Reports, filled: tuple[Path, dict]) -> None:
    with pytest.raises(Nothing) as lack:
        reports.choose(ViewState(run=filled[1]["nope"]))
    assert lack.value.commands[0].startswith("workbench heads ")
    with pytest.raises(Nothing) as lack:
        reports.choose(ViewState(run=filled[1]["again"]))
    assert "damaged" in str(lack.value)
