"""How far copies reach: exact match by length of many subjects, by groups that differ in their seeds alone.

`measure` does the work and returns the content (JSON with a published schema); `lengths_html.py` and
`lengths_text.py` write it down.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import torch

from models.device import pick_device
from models.errors import UsageError
from models.evaluation import evaluate
from models.tasks import CopyTask
from workbench.content.base import About
from workbench.content.lengths import LengthsContent, LengthScore, LengthSubject, SpreadContent
from workbench.figures.style import scheme_style
from workbench.limits import require_positions
from workbench.reports.spread import Measured, distinct_names, spread
from workbench.runs import Status
from workbench.subjects import FoundSubject, Subject
from workbench.train import library_versions

Progress = Callable[[float, str], None]
Interval = tuple[int, int]

SHARES = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 8.0)  # of every training length, asked of all subjects
APART = 1.1
BUILT_UP_TO = 200  # of a hand-built model's range; it may be endless
DISTRIBUTIONS = ("uniform", "imbalanced", "recursive-flip")  # [C2D] figure 4
STRINGS = 20
COPIES = 0.9  # mean exact match from which a group is said to copy a length
# What a recipe says that does not touch the weights, or names it.
_NOT_TRAINING = ("description", "device_hint", "minutes", "seed", "evaluation", "marks")
_NOT_WEIGHTS = ("checkpoint_every", "evaluate_every", "keep_checkpoints", "evaluation_strings", "micro_batch")
# Settings of the task that decide the strings of a distribution, beside the alphabet.
_STRINGS_OF = {
    "imbalanced": ("probabilities",),
    "repeat-structure": ("period", "flip"),
    "unique-context": ("context",),
}


def measure(
    found: Sequence[FoundSubject],
    *,
    intervals: Sequence[Interval] | None = None,
    distributions: Sequence[str] | None = None,
    strings: int = STRINGS,
    seed: int = 0,
    device: str = "auto",
    progress: Progress | None = None,
) -> LengthsContent:
    """Measure exact match of every subject on the same strings; an interruption keeps what is done.

    A score that a run's evaluation.json has for the same weights, strings and seed is taken from there.

    Args:
        found: the subjects; their models are loaded one at a time.
        intervals: inclusive (shortest, longest); by default `default_lengths`.
        distributions: registered names; by default DISTRIBUTIONS.
        strings: of each distribution and length.
        seed: of the strings, which are the same for all subjects.
        device: see `models.device.pick_device`.
        progress: called with the share that is done and the subject in work.

    Raises:
        UsageError: subjects whose strings differ, or a length or distribution that is impossible for one.
        KeyboardInterrupt: interrupted before the first score.
    """
    names = list(distributions or DISTRIBUTIONS)
    chosen = list(intervals or [(length, length) for length in default_lengths(found)])
    place = str(pick_device(device))
    require_same_strings(found, names)
    _require_possible(found[0], names, chosen)
    groups = group_names(found)
    work, done = _Work(len(found), names, chosen), 0.0
    scores: list[LengthScore] = []
    interrupted = False
    try:
        for subject in found:
            kept = _kept(subject, seed, strings)
            missing = {(name, *pair) for name in names for pair in chosen} - kept.keys()
            loaded = subject.load(place) if missing else None
            if loaded is not None:
                _require_fit(loaded, chosen)
            for name in names:
                for pair in chosen:
                    before, part = done, work.share(pair)
                    done += part

                    def say(units: float, before: float = before, part: float = part, who: str = subject.name) -> None:
                        if progress is not None:
                            progress(before + part * units / strings, who)

                    result = kept.get((name, *pair))
                    if result is None:
                        assert loaded is not None
                        result = _evaluated(loaded, name, pair, strings, seed, _adding(say))
                        scores.append(_score(subject, result, kept=False))
                    else:
                        scores.append(_score(subject, result, kept=True))
                    say(strings)
    except KeyboardInterrupt:
        if not scores:
            raise
        interrupted = True
    points = tuple(spread(_measured(found, groups, scores)))
    return LengthsContent(
        finding=finding_of(points),
        subjects=tuple(_subject(subject, group) for subject, group in zip(found, groups, strict=True)),
        scores=tuple(scores),
        spread=points,
        asked=len(found) * len(names) * len(chosen),
        interrupted=interrupted,
        about=About(
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            versions=library_versions(),
            seed=seed,
            device=place,
        ),
    )


def default_lengths(found: Iterable[FoundSubject]) -> list[int]:
    """SHARES of the training length of every subject, ascending; every subject is asked all of them.

    Of lengths closer than APART one is left out, never a training length.
    """
    ends = {
        subject.trained[1] if subject.run is not None else min(subject.trained[1], BUILT_UP_TO) for subject in found
    }
    lengths = sorted({max(1, round(share * end)) for share in SHARES for end in ends})
    kept: list[int] = []
    for length in lengths:
        close = bool(kept) and length < APART * kept[-1]
        if close and length in ends and kept[-1] not in ends:
            kept.pop()
        if not close or length in ends:
            kept.append(length)
    return kept


def group_names(found: Sequence[FoundSubject]) -> list[str]:
    """Name of the group of every subject: equal for those that differ in their seeds alone."""
    settings = [_flat(training_settings(subject)) for subject in found]
    fields = [
        name for name in dict.fromkeys(k for s in settings for k in s) if len({s.get(name) for s in settings}) > 1
    ]
    kinds = []
    for subject, values in zip(found, settings, strict=True):
        if subject.run is None:
            kinds.append((subject.name, "", "", ""))
            continue
        label = scheme_style(subject.recipe.model.scheme_name).label
        same = [s for s, other in zip(settings, found, strict=True) if other.recipe.name == subject.recipe.name]
        told = [name for name in fields if len({s.get(name) for s in same}) > 1]
        finest = ", ".join(f"{name}={values[name]}" for name in told if name in values)
        kinds.append((label, subject.recipe.name, f"step {subject.step:,}", finest))
    return distinct_names(kinds)


def training_settings(subject: FoundSubject) -> dict[str, Any]:
    """What a recipe says that decides the weights, without its seed."""
    values = subject.recipe.model_dump(mode="json")
    for name in _NOT_TRAINING:
        del values[name]
    for name in _NOT_WEIGHTS:
        del values["train"][name]
    return values


def require_same_strings(found: Sequence[FoundSubject], distributions: Sequence[str]) -> None:
    """Raise UsageError where subjects would be asked different strings: other tokens, or other settings of a name."""
    first = found[0]
    fields = ["alphabet", *(field for name in distributions for field in _STRINGS_OF.get(name, ()))]
    for subject in found[1:]:
        for field in fields:
            ours, theirs = getattr(first.recipe.task, field), getattr(subject.recipe.task, field)
            if ours != theirs:
                raise UsageError(
                    f"{first.name} and {subject.name} cannot be asked the same strings: task.{field} is {ours} and "
                    f"{theirs}; compare subjects whose strings are alike"
                )


def finding_of(points: Sequence[SpreadContent]) -> str:
    """How far each group copies, in one sentence."""
    if not points:
        return "nothing was measured"
    said = []
    for group in dict.fromkeys(point.group for point in points):
        mine = [point for point in points if point.group == group]
        length, last = reach(mine), max(point.length for point in mine)
        if length is None:
            what = f"no length up to {last:,}"
        else:
            what = f"{length:,} tokens" + (", the longest asked" if length == last else "")
        said.append(f"{group} {what} (trained on up to {mine[0].trained:,})")
    return f"Longest length through which at least {COPIES:.0%} are copied on every distribution: {'; '.join(said)}"


def reach(points: Sequence[SpreadContent]) -> int | None:
    """Longest length through which the mean is at least COPIES at every length asked, of all distributions given."""
    reached = None
    for length in sorted({point.length for point in points}):
        if min(point.mean for point in points if point.length == length) < COPIES:
            break
        reached = length
    return reached


class _Work:
    """How the work divides among the scores: by the tokens of their strings."""

    def __init__(self, subjects: int, names: Sequence[str], intervals: Sequence[Interval]) -> None:
        self._total = subjects * len(names) * sum(longest for _, longest in intervals)

    def share(self, interval: Interval) -> float:
        return interval[1] / self._total


def _evaluated(
    subject: Subject, name: str, pair: Interval, strings: int, seed: int, progress: Callable[[float], None]
) -> dict[str, Any]:
    results: Iterator[Any] = evaluate(
        subject.model,
        CopyTask(subject.recipe.task),
        intervals=[pair],
        distributions=[name],
        strings=strings,
        seed=seed,
        progress=progress,
    )
    return dict(next(results).as_dict())


def _adding(say: Callable[[float], None]) -> Callable[[float], None]:
    """Turn further units into their sum so far."""
    total = 0.0

    def add(units: float) -> None:
        nonlocal total
        total += units
        say(total)

    return add


def _kept(subject: FoundSubject, seed: int, strings: int) -> dict[tuple[str, int, int], dict[str, Any]]:
    """Results of the run's evaluation.json that answer the same request, by distribution and interval."""
    run = subject.run
    if run is None or run.status is not Status.FINISHED or subject.weights != run.path / "weights.safetensors":
        return {}
    evaluation = run.evaluation
    if evaluation is None or evaluation.get("seed") != seed:
        return {}
    return {
        (score["distribution"], score["shortest"], score["length"]): score
        for score in evaluation["results"]
        if score["strings"] == strings
    }


def _score(subject: FoundSubject, result: dict[str, Any], *, kept: bool) -> LengthScore:
    fields = ("distribution", "shortest", "length", "strings", "exact_match", "token_accuracy", "interval")
    return LengthScore(subject=subject.name, step=subject.step, kept=kept, **{name: result[name] for name in fields})


def _measured(
    found: Sequence[FoundSubject], groups: Sequence[str], scores: Sequence[LengthScore]
) -> Iterator[Measured]:
    by_subject = {(subject.name, subject.step): (subject, group) for subject, group in zip(found, groups, strict=True)}
    for score in scores:
        subject, group = by_subject[score.subject, score.step]
        yield Measured(
            group=group,
            scheme=subject.recipe.model.scheme_name,
            trained=subject.trained[1],
            distribution=score.distribution,
            shortest=score.shortest,
            length=score.length,
            strings=score.strings,
            exact_match=score.exact_match,
        )


def _subject(subject: FoundSubject, group: str) -> LengthSubject:
    model = subject.recipe.model
    return LengthSubject(
        subject=subject.name,
        recipe=subject.recipe.name,
        step=subject.step,
        seed=subject.recipe.seed,
        schemes=tuple(model.scheme_of(layer).scheme for layer in range(model.n_layers)),
        trained=subject.trained,
        group=group,
    )


def _require_possible(subject: FoundSubject, names: Sequence[str], intervals: Sequence[Interval]) -> None:
    """Raise UsageError where strings that will be asked cannot be drawn, before the first is."""
    task = CopyTask(subject.recipe.task)
    longest = max(longest for _, longest in intervals)
    for name in names:
        try:
            task.sample(1, torch.Generator().manual_seed(0), lengths=longest, distribution=name)
        except UsageError as error:
            raise UsageError(f"{name} strings of {longest:,} tokens: {error}") from None


def _require_fit(subject: Subject, intervals: Sequence[Interval]) -> None:
    require_positions(subject.model, max(longest for _, longest in intervals), f"--lengths: {subject.name}")


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings by their dotted names, values as JSON."""
    flat: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = json.dumps(value)
    return flat
