"""Two subjects that models are run on, for Playground and Intervene: two runs, steps, heads or strings."""

from dataclasses import dataclass, replace

from dash.development.base_component import Component

from models.errors import WorkbenchError
from workbench.dashboard.beside import Beside, difference, second_view
from workbench.dashboard.compare_bar import Bar, Choice, compare_bar
from workbench.dashboard.live_models import LiveModels, Loading
from workbench.dashboard.pages.playground_strings import Chosen, choose, write_tokens
from workbench.dashboard.selection import choose_owner
from workbench.dashboard.state import ViewState


@dataclass(frozen=True)
class LivePair:
    """The two subjects."""

    first: Chosen
    second: Chosen

    @property
    def same_string(self) -> bool:
        """Whether both are run on the same tokens."""
        return self.first.tokens == self.second.tokens


def second_of(models: LiveModels, first: Chosen, view: ViewState) -> Chosen:
    """Make the open choices of the second subject; raises as `choose`."""
    return choose(models, second_view(replace(first.view, beside=view.beside or Beside())))


def waits(models: LiveModels, first: Chosen, view: ViewState) -> bool:
    """Whether the model of the second subject is being loaded."""
    if view.beside is None:
        return False
    try:
        second_of(models, first, view)
    except Loading:
        return True
    except WorkbenchError:  # the panel over the two says what is wrong
        return False
    return False


def start(models: LiveModels, chosen: Chosen, *, by_head: bool = True) -> Beside:
    """Return what a comparison begins with: another head, else an earlier step, another string, the subject itself.

    Args:
        models: what is read.
        chosen: the first subject.
        by_head: whether heads are compared, and not what the model does with all of them.
    """
    view, counts = chosen.view, chosen.live.heads
    if by_head and counts[view.layer] > 1:
        return Beside(head=(view.head + 1) % counts[view.layer])
    if by_head and len(counts) > 1:
        return Beside(layer=(view.layer + 1) % len(counts), head=0)
    earlier = [step for step in models.steps(chosen.run.id) if step < chosen.live.subject.step]
    if earlier:
        return Beside(checkpoint=earlier[len(earlier) // 2])
    return Beside()


def swapped(pair: LivePair) -> ViewState:
    """Return the view whose first subject is the second one, and the other way round."""
    first, second = pair.first.view, pair.second.view
    named = ("run", "of", "capture", "checkpoint", "string", "layer", "head", "text", "input")
    turned = replace(first, **{name: getattr(second, name) for name in named}, beside=None, fed=None)
    other = first
    if first.text is None and pair.first.origin == "generated" and not pair.same_string:
        other = replace(first, text=write_tokens(pair.first.tokens, pair.first.live.task.alphabet))
    return replace(turned, beside=difference(turned, other, pair.first.live.subject.step))


def names(pair: LivePair) -> tuple[str, str]:
    """Return what to call the subjects: what of them is not the same, in words."""
    first, second = pair.first, pair.second
    differs = {
        "run": first.run.id != second.run.id,
        "step": first.live.subject.step != second.live.subject.step,
        "string": not pair.same_string,
        "head": (first.view.layer, first.view.head) != (second.view.layer, second.view.head),
    }
    return _name(first, differs), _name(second, differs)


def _name(chosen: Chosen, differs: dict[str, bool]) -> str:
    view = chosen.view
    words = {
        "run": chosen.run.id,
        "step": f"step {chosen.live.subject.step:,}",
        "string": f"string #{view.string}" if chosen.origin == "captured" else chosen.words,
        "head": f"head {view.layer}.{view.head}",
    }
    said = [words[name] for name, other in differs.items() if other]
    return ", ".join(said) or f"head {view.layer}.{view.head}"


def live_bar(
    models: LiveModels, view: ViewState, path: str, first: Chosen, pair: LivePair | None, *, strings: bool = True
) -> Component:
    """Return the panel over two subjects.

    Args:
        models: what is read.
        view: the view that its links change.
        path: address of the page.
        first: the first subject.
        pair: both; None where the second cannot be shown.
        strings: whether the second can be another string.
    """
    listed = choices(models, view.beside or Beside(), first, pair)
    if not strings:
        listed = [choice for choice in listed if choice.name not in ("string", "text")]
    if pair is None:
        return compare_bar(Bar(None, listed), view, path)
    return compare_bar(Bar(names(pair), listed, swapped(pair), pair.second.notes), view, path)


def choices(models: LiveModels, beside: Beside, first: Chosen, pair: LivePair | None) -> list[Choice]:
    """Return what is chosen by a list, or typed."""
    data, at = models.data, pair.second if pair else first
    runs = [(row.id, row.id) for row in data.runs() if row.readable and row.id != first.run.id]
    steps = [(str(step), f"step {step:,}") for step in sorted({*models.steps(at.run.id), at.live.subject.step})]
    same_step = f"of step {first.live.subject.step:,}" if beside.run is None else "the newest"
    heads = [
        (f"{layer}.{head}", f"head {layer}.{head}")
        for layer, count in enumerate(at.live.heads)
        for head in range(count)
    ]
    named_head = beside.layer is not None or beside.head is not None
    found = [
        Choice("run", "Run", runs, beside.run or "", "the same"),
        Choice("checkpoint", "Weights", steps, "" if beside.checkpoint is None else str(beside.checkpoint), same_step),
    ]
    owner = choose_owner(data, at.run, at.view)
    if owner.captures and at.origin == "captured":
        strings = [
            (str(i), f"#{i} · n = {entry.get('length')} · {'exact' if entry.get('exact', True) else 'fails'}")
            for i, entry in enumerate(data.capture(owner.id, str(at.view.capture)).about["strings"])
        ]
        chosen_string = "" if beside.string is None or beside.text is not None else str(beside.string)
        same_string = f"#{first.view.string}, the same" if first.origin == "captured" else "the same"
        found.append(Choice("string", "String", strings, chosen_string, same_string))
    return [
        *found,
        Choice("text", "Typed", None, beside.text or "", "another string: 0110 …"),
        Choice("head", "Head", heads, f"{at.view.layer}.{at.view.head}" if named_head else "",
               f"{first.view.layer}.{first.view.head}, the same"),
    ]  # fmt: skip
