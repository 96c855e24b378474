"""Reports on heads and failures written by hand, so that pages are tested without measuring anything."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from workbench.content.base import About, EstimateContent
from workbench.content.failures import (
    AftermathContent,
    AtLengthContent,
    CauseContent,
    CompetitorContent,
    FailureContent,
    FailuresContent,
    FixedLengthContent,
    GroupContent,
    LawContent,
    LawSummary,
    PredictionContent,
    RegressionContent,
    ScoreContent,
    TrialContent,
)
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


# ---- failures --------------------------------------------------------------------------------------------------------

CAUSES = ("repetition", "length", "stop", "other")


def failure(
    string: str,
    first_error: int,
    cause: str = "repetition",
    *,
    confirmed: bool = True,
    distribution: str = "uniform",
    competitors: Sequence[int] = (),
    inside: bool = False,
    alphabet: int = 2,
) -> FailureContent:
    """A failure of a string of digits: the token after the right one is predicted, and copied rightly from there on."""
    n = len(string)
    eos = alphabet + 6
    at_end = first_error == n
    right = "EOS" if at_end else string[first_error]
    wrong = 0 if at_end else (int(right) + 1) % alphabet
    rest = [int(token) for token in string[first_error + 1 :]]
    tried = TrialContent(
        cause=cause, share=0.9, control=0.1, draws=12, changed=2.5, left=0.8 if cause == "repetition" else None,
        outside=None, verdict="confirmed" if confirmed else "unconfirmed",
    )  # fmt: skip
    head = {
        "layer": 1, "head": 0, "copied": str(wrong), "match": 2.0, "to_right": 0.5, "to_predicted": 1.5,
        "mass": {"source": 0.1, "competitor": 0.6, "anchor": 0.1, "string": 0.1, "copy": 0.1}, "anchors": {},
    }  # fmt: skip
    stripes = [{"layer": 0, "head": 0, "stripe": "locator", "at": 22, "relative": 1.1}]
    return FailureContent(
        distribution=distribution,
        length=n,
        string=string,
        first_error=first_error,
        symptom="late EOS" if at_end else "wrong token",
        predicted=str(wrong),
        right=right,
        logit_predicted=3.0,
        logit_right=2.0,
        cause=cause,
        confirmed=confirmed and cause != "other",
        also=(),
        sentence="competitors' contexts broken, 2.5 flips: right again in 90%",
        competitors=tuple(
            CompetitorContent(index=index, mass=0.5 / (rank + 1), context=min(3, first_error, index))
            for rank, index in enumerate(competitors)
        ),
        trials=() if cause == "other" else (tried,),
        aftermath=AftermathContent(
            continuation=(wrong, *rest[:30], eos), slip=0, follows=len(rest), recovers_at=None, stops_at=None
        ),
        repetition={"length": n, "longest_repeat": max(1, n // 3)},
        evidence={
            "trained": 50,
            "attended": {
                "right": eos if at_end else int(right), "rival": wrong, "mass_source": 0.12, "mass_anchors": 0.2,
                "mass_competitors": 0.5, "mass_random": 0.05, "competitors": len(competitors),
                "context": min(3, first_error) if competitors else 0,
            },
            "coordinates": [
                {"layer": 0, "name": "index", "query": 120.0, "trained": 105.0, "outside": cause == "length"}
            ],
            "trials": {},
        },
        anatomy={"query": 2 + n + 3 + first_error, "heads": [head], "stripes": stripes} if inside else None,
    )  # fmt: skip


def failures_content(subject: str, failures: Sequence[FailureContent], *, step: int = 500) -> FailuresContent:
    """A report with these failures, half of all strings."""
    kinds = sorted({(f.distribution, f.length) for f in failures})
    counts = {kind: sum((f.distribution, f.length) == kind for f in failures) for kind in kinds}
    groups = tuple(
        GroupContent(distribution=name, length=length, strings=2 * count, failed=count, explained=count,
                     exact_match=0.5, interval=(0.3, 0.7))
        for (name, length), count in counts.items()
    )  # fmt: skip
    causes = {}
    for cause in CAUSES:
        mine = [f for f in failures if f.cause == cause]
        sure = sum(f.confirmed for f in mine)
        shares = {"repaired": estimate(0.9), "supported": estimate(0.8), "control": estimate(0.1)}
        causes[cause] = CauseContent(
            failures=len(mine), confirmed=sure, unconfirmed=len(mine) - sure, tried=len(failures), **shares
        )
    law = tuple(
        LawContent(period=period, flip=flip, survival=(1 - flip) ** period, strings=20, exact_match=flip,
                   interval=(max(0.0, flip - 0.1), flip + 0.1), margin=estimate(flip))
        for period in (4, 6) for flip in (0.02, 0.1, 0.2)
    )  # fmt: skip
    names = ("intercept", "repetition", "length", "repetition x length")
    regression = RegressionContent(
        outcome="failure", strings=100, failed=50, coefficients={name: estimate(0.5) for name in names}
    )
    at = AtLengthContent(length=20, strings=20, failed=10, auc=estimate(0.8), margin_slope=estimate(-0.5))
    masses = {name: estimate(0.2) for name in ("mass_source", "mass_competitors", "mass_random")}
    return FailuresContent(
        subject=subject,
        recipe="rope-2l",
        step=step,
        schemes=("rope", "rope"),
        trained=(1, 20),
        finding=f"{len(failures)} of {2 * len(failures)} strings fail: most by repetition",
        strings=2 * len(failures),
        failed=len(failures),
        groups=groups,
        causes=causes,
        failures=tuple(failures),
        rows={kind: masses for kind in ("failed", "right", "random")},
        curves=tuple(
            ScoreContent(distribution=name, length=length, strings=20, exact_match=0.5, interval=(0.3, 0.7))
            for name, length in kinds
        ),
        law=law,
        law_summary=LawSummary(
            length=20, control="unique-context", control_exact_match=0.9, handled=True, slope=estimate(-0.4),
            margin_slope=estimate(-1.0), sentence="At 20 tokens, exact match falls as blocks survive.",
        ),
        regression=PredictionContent(
            means={"repetition": 2.0, "length": 4.0}, deviations={"repetition": 1.0, "length": 1.0},
            failure=regression, margin=regression, margin_of_right=regression,
            fixed_length=FixedLengthContent(
                answer="yes", auc=estimate(0.8), margin_slope=estimate(-0.5), lengths=(at,)
            ),
            sentence="Repetition predicts failure at fixed length.",
        ),
        about=about(),
    )  # fmt: skip


def some_failures(count: int = 8, length: int = 40, seed: int = 0) -> list[FailureContent]:
    """Failures of every cause, of strings of two lengths and distributions, with competitors for repetition."""
    rng = np.random.default_rng(seed)
    made = []
    for at in range(count):
        n = length if at % 3 else length // 2
        string = "".join(map(str, rng.integers(0, 2, n)))
        cause = CAUSES[at % 4]
        first = n if cause == "stop" else int(rng.integers(n // 3, n - 2))
        rivals = [i for i in (first // 2, first + 1, 3) if i != first] if cause == "repetition" else []
        made.append(
            failure(string, first, cause, confirmed=at % 5 != 3, distribution=("uniform", "recursive-flip")[at % 2],
                    competitors=list(dict.fromkeys(rivals)), inside=at < 4)
        )  # fmt: skip
    return made


def keep_failures(
    root: Path, run_id: str, failures: Sequence[FailureContent] | None = None, *, step: int = 500
) -> FailuresContent:
    """Keep a report on failures in a run of a store."""
    content = failures_content(run_id, some_failures() if failures is None else failures, step=step)
    keep.keep_failures(run_of(root, run_id), content)
    return content
