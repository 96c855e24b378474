"""Two subjects that models are run on, for Playground and Intervene: two runs, steps, heads or strings."""

from dataclasses import dataclass, replace
from typing import Any

from dash.development.base_component import Component

from models.errors import WorkbenchError
from workbench.dashboard.beside import Beside, difference, second_view
from workbench.dashboard.compare_bar import Bar, Choice, compare_bar
from workbench.dashboard.live_models import LiveModels, Loading
from workbench.dashboard.pages.playground_strings import Chosen, choose, length_of, settings_of, write_tokens
from workbench.dashboard.selection import choose_capture, choose_owner
from workbench.dashboard.state import ViewState

STRINGS = ("capture", "string", "text")  # of `Beside`: what names another string
_DRAWN = ("distribution", "period", "flip")  # settings that the address can name
_SHOWN = 12  # tokens of a typed string in its name
_BEFORE = 4  # of them at most that stand before the first that is another


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
    """Make the open choices of the second subject, see `read_alike`; raises as `choose`."""
    beside = view.beside or Beside()
    return read_alike(models, first, beside, second_view(replace(first.view, beside=beside)))


def read_alike(models: LiveModels, first: Chosen, beside: Beside, asked: ViewState) -> Chosen:
    """Make the open choices of a second subject; raises as `choose`.

    Where no other string is named it reads the tokens of the first, also where its own task would draw others.
    """
    if first.origin == "captured" or any(getattr(beside, name) is not None for name in STRINGS):
        return choose(models, asked)
    chosen = choose(models, replace(asked, text=".".join(map(str, first.tokens))))
    shown = replace(chosen.view, text=first.view.text, input=first.view.input)
    return replace(chosen, view=shown, origin=first.origin, words=first.words)


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
    """Return the view whose first subject is the second one, and the other way round.

    What is fed in place of right tokens stays where both are fed it; another string is fed rightly.
    """
    first, second = pair.first.view, pair.second.view
    named = ("run", "of", "capture", "checkpoint", "string", "layer", "head", "text", "input")
    turned = replace(first, **{name: getattr(second, name) for name in named}, beside=None, fed=second.fed)
    other = first
    if first.text is None and pair.first.origin == "generated" and not pair.same_string:
        other = replace(first, text=write_tokens(pair.first.tokens, pair.first.live.task.alphabet))
    beside = difference(turned, other, pair.first.live.subject.step)
    return replace(turned, beside=beside, **_draws_alike(pair))


def _draws_alike(pair: LivePair) -> dict[str, Any]:
    """What the address must say so that the second, as the first, draws the strings that are compared."""
    first, second = pair.first, pair.second
    if first.origin != "generated" and first.view.input != "batch":
        return {}
    settings, view = settings_of(first.live, first.view), first.view
    unsaid = [name for name in _DRAWN if getattr(view, name) is None]
    named = {
        name: getattr(settings, name) for name in unsaid if getattr(settings, name) != getattr(second.live.task, name)
    }
    lengths = [length_of(side.live, view) for side in (first, second)]
    return named | ({"length": lengths[0]} if lengths[0] != lengths[1] else {})


def names(pair: LivePair) -> tuple[str, str]:
    """Return what to call the subjects: what of them is not the same, in words."""
    first, second = pair.first, pair.second
    differs = {
        "run": first.run.id != second.run.id,
        "step": first.live.subject.step != second.live.subject.step,
        "string": not pair.same_string,
        "head": (first.view.layer, first.view.head) != (second.view.layer, second.view.head),
    }
    ours, theirs = strings_called(pair)
    return _name(first, ours, differs), _name(second, theirs, differs)


def _name(chosen: Chosen, string: str, differs: dict[str, bool]) -> str:
    view = chosen.view
    words = {
        "run": chosen.run.id,
        "step": f"step {chosen.live.subject.step:,}",
        "string": string,
        "head": f"head {view.layer}.{view.head}",
    }
    said = [words[name] for name, other in differs.items() if other]
    return ", ".join(said) or f"head {view.layer}.{view.head}"


def strings_called(pair: LivePair) -> tuple[str, str]:
    """Return what to call the two strings: a typed one by some of its tokens, from before the two come apart.

    A capture is named where there are two.
    """
    one, other = pair.first.tokens, pair.second.tokens
    same = next((k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    start = max(0, same - _BEFORE) if same >= _SHOWN else 0
    captures = {side.view.capture for side in (pair.first, pair.second) if side.origin == "captured"}
    ours, theirs = (_string_called(side, start, len(captures) > 1) for side in (pair.first, pair.second))
    return ours, theirs


def _string_called(chosen: Chosen, start: int, two_captures: bool) -> str:
    if chosen.origin == "captured" and not two_captures:
        return f"string #{chosen.view.string}"
    if chosen.origin != "typed":
        return chosen.words
    text = write_tokens(chosen.tokens[start : start + _SHOWN], chosen.live.task.alphabet)
    end = "…" if start + _SHOWN < chosen.length else ""
    return f"typed {'…' if start else ''}{text}{end}"


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
    strings = _strings(models, at)
    if strings:
        chosen_string = "" if beside.string is None or beside.text is not None else str(beside.string)
        same_string = f"#{first.view.string}, the same" if first.origin == "captured" else "the same"
        found.append(Choice("string", "String", strings, chosen_string, same_string))
    return [
        *found,
        Choice("text", "Typed", None, beside.text or "", "another string: 0110 …"),
        Choice("head", "Head", heads, f"{at.view.layer}.{at.view.head}" if named_head else "",
               f"{first.view.layer}.{first.view.head}, the same"),
    ]  # fmt: skip


def _strings(models: LiveModels, chosen: Chosen) -> list[tuple[str, str]]:
    """The captured strings that a subject can be run on, whatever it is run on now; none where they cannot be read."""
    try:
        owner = choose_owner(models.data, chosen.run, chosen.view)
        entries = models.data.capture(owner.id, choose_capture(models.data, owner, chosen.view)).about["strings"]
    except WorkbenchError:
        return []
    return [
        (str(i), f"#{i} · n = {entry.get('length')} · {'exact' if entry.get('exact', True) else 'fails'}")
        for i, entry in enumerate(entries)
    ]
