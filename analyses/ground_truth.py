"""Are labels right: the classifier on hand-built models, whose heads have a known role, as a page of documentation.

The classifier is handed a model and its task, nothing else; what the heads were built for stands in the registry of
constructions and is compared afterwards.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analyses.heads import classify
from analyses.labels import GROUPS, RULES, HeadLabel, Rule
from analyses.noise import NoiseCurve, label_accuracy_under_noise
from analyses.passes import Progress
from models.constructions import CONSTRUCTIONS, Construction
from models.tasks import CopyTask

LENGTHS = (20, 100, 500)
STRINGS = 4


@dataclass(frozen=True)
class Check:
    """One head of one construction on strings of one length and distribution.

    Attributes:
        construction, length, distribution: what was classified, on what.
        expected: the role it was built for.
        label: what it was called.
    """

    construction: str
    length: int
    distribution: str
    expected: str
    label: HeadLabel

    @property
    def right(self) -> bool:
        """Is the label the role, parameter included."""
        return self.label.label == self.expected


def lengths_around(length: int) -> tuple[int, ...]:
    """Three lengths up to `length`: an index cannot be decoded, nor a fixed offset told, from strings of one."""
    return tuple(sorted({round(0.9 * length), round(0.95 * length), length}))


def check_construction(
    construction: Construction, length: int, distribution: str, *, strings: int = STRINGS, seed: int = 0
) -> tuple[Check, ...]:
    """Classify every head of a construction on strings of about one length, and say what it was built for."""
    report = classify(
        construction.build(),
        CopyTask(construction.task),
        lengths=lengths_around(length),
        distributions=[distribution],
        strings=strings,
        seed=seed,
        beyond_labels=False,
    )
    return tuple(
        Check(construction.name, length, distribution, role.role, report.label(role.layer, role.head))
        for role in construction.expected
    )


def checks(names: Iterable[str] | None = None, lengths: Sequence[int] = LENGTHS, **options: Any) -> Iterator[Check]:
    """Every head of the constructions called `names` (all by default) wherever its role is defined."""
    for name in CONSTRUCTIONS if names is None else names:
        construction = CONSTRUCTIONS[name]
        for length in lengths:
            for distribution in construction.distributions if length <= construction.longest else ():
                yield from check_construction(construction, length, distribution, **options)


def noise_curve(construction: Construction, *, seed: int = 0, progress: Progress | None = None) -> NoiseCurve:
    """Labels of a construction under noise on its weights, on strings of about 20 tokens."""
    return label_accuracy_under_noise(
        construction.build(),
        CopyTask(construction.task),
        {(role.layer, role.head): role.role for role in construction.expected},
        lengths=lengths_around(LENGTHS[0]),
        distributions=construction.distributions[:1],
        strings=STRINGS,
        seed=seed,
        progress=progress,
    )


def as_markdown(found: Iterable[Check]) -> str:
    """A table with one line a construction, head and length; a wrong label is struck through beside the right one."""
    lines: dict[tuple[str, int, int, str], dict[int, list[Check]]] = {}
    for check in found:
        key = (check.construction, check.label.layer, check.label.head, check.expected)
        lines.setdefault(key, {}).setdefault(check.length, []).append(check)
    text = ["| construction | head | built as | length | distributions | label | smallest margin |"]
    text.append("|---|---|---|---|---|---|---|")
    for (name, layer, head, expected), by_length in lines.items():
        for length, group in by_length.items():
            wrong = [f"~~{c.label.label}~~ ({c.distribution})" for c in group if not c.right]
            unsure = [f"uncertain on {c.distribution}" for c in group if c.right and not c.label.certain]
            cells = [name, f"{layer}.{head}", expected, str(length), ", ".join(c.distribution for c in group)]
            cells += ["; ".join([*([expected] if len(wrong) < len(group) else []), *wrong, *unsure])]
            cells += [f"{min(c.label.margin for c in group):.2f}"]
            text.append(f"| {' | '.join(cells)} |")
    return "\n".join(text) + "\n"


def rules_as_markdown(rules: Sequence[Rule] = RULES) -> str:
    """The table of rules, in order."""
    text = ["| label | conditions | what it does |", "|---|---|---|"]
    for rule in rules:
        label = rule.label if rule.parameter is None else f"{rule.label}(`{rule.parameter}`)"
        conditions = "<br>".join(str(condition) for condition in rule.conditions)
        text.append(f"| {label} | {conditions} | {rule.sentence} |")
    return "\n".join(text) + "\n"


def noise_as_markdown(curves: Mapping[str, NoiseCurve]) -> str:
    """Right labels by construction and noise level, in percent; in brackets the surely wrong ones, where there are."""
    levels = next(iter(curves.values())).levels
    text = ["| construction |" + "".join(f" {level:g} |" for level in levels), "|---|" + "---|" * len(levels)]
    for name, curve in curves.items():
        cells = [
            f"{estimate.value:.0%}" + (f" ({wrong:.0%})" if wrong else "")
            for estimate, wrong in zip(curve.accuracy, curve.surely_wrong, strict=True)
        ]
        text.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(text) + "\n"


def page(found: Sequence[Check], curves: Mapping[str, NoiseCurve]) -> str:
    """The page of documentation on labels, in Markdown: rules, and how they do on hand-built models."""
    n_right = sum(check.right for check in found)
    n_sure = sum(check.right and check.label.certain for check in found)
    margin = min(check.label.margin for check in found)
    return f"""# Heads and their labels

`analyses.heads.classify(model, task)` measures every head on strings at several lengths, plain ones and two kinds on
which position and context point to different places, and labels it by the first rule below whose conditions all hold.
Thresholds are on what a score has beyond chance, (value - chance) / (1 - chance), where a chance is known; the formula
of every score stands in its measure's docstring and in the report. A label's margin is the smallest over its conditions
of how far the score lies from its threshold: 0 there, 1 at the best value. A label is uncertain where a threshold that
could change it lies inside the 95 % interval of a score.

{rules_as_markdown()}
The shares of {", ".join(GROUPS)} come from one non-negative fit of the pattern on all templates at once
(`analyses/templates.py`).

## Labels of hand-built models

The heads of these models have a known role, which the classifier cannot read off them. Each was judged on strings of
about one length (0.9, 0.95 and 1 times it) and of one distribution, {STRINGS} of each kind, wherever its role is
defined. {n_right} of {len(found)} labels are right, {n_sure} of them certain; the smallest margin is {margin:.2f}.

{as_markdown(found)}
## Labels under noise

Right labels in percent, with Gaussian noise on every weight matrix. The level is the noise's standard deviation
relative to the matrix's root mean square; strings are of about 20 tokens. Noise takes the roles away too: a locator's
index is read with gains of a million, and an induction head without its previous-token head is none. In brackets:
labels that are not the head's role and called certain.

{noise_as_markdown(curves)}
![Share of right labels against noise, one panel a construction](label-noise.svg)

## Theorem 3.1 of [C2D] and its scope

No single attention head whose output is the logits, without residual connection and MLP, copies all short binary
strings: `models.constructions.contradict(model)` exhibits, for any such model, queries whose right answers contradict
each other (at length 5 where the model allows it, else at length 6). The scope matters: one layer of RoPE *with* both
learns all 62 strings of up to 5 tokens in 1,000 steps, on each of three seeds (`pytest -m slow tests/test_theorem.py`).

`workbench check-labels --out docs/heads.md --plot docs/label-noise.svg` writes this page and its picture again.
"""
