"""One run's heads over its checkpoints: when does a head become what it ends as?"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from analyses.heads import HeadReport, classify
from models.device import pick_device
from models.errors import UsageError
from models.tasks import CopyTask
from workbench.content.base import About
from workbench.content.heads import CheckpointContent, HeadContent, HistoryContent
from workbench.records import mean_exact_match, read_records
from workbench.reports.heads import head_content, rules_content, strings_content
from workbench.runs import Run
from workbench.subjects import load_run
from workbench.train import library_versions, stored_recipe


def follow(
    run: Run,
    *,
    lengths: Sequence[int] | None = None,
    distributions: Sequence[str] | None = None,
    strings: int = 6,
    seed: int = 0,
    device: str = "auto",
    progress: Callable[[float, str], None] | None = None,
) -> HistoryContent:
    """Label the heads at every kept checkpoint, on the same strings.

    Args:
        run: with at least two checkpoints.
        lengths: see `analyses.heads.score_heads`, as for the next three.
        distributions: registered names.
        strings: of each kind, length and distribution.
        seed: of the strings and the bootstrap.
        device: see `models.device.pick_device`.
        progress: called with the share that is done and what is being done.

    Raises:
        UsageError: fewer than two checkpoints were kept.
    """
    steps = sorted(run.checkpoints)
    if len(steps) < 2:
        raise UsageError(
            f"run {run.id} kept {len(steps)} checkpoints, and it takes two to follow heads; train with "
            "--set train.keep_checkpoints=true --set train.checkpoint_every=N"
        )
    exact = _exact_match(run, steps)
    checkpoints: list[CheckpointContent] = []
    report: HeadReport | None = None
    for done, step in enumerate(steps):
        subject = load_run(run, device, step)

        def say(share: float, done: int = done, step: int = step) -> None:
            if progress is not None:
                progress((done + share) / len(steps), f"step {step}")

        report = classify(
            subject.model,
            CopyTask(subject.recipe.task),
            lengths=lengths,
            distributions=distributions,
            strings=strings,
            seed=seed,
            beyond_labels=False,
            progress=say,
        )
        heads = tuple(head_content(report, index) for index in range(len(report.labels)))
        checkpoints.append(CheckpointContent(step=step, heads=heads, exact_match=exact[step]))
    assert report is not None
    return HistoryContent(
        subject=run.id,
        recipe=run.recipe,
        finding=finding(checkpoints),
        strings=strings_content(report),
        rules=rules_content(report),
        checkpoints=tuple(checkpoints),
        about=About(
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            versions=library_versions(),
            seed=seed,
            device=str(pick_device(device)),
        ),
    )


def formed(checkpoints: Sequence[CheckpointContent], index: int) -> int:
    """First step from which on a head has the label that it ends with."""
    last = checkpoints[-1].heads[index].label
    steps = [checkpoint.step for checkpoint in checkpoints]
    kept = [checkpoint.heads[index].label == last for checkpoint in checkpoints]
    since = max((at for at, same in enumerate(kept) if not same), default=-1) + 1
    return steps[since]


def finding(checkpoints: Sequence[CheckpointContent]) -> str:
    """When each head became what it ends as, in one sentence."""

    def said(index: int, head: HeadContent) -> str:
        unsure = "" if head.certain else " (uncertain)"
        return f"head {head.layer}.{head.head} is {head.label}{unsure} from step {formed(checkpoints, index):,} on"

    return "; ".join(said(index, head) for index, head in enumerate(checkpoints[-1].heads))


def _exact_match(run: Run, steps: Sequence[int]) -> dict[int, float | None]:
    """Mean exact match within the training range by training's newest evaluation up to each step, None before any."""
    evaluated = [record for record in read_records(run.path)[0] if record.get("evaluation")]
    lengths = stored_recipe(run).task.lengths
    found: dict[int, float | None] = {}
    for step in steps:
        newest = [record for record in evaluated if record["step"] <= step][-1:]
        found[step] = mean_exact_match(newest[0]["evaluation"], lengths) if newest else None
    return found
