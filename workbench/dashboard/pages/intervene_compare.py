"""Two subjects on the Intervene page: the same is done to both, or one head against another, and what differs."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from dash import html
from dash.development.base_component import Component

from models.errors import UsageError, WorkbenchError
from workbench.dashboard import live_pairs
from workbench.dashboard.beside import Beside, second_view
from workbench.dashboard.compare_bar import Bar, compare_bar
from workbench.dashboard.live_models import Live, LiveModels, Loading
from workbench.dashboard.live_pairs import LivePair
from workbench.dashboard.pages import intervene_outcome
from workbench.dashboard.pages.intervene_code import code_of_both
from workbench.dashboard.pages.intervene_outcome import Done, heads_of, strings_of
from workbench.dashboard.pages.intervene_tables import as_text
from workbench.dashboard.pages.playground_strings import Chosen
from workbench.dashboard.parts import message
from workbench.dashboard.selection import choose_run
from workbench.dashboard.state import ViewState
from workbench.figures.intervene import Contrast

_NAMED = 4  # heads that are named one by one
_ALIKE = 0.005  # changes that are no further apart are told as the same


@dataclass(frozen=True)
class Both:
    """An intervention on two subjects.

    Attributes:
        pair: the subjects.
        first, second: what it changed in each.
    """

    pair: LivePair
    first: Done
    second: Done

    @property
    def called(self) -> tuple[str, str]:
        """What to call the subjects."""
        return names(self.pair)

    @property
    def rows(self) -> int:
        """Answers that are compared: of strings of different length, those to tokens that both have."""
        counts = [len(done.baseline[0].right) for done in (self.first, self.second)]
        return counts[0] if counts[0] == counts[1] else min(counts) - 1

    @cached_property
    def contrast(self) -> Contrast:
        """What changes in the first minus what changes in the second, by index in the copy."""
        from analyses.estimates import ratios

        ours, theirs = (
            np.stack(
                [after.margins - before.margins for before, after in zip(done.baseline, done.changed, strict=True)]
            )
            for done in (self.first, self.second)
        )
        apart = ours[:, : self.rows] - theirs[:, : self.rows]
        if len(apart) == 1:
            return Contrast(apart[0], None, None)
        found = ratios(apart, np.ones(len(apart)))
        return Contrast(found.value, found.low, found.high)


# ---- the second subject ----------------------------------------------------------------------------------------------


def second_of(models: LiveModels, first: Chosen, view: ViewState) -> Chosen:
    """Make the open choices of the second subject; `heads` of its view are those that are intervened on.

    Where no other string is named it reads the tokens of the first, also where its own task would draw others.

    Raises:
        Loading, Nothing, UsageError, WorkbenchError: as `choose`; UsageError too where a batch, or the ticked heads,
            do not fit the second model.
    """
    beside, batch = view.beside or Beside(), first.view.input == "batch"
    if batch:
        beside = replace(beside, of=None, capture=None, string=None, text=None)
    asked = second_view(replace(first.view, beside=beside))
    if batch:
        live = models.get(choose_run(models.data, asked).id, asked.checkpoint)
        _require_alphabet(first, live, asked)
    chosen = live_pairs.read_alike(models, first, beside, asked)
    heads, notes = _heads(chosen, first, asked, names_head(beside))
    chosen = replace(chosen, view=replace(chosen.view, heads=heads or None), notes=notes)
    if heads:
        strings_of(chosen, first)  # raises where they are too long, or too many
    return chosen


def names_head(beside: Beside) -> bool:
    """Whether the second subject has another head in place of the ticked ones."""
    return beside.layer is not None or beside.head is not None


def _require_alphabet(first: Chosen, live: Live, asked: ViewState) -> None:
    ours, theirs = first.live.task.alphabet, live.task.alphabet
    if ours != theirs:
        raise UsageError(
            f"a batch is the same strings for both, and their alphabets differ: run {first.run.id} has {ours} tokens, "
            f"run {asked.run} has {theirs}; compare them on one string that both can read"
        )


def _heads(
    chosen: Chosen, first: Chosen, asked: ViewState, named: bool
) -> tuple[tuple[tuple[int, int], ...], tuple[str, ...]]:
    """The heads of the second subject that are intervened on, and a note where the model lacks some."""
    if named:
        at, wanted = (chosen.view.layer, chosen.view.head), (asked.layer, asked.head)
        lacks = f"The second model has no head {wanted[0]}.{wanted[1]}; {at[0]}.{at[1]} is taken."
        return (at,), () if at == wanted else (lacks,)
    ticked = first.view.heads or ()
    there, lacks_some = heads_of(chosen.live, replace(chosen.view, heads=ticked))
    if not there and heads_of(first.live, first.view)[0]:
        raise UsageError(
            f"run {chosen.run.id} has no {words_of_heads(ticked)}: choose a head for the second, or tick one that "
            "both have"
        )
    missing = [at for at in ticked if at not in there]
    if not lacks_some:
        return there, ()
    return there, (f"The second model has no {words_of_heads(tuple(missing))}; left out there.",)


def words_of_heads(heads: tuple[tuple[int, int], ...]) -> str:
    """Return heads in words: "head 0.1", or how many where they are many."""
    if len(heads) > _NAMED:
        return f"{len(heads)} heads"
    return f"head{'s' if len(heads) > 1 else ''} " + ", ".join(f"{layer}.{head}" for layer, head in heads)


# ---- the panel over both ---------------------------------------------------------------------------------------------


def panel_of(models: LiveModels, chosen: Chosen, view: ViewState, path: str) -> list[Component]:
    """Return the panel over the two, with what the second waits for or lacks; none while nothing is compared."""
    if view.beside is None:
        return []
    pair, wrong = None, []
    try:
        pair = LivePair(chosen, second_of(models, chosen, view))
    except Loading as loading:
        said = f"Second: {loading} … The first is shown meanwhile."
        wrong = [html.P(said, role="status", className="quiet")]
    except WorkbenchError as error:
        wrong = [message(error)]
    batch = chosen.view.input == "batch"
    choices = []
    for choice in live_pairs.choices(models, view.beside, chosen, pair):
        if choice.name == "head":
            choice = replace(choice, same="the ticked ones")
        if not (batch and choice.name in live_pairs.STRINGS):
            choices.append(choice)
    if pair is None:
        return [compare_bar(Bar(None, choices), view, path), *wrong]
    turned = swapped(pair, view)
    bar = compare_bar(Bar(names(pair), choices, turned, pair.second.notes), view, path)
    if turned is None and chosen.view.heads:
        return [bar, html.P("They can be swapped once one head alone is ticked.", className="quiet")]
    return [bar]


def names(pair: LivePair) -> tuple[str, str]:
    """Return what to call the subjects: what of them is not the same, in words."""
    sides = (pair.first, pair.second)
    words = [
        (
            side.run.id,
            f"step {side.live.subject.step:,}",
            string,
            words_of_heads(heads_of(side.live, side.view)[0]),
        )
        for side, string in zip(sides, live_pairs.strings_called(pair), strict=True)
    ]
    differs = [
        sides[0].run.id != sides[1].run.id,
        sides[0].live.subject.step != sides[1].live.subject.step,
        not pair.same_string,
        bool(sides[0].view.heads) and words[0][3] != words[1][3],
    ]
    ours, theirs = (
        ", ".join(word for word, differ in zip(side, differs, strict=True) if differ) or side[1] for side in words
    )
    return ours, theirs


def swapped(pair: LivePair, view: ViewState) -> ViewState | None:
    """Return the view with the subjects exchanged; None where several heads stand against another one."""
    first, second = pair.first, pair.second
    named = names_head(view.beside or Beside())
    ticked = heads_of(first.live, first.view)[0]
    if named and len(ticked) != 1:
        return None
    # Heads matter here only where one stands against another: elsewhere none is named.
    ours = ticked[0] if named else (first.view.layer, first.view.head)
    theirs = second.view if named else first.view
    turned = live_pairs.swapped(
        LivePair(
            replace(first, view=replace(first.view, layer=ours[0], head=ours[1])),
            replace(second, view=replace(second.view, layer=theirs.layer, head=theirs.head)),
        )
    )
    return replace(turned, heads=second.view.heads if named else first.view.heads)


# ---- what was done to both -------------------------------------------------------------------------------------------


def run(models: LiveModels, chosen: Chosen, done: Done, view: ViewState) -> Both | None:
    """Return the outcome on both; None while nothing is compared, or where the second cannot be shown.

    Args:
        models: what runs it.
        chosen: the first subject.
        done: what was done to it.
        view: as the address has it.
    """
    if view.beside is None:
        return None
    try:
        second = second_of(models, chosen, view)
    except WorkbenchError:  # the panel over the two says what is wrong
        return None
    there = intervene_outcome.run(models, second, chosen)
    return None if there is None else Both(LivePair(chosen, second), done, there)


def code(models: LiveModels, both: Both) -> str:
    """Return what does the same in a notebook."""
    first, second = both.pair.first, both.pair.second
    return code_of_both(models, (first, both.first.intervention), (second, both.second.intervention))


def finding(both: Both) -> str:
    """Return in words which subject is hurt more, and where most; plain text."""
    changes = [done.effect.logit_difference.difference.value or 0.0 for done in (both.first, both.second)]
    apart = changes[0] - changes[1]
    values = both.contrast.values
    lines = []
    moved = [
        f"{'falls' if change < 0 else 'rises'} by {abs(change):.2f}" if abs(change) >= _ALIKE else "does not change"
        for change in changes
    ]
    told = f"the logit difference {moved[0]} in the first and {moved[1]} in the second"
    if max(map(abs, changes)) < _ALIKE:
        lines.append("The logit difference changes in neither")
    elif abs(apart) < _ALIKE:
        lines.append(f"Both change alike: {told}")
    else:
        side = "first" if apart < 0 else "second"
        lines.append(f"The {side} {'is hurt more' if min(changes) < 0 else 'gains less'}: {told}")
    at = int(np.abs(values).argmax())
    if abs(values[at]) >= _ALIKE:
        here = [as_text(done.margins.difference[at], signed=True) for done in (both.first, both.second)]
        where = "EOS" if at == len(both.first.strings[0]) == len(both.second.strings[0]) else f"token {at}"
        lines.append(f"; they are furthest apart at {where} ({here[0]} and {here[1]})")
    counts = [
        (sum(int((a != b).sum()) for a, b, *_ in map(done.answers, range(len(done.strings)))),
         sum(len(one.right) for one in done.baseline))
        for done in (both.first, both.second)
    ]  # fmt: skip
    ours, theirs = (f"{changed:,} of {rows:,}" for changed, rows in counts)
    said = f"{''.join(lines)}. Predicted tokens that change: {ours} in the first, {theirs} in the second."
    sizes = [len(done.strings[0]) for done in (both.first, both.second)]
    if sizes[0] != sizes[1]:
        said += f" The strings have {sizes[0]:,} and {sizes[1]:,} tokens; compared by position up to {both.rows - 1:,}."
    return said
