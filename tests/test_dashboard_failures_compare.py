"""Two reports, or two failures of one, on the Failures page: which two, what is subtracted, links, hostile input."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dash import Dash
from flask.testing import FlaskClient

from tests import fake_reports, fake_store
from tests.test_dashboard import call, request_for
from tests.test_dashboard_failures import as_text, cells, failures_callbacks
from workbench.content.failures import FailuresContent
from workbench.dashboard import create_app
from workbench.dashboard.beside import Beside
from workbench.dashboard.data import Data
from workbench.dashboard.pages import failures as page
from workbench.dashboard.pages import failures_choices, failures_drawn
from workbench.dashboard.pages import failures_compare as compare
from workbench.dashboard.pages import failures_compare_case as compare_case
from workbench.dashboard.pages.failures_captured import Captured
from workbench.dashboard.pages.failures_compare_drawn import difference_finding, draw
from workbench.dashboard.pages.failures_compare_strings import ComparedReports, SecondSays
from workbench.dashboard.pages.failures_reports import Reports
from workbench.dashboard.parts import Nothing
from workbench.dashboard.state import DRAWN, ViewState
from workbench.figures.failure_groups import cells_of, group_maps
from workbench.figures.failures import fixed_length_dots
from workbench.reports import keep
from workbench.runs import Store

FAILURES = fake_reports.some_failures(8)


def groups_of(content: FailuresContent, **changes: Any) -> FailuresContent:
    """The report with something of all its groups changed."""
    return content.model_copy(update={"groups": tuple(g.model_copy(update=changes) for g in content.groups)})


def keep_content(root: Path, run_id: str, content: FailuresContent) -> None:
    keep.keep_failures(fake_reports.run_of(root, run_id), content)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A store with a space in its name: a run with two reports, one with one, a damaged one, and runs without."""
    root = tmp_path_factory.mktemp("failures-compare") / "my store"
    ids = fake_store.fill(root)
    fake_reports.keep_failures(root, ids["rope"], FAILURES)
    # The earlier report is of the same strings: the first copied now, the second failing earlier, one string more.
    earlier = [fake_reports.failure(FAILURES[1].string, 2, "other", distribution=FAILURES[1].distribution)]
    earlier += [*FAILURES[2:], fake_reports.failure("0" * 20, 7, distribution=FAILURES[0].distribution)]
    content = fake_reports.failures_content(ids["rope"], earlier, step=300)
    groups = fake_reports.failures_content(ids["rope"], FAILURES).groups
    changed = tuple(
        g.model_copy(update={"failed": 2, "explained": 2, "exact_match": 0.25, "strings": g.strings}) for g in groups
    )
    keep_content(root, ids["rope"], content.model_copy(update={"groups": changed}))
    fake_reports.keep_failures(root, ids["rope2d"], [fake_reports.failure("0011", 2), fake_reports.failure("0101", 1)])
    damaged = fake_reports.run_of(root, ids["again"])
    keep.failures_file(damaged, 500).parent.mkdir()
    keep.failures_file(damaged, 500).write_text('{"format": 1, "failures": [')
    return root, ids


@pytest.fixture(scope="module")
def app(filled: tuple[Path, dict[str, str]]) -> Dash:
    return create_app(filled[0])


@pytest.fixture
def reports(filled: tuple[Path, dict[str, str]]) -> Reports:
    return ComparedReports(Data(Store(filled[0])))


def pair(reports: Reports, **view: Any) -> compare.Pair:
    asked = ViewState(**view)
    return compare.pair_of(reports, reports.choose(asked), asked)


# ---- which two -------------------------------------------------------------------------------------------------------


def test_a_comparison_begins_with_an_earlier_report_else_another_run_else_another_failure(
    reports: Reports, filled: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    rope, rope2d = filled[1]["rope"], filled[1]["rope2d"]
    assert compare.start(reports, reports.choose(ViewState(run=rope))) == Beside(checkpoint=300)
    assert compare.start(reports, reports.choose(ViewState(run=rope, checkpoint=300))).run is not None
    assert compare.start(reports, reports.choose(ViewState(run=rope2d))).run is not None
    ids = fake_store.fill(tmp_path / "store")
    fake_reports.keep_failures(tmp_path / "store", ids["rope"], FAILURES)
    alone = Reports(Data(Store(tmp_path / "store")))
    assert compare.start(alone, alone.choose(ViewState(failure=7))) == Beside(failure=0)
    assert compare.start(alone, alone.choose(ViewState(cause="length"))).failure == 5, "of those that are listed"
    assert compare.start(alone, alone.choose(ViewState(failed_length=999))) == Beside()


def test_the_second_is_the_failure_of_the_same_string_unless_another_is_named(
    reports: Reports, filled: tuple[Path, dict[str, str]]
) -> None:
    rope = filled[1]["rope"]
    same = pair(reports, run=rope, failure=3, beside=Beside(checkpoint=300))
    assert not same.same_report and same.second.failure is not None
    assert same.second.failure.string == FAILURES[3].string and same.second.view.failure == 2
    gone = pair(reports, run=rope, failure=0, beside=Beside(checkpoint=300))
    assert gone.second.failure is None, "the earlier report does not list it"
    named = pair(reports, run=rope, failure=0, cause="repetition", beside=Beside(failure=5))
    assert named.same_report and named.named and named.second.view.failure == 5, "whatever the list is filtered by"
    beyond = pair(reports, run=rope, beside=Beside(failure=99))
    assert not beyond.named and "no failure 99" in beyond.second.notes[0]
    assert compare.names(same) == ("step 500", "step 300")
    assert compare.names(named) == ("failure 0", "failure 5")


@pytest.mark.parametrize(
    "view", [{"failure": 3, "beside": Beside(checkpoint=300)}, {"beside": Beside(failure=5)},
             {"failure": 2, "beside": Beside(checkpoint=300, failure=1)}, {"beside": Beside(run="rope2d")}],
)  # fmt: skip
def test_swapping_twice_is_where_one_began(
    reports: Reports, filled: tuple[Path, dict[str, str]], view: dict[str, Any]
) -> None:
    beside = view["beside"]
    if beside.run:
        beside = Beside(run=filled[1][beside.run])
    one = pair(reports, **{**view, "run": filled[1]["rope"], "beside": beside})
    there = compare.swapped(one)
    other = compare.pair_of(reports, reports.choose(there), there)
    assert (other.first.run.id, other.first.content.step) == (one.second.run.id, one.second.content.step)
    assert (other.second.run.id, other.second.content.step) == (one.first.run.id, one.first.content.step)
    if one.named or one.second.failure is not None:
        assert other.first.failure == one.second.failure and other.second.failure == one.first.failure
    assert compare.names(other) == compare.names(one)[::-1]
    assert ViewState.parse(there.query()) == (there, [])


def test_the_list_tells_what_the_second_says_and_is_sorted_by_it(
    app: Dash, client: FlaskClient, reports: Reports, filled: tuple[Path, dict[str, str]]
) -> None:
    query = f"?run={filled[1]['rope']}&beside=checkpoint:300"
    shown = as_text(call(app, client, "failures-list.children", query)["failures-list"])
    assert "In the second" in shown and "fails at 2, other" in shown and '"copied"' in shown
    alone = as_text(call(app, client, "failures-list.children", f"?run={filled[1]['rope']}")["failures-list"])
    assert "In the second" not in alone
    view = ViewState(run=filled[1]["rope"], beside=Beside(checkpoint=300), order="second")
    rising, falling = (reports.choose(replace(view, order=order)) for order in ("second", "-second"))
    says = SecondSays(reports.data, compare.pair_of(reports, rising, view))
    ranks = [says.of(FAILURES[i]).rank for i in rising.listed]
    assert ranks == sorted(ranks) and sorted(rising.listed) == list(range(8)) and len(set(ranks)) > 2
    assert [says.of(FAILURES[i]).rank for i in falling.listed] == ranks[::-1]
    assert rising.view.failure == rising.listed[0]


# ---- two reports in numbers and figures ------------------------------------------------------------------------------


def test_causes_of_both_stand_beside_their_differences(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict[str, str]]
) -> None:
    query = f"?run={filled[1]['rope']}&beside=checkpoint:300"
    answer_of_top = call(app, client, "failures-about.children", query)
    shown = as_text(answer_of_top["failures-causes"])
    assert "Mended by the counterfactual" in shown
    assert "8 of 16" in shown and " 25%" in shown, "counts and shares"
    assert "−13 pp" in shown or "+13 pp" in shown or "−12 pp" in shown or "+12 pp" in shown, "1 of 8 in the difference"
    assert answer_of_top["failures-page"]["className"] == "comparing"
    assert "step 500" in as_text(answer_of_top["failures-compare"])


def test_the_difference_map_subtracts_groups_that_both_have_on_one_scale(
    reports: Reports, filled: tuple[Path, dict[str, str]]
) -> None:
    content = reports.choose(ViewState(run=filled[1]["rope"])).content
    other = groups_of(content, exact_match=0.2)
    more = content.groups[0].model_copy(update={"length": 99})
    figure = group_maps(content.groups, (*other.groups[:2], more), ("one", "other"))
    maps = [trace for trace in figure.data if trace.type == "heatmap"]
    assert [(trace.zmin, trace.zmax) for trace in maps] == [(0, 1), (0, 1), (-1, 1)]
    both = [value for line in maps[2].z for value in line if value is not None]
    assert both == pytest.approx([0.3, 0.3]), "first minus second, nothing where one has no such group"
    assert maps[2].colorscale[0][1] != maps[2].colorscale[-1][1] and maps[2].colorscale[1][0] == 0.5
    written = [text for trace in figure.data if trace.type == "scatter" for text in trace.text or ()]
    assert written == ["+.30", "+.30"]
    hatched = [trace for trace in figure.data if trace.type == "scatter" and trace.fill == "toself"]
    lacking = [sum(value is None for line in trace.z for value in line) for trace in maps]
    assert [list(trace.x).count(None) for trace in hatched] == [n for n in lacking if n]
    hovers = " ".join(text for line in maps[2].customdata for text in line)
    assert "only in the first" in hovers and "only in the second" in hovers


def test_the_finding_counts_both_and_says_where_they_differ_most(
    reports: Reports, filled: tuple[Path, dict[str, str]]
) -> None:
    found = pair(reports, run=filled[1]["rope"], beside=Beside(checkpoint=300))
    one, other = (cells_of(chosen.content.groups) for chosen in (found.first, found.second))
    copied = [sum(g.strings - g.failed for g in groups.values()) for groups in (one, other)]
    said = difference_finding(found)
    assert f"step 500 copies {copied[0]} of 16" in said and f"step 300 {copied[1]} of 16" in said
    assert "0.50 against 0.25" in said
    apart = pair(reports, run=filled[1]["rope"], beside=Beside(run=filled[1]["rope2d"]))
    assert "nothing is subtracted" in difference_finding(apart)
    nothing = compare.nothing_shared(reports, apart)
    assert nothing is not None and f"failures {filled[1]['rope2d']} " in nothing.commands[0], "a run may keep no step"
    turned = pair(reports, run=filled[1]["rope2d"], beside=Beside(run=filled[1]["rope"], checkpoint=300))
    early = compare.nothing_shared(reports, turned)
    assert early is not None and f"failures {filled[1]['rope']}@300 " in early.commands[0]
    assert "--lengths 20,40 --strings" in nothing.commands[0]
    assert "--distributions" in nothing.commands[0], "the second was asked about other ones"
    assert compare.nothing_shared(reports, found) is None
    one = replace(
        found.first, content=found.first.content.model_copy(update={"groups": found.first.content.groups[:1]})
    )
    said = difference_finding(replace(found, first=one))
    left = len(found.second.content.groups) - 1
    assert said.startswith(f"In the one group of both reports ({left} more are in one alone)")


def test_shares_of_other_strings_are_not_subtracted(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict[str, str]]
) -> None:
    def last_row(beside: str) -> tuple[Any, str]:
        query = f"?run={filled[1]['rope']}&beside={beside}"
        shown = call(app, client, "failures-about.children", query)["failures-causes"]["children"]
        text = as_text(shown)
        return text[text.index("failed strings") :].split("shares of other")[0], text

    same, text = last_row("checkpoint:300")
    assert " pp" in same and "shares of other" not in text
    apart, text = last_row(f"run:{filled[1]['rope2d']}")
    assert " pp" not in apart and '"\u2013"' in apart, "a dash"
    assert "shares of other strings" in text


def test_many_lengths_and_long_names_stay_apart_from_the_colour_bars(
    reports: Reports, filled: tuple[Path, dict[str, str]]
) -> None:
    group = reports.choose(ViewState(run=filled[1]["rope"])).content.groups[0]
    name = "a-distribution-whose-name-goes-on-and-on"
    many = [group.model_copy(update={"length": 10 * n, "distribution": name}) for n in range(1, 26)]
    few = group_maps(many[:4], many[:4], ("one", "other"))
    figure = group_maps(many, many, ("one", "other"))
    assert len(few.layout.xaxis.tickvals) == 4 and few.layout.xaxis.tickangle == 0
    assert len(figure.layout.xaxis.tickvals) == len(figure.layout.xaxis.ticktext) <= 10
    assert figure.layout.xaxis.ticktext[1] == f"{10 * (figure.layout.xaxis.tickvals[1] + 1)}"
    below = [[trace.colorbar.y for trace in drawn.data if trace.type == "heatmap"] for drawn in (few, figure)]
    assert max(below[1]) < min(below[0]) and figure.layout.margin.b > few.layout.margin.b
    written = figure.layout.yaxis.ticktext[0]
    assert len(written) == 24 and name.startswith(written.split("…")[0]) and name.endswith(written.split("…")[1])
    assert name in figure.data[0].customdata[0][0], "in full where one points"


def test_a_length_at_which_every_copy_fails_is_told_from_one_that_was_not_asked() -> None:
    at = fake_reports.failures_content("run", FAILURES).regression.fixed_length.lengths[0]
    unknown = at.auc.model_copy(update={"value": None, "interval": None})
    all_fail = at.model_copy(update={"failed": 20, "auc": unknown})
    figure = fixed_length_dots([at], [all_fail], ("one", "other"))
    assert figure is not None and figure.layout.xaxis.ticktext == ("20<br>10 of 20 fail<br>20 of 20 fail",)
    lacking = fixed_length_dots([at], [], ("one", "other"))
    assert lacking is not None and lacking.layout.xaxis.ticktext == ("20<br>10 of 20 fail<br>\u2013",)
    assert [trace.name for trace in lacking.data if trace.showlegend is not False] == ["one", "other"]
    alone = fixed_length_dots([at, all_fail.model_copy(update={"length": 30})])
    assert alone is not None and alone.layout.xaxis.ticktext == ("20<br>10 of 20 fail",)
    assert alone.layout.showlegend is False


def test_a_report_without_curves_or_with_failures_left_out_says_so(
    reports: Reports, filled: tuple[Path, dict[str, str]]
) -> None:
    found = pair(reports, run=filled[1]["rope"], beside=Beside(checkpoint=300))
    content = found.second.content.model_copy(update={"curves": (), "failed": 99})
    lacking = replace(found, second=replace(found.second, content=content))
    said = draw(reports.data, lacking, ViewState(drawn="lengths")).said
    assert said.startswith("No lengths were measured in the report of the second. Length up to which")
    assert "and not asked (uniform)" in said
    nothing = replace(lacking, first=replace(found.first, content=content.model_copy(update={"step": 500})))
    assert failures_drawn.lengths_finding(content) == "No lengths were measured."
    assert draw(reports.data, nothing, ViewState(drawn="lengths")).said.endswith("of the first and of the second.")
    said = draw(reports.data, lacking, ViewState(drawn="causes")).said
    assert f"99 of {content.strings} strings fail, of {len(content.failures)} explained" in said
    numbers = draw(reports.data, found, ViewState()).rows
    assert all(row[-1] in ("\u2013", "0.00") or row[-1][0] in "+\u2212" for row in numbers)
    assert not any("-0." in row[-1] for row in numbers)


@pytest.mark.parametrize("drawn", [None, *DRAWN])
def test_every_figure_of_two_reports_names_both_and_has_its_numbers(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict[str, str]], drawn: str | None
) -> None:
    query = f"?run={filled[1]['rope']}&beside=checkpoint:300" + (f"&drawn={drawn}" if drawn else "")
    shown = call(app, client, "failures-graph.figure", query)
    figure = as_text(shown["failures-graph"]["figure"])
    said = shown["failures-said"]["children"] + shown["failures-note"]["children"]
    if drawn == "strings":
        assert "The first's failures alone" in said
    else:
        assert "step 500" in figure and "step 300" in figure
        assert "second" in said or ("step 500" in said and "step 300" in said)
    assert as_text(shown["failures-bar"]).count('"aria-current": "true"') == 1
    assert "Difference" in as_text(shown["failures-bar"])
    opened = {"failures-graph-opened.data": 1}
    numbers = call(app, client, "failures-graph-numbers.children", query, **opened)["failures-graph-numbers"]
    table = json.loads(numbers["children"]["props"]["data-plain"])
    assert json.dumps(table).count('"tr"') >= 2
    if drawn != "strings":
        assert "First \u2212 second" in json.dumps(table, ensure_ascii=False)


def test_the_second_is_drawn_dashed_or_open_on_the_scale_of_the_first(
    reports: Reports, filled: tuple[Path, dict[str, str]]
) -> None:
    found = pair(reports, run=filled[1]["rope"], beside=Beside(checkpoint=300))
    for drawn in ("law", "lengths"):
        alone = reports.choose(ViewState(run=filled[1]["rope"], drawn=drawn))
        figure = draw(reports.data, found, ViewState(drawn=drawn)).figure
        single = page.failures_drawn.draw(alone, alone.view).figure
        assert figure.layout.yaxis.range == single.layout.yaxis.range
        lines = [trace for trace in figure.data if trace.mode == "lines+markers" and trace.x[0] is not None]
        dashes = {trace.line.dash for trace in lines}
        assert {"solid", "dash"} <= dashes
        assert all(("open" in trace.marker.symbol) == (trace.line.dash == "dash") for trace in lines)
        assert {"step 500", "step 300"} <= {trace.name for trace in figure.data if trace.showlegend is not False}
    bars = draw(reports.data, found, ViewState(drawn="causes")).figure
    sides = {trace.opacity for trace in bars.data if trace.width is not None}
    assert len(sides) == 2


def test_what_is_drawn_stays_in_the_address_and_the_difference_needs_no_word_in_it() -> None:
    bar = page.failures_drawn.bar
    both = ViewState(beside=Beside(failure=1))
    assert "Difference" not in repr(bar(ViewState())) and ViewState(drawn="law").query() == "?drawn=law"
    segments = bar(replace(both, drawn="lengths"), "Difference").children[-1].children
    hrefs = [segment.href for segment in segments]
    assert "drawn" not in hrefs[0] and "drawn=law" in hrefs[1] and "drawn=lengths" in hrefs[5]
    first = bar(both, "Difference").children[-1].children[0]
    assert first.to_plotly_json()["props"]["aria-current"] == "true"


# ---- two failures ----------------------------------------------------------------------------------------------------


def test_two_failures_stand_side_by_side_with_their_differences(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict[str, str]]
) -> None:
    query = f"?run={filled[1]['rope']}&failure=1&beside=failure:4"
    shown = call(app, client, "failures-case.children", query)
    second = shown["failures-second"]["children"]
    given = cells(second, 0)
    assert "".join(given[i]["children"] for i in sorted(given) if i < FAILURES[4].length) in FAILURES[4].string
    assert "Second: failure 4" in as_text(second) and "Evidence" in as_text(second)
    assert cells(second, 2) == {}, "the second is not edited here"
    table = as_text(shown["failures-both"])
    away = FAILURES[1].first_error - FAILURES[4].first_error
    assert f'"{away:+,}"'.replace("-", "−") in table or (away == 0 and '"0"' in table)
    assert "On competitors" in table and "Mended: repetition" in table
    assert call(app, client, "failures-about.children", query)["failures-page"]["className"] == "comparing two-cases"
    assert "Difference" not in as_text(call(app, client, "failures-graph.figure", query)["failures-bar"])


def test_the_same_string_in_both_reports_is_compared_in_numbers(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict[str, str]]
) -> None:
    query = f"?run={filled[1]['rope']}&failure=1&beside=checkpoint:300"
    said = as_text(call(app, client, "failures-case.children", query)["failures-both"])
    assert "In the second's report" in said and "Fails at 2, other" in said
    assert "beside=checkpoint:300,failure:0" in said, "the way to both cases side by side"
    query = f"?run={filled[1]['rope']}&failure=0&beside=checkpoint:300"
    said = as_text(call(app, client, "failures-case.children", query)["failures-both"])
    assert "Copied." in said and "drew the same" in said


def test_links_keep_the_comparison_in_words_that_other_pages_know(
    reports: Reports, filled: tuple[Path, dict[str, str]]
) -> None:
    rope = filled[1]["rope"]
    assert compare.elsewhere(pair(reports, run=rope, beside=Beside(checkpoint=300))) == Beside(checkpoint=300)
    two = pair(reports, run=rope, beside=Beside(failure=4))
    assert compare.elsewhere(two) == Beside(text=FAILURES[4].string)
    other = pair(reports, run=rope, beside=Beside(run=filled[1]["rope2d"]))
    assert compare.elsewhere(other) == Beside(run=filled[1]["rope2d"], checkpoint=500)
    captured = Captured(reports.data)
    assert compare.in_attention(two, captured, "x") is None, "its string is not captured"
    both = {FAILURES[0].string: ("first", 0), "0011": ("second", 3)}

    class Holding(Captured):
        def find(self, chosen: Any) -> tuple[str, int] | None:
            return both.get(chosen.failure.string) if chosen.failure else None

    there = pair(reports, run=rope, failure=0, beside=Beside(run=filled[1]["rope2d"], failure=0))
    assert compare.in_attention(there, Holding(reports.data), "first") == Beside(
        run=filled[1]["rope2d"], checkpoint=500, capture="second", string=3
    ), "the failure that was chosen, not the first's string"
    typed = compare_case.linked(two, two.first).view
    assert typed.beside == Beside(text=FAILURES[4].string)


# ---- nothing compared, nothing there, hostile ------------------------------------------------------------------------


def test_without_beside_no_second_is_looked_for(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "pair_of", lambda *args: pytest.fail("nothing is compared"))
    top = call(app, client, "failures-about.children", f"?run={filled[1]['rope']}")
    assert top["failures-compare"]["children"] == [] and top["failures-page"]["className"] == ""
    button = as_text(top["failures-about"])
    assert '"aria-keyshortcuts": "c"' in button and "beside=checkpoint:300" in button
    case = call(app, client, "failures-case.children", f"?run={filled[1]['rope']}")
    assert case["failures-second"]["children"] == [] and case["failures-both"]["children"] == []
    assert '"second"' not in as_text(case["failures-case"])
    assert "bar: probability" not in as_text(case["failures-case"]) and "that of the" not in as_text(case)


def test_a_second_without_a_report_leaves_the_first_and_says_the_command(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict[str, str]]
) -> None:
    for role, said in (("nope", "keeps no report"), ("again", "damaged")):
        query = f"?run={filled[1]['rope']}&beside=run:{filled[1][role]}"
        top = call(app, client, "failures-about.children", query)
        bar = as_text(top["failures-compare"])
        assert said in bar and f"workbench failures {filled[1][role]}" in bar and "Close" in bar
        assert "8 of 16 strings fail" in as_text(top["failures-about"])
        assert "Failures" in as_text(top["failures-causes"])
        assert "Failure 0" in as_text(call(app, client, "failures-case.children", query)["failures-case"])


def test_numbers_of_a_damaged_report_are_refused_in_words(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict[str, str]]
) -> None:
    for beside in ("", f"&beside=run:{filled[1]['rope']}"):
        query = f"?run={filled[1]['again']}{beside}"
        opened = {"failures-graph-opened.data": 1}
        said = as_text(call(app, client, "failures-graph-numbers.children", query, **opened))
        assert "damaged" in said and "could not be shown" not in said


def test_the_command_for_a_damaged_report_makes_that_of_its_step(tmp_path: Path) -> None:
    root = tmp_path / "store"
    ids = fake_store.fill(root)
    run = fake_reports.run_of(root, ids["rope"])
    fake_reports.keep_failures(root, ids["rope"], FAILURES)
    for step, named in ((300, f"{ids['rope']}@300 "), (run.step, f"{ids['rope']} ")):
        keep.failures_file(run, step).write_text("{}")
        with pytest.raises(Nothing, match="damaged") as told:
            Reports(Data(Store(root))).content(ids["rope"], step)
        assert f"workbench failures {named}" in told.value.commands[0] + " "


def test_a_filter_that_leaves_nothing_stays_in_its_list(reports: Reports, filled: tuple[Path, dict[str, str]]) -> None:
    asked = {"cause": "stop", "failed_distribution": "imbalanced", "failed_length": 77}
    view = ViewState(run=filled[1]["rope2d"], **asked)
    assert reports.choose(view).listed == ()
    values = failures_choices.values_of(reports.data, reports, view)
    for name, value in zip(("cause", "distribution", "length"), asked.values(), strict=True):
        options, now = values[name]
        assert now == value and any(option["value"] == value and "· 0" in option["label"] for option in options), name


def test_a_string_that_fails_twice_in_one_report_is_the_same_beside_itself(tmp_path: Path) -> None:
    root = tmp_path / "store"
    ids = fake_store.fill(root)
    fake_reports.keep_failures(root, ids["rope"], [FAILURES[0], FAILURES[1], FAILURES[0]])
    reports = ComparedReports(Data(Store(root)))
    view = ViewState(run=ids["rope"], failure=2, beside=Beside())
    shown = repr(compare.bar(reports, reports.choose(view), view))
    assert "Both are the same" in shown


@pytest.mark.parametrize(
    "beside",
    [
        "run:nothere", "run:../../etc", "checkpoint:999999999", "failure:999999999", "head:1", "text:0101", "same",
        "string:3", "capture:none", "layer:9,head:9", "run:{rope}", "run:{rope},failure:0", "run:{again}", "x:1", "",
        "run:{rope2d},checkpoint:7,failure:1", "checkpoint:300,failure:4",
    ],
)  # fmt: skip
def test_whatever_is_beside_every_region_answers_in_words(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict[str, str]], beside: str
) -> None:
    for more in ("", "&cause=stop&failed_length=7", "&failure=5&order=-second&drawn=lengths&whole=on"):
        query = f"?run={filled[1]['rope']}&beside={beside.format(**filled[1])}{more}"
        for output in failures_callbacks(app):
            body = request_for(app, output, {"url.search": query})
            found = client.post("/_dash-update-component", json=body)
            assert found.status_code in (200, 204), (output, found.text)
            assert "could not be shown" not in found.text and "Traceback" not in found.text, output


def test_text_of_a_second_report_is_never_markup_and_never_invisible(tmp_path: Path) -> None:
    root = tmp_path / "store"
    ids = fake_store.fill(root)
    nasty = "</script><b>\u202e\u200b"
    made = fake_reports.failure("0011" * 4, 5, competitors=[9], inside=True)
    trials = tuple(trial.model_copy(update={"cause": nasty}) for trial in made.trials)
    made = made.model_copy(update={"right": nasty, "predicted": "\n", "sentence": nasty, "trials": trials})
    fake_reports.keep_failures(root, ids["rope"], [made])
    fake_reports.keep_failures(root, ids["rope"], [made, made], step=300)
    app = create_app(root)
    client = app.server.test_client()
    client.get("/")
    for beside in ("checkpoint:300", "failure:0", "checkpoint:300,failure:1"):
        for drawn in ("", *(f"&drawn={name}" for name in DRAWN)):
            for output in failures_callbacks(app):
                body = request_for(app, output, {"url.search": f"?run={ids['rope']}&beside={beside}{drawn}"})
                found = client.post("/_dash-update-component", json=body)
                assert found.status_code in (200, 204) and "could not be shown" not in found.text, output
                text = as_text(found.get_json() or {})
                assert "\u200b" not in text and "\u202e" not in text, output
