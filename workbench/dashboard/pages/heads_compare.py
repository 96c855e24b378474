"""Two subjects on the Heads page: two kept reports, or two heads of one; which they are, and how they are chosen."""

from dataclasses import dataclass, replace

from dash.development.base_component import Component

from models.errors import WorkbenchError
from workbench.dashboard.beside import Beside, difference, second_view
from workbench.dashboard.compare_bar import Bar, Choice, compare_bar, compare_link
from workbench.dashboard.pages.heads_parts import PATH
from workbench.dashboard.pages.heads_reports import Chosen, Reports
from workbench.dashboard.pages.heads_strongest import Strongest
from workbench.dashboard.parts import message
from workbench.dashboard.pickers import visible_text
from workbench.dashboard.state import ViewState
from workbench.figures.head_pair import Matched, match


@dataclass(frozen=True)
class HeadsPair:
    """Two reports and a head of each.

    Attributes:
        first, second: views whose open choices are made.
    """

    first: Chosen
    second: Chosen

    @property
    def one_report(self) -> bool:
        """Whether both heads are of the same report."""
        return (self.first.run.id, self.first.content.step) == (self.second.run.id, self.second.content.step)

    @property
    def heads(self) -> list[Matched]:
        """Heads of both reports, by layer and head number."""
        return match(self.first.content.heads, self.second.content.heads)

    @property
    def selected(self) -> Matched:
        """The selected head of each, whatever their numbers."""
        return Matched(self.first.head.layer, self.first.head.head, self.first.head, self.second.head)


def second_of(reports: Reports, chosen: Chosen, view: ViewState) -> Chosen:
    """Make the open choices of the second subject; raises as `Reports.choose`."""
    return reports.choose(replace(second_view(_address(chosen, view)), score=None))


def compared(reports: Reports, chosen: Chosen, view: ViewState) -> HeadsPair | None:
    """Return both subjects, None while nothing is compared or where the second cannot be shown: the panel says why."""
    if view.beside is None:
        return None
    try:
        return HeadsPair(chosen, second_of(reports, chosen, view))
    except WorkbenchError:
        return None


def stamp(reports: Reports, view: ViewState) -> str:
    """Return what changes whenever a report that one of the subjects shows is written."""
    if view.beside is None:
        return reports.stamp(view)
    try:
        run = reports.choose_run(view).id
    except WorkbenchError as error:
        return str(error)
    return f"{reports.stamp(view)} {reports.stamp(second_view(replace(view, run=run)))}"


def start(chosen: Chosen) -> Beside:
    """Return what a comparison begins with: another head of the layer, else of another, else an earlier report."""
    layer, head, counts = chosen.head.layer, chosen.head.head, chosen.counts
    if counts[layer] > 1:
        return Beside(head=(head + 1) % counts[layer])
    if len(counts) > 1:
        return Beside(layer=(layer + 1) % len(counts), head=0)
    earlier = [step for step in chosen.steps if step < chosen.content.step]
    return Beside(checkpoint=earlier[len(earlier) // 2]) if earlier else Beside()


def begin(chosen: Chosen, view: ViewState) -> Component:
    """Return the link into a comparison, or out of it."""
    return compare_link(view, PATH, start(chosen), "Another head, report or run")


def bar(reports: Reports, chosen: Chosen, view: ViewState) -> list[Component]:
    """Return the panel over two subjects, with why the second cannot be shown; none while nothing is compared."""
    if view.beside is None:
        return []
    try:
        pair = HeadsPair(chosen, second_of(reports, chosen, view))
    except WorkbenchError as error:
        return [compare_bar(Bar(None, choices(reports, chosen, view.beside, None)), view, PATH), message(error)]
    listed = choices(reports, chosen, view.beside, pair.second)
    return [compare_bar(Bar(names(pair), listed, swapped(pair, view), notes_of(pair)), view, PATH)]


def notes_of(pair: HeadsPair) -> tuple[str, ...]:
    """Return what of the second was replaced, and whether nothing is left to compare."""
    notes = tuple(f"Second: {note}" for note in pair.second.notes)
    same = pair.one_report and pair.first.head is pair.second.head
    return (*notes, "Both are the same: choose another run, report or head for the second.") if same else notes


def choices(reports: Reports, first: Chosen, beside: Beside, second: Chosen | None) -> list[Choice]:
    """Return what is chosen by a list each: runs that keep a report on heads, reports, and heads."""
    data = reports.data
    readable = [row.id for row in data.runs() if row.readable and row.id != first.run.id]
    runs = [(run, run) for run in readable if reports.steps(run)]
    steps = second.steps if second else _steps(reports, beside.run or first.run.id)
    listed = [(str(step), f"step {step:,}") for step in steps]
    newest = f"newest: step {steps[0]:,}" if steps else "the newest"
    same = f"of step {first.content.step:,}" if beside.run in (None, first.run.id) else newest
    listed_heads = second.content.heads if second else first.content.heads if beside.run is None else ()
    heads = [
        (f"{head.layer}.{head.head}", f"head {head.layer}.{head.head} · {visible_text(head.label)}")
        for head in listed_heads
    ]
    named = beside.layer is not None or beside.head is not None
    at = second or first
    step = second.content.step if second else beside.checkpoint
    return [
        Choice("run", "Run", runs, beside.run or "", "the same"),
        Choice("checkpoint", "Report", listed, "" if beside.checkpoint is None else str(step), same),
        Choice(
            "head", "Head", heads, f"{at.head.layer}.{at.head.head}" if named else "",
            f"{first.head.layer}.{first.head.head}, the same",
        ),
    ]  # fmt: skip


def names(pair: HeadsPair) -> tuple[str, str]:
    """Return what to call the subjects: what of them is not the same, in words."""
    words = [
        {
            "run": chosen.run.id,
            "step": f"step {chosen.content.step:,}",
            "head": f"head {chosen.head.layer}.{chosen.head.head}",
        }
        for chosen in (pair.first, pair.second)
    ]
    differing = [name for name in words[0] if words[0][name] != words[1][name]] or ["head"]
    first, second = (", ".join(word[name] for name in differing) for word in words)
    return first, second


def swapped(pair: HeadsPair, view: ViewState) -> ViewState:
    """Return the view whose first subject is the second one, and the other way round."""
    first = _address(pair.first, view)
    turned = _address(pair.second, second_view(first))
    return replace(turned, beside=difference(turned, replace(first, beside=None), pair.first.content.step))


def both_in_attention(pair: HeadsPair, strongest: Strongest) -> ViewState:
    """Return the Attention page's view of both heads, on the string that shows the first best."""
    one = replace(strongest.view, beside=None)
    first, second = pair.first, pair.second
    other = replace(one, run=second.run.id, layer=second.head.layer, head=second.head.head)
    if second.run.id != first.run.id:
        newest = second.content.step == second.run.step
        other = replace(other, of=one.of or one.run, checkpoint=None if newest else second.content.step)
    elif not pair.one_report:
        other = replace(other, checkpoint=second.content.step)
    return replace(one, beside=difference(one, other, second.content.step))


def _address(chosen: Chosen, view: ViewState) -> ViewState:
    """Return a view with the run, report and head that are shown; what was left open besides stays so."""
    run, head = chosen.run.id, chosen.head
    newest = view.checkpoint is None and chosen.content.step == chosen.steps[0]
    step = None if newest else chosen.content.step
    return replace(view, run=run, checkpoint=step, layer=head.layer, head=head.head)


def _steps(reports: Reports, run: str) -> tuple[int, ...]:
    try:
        return reports.steps(run)
    except WorkbenchError:
        return ()


def panel_class(shown: list[Component]) -> str:
    """Return the class of the panel over two subjects, which takes no place while nothing is compared."""
    return "panel heads-beside told" if shown else "panel heads-beside told none"
