"""Figures of two reports on failures: both in one figure and on one scale, each with finding and numbers."""

from collections.abc import Callable
from typing import Any

from workbench.content.base import EstimateContent
from workbench.content.failures import FailuresContent, GroupContent, ScoreContent
from workbench.dashboard.data import Data
from workbench.dashboard.guard import sentence
from workbench.dashboard.pages import failures_drawn
from workbench.dashboard.pages.failures_compare import Pair, report_names
from workbench.dashboard.pages.failures_compare_strings import same_strings
from workbench.dashboard.pages.failures_compare_tables import minus
from workbench.dashboard.pages.failures_drawn import PANELS, Columns, Drawn, curve_of, lengths_reached
from workbench.dashboard.state import ViewState
from workbench.figures import empty_figure, length_generalisation
from workbench.figures.failure_groups import cells_of, group_maps
from workbench.figures.failures import MASSES, ROW_COLORS, cause_bars, fixed_length_dots, law_lines, row_dots
from workbench.reports.failures_words import value_text

BOTH = "Difference"  # what the figure is called that is there for two reports alone


def draw(data: Data, pair: Pair, view: ViewState) -> Drawn:
    """Return the figure that a view asks for, of both reports; of the first alone where both are one."""
    if pair.same_report:
        return failures_drawn.draw(pair.first, view)
    if view.drawn is None:
        return _difference(data, pair)
    of_both = _DRAW.get(view.drawn)
    if of_both is not None:
        return of_both(pair)
    alone = failures_drawn.draw(pair.first, view)
    note = f"The first's failures alone, {report_names(pair)[0]}. {alone.note}"
    return Drawn(alone.said, alone.figure, alone.columns, alone.rows, note)


def _difference(data: Data, pair: Pair) -> Drawn:
    one, other = (cells_of(chosen.content.groups) for chosen in (pair.first, pair.second))
    called = report_names(pair)
    keys = [*one, *(key for key in other if key not in one)]
    rows = [
        [name, f"{length:,}", _group(one.get((name, length))), _group(other.get((name, length))),
         minus([_match(one.get((name, length))), _match(other.get((name, length)))])]
        for name, length in keys
    ]  # fmt: skip
    columns = [("Distribution", ""), ("Length", "number"), *_sides(called)]
    note = "Orange where the first copies more, blue where the second does. Hatched: only one report has such strings. "
    shared = [key for key in keys if key in one and key in other]
    if shared:
        same = "the same strings" if same_strings(data, pair) else "other strings of the same kinds"
        note += f"Both looked at {same}."
    said = difference_finding(pair)
    return Drawn(said, group_maps(pair.first.content.groups, pair.second.content.groups, called), columns, rows, note)


def difference_finding(pair: Pair) -> str:
    """Say how many strings each report's model copies in the groups of both, and where they differ most."""
    one, other = (cells_of(chosen.content.groups) for chosen in (pair.first, pair.second))
    called = report_names(pair)
    shared = [key for key in one if key in other]
    if not shared:
        return "No strings of one distribution and length are in both reports, so nothing is subtracted."
    totals = [
        (sum(c[k].strings - c[k].failed for k in shared), sum(c[k].strings for k in shared)) for c in (one, other)
    ]
    left = len({*one, *other}) - len(shared)
    known = "the one group" if len(shared) == 1 else f"the {len(shared):,} groups"
    more = f" ({left:,} more {'is' if left == 1 else 'are'} in one alone)" if left else ""
    groups = f"In {known} of both reports{more}"
    copied = (
        f"{groups}, {called[0]} copies {totals[0][0]:,} of {totals[0][1]:,} strings and "
        f"{called[1]} {totals[1][0]:,} of {totals[1][1]:,}"
    )
    most = max(shared, key=lambda key: abs(one[key].exact_match - other[key].exact_match))
    away = one[most].exact_match - other[most].exact_match
    if not away:
        return f"{copied}; nowhere do they differ."
    where = f"{most[0]}, {most[1]:,} tokens: {one[most].exact_match:.2f} against {other[most].exact_match:.2f}"
    return f"{copied}. They differ most on {where}."


def _law(pair: Pair) -> Drawn:
    contents, called = _contents(pair), report_names(pair)
    summaries = [content.law_summary for content in contents]
    if any(summary is None for summary in summaries) or not all(content.law for content in contents):
        said = "One of the reports has no law."
        return Drawn(said, empty_figure(said), (), ())
    parts = [
        f"{value_text(summary.slope, sign=True)} in {name} ({summary.length:,} tokens)"
        for name, summary in zip(called, summaries, strict=True)
        if summary is not None
    ]
    said = f"From survival 0 to 1, exact match changes by {' and by '.join(parts)}. The law asks for a fall."
    found = [{(point.period, point.flip): point for point in content.law} for content in contents]
    rows = [
        [f"{period}", f"{flip:.2f}", *(_score(points.get((period, flip))) for points in found),
         minus([None if (p := points.get((period, flip))) is None else p.exact_match for points in found])]
        for period, flip in sorted({*found[0], *found[1]})
    ]  # fmt: skip
    columns = [("Period", "number"), ("Flip", "number"), *_sides(called)]
    lengths = {summary.length for summary in summaries if summary is not None}
    apart = " The reports measured it at different lengths." if len(lengths) > 1 else ""
    note = f"Colour and marker are of the period; the second is dashed, fainter, with open markers.{apart}"
    return Drawn(said, law_lines(contents[0].law, contents[1].law, called), columns, rows, note)


def _fixed(pair: Pair) -> Drawn:
    contents, called = _contents(pair), report_names(pair)
    found = [content.regression.fixed_length for content in contents]
    of_lengths = [{one.length: one for one in fixed.lengths} for fixed in found]
    overall = ["unknown" if fixed.auc.value is None else value_text(fixed.auc) for fixed in found]
    said = (
        f"A failed string is the more repetitive of a pair of one length with probability {overall[0]} in {called[0]} "
        f"and {overall[1]} in {called[1]}; 0.5 by chance."
    )
    rows = []
    for length in sorted({*of_lengths[0], *of_lengths[1]}):
        here = [known.get(length) for known in of_lengths]
        rows.append(
            [
                f"{length:,}",
                *("–" if one is None else f"{one.failed:,} of {one.strings:,}" for one in here),
                *("–" if one is None else _estimate(one.auc) for one in here),
                minus([None if one is None else one.auc.value for one in here]),
            ]
        )
    columns = [
        ("Length", "number"), ("First: failed", "number"), ("Second: failed", "number"),
        *_sides(called, "P(failed one is more repetitive)"),
    ]  # fmt: skip
    figure = fixed_length_dots(found[0].lengths, found[1].lengths, called)
    if figure is None:
        figure = empty_figure("At no length do some strings fail and some not.")
    return Drawn(said, figure, columns, rows, "Filled markers are the first's, open ones the second's.")


def _causes(pair: Pair) -> Drawn:
    contents, called = _contents(pair), report_names(pair)
    said = "; ".join(_main_cause(content, name) for content, name in zip(contents, called, strict=True))
    found = [cells_of(content.groups) for content in contents]
    rows = [
        [name, f"{length:,}", *(_failed(groups.get((name, length))) for groups in found),
         minus([_failing(groups.get((name, length))) for groups in found])]
        for name, length in dict.fromkeys([*found[0], *found[1]])
    ]  # fmt: skip
    columns = [("Distribution", ""), ("Length", "number"), *_sides(called, "failed")]
    figure = cause_bars(contents[0].groups, contents[0].failures, (contents[1].groups, contents[1].failures), called)
    note = (
        "Of each pair of bars the left one is the first's, the right, fainter one the second's. Hatched: not confirmed."
    )
    return Drawn(sentence(said), figure, columns, rows, note)


def _main_cause(content: FailuresContent, called: str) -> str:
    ranked = sorted(content.causes.items(), key=lambda item: -item[1].failures)
    most = [(name, cause.failures) for name, cause in ranked if cause.failures][:2]
    why = " and ".join(f"{count:,} by {'none of those tried' if name == 'other' else name}" for name, count in most)
    explained = len(content.failures)
    among = f"of {explained:,} explained " if explained < content.failed else ""
    return f"{called}: {content.failed:,} of {content.strings:,} strings fail" + (f", {among}{why}" if why else "")


def _lengths(pair: Pair) -> Drawn:
    contents, called = _contents(pair), report_names(pair)
    names = list(dict.fromkeys(point.distribution for content in contents for point in content.curves))
    drawn = [
        [curve_of(chosen, name, label) for name in names[:PANELS] if _has(chosen.content, name)]
        for chosen, label in zip((pair.first, pair.second), called, strict=True)
    ]
    figure = length_generalisation(
        drawn[0], list(dict.fromkeys(content.trained for content in contents)), names[:PANELS],
        title="Exact match by length", beside=drawn[1],
    )  # fmt: skip
    found = [{(point.distribution, point.length): point for point in content.curves} for content in contents]
    rows = [
        [name, f"{length:,}", *(_score(points.get((name, length))) for points in found),
         minus([_match(points.get((name, length))) for points in found])]
        for name, length in sorted({*found[0], *found[1]}, key=lambda key: (names.index(key[0]), key[1]))
    ]  # fmt: skip
    columns = [("Distribution", ""), ("Length", "number"), *_sides(called)]
    reached = [lengths_reached(content) for content in contents]
    parts = [f"{' and '.join(_reached(lengths.get(name)) for lengths in reached)} ({name})" for name in names]
    said = (
        f"Length up to which at least half of the strings are copied, in {called[0]} and in {called[1]}: "
        f"{', '.join(parts)}."
    )
    note = "The second is dashed, with open markers. Bands are 95 % Wilson intervals; trained lengths are shaded."
    lacking = [side for side, curves in zip(("first", "second"), drawn, strict=True) if not curves]
    missing = [f"No lengths were measured in the report of the {' and of the '.join(lacking)}."] if lacking else []
    said = " ".join([*missing, *([said] if names else [])])
    return Drawn(said, figure, columns, rows, note)


def _rows(pair: Pair) -> Drawn:
    contents, called = _contents(pair), report_names(pair)
    if any(name not in content.rows.get(kind, {}) for content in contents for kind in ROW_COLORS for name in MASSES):
        said = "One of the reports measured no row."
        return Drawn(said, empty_figure(said), (), ())
    rows, parts = [], []
    for kind in ROW_COLORS:
        for name, label in MASSES.items():
            found = [content.rows[kind][name] for content in contents]
            rows.append([f"{kind} rows", label, *map(_estimate, found), minus([one.value for one in found])])
    for name, label in list(MASSES.items())[:2]:
        shares = [_share(content.rows["failed"][name].value) for content in contents]
        parts.append(f"{shares[0]} and {shares[1]} on {'the ' if name == 'mass_source' else ''}{label}")
    said = f"Failed rows put, in {called[0]} and in {called[1]}, {', '.join(parts)}."
    columns = [("Rows", ""), ("Attention on", ""), *_sides(called, "share")]
    note = "Smaller, fainter markers are the second's. Competitors stand beside as many random places."
    return Drawn(said, row_dots(contents[0].rows, contents[1].rows, called), columns, rows, note)


def _contents(pair: Pair) -> tuple[FailuresContent, FailuresContent]:
    return pair.first.content, pair.second.content


def _sides(called: tuple[str, str], what: str = "exact match") -> Columns:
    return [(f"First, {called[0]}: {what}", "number"), (f"Second, {called[1]}", "number"), ("First − second", "number")]


def _has(content: FailuresContent, name: str) -> bool:
    return any(point.distribution == name for point in content.curves)


def _match(score: GroupContent | ScoreContent | None) -> float | None:
    return None if score is None else score.exact_match


def _failing(group: GroupContent | None) -> float | None:
    return None if group is None else group.failed / group.strings


def _failed(group: GroupContent | None) -> str:
    return "–" if group is None else f"{group.failed:,} of {group.strings:,}"


def _group(group: GroupContent | None) -> str:
    return "–" if group is None else f"{_score(group)} ({group.strings - group.failed:,} of {group.strings:,})"


def _score(score: Any) -> str:
    """Exact match with its interval."""
    return "–" if score is None else f"{score.exact_match:.2f} [{score.interval[0]:.2f}, {score.interval[1]:.2f}]"


def _estimate(estimate: EstimateContent) -> str:
    return "–" if estimate.value is None else value_text(estimate)


def _share(value: float | None) -> str:
    return "an unknown share" if value is None else f"{value:.2f}"


def _reached(length: int | None) -> str:
    return f"{length:,}" if length else "none" if length == 0 else "not asked"


_DRAW: dict[str, Callable[[Pair], Drawn]] = {
    "law": _law,
    "fixed": _fixed,
    "causes": _causes,
    "lengths": _lengths,
    "rows": _rows,
}
