"""The report on failures: what it holds, how it is written down, and that it is the same every time."""

import csv
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import plotly.graph_objects as go
import pytest

from analyses.trials import Trial
from models.errors import WorkbenchError
from models.evaluation import evaluate, wilson
from models.tasks import CopyTask
from workbench.content import SCHEMAS, FailuresComparison, FailuresContent, schema
from workbench.content.failures import AftermathContent, GroupContent
from workbench.figures.failures import cause_bars, coefficient_dots, fixed_length_dots, law_lines, row_dots
from workbench.reports import failures_comparison, failures_html, failures_kinds, failures_text, keep
from workbench.reports.failures import explain, trained_range
from workbench.reports.failures_words import advice_of, aftermath_text, trial_text
from workbench.runs import Store
from workbench.subjects import Subject, load_subject

OPTIONS = {"lengths": [20, 40], "distributions": ["uniform", "repeat-structure"], "strings": 3, "law_length": 20}


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    return load_subject(Store(tmp_path_factory.mktemp("store")), "built:induction-3", "cpu")


@pytest.fixture(scope="module")
def said() -> list[tuple[float, str]]:
    return []


@pytest.fixture(scope="module")
def content(subject: Subject, said: list[tuple[float, str]]) -> FailuresContent:
    return explain(subject, **OPTIONS, progress=lambda share, what: said.append((share, what)))


@pytest.fixture(scope="module")
def faultless(tmp_path_factory: pytest.TempPathFactory) -> FailuresContent:
    store = Store(tmp_path_factory.mktemp("store"))
    return explain(load_subject(store, "built:rope2d-aligned-100", "cpu"), **OPTIONS)


class _Outside(HTMLParser):
    """Collects every address that a browser would follow by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [str(value) for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]


def without_date(page: str, content: FailuresContent) -> str:
    return page.replace(content.about.created, "DATE")


def test_an_induction_head_fails_by_repetition_and_the_counterfactual_says_so(content: FailuresContent) -> None:
    assert content.failed == len(content.failures) == content.causes["repetition"].confirmed > 3
    assert content.finding.endswith(f"{content.failed} by repetition")
    cause = content.causes["repetition"]
    assert (cause.supported.value, cause.control.value) == (1, 0)
    assert cause.supported.interval == wilson(cause.tried, cause.tried) and cause.control.interval == wilson(
        0, cause.tried
    )
    assert content.regression.fixed_length.answer == "yes"
    assert content.law_summary is not None and content.law_summary.handled
    margin = content.law_summary.margin_slope.interval
    assert margin is not None and margin[1] < 0


def test_a_failure_holds_what_went_wrong_and_where(content: FailuresContent) -> None:
    for failure in content.failures:
        tokens = failure.string.split() if " " in failure.string else list(failure.string)
        assert len(tokens) == failure.length
        if failure.first_error < failure.length:
            assert failure.right == tokens[failure.first_error]
        assert failure.logit_predicted >= failure.logit_right and failure.predicted != failure.right
        assert failure.competitors and all(found.index != failure.first_error for found in failure.competitors)
        masses = [found.mass for found in failure.competitors]
        assert masses == sorted(masses, reverse=True)
        assert "right again in 100%" in failure.sentence
    assert 0 < sum(failure.anatomy is not None for failure in content.failures) <= 2


def test_curves_are_those_of_an_evaluation(content: FailuresContent, subject: Subject) -> None:
    lengths = sorted({point.length for point in content.curves})
    assert {20, 40} <= set(lengths) and max(lengths) == 40
    scores = evaluate(
        subject.model,
        CopyTask(subject.recipe.task),
        intervals=[(n, n) for n in lengths],
        distributions=["uniform", "repeat-structure"],
        strings=content.curves[0].strings,
    )
    assert [(s.distribution, s.length, s.exact_match, s.interval) for s in scores] == [
        (p.distribution, p.length, p.exact_match, p.interval) for p in content.curves
    ]


def test_progress_goes_forwards_to_the_end(content: FailuresContent, said: list[tuple[float, str]]) -> None:
    shares = [share for share, _ in said]
    assert content.strings == 12 and shares == sorted(shares) and shares[-1] == 1


def test_a_trained_model_that_copies_nothing_is_no_place_to_read_causes() -> None:
    def group(length: int, failed: int) -> GroupContent:
        return GroupContent(distribution="uniform", length=length, strings=5, failed=failed, explained=failed,
                            exact_match=1 - failed / 5, interval=(0, 1))  # fmt: skip

    assert "None of the 10 strings" in advice_of([group(10, 5), group(20, 5), group(40, 5)], 20, True)
    assert advice_of([group(10, 5), group(20, 4), group(40, 5)], 20, True) == ""
    assert advice_of([group(10, 5)], 20, False) == "", "a hand-built model fails as it was built to"


def test_a_model_that_never_fails_gets_advice(faultless: FailuresContent) -> None:
    longest = max(group.length for group in faultless.groups)
    assert not faultless.failures and faultless.finding == f"no copy fails, of 12 strings of up to {longest} tokens"
    assert "--lengths 4000,8000" in faultless.advice and "--checkpoint" not in faultless.advice
    page = failures_html.render(faultless)
    assert faultless.advice.replace("'", "&#x27;") in page and "Every failure" not in page
    assert faultless.advice in failures_text.markdown(faultless)


def test_the_json_is_what_the_published_schema_says(content: FailuresContent) -> None:
    assert FailuresContent.model_validate_json(content.model_dump_json()) == content
    assert {"subject", "strings", "failed", "failures", "causes", "law", "regression"} <= schema("failures")[
        "properties"
    ].keys()
    assert set(SCHEMAS) >= {"failures", "failures-comparison"}
    found = content.model_dump(mode="json")
    assert {
        "string",
        "distribution",
        "length",
        "first_error",
        "predicted",
        "right",
        "cause",
        "confirmed",
        "evidence",
    } <= (found["failures"][0].keys())
    assert {"period", "flip", "survival", "strings", "exact_match", "interval"} <= found["law"][0].keys()


def test_the_same_seed_gives_the_same_bytes_but_for_the_date(content: FailuresContent, subject: Subject) -> None:
    again = explain(subject, **OPTIONS)
    first, second = (without_date(failures_html.render(one), one) for one in (content, again))
    assert first == second
    assert failures_text.comma_separated([content]) == failures_text.comma_separated([again])


def test_the_file_follows_no_outside_address(content: FailuresContent) -> None:
    page = failures_html.render(content)
    parser = _Outside()
    parser.feed(re.sub(r"<script.*?</script>", "", page, flags=re.S))
    assert parser.addresses and [a for a in parser.addresses if not a.startswith(("#", "data:"))] == []


def test_text_from_data_is_never_markup(content: FailuresContent) -> None:
    evil = '"><script>alert(1)</script>'
    failure = content.failures[0].model_copy(update={"predicted": evil, "distribution": evil, "string": evil * 3})
    changed = content.model_copy(
        update={
            "subject": evil,
            "failures": (failure,),
            "groups": tuple(group.model_copy(update={"distribution": evil}) for group in content.groups),
        }
    )
    page = failures_html.render(changed)
    plain = failures_html.render(content)
    assert page.count("<script") == plain.count("<script") - _figures_of(plain) + _figures_of(page)
    assert "alert(1)</script>" not in re.sub(r"<script.*?</script>", "", page, flags=re.S)
    compared = failures_comparison.render(failures_comparison.compare([changed, content]))
    assert "alert(1)</script>" not in re.sub(r"<script.*?</script>", "", compared, flags=re.S)


def test_csv_and_markdown_hold_every_failure(content: FailuresContent) -> None:
    rows = list(csv.DictReader(io.StringIO(failures_text.comma_separated([content, content]))))
    assert len(rows) == 2 * content.failed and {row["cause"] for row in rows} == {"repetition"}
    assert all(float(row["logit_predicted"]) >= float(row["logit_right"]) for row in rows)
    text = failures_text.markdown(content)
    assert f"| repetition | {content.failed} | {content.failed} | 0 |" in text and "| uniform |" in text


def test_figures_show_every_group_and_interval(content: FailuresContent, faultless: FailuresContent) -> None:
    bars = cause_bars(content.groups, content.failures)
    heights = {(trace.xaxis or "x", x): y for trace in bars.data for x, y in zip(trace.x, trace.y, strict=True)}
    assert list(heights.values()) == pytest.approx([1 - group.exact_match for group in content.groups])
    periods = {point.period for point in content.law}
    assert len(law_lines(content.law).data) == 2 * len(periods)
    for figure in (coefficient_dots(content.regression), row_dots(content.rows)):
        assert isinstance(figure, go.Figure)
        for trace in figure.data:
            assert all(low >= 0 for low in trace.error_x.array) and all(low >= 0 for low in trace.error_x.arrayminus)
    assert fixed_length_dots(faultless.regression.fixed_length.lengths) is None
    assert fixed_length_dots(content.regression.fixed_length.lengths) is not None


def test_failures_beyond_the_most_are_counted_and_shown_as_unexplained(subject: Subject) -> None:
    few = explain(subject, **{**OPTIONS, "most": 1, "lengths": [40], "distributions": ["repeat-structure"]})
    assert few.failed == 3 and len(few.failures) == 1 and few.notes[0].startswith("2 failures are counted")
    heights = [sum(trace.y) for trace in cause_bars(few.groups, few.failures).data]
    assert heights == pytest.approx([1 / 3, 2 / 3])


def test_a_distribution_without_failures_keeps_its_panel(content: FailuresContent) -> None:
    one = content.groups[0]
    copied = one.model_copy(update={"distribution": "copied", "failed": 0, "explained": 0, "exact_match": 1.0})
    failed = one.model_copy(update={"failed": one.strings, "explained": 0, "exact_match": 0.0})
    drawn = {trace.xaxis or "x" for trace in cause_bars([copied, failed], []).data}
    assert drawn == {"x", "x2"}  # an axis without a trace is not drawn, and its title falls onto another


def test_seeds_of_one_kind_are_summarised(content: FailuresContent, faultless: FailuresContent) -> None:
    better = content.model_copy(
        update={
            "subject": "other",
            "curves": tuple(p.model_copy(update={"exact_match": 1.0}) for p in content.curves),
        }
    )
    compared = failures_comparison.compare([content, better, faultless])
    assert FailuresComparison.model_validate_json(compared.model_dump_json()) == compared
    assert len(compared.spread) == len(content.curves)
    for point, before in zip(compared.spread, content.curves, strict=True):
        assert (point.subjects, point.lowest, point.highest) == (2, before.exact_match, 1.0)
        assert point.mean == pytest.approx((1 + before.exact_match) / 2)
    page = failures_comparison.render(compared)
    assert "built:rope2d-aligned-100" in page and "The law, side by side" in page and "By scheme" in page


def test_kinds_put_seeds_together_and_keep_checkpoints_of_a_run_apart(
    content: FailuresContent, faultless: FailuresContent
) -> None:
    other = content.model_copy(update={"subject": "other", "step": 7, "failed": 0})
    first, second = failures_kinds.by_kind([content, other, faultless])
    assert (first.subjects, first.steps, second.subjects) == ((content.subject, "other"), (0, 7), (faultless.subject,))
    share = 1 - content.failed / content.strings
    assert (first.exact_match.lowest, first.exact_match.highest) == (pytest.approx(share), 1.0)
    assert first.exact_match.mean == pytest.approx((share + 1) / 2)
    assert sum(first.answers.values()) == 2 and sum(second.answers.values()) == 1
    auc = content.regression.fixed_length.auc.value
    assert (first.auc.mean, first.auc.subjects) == (pytest.approx(auc), 2) and second.auc.mean is None
    same = content.model_copy(update={"step": 7})
    kinds = failures_kinds.by_kind([content, same])
    assert [kind.kind.rpartition(", ")[2] for kind in kinds] == ["step 0", "step 7"]
    table = failures_kinds.markdown([first, second]).splitlines()
    assert len(table) == 6 and len({line.count("|") for line in table[2:]}) == 1 and "not measurable" in table[-1]


def test_kept_reports_are_found_by_step_and_damaged_ones_named(content: FailuresContent, tmp_path: Path) -> None:
    class Run:
        id, path = "rope-2l-s0-0000", tmp_path

    for step in (40, 7):
        keep.keep_failures(Run, content.model_copy(update={"step": step}))  # type: ignore[arg-type]
    (tmp_path / "reports" / "heads-00000003.json").write_text("{}")
    assert keep.kept_failures_steps(Run) == [7, 40]  # type: ignore[arg-type]
    assert keep.kept_failures(Run, 40).failures == content.failures  # type: ignore[arg-type]
    (tmp_path / "reports" / "failures-00000007.json").write_text('{"subject": 1')
    with pytest.raises(WorkbenchError, match="workbench failures rope-2l-s0-0000 --checkpoint 7"):
        keep.kept_failures(Run, 7)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("after", "says"),
    [
        ({"slip": 2, "follows": 12, "recovers_at": None, "stops_at": 18}, "goes on 2 ahead, stops 2 early"),
        ({"slip": -3, "follows": 12, "recovers_at": None, "stops_at": None}, "goes on 3 back"),
        ({"slip": 0, "follows": 0, "recovers_at": 11, "stops_at": 20}, "right again after 1"),
        ({"slip": None, "follows": 1, "recovers_at": None, "stops_at": 21}, "is lost, stops 1 late"),
        ({"slip": None, "follows": 0, "recovers_at": None, "stops_at": 10}, "stops 10 early"),
    ],
)
def test_what_follows_the_error_is_said(content: FailuresContent, after: dict, says: str) -> None:
    failure = content.failures[0].model_copy(update={"length": 20, "first_error": 10})
    assert aftermath_text(AftermathContent(continuation=(0,), **after), failure) == says


def test_the_trained_range_of_a_construction_is_what_it_was_built_for(subject: Subject) -> None:
    assert trained_range(subject) == (1, 2000)


def test_lengths_that_are_left_open_are_possible(tmp_path: Path) -> None:
    """Over 128 tokens no string of more than 128 has unique contexts of one."""
    one = load_subject(Store(tmp_path), "built:induction", "cpu")
    found = explain(one, strings=1, most=0)
    assert {group.length for group in found.groups} == {64, 128}
    longer = explain(one, lengths=[200], strings=1, most=0)
    assert [group.distribution for group in longer.groups] == ["uniform", "recursive-flip", "repeat-structure"]


def _figures_of(page: str) -> int:
    return len(re.findall(r'id="figure-\d+"', page))


def test_a_repetition_trial_that_mends_without_moving_attention_says_why_it_is_refuted() -> None:
    trial = Trial("repetition", share=1.0, control=0.0, draws=6, changed=2.0, left=0.0)
    assert trial.verdict == "refuted" and "attention stayed where it was (left in 0%)" in trial_text(trial)
    moved = Trial("repetition", share=1.0, control=0.0, draws=6, changed=2.0, left=1.0)
    assert moved.verdict == "confirmed" and "(attention left them in 100%)" in trial_text(moved)
