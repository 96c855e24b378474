"""Reports on heads written by hand, so that pages are tested without measuring anything."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workbench.content.base import About, EstimateContent
from workbench.content.heads import (
    CheckpointContent,
    EvidenceContent,
    HeadContent,
    HeadsContent,
    HistoryContent,
    RuleContent,
    Strings,
)
from workbench.reports import keep
from workbench.runs import Run, Store

# Scores that decide each label, in the order of its rule.
DECIDING = {
    "locator": ("locator.mass", "locator.decoding"),
    "aligned": ("aligned.mass", "aligned.conflict"),
    "induction": ("induction.mass", "induction.conflict"),
    "look-back": ("lookback.mass",),
    "sink": ("sink.mass",),
    "self": ("self.mass",),
    "diffuse": ("entropy",),
    "mixed": ("share.second",),
}
SCORES = (
    "locator.mass", "locator.mass.⏎", "locator.decoding", "aligned.mass", "aligned.conflict", "aligned.break",
    "induction.mass", "induction.conflict", "lookback.mass", "sink.mass", "self.mass", "entropy", "share.second",
    "logit.right",
)  # fmt: skip
STATES = ("confirmed", "not confirmed", "no effect", "not measurable")


def estimate(value: float | None, *, chance: float | None = None, reason: str = "no such rows") -> EstimateContent:
    """An estimate with an interval of 0.1."""
    if value is None:
        return EstimateContent(value=None, interval=None, rows=0, strings=0, chance=chance, reason=reason)
    return EstimateContent(value=value, interval=(value - 0.05, value + 0.05), rows=240, strings=12, chance=chance)


def head(layer: int, index: int, label: str, *, state: str = "confirmed", certain: bool = True) -> HeadContent:
    """A head whose deciding scores are high, and whose others fall with its number."""
    kind = label.partition("(")[0]
    deciding = DECIDING[kind]
    scores = {name: estimate(0.1 + 0.01 * at + 0.03 * index, chance=0.05) for at, name in enumerate(SCORES)}
    scores |= {name: estimate(0.9 - 0.1 * layer - 0.02 * index, chance=0.1) for name in deciding}
    scores["aligned.break"] = estimate(None, reason="no string in which the stripe breaks")
    scores["logit.right"] = estimate(2.5 - index)
    if kind != "locator":
        scores["locator.decoding"] = estimate(None, reason="anchors stand out in too few rows")
    evidence = [
        EvidenceContent(score=name, condition=f"{name} ≥ 0.5", **scores[name].model_dump()) for name in deciding
    ]
    evidence.append(EvidenceContent(score="entropy", condition=None, **scores["entropy"].model_dump()))
    return HeadContent(
        layer=layer,
        head=index,
        label=label,
        margin=0.8 - 0.2 * layer - 0.04 * index,
        certain=certain,
        doubts=() if certain else (f"{deciding[0]} ≥ 0.5 is not sure: 0.52 [0.47, 0.57]",),
        evidence=tuple(evidence),
        shares={kind: 0.7, "diffuse": 0.1, "self": 0.05},
        scores=scores,
        intervention=intervention(state),
    )


def intervention(state: str) -> dict[str, Any]:
    """What was done to a head and came of it."""
    if state == "not measurable":
        return {"state": state, "expected": "its label predicts nothing", "heads": [[0, 0]], "measure": "",
                "reason": "a mixed head has no single role"}  # fmt: skip

    def effect(words: str, size: float) -> dict[str, Any]:
        def change(by: float) -> dict[str, Any]:
            return {part: estimate(by).model_dump() for part in ("baseline", "changed", "difference")}

        return {
            "intervention": words, "exact_match": change(-0.5 * size), "token_accuracy": change(-0.2 * size),
            "logit_difference": change(-3.0 * size), "divergence": estimate(0.4 * size).model_dump(),
            "removed": estimate(0.6).model_dump(),
        }  # fmt: skip

    return {
        "state": state, "expected": "the answers depend on what this head attends to", "heads": [[0, 0]],
        "measure": "logit difference",
        "effect": effect("the keys it attends to masked", 0.8 if state == "confirmed" else 0.05),
        "control": effect("the same mass removed at random other keys", 0.1),
    }  # fmt: skip


def heads_content(
    subject: str, labels: Sequence[Sequence[str]], *, step: int = 500, uncertain: int = 1
) -> HeadsContent:
    """A report on heads with `labels[layer][head]`; verdicts follow each other, the last heads are uncertain."""
    flat = [(layer, index, label) for layer, row in enumerate(labels) for index, label in enumerate(row)]
    heads = tuple(
        head(layer, index, label, state=STATES[at % 4] if label != "mixed" else STATES[3],
             certain=at < len(flat) - uncertain)
        for at, (layer, index, label) in enumerate(flat)
    )  # fmt: skip
    found = "; ".join(f"layer {layer}: {', '.join(row)}" for layer, row in enumerate(labels))
    return HeadsContent(
        subject=subject,
        recipe="rope-2l",
        step=step,
        schemes=tuple("rope" for _ in labels),
        finding=found,
        heads=heads,
        strings=(Strings(kind="plain", distribution="imbalanced", length=20, strings=12),),
        rules=rules(),
        expectations={},
        about=about(),
    )


def history_content(
    subject: str, labels: Sequence[Sequence[str]], steps: Sequence[int] = (100, 200, 300, 500)
) -> HistoryContent:
    """A report over checkpoints: heads are mixed at first, and what they end as from the third checkpoint on."""
    checkpoints = []
    for at, step in enumerate(steps):
        now = labels if at >= 2 else [["mixed"] * len(row) for row in labels]
        heads = heads_content(subject, now, step=step).heads
        checkpoints.append(CheckpointContent(step=step, heads=heads, exact_match=0.25 * at if at else None))
    return HistoryContent(
        subject=subject,
        recipe="rope-2l",
        finding="heads form at step 300",
        strings=(),
        rules=rules(),
        checkpoints=tuple(checkpoints),
        about=about(),
    )


def rules() -> tuple[RuleContent, ...]:
    """A sentence a label."""
    return tuple(
        RuleContent(label=label, conditions=tuple(f"{name} ≥ 0.5" for name in names), sentence=f"What a {label} does.")
        for label, names in DECIDING.items()
    )


def about() -> About:
    """How it came about."""
    return About(created="2026-01-02T03:04:05+00:00", versions={"python": "3.11"}, seed=0, device="cpu")


def keep_heads(root: Path, run_id: str, labels: Sequence[Sequence[str]], *, step: int = 500) -> HeadsContent:
    """Keep a report in a run of a store."""
    content = heads_content(run_id, labels, step=step)
    keep.keep(run_of(root, run_id), content)
    return content


def keep_history(root: Path, run_id: str, labels: Sequence[Sequence[str]]) -> HistoryContent:
    """Keep a report over checkpoints in a run of a store."""
    content = history_content(run_id, labels)
    keep.keep_history(run_of(root, run_id), content)
    return content


def run_of(root: Path, run_id: str) -> Run:
    """A run of a store."""
    return Store(root).open(run_id)
