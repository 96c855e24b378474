"""Reports on heads that runs keep, and the one a view stands for: its run, step, head and score."""

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from models.errors import WorkbenchError
from workbench.content.heads import HeadContent, HeadsContent, HistoryContent
from workbench.dashboard.caching import Cache
from workbench.dashboard.data import Data, RunRow, stamp_of
from workbench.dashboard.parts import Nothing
from workbench.dashboard.selection import choose_run
from workbench.dashboard.state import ViewState
from workbench.reports import keep

_KEPT = 64  # reports that are held in memory
_ROUNDING = 1e-3


@dataclass(frozen=True)
class Chosen:
    """A view whose open choices are made.

    Attributes:
        view: the view with run, step, layer, head and score filled in.
        run: the run.
        steps: those it keeps a report for, newest first.
        content: the report that is shown.
        head: the head that is selected.
        notes: what was replaced, and what the report is too old for.
    """

    view: ViewState
    run: RunRow
    steps: tuple[int, ...]
    content: HeadsContent
    head: HeadContent
    notes: tuple[str, ...] = field(default=())

    @property
    def counts(self) -> tuple[int, ...]:
        """Heads of each layer."""
        return counts_of(self.content.heads)


class Reports:
    """Reads of kept reports, each parsed once and again only when its file changed."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self._heads: Cache[HeadsContent] = Cache(_KEPT)
        self._histories: Cache[HistoryContent | None] = Cache(_KEPT)
        self._stepped: Cache[tuple[HeadsContent, HeadsContent]] = Cache(_KEPT)

    def command(self, *runs: str, more: str = "") -> str:
        """What to type for a report on runs."""
        return f"workbench heads {shlex.join(runs)}{more}{self.data.store.option}"

    def steps(self, run_id: str) -> tuple[int, ...]:
        """Steps that a run keeps a report for, newest first; raises as `Data.run` does."""
        return tuple(reversed(keep.kept_steps(self.data.opened(run_id))))

    def heads(self, run_id: str, step: int) -> HeadsContent:
        """The report on the heads of a run at a step.

        Raises:
            Nothing: it is damaged; says how to make it again.
            UsageError, WorkbenchError: as `Data.run`.
        """
        run = self.data.opened(run_id)
        path = keep.heads_file(run, step)

        def read() -> HeadsContent:
            content = keep.kept_heads(run, step)
            if not _is_whole(content.heads):
                raise WorkbenchError(f"{path} does not hold every head of every layer once")
            return content

        try:
            return self._heads.get((path, stamp_of(path)), read)
        except WorkbenchError:
            raise Nothing(
                f"the report on the heads of {run.id} at step {step:,} is damaged or of another version. Make it again",
                self.command(run.id if step == run.step else f"{run.id}@{step}"),
            ) from None

    def stepped(self, content: HeadsContent) -> HeadsContent:
        """The same report, its subject named with its step: of two reports of one run the heads stay apart."""
        named = f"{content.subject} at step {content.step:,}"
        # The report itself is kept with its copy, so that its identity is not given to another.
        return self._stepped.get(id(content), lambda: (content, content.model_copy(update={"subject": named})))[1]

    def history(self, run_id: str) -> HistoryContent | None:
        """The report over the checkpoints of a run, None where there is none; raises as `heads` does."""
        run = self.data.opened(run_id)
        path = keep.history_file(run)

        def read() -> HistoryContent | None:
            content = keep.kept_history(run)
            shapes = {counts_of(c.heads) if _is_whole(c.heads) else () for c in content.checkpoints} if content else ()
            if content and (len(shapes) != 1 or () in shapes):
                raise WorkbenchError(f"{path} does not hold every head at every checkpoint")
            return content

        try:
            return self._histories.get((path, stamp_of(path)), read)
        except WorkbenchError:
            raise Nothing(
                f"the report over the checkpoints of {run.id} is damaged, or of another version. Make it again",
                self.command(run.id, more=" --checkpoints"),
            ) from None

    def stamp(self, view: ViewState) -> str:
        """What changes whenever a report that a view shows is written, or a run that it names appears or goes."""
        try:
            run = self.choose_run(view)
            shown = [run.id, run.step, *run.captures[:1], *self.steps(run.id)]
        except WorkbenchError as error:
            return str(error)
        stamps = []
        for run_id in (run.id, *view.runs):
            try:
                folder = keep.history_file(self.data.opened(run_id)).parent
            except WorkbenchError:
                continue
            stamps.append(stamp_of(folder))
        files = [stamp_of(keep.heads_file(self.data.opened(run.id), step)) for step in self.steps(run.id)]
        return str((shown, stamps, files))

    def choose_run(self, view: ViewState) -> RunRow:
        """The run a view names, else the one that other pages show, else the newest with a report that can be read."""
        run = choose_run(self.data, view)
        if view.run is not None or self.steps(run.id):
            return run
        rows = [row for row in self.data.runs() if row.readable]
        return next((row for row in rows if self._has_report(row.id)), run)

    def _has_report(self, run_id: str) -> bool:
        steps = self.steps(run_id)
        try:
            return bool(steps) and bool(self.heads(run_id, steps[0]))
        except WorkbenchError:
            return False

    def choose(self, view: ViewState) -> Chosen:
        """Make the open choices of a view.

        Raises:
            Nothing: the run keeps no report, or a damaged one; says which command changes that.
            UsageError, WorkbenchError: the run is not there, or damaged.
        """
        run = self.choose_run(view)
        steps = self.steps(run.id)
        if not steps:
            raise Nothing(
                f"run {run.id} keeps no report on its heads yet. Once it has weights, make one: every head's scores, "
                f"its label, and what interventions say of it",
                self.command(run.id),
            )
        step, notes = step_with_notes("heads", run, steps, view.checkpoint)
        content = self.heads(run.id, step)
        counts = counts_of(content.heads)
        layer = min(view.layer, len(counts) - 1)
        head = min(view.head, counts[layer] - 1)
        if (layer, head) != (view.layer, view.head):
            notes.append(f"The model has no head {view.layer}.{view.head}; showing {layer}.{head}.")
        names = shares(content)
        at = next(one for one in content.heads if (one.layer, one.head) == (layer, head))
        score = default_score(content, names, at) if view.score is None else view.score
        if score not in names:
            notes.append(f"There is no score {score} between 0 and 1 in this report; showing another.")
            score = default_score(content, names, at)
        chosen = replace(view, run=run.id, checkpoint=step, layer=layer, head=head, score=score)
        return Chosen(chosen, run, steps, content, at, tuple(notes))


def shown_step(steps: Sequence[int], asked: int | None) -> int:
    """The step whose report is shown, of those there are, newest first: the one that is asked for, else the nearest."""
    return steps[0] if asked is None else min(steps, key=lambda step: abs(step - asked))


def step_with_notes(verb: str, run: RunRow, steps: Sequence[int], asked: int | None) -> tuple[int, list[str]]:
    """The step whose report is shown, and what a reader should know of it.

    Args:
        verb: of the command that makes such a report.
        run: that keeps the reports.
        steps: those it keeps one for, newest first.
        asked: by the address, None for the newest.
    """
    step = shown_step(steps, asked)
    if asked is not None and asked != step:
        made = f"workbench {verb} {run.id}@{asked}"
        return step, [f"Step {asked:,} has no report yet ({made} makes it); this one is of step {step:,}."]
    if step == steps[0] and run.step > step:
        return step, [f"The run is at step {run.step:,} by now; this report is of step {step:,}."]
    return step, []


def counts_of(heads: Sequence[HeadContent]) -> tuple[int, ...]:
    """Heads of each layer."""
    counted = Counter(head.layer for head in heads)
    return tuple(counted[layer] for layer in sorted(counted))


def shares(content: HeadsContent) -> list[str]:
    """Names of the scores that are drawn on a range of 0 to 1, in the report's order.

    They are measured for some head and between 0 and 1 for every one; those that labels rest on may lie below 0, which
    rules take for 0.
    """
    ruled = {condition.split(" ")[0] for rule in content.rules for condition in rule.conditions}
    names = dict.fromkeys(name for head in content.heads for name in head.scores)
    values = {name: [h.scores[name].value for h in content.heads if name in h.scores] for name in names}
    known = {name: [value for value in found if value is not None] for name, found in values.items()}
    return [
        name
        for name, found in known.items()
        if found and max(found) <= 1 + _ROUNDING and (min(found) >= -_ROUNDING or name in ruled)
    ]


def default_score(content: HeadsContent, names: Sequence[str], head: HeadContent) -> str | None:
    """The score that decides a head's label, else that decides most labels, of those that can be drawn; else None."""
    decide = Counter(e.score for other in content.heads for e in other.evidence if e.condition is not None)
    found = [leading_score(head), *(name for name, _ in decide.most_common()), *names]
    return next((name for name in found if name in names), None)


def leading_score(head: HeadContent) -> str | None:
    """The first score that a head's label is decided by, else the first that is shown for it; None without evidence."""
    deciding = [e.score for e in head.evidence if e.condition is not None] or [e.score for e in head.evidence]
    return deciding[0] if deciding else None


def _is_whole(heads: Sequence[HeadContent]) -> bool:
    """Whether these are heads 0, 1, ... of layers 0, 1, ..., each once."""
    counts = counts_of(heads)
    expected = [(layer, head) for layer, count in enumerate(counts) for head in range(count)]
    return bool(expected) and sorted((head.layer, head.head) for head in heads) == expected
