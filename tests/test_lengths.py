"""Length generalisation over seeds: groups, spread, what is asked, what is taken from evaluations, and the figure."""

import json
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import plotly.graph_objects as go
import pytest

from models.errors import UsageError
from models.evaluation import evaluate, wilson
from models.recipes import load_recipe, override
from models.tasks import CopyTask
from workbench.content import LengthsContent
from workbench.content.lengths import SpreadContent
from workbench.figures.lengths import length_spread
from workbench.figures.style import scheme_style
from workbench.reports import lengths_html, lengths_text
from workbench.reports.lengths import default_lengths, group_names, measure, reach, require_same_strings
from workbench.reports.spread import Measured, distinct_names, spread
from workbench.runs import Store
from workbench.subjects import FoundSubject, find_subject

ASKED = {"intervals": [(1, 8), (9, 16), (12, 12)], "distributions": ["uniform", "imbalanced"], "strings": 4}


@pytest.fixture(scope="module")
def found(trained_store: Path) -> FoundSubject:
    return find_subject(Store(trained_store), "latest")


@pytest.fixture(scope="module")
def content(found: FoundSubject) -> LengthsContent:
    earlier = find_subject(Store(found.run.path.parent), f"{found.name}@10")
    return measure([found, earlier], **ASKED, device="cpu")


def like(found: FoundSubject, name: str, *overrides: str, step: int = 20) -> FoundSubject:
    return replace(found, name=name, recipe=override(found.recipe, overrides), step=step)


def point(group: str, length: int, mean: float, **more: object) -> SpreadContent:
    values = {"scheme": "rope", "trained": 20, "distribution": "uniform", "subjects": 2, "strings": 20}
    values |= {"lowest": mean, "highest": mean}
    return SpreadContent(group=group, length=length, mean=mean, **{**values, **more})


def test_scores_are_those_of_an_evaluation_of_the_same_strings(content: LengthsContent, found: FoundSubject) -> None:
    for subject, step in ((found, 20), (find_subject(Store(found.run.path.parent), f"{found.name}@10"), 10)):
        loaded = subject.load("cpu")
        expected = [score.as_dict() for score in evaluate(loaded.model, CopyTask(loaded.recipe.task), **ASKED, seed=0)]
        mine = [score for score in content.scores if score.step == step]
        assert [(s.distribution, s.shortest, s.length, s.exact_match, s.token_accuracy) for s in mine] == [
            tuple(e[name] for name in ("distribution", "shortest", "length", "exact_match", "token_accuracy"))
            for e in expected
        ]


def test_only_the_same_request_is_taken_from_an_evaluation(content: LengthsContent, found: FoundSubject) -> None:
    kept = {(score.step, score.shortest, score.length) for score in content.scores if score.kept}
    assert kept == {(20, 1, 8), (20, 9, 16)}  # not the interval that was never evaluated, not earlier weights
    for other in ({"strings": 5}, {"seed": 1}):
        assert not any(score.kept for score in measure([found], **{**ASKED, **other}, device="cpu").scores)


def test_what_is_taken_is_what_the_file_says_and_a_damaged_one_is_measured_again(
    found: FoundSubject, tmp_path: Path
) -> None:
    store = Store(Path(shutil.copytree(found.run.path.parent, tmp_path / "store")))
    file = store.open("latest").path / "evaluation.json"
    results = json.loads(file.read_text())
    marked = [score | {"exact_match": 0.123} for score in results["results"]]
    file.write_text(json.dumps(results | {"results": marked}))
    asked = {**ASKED, "intervals": [(1, 8)]}
    told = measure([find_subject(store, "latest")], **asked, device="cpu")
    assert {score.exact_match for score in told.scores} == {0.123}
    file.write_text("{")
    assert not any(score.kept for score in measure([find_subject(store, "latest")], **asked, device="cpu").scores)


def test_spread_is_over_seeds_and_a_single_one_has_its_wilson_interval() -> None:
    def one(group: str, exact: float, length: int = 20) -> Measured:
        return Measured(group, "rope", 20, "uniform", length, length, 10, exact)

    points = spread([one("a", 0.2), one("a", 0.8), one("a", 0.5), one("b", 0.3), one("a", 1.0, 40)])
    first, single, longer = points
    assert (first.group, first.subjects, first.strings, first.lowest, first.highest) == ("a", 3, 30, 0.2, 0.8)
    assert first.mean == pytest.approx(0.5) and first.interval is None
    assert (single.group, single.subjects, single.interval) == ("b", 1, wilson(3, 10))
    assert (longer.length, longer.subjects) == (40, 1)


def test_groups_differ_in_their_seeds_alone(found: FoundSubject) -> None:
    same = [found, like(found, "s1", "seed=1"), like(found, "s2", "train.checkpoint_every=7", "evaluation.strings=9")]
    assert group_names(same) == ["2D-RoPE"] * 3
    assert group_names([*same, like(found, "half", step=10)]) == ["2D-RoPE, step 20"] * 3 + ["2D-RoPE, step 10"]
    narrow = like(found, "narrow", "model.d_model=8", "seed=1")
    assert group_names([*same, narrow]) == ["2D-RoPE, model.d_model=16"] * 3 + ["2D-RoPE, model.d_model=8"]
    other = like(found, "rope", 'model.positions="rope"', 'name="other"')
    assert group_names([found, other]) == ["2D-RoPE", "RoPE"]
    longer = like(found, "longer", 'name="longer"', "task.lengths=[1, 9]")
    assert group_names([found, longer]) == ["2D-RoPE, tiny", "2D-RoPE, longer"]


def test_names_are_as_short_as_they_can_be() -> None:
    assert distinct_names([("a", "x"), ("b", "x"), ("a", "x")]) == ["a", "b", "a"]
    assert distinct_names([("a", "x", "1"), ("a", "x", "2"), ("b", "x", "2")]) == ["a, 1", "a, 2", "b"]
    kinds = [("a", "x", "1"), ("a", "y", "1"), ("a", "y", "2"), ("a", "y", "2")]
    assert distinct_names(kinds) == ["a, x", "a, y, 1", "a, y, 2", "a, y, 2"]
    assert distinct_names([]) == []


def test_default_lengths_hold_every_training_length_and_reach_beyond(found: FoundSubject) -> None:
    both = [found, like(found, "longer", "task.lengths=[1, 50]")]
    lengths = default_lengths(both)
    assert lengths == sorted(set(lengths)) and {8, 50} <= set(lengths)
    assert lengths[0] <= 2 and lengths[-1] == 400
    pairs = list(pairwise(lengths))
    assert all(b >= 1.1 * a or 50 in (a, b) or 8 in (a, b) for a, b in pairs)


def test_subjects_that_cannot_be_asked_the_same_are_named(found: FoundSubject) -> None:
    wider = like(found, "wider", "task.alphabet=4")
    with pytest.raises(UsageError, match=r"wider cannot be asked the same strings: task.alphabet is 2 and 4"):
        measure([found, wider], **ASKED)
    period = like(found, "period", "task.period=3")
    require_same_strings([found, period], ["uniform"])
    with pytest.raises(UsageError, match=r"task\.period"):
        require_same_strings([found, period], ["uniform", "repeat-structure"])
    with pytest.raises(UsageError, match=r"unique-context strings of 5,000 tokens"):
        measure([found], intervals=[(5000, 5000)], distributions=["unique-context"])


def test_an_interruption_keeps_what_is_done(found: FoundSubject, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupting(after: int) -> LengthsContent:
        calls = 0

        def heard(share: float, what: str) -> None:
            nonlocal calls
            calls += share == pytest.approx((calls + 1) / 2)
            if calls == after:
                raise KeyboardInterrupt

        asked = {"intervals": [(3, 3)], "distributions": ["uniform", "imbalanced"], "strings": 4}
        return measure([found], **asked, seed=9, device="cpu", progress=heard)

    done = interrupting(2)
    assert done.interrupted and (len(done.scores), done.asked) == (1, 2)
    assert "Interrupted after 1 of 2 scores" in lengths_text.markdown(done)
    assert "Interrupted after 1 of 2 scores" in lengths_html.render(done)
    with pytest.raises(KeyboardInterrupt):
        interrupting(1)


def test_progress_rises_to_one(found: FoundSubject) -> None:
    shares: list[float] = []
    measure([found], **ASKED, seed=3, device="cpu", progress=lambda share, what: shares.append(share))
    assert shares == sorted(shares) and shares[-1] == pytest.approx(1) and shares[0] > 0


def test_reach_ends_at_the_first_length_that_is_not_copied() -> None:
    points = [point("a", 5, 1.0), point("a", 10, 0.9), point("a", 20, 0.5), point("a", 40, 1.0)]
    assert reach(points) == 10 and reach(points[2:]) is None
    assert reach([*points, point("a", 10, 0.2, distribution="imbalanced")]) == 5


def test_the_figure_has_a_line_and_a_band_a_group_and_panel() -> None:
    spread_points = [
        *(point("RoPE", length, 0.5, lowest=0.25, highest=0.75) for length in (40, 10)),
        point("RoPE", 10, 0.5, distribution="imbalanced"),
        point("2D-RoPE", 10, 1.0, scheme="rope2d", trained=100, subjects=1, interval=(0.8, 1.0)),
    ]
    figure = length_spread(spread_points, title="t")
    lines = [trace for trace in figure.data if trace.mode == "lines+markers"]
    bands = [trace for trace in figure.data if trace.fill == "toself"]
    assert len(lines) == len(bands) == 3
    assert list(lines[0].x) == [10, 40] and lines[0].line.color == scheme_style("rope").color
    assert [trace.name for trace in lines if trace.showlegend] == ["RoPE, ≤ 20 (2 seeds)", "2D-RoPE, ≤ 100"]
    assert list(bands[0].y) == [0.75, 0.75, 0.25, 0.25]
    assert min(bands[2].y) == 0.8  # a single subject's Wilson interval
    assert {round(float(shape.x1)) for shape in figure.layout.shapes} == {20, 100}
    assert figure.layout.xaxis.type == "log" and figure.layout.yaxis.range == (-0.04, 1.04)
    relative = length_spread(spread_points, title="t", relative=True)
    assert list(next(trace for trace in relative.data if trace.mode == "lines+markers").x) == [0.5, 2.0]
    assert {float(shape.x1) for shape in relative.layout.shapes} == {1.0}


def test_two_groups_of_one_scheme_are_told_apart() -> None:
    figure = length_spread([point("RoPE, a", 10, 0.5), point("RoPE, b", 10, 0.4)], title="t")
    looks = [(t.marker.symbol, t.line.width) for t in figure.data if t.mode == "lines+markers"]
    assert len(set(looks)) == 2


def test_the_report_is_offline_deterministic_and_escapes_names(content: LengthsContent) -> None:
    spread_points = tuple(p.model_copy(update={"group": f"<b>{p.group}"}) for p in content.spread)
    changed = content.model_copy(update={"spread": spread_points})
    page = lengths_html.render(changed)
    assert page == lengths_html.render(changed) and "<b>2D" not in page.replace("<b>uniform", "")
    assert "&lt;b&gt;" in page
    # plotly's own script names addresses that it never asks; nothing outside it does
    outside = page.split("<script>")[0] + page.rsplit("</script>", 1)[1]
    assert "http" not in outside and page.count('id="figure-') == 1


def test_several_training_ranges_are_also_drawn_relative_to_each(content: LengthsContent) -> None:
    points = (*content.spread, point("longer", 8, 0.5, trained=50))
    assert lengths_html.render(content.model_copy(update={"spread": points})).count('id="figure-') == 2


def test_tables_have_every_score(content: LengthsContent) -> None:
    csv = lengths_text.comma_separated(content).splitlines()
    assert csv[0] == ",".join(lengths_text.COLUMNS) and len(csv) == 1 + len(content.scores)
    text = lengths_text.markdown(content)
    assert "| 9-16 |" in text and "| uniform | 2D-RoPE, step 20 | 2D-RoPE, step 10 |" in text
    assert LengthsContent.model_validate_json(content.model_dump_json()) == content


def test_recipes_of_all_schemes_have_a_name_of_their_own(found: FoundSubject) -> None:
    names = ("rope2d-1l", "auto2d-1l", "rope-2l", "hrope-2l", "alibi-2l", "nope-2l", "rnope-2l", "periodic-2l")
    subjects = [replace(found, name=name, recipe=load_recipe(name)) for name in names]
    labels = group_names(subjects)
    assert len(set(labels)) == len(names) and "RoPE" in labels and "H-RoPE" in labels


def test_a_figure_without_points_is_a_figure() -> None:
    assert isinstance(length_spread([point("a", 1, 0.0)], title="t"), go.Figure)
