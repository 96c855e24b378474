"""The report on a model's heads: measured and labelled, checked by intervention, with one picture a head.

`examine` does the work and returns the content (JSON with a published schema) and the pictures; `heads_html.py`,
`heads_text.py` write it down.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import numpy as np

from analyses.confirmation import confirm_heads, confirm_labels
from analyses.effects import ablate_labels
from analyses.expectations import EXPECTATIONS
from analyses.heads import HeadReport, classify
from analyses.measures.paths import path_patching
from analyses.passes import read_string
from analyses.probes import ProbeResults, probe_model
from analyses.samples import Sample, draw_samples
from models.constructions import CONSTRUCTIONS
from models.errors import UsageError
from models.tasks import CopyTask
from workbench.content.base import About, EstimateContent, finite
from workbench.content.heads import (
    EvidenceContent,
    HeadContent,
    HeadsContent,
    PathContent,
    RuleContent,
    Strings,
)
from workbench.figures.attention import encode
from workbench.figures.pictures import THUMBNAIL, shrink
from workbench.subjects import BUILT, Subject
from workbench.train import library_versions

Progress = Callable[[float, str], None]
T = TypeVar("T")

REPETITIVE = "repeat-structure"
PATHS = 12  # strongest paths that are reported
PROBED = 12  # strings of each length that probes read
PICTURED = 40  # longest string a picture is made of, where the task has one


@dataclass(frozen=True)
class Examined:
    """A report before it is written down.

    Attributes:
        content: all that the JSON holds.
        probes: by kind, for figures.
        pictures: UInt8[R, C] codes of the pattern of every head by kind of string, {(layer, head): {kind: codes}}.
        pictured: tokens of the source string of the pictures.
    """

    content: HeadsContent
    probes: dict[str, ProbeResults]
    pictures: dict[tuple[int, int], dict[str, np.ndarray]]
    pictured: int


def examine(
    subject: Subject,
    *,
    lengths: Sequence[int] | None = None,
    distributions: Sequence[str] | None = None,
    strings: int = 6,
    seed: int = 0,
    progress: Progress | None = None,
) -> Examined:
    """Measure, label and check every head of a subject; options as `analyses.heads.score_heads` has them.

    `progress` is called with the share that is done and what is being done.
    """
    say = progress or (lambda share, what: None)
    model, task = subject.model, CopyTask(subject.recipe.task)
    report = classify(
        model,
        task,
        lengths=lengths,
        distributions=distributions,
        strings=strings,
        seed=seed,
        progress=lambda share: say(0.6 * share, "measuring"),
    )
    samples = _samples(report, task, strings, seed)
    labels: list[list[str]] = [[] for _ in report.scores.heads]
    for label in report.labels:
        labels[label.layer].append(label.label)
    orders = {
        (label.layer, label.head): max(1, round(order))
        for label in report.labels
        if label.kind == "induction" and (order := report.scores.at("induction.m", label.layer, label.head).value)
    }
    confirmed = confirm_heads(
        model,
        samples,
        labels,
        orders=orders,
        seed=seed,
        progress=lambda share: say(0.6 + 0.12 * share, "intervening"),
    )
    together = confirm_labels(
        model, samples, labels, orders=orders, seed=seed, progress=lambda share: say(0.72 + 0.05 * share, "intervening")
    )
    plain = [sample for sample in samples if sample.kind == "plain"]
    notes: list[str] = []
    repetition: dict[str, Any] = _if_possible(
        lambda: _repetition(subject, labels, strings, plain[-1].length, seed), {}, notes
    )
    paths: tuple[PathContent, ...] = _if_possible(
        lambda: _paths(subject, plain, seed, lambda share: say(0.8 + 0.05 * share, "patching paths")), (), notes
    )
    probes: dict[str, ProbeResults] = _if_possible(
        lambda: _probes(subject, report, seed, lambda share: say(0.85 + 0.15 * share, "probing")), {}, notes
    )
    content = HeadsContent(
        subject=subject.name,
        recipe=subject.recipe.name,
        step=subject.step,
        schemes=tuple(block.attn.scheme.settings.scheme for block in model.blocks),
        finding=finding(report),
        heads=tuple(
            head_content(
                report, index, expected_roles(subject.name), finite(confirmed[label.layer, label.head].as_dict())
            )
            for index, label in enumerate(report.labels)
        ),
        strings=strings_content(report),
        notes=(*report.scores.notes, *notes),
        rules=rules_content(report),
        expectations={
            label: {
                "intervention": expected.intervention,
                "control": expected.control,
                "effect": expected.effect,
                "sentence": expected.sentence,
            }
            for label, expected in EXPECTATIONS.items()
        },
        labels={label: finite(found.as_dict()) for label, found in together.items()},
        repetition=repetition,
        paths=paths,
        probes=tuple(finite(found.as_dict()) for found in probes.values()),
        about=About(
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            versions=library_versions(),
            seed=seed,
            device=str(model.device),
        ),
    )
    pictured = min(PICTURED, max(sample.length for sample in plain))
    return Examined(content, probes, pictures(subject, pictured, seed), pictured)


def finding(report: HeadReport) -> str:
    """The labels in one sentence, layer by layer."""
    layers = []
    for layer, _ in enumerate(report.scores.heads):
        named = [f"{x.label}{'' if x.certain else ' (uncertain)'}" for x in report.labels if x.layer == layer]
        layers.append(f"layer {layer}: {', '.join(named)}")
    return "; ".join(layers)


def expected_roles(subject: str) -> dict[tuple[int, int], str]:
    """Roles that a hand-built model's heads were built for; nothing for a run."""
    kind, _, name = subject.partition(":")
    if kind != BUILT:
        return {}
    return {(role.layer, role.head): role.role for role in CONSTRUCTIONS[name].expected}


def pictures(subject: Subject, length: int, seed: int) -> dict[tuple[int, int], dict[str, np.ndarray]]:
    """Pattern of every head on one plain and one corrupted string of `length`, as codes of colour tables."""
    task = CopyTask(subject.recipe.task)
    found: dict[tuple[int, int], dict[str, np.ndarray]] = {}
    for sample in draw_samples(
        task,
        lengths=[length],
        distributions=[subject.recipe.task.distribution],
        strings=1,
        seed=seed,
        kinds=("plain", "corrupted"),
        m=max(1, min(4, (length - 2) // 4)),
    ):
        read = read_string(subject.model, sample.batch, 0)
        whole, edges = slice(0, len(read.tokens)), np.arange(len(read.tokens) + 1)
        for layer, n_heads in enumerate(read.heads):
            for head in range(n_heads):
                codes = encode(read.head(layer, head).tile(whole, whole), edges, edges)
                shown = shrink(codes) if len(codes) > THUMBNAIL else codes
                found.setdefault((layer, head), {})[sample.kind] = shown
    return found


def _samples(report: HeadReport, task: CopyTask, strings: int, seed: int) -> list[Sample]:
    """Strings for interventions: the first distribution heads were judged on, the shortest, middle and longest length.

    A model that fails on the longest is asked on the shorter ones: what nothing is copied of exactly is left out there.
    """
    judged = [s for s in report.scores.samples if s.distribution == report.scores.samples[0].distribution]
    lengths = sorted({s.length for s in judged})
    m = max((s.m for s in judged), default=0) or 1
    return list(
        draw_samples(
            task,
            lengths=sorted({lengths[0], lengths[len(lengths) // 2], lengths[-1]}),
            distributions=[judged[0].distribution],
            strings=strings,
            seed=seed + 1,
            kinds=("plain", "corrupted"),
            m=m,
        )
    )


def _if_possible(measure: Callable[[], T], otherwise: T, notes: list[str]) -> T:
    """What `measure` gives; where this model or these strings do not allow it, `otherwise` and a note."""
    try:
        return measure()
    except UsageError as error:
        notes.append(f"left out: {error}")
        return otherwise


def strings_content(report: HeadReport) -> tuple[Strings, ...]:
    """The strings heads were judged on."""
    return tuple(
        Strings(kind=s.kind, distribution=s.distribution, length=s.length, strings=s.strings)
        for s in report.scores.samples
    )


def rules_content(report: HeadReport) -> tuple[RuleContent, ...]:
    """The table that gave the labels."""
    return tuple(
        RuleContent(label=r.label, conditions=tuple(str(c) for c in r.conditions), sentence=r.sentence)
        for r in report.rules
    )


def head_content(
    report: HeadReport,
    index: int,
    expected: Mapping[tuple[int, int], str] | None = None,
    intervention: dict[str, Any] | None = None,
) -> HeadContent:
    """One head of a report, by its place among the labels.

    Args:
        report: scores and labels.
        index: of the label.
        expected: roles of hand-built heads.
        intervention: what was done to the head, JSON-ready.
    """
    label = report.labels[index]
    at = (label.layer, label.head)
    return HeadContent(
        layer=label.layer,
        head=label.head,
        label=label.label,
        margin=label.margin,
        certain=label.certain,
        doubts=label.doubts,
        evidence=tuple(EvidenceContent(**finite(evidence.as_dict())) for evidence in label.evidence),
        shares=finite(dict(label.shares)),
        scores={
            name: EstimateContent(**finite(estimates.at(*at).as_dict()))
            for name, estimates in report.scores.scores.items()
        },
        expected=(expected or {}).get(at),
        intervention=intervention or {},
    )


def _paths(subject: Subject, plain: Sequence[Sample], seed: int, progress: Any) -> tuple[PathContent, ...]:
    if subject.model.cfg.n_layers < 2:
        return ()
    found = path_patching(subject.model, plain, seed=seed, progress=progress)
    return tuple(
        PathContent(
            sender=tuple(path["sender"]),
            receiver=tuple(path["receiver"]),
            input=path["input"],
            source_mass=EstimateContent(**finite(path["attention"])),
            logit_difference=EstimateContent(**finite(path["logits"])),
            composition=finite(path["composition"]),
        )
        for path in found.strongest(PATHS)
    )


def _repetition(
    subject: Subject, labels: Sequence[Sequence[str]], strings: int, length: int, seed: int
) -> dict[str, Any]:
    """Effects of ablating every label's heads together on strings that repeat themselves: do failures become fewer?"""
    samples = draw_samples(
        CopyTask(subject.recipe.task),
        lengths=[length],
        distributions=[REPETITIVE],
        strings=2 * strings,
        seed=seed + 3,
        kinds=("plain",),
    )
    found = ablate_labels(subject.model, samples, labels, ways=("mean", "resample"), seed=seed)
    return {label: {way: finite(effect.as_dict()) for way, effect in ways.items()} for label, ways in found.items()}


def _probes(subject: Subject, report: HeadReport, seed: int, progress: Any) -> dict[str, ProbeResults]:
    """Probes on plain strings of all lengths that heads were judged on: they are tested on lengths left out."""
    judged = [s for s in report.scores.samples if s.kind == "plain"]
    samples = draw_samples(
        CopyTask(subject.recipe.task),
        lengths=sorted({s.length for s in judged if s.distribution == judged[0].distribution}),
        distributions=[judged[0].distribution],
        strings=PROBED,
        seed=seed + 2,
        kinds=("plain",),
    )
    return probe_model(subject.model, samples, seed=seed, progress=progress)
