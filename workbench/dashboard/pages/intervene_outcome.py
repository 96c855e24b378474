"""An intervention on what a view names: the strings, what is done, and the answers."""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from models.errors import UsageError
from workbench.dashboard.live_models import Live, LiveModels, require_size
from workbench.dashboard.pages.intervene_code import COMPANIONS, code_of, takes_from_others
from workbench.dashboard.pages.playground_strings import Chosen, generate, length_of, settings_of
from workbench.dashboard.state import ViewState
from workbench.figures.intervene import Margins

if TYPE_CHECKING:
    from analyses.effects import ControlledEffect, Effect
    from analyses.outcomes import Heads, Intervention, Outcomes
    from analyses.samples import Sample


@dataclass(frozen=True)
class Done:
    """An intervention and what it changed.

    Attributes:
        intervention: what was done.
        batch: it was done to a batch of strings, not to one.
        strings: the source strings, ids.
        baseline, changed: the answers without and with it, one a string.
        control: with its control, None where it has none.
        effect: the measures.
        controlled: the measures of intervention and control, None where it has no control.
        code: what does the same in a notebook.
    """

    intervention: "Intervention"
    batch: bool
    strings: tuple[tuple[int, ...], ...]
    baseline: "Outcomes"
    changed: "Outcomes"
    control: "Outcomes | None"
    effect: "Effect"
    controlled: "ControlledEffect | None"
    code: str

    @cached_property
    def margins(self) -> Margins:
        """Logit differences along the copy."""
        from analyses.estimates import ratios

        before, after = (np.stack([one.margins for one in part]) for part in (self.baseline, self.changed))
        beside = None if self.control is None else np.stack([one.margins for one in self.control]).mean(0)
        low = high = None
        if len(before) > 1:
            change = ratios(after - before, np.ones(len(before)))
            low, high = change.low, change.high
        return Margins(before.mean(0), after.mean(0), beside, low, high, len(before))

    def answers(self, index: int) -> list[np.ndarray]:
        """Int64[R] predicted ids of a string: without, with the intervention, and with its control."""
        parts = [self.baseline, self.changed, *([] if self.control is None else [self.control])]
        return [part[index].log_probs.argmax(-1) for part in parts]


def heads_of(live: Live, view: ViewState) -> "tuple[Heads, tuple[str, ...]]":
    """Return the ticked heads that the model has, and a note where it lacks some."""
    ticked = view.heads or ()
    there = tuple((layer, head) for layer, head in ticked if layer < len(live.heads) and head < live.heads[layer])
    if len(there) == len(ticked):
        return there, ()
    return there, ("Some heads in the address are not in this model; they are left out.",)


def intervention_of(live: Live, view: ViewState) -> "Intervention | None":
    """Return what a view asks to be done, None where no head is ticked; UsageError for keys that are no class."""
    from analyses.ablation import Ablation
    from analyses.knockout import Knockout

    heads, _ = heads_of(live, view)
    if not heads:
        return None
    return Ablation(heads, view.way) if view.keys is None else Knockout(view.keys, heads, view.how)


def run(models: LiveModels, chosen: Chosen, source: Chosen | None = None) -> Done | None:
    """Return the outcome of a view's intervention, None where no head is ticked.

    Args:
        models: what runs it.
        chosen: the subject.
        source: the subject from whose task generated strings are drawn; None for this one.

    Raises:
        UsageError: too many or too long strings, or ones that it cannot be done on.
    """
    from analyses.effects import compare, compare_controlled
    from analyses.knockout import Knockout

    live, view = chosen.live, chosen.view
    intervention = intervention_of(live, view)
    if intervention is None:
        return None
    sample, shown, named = strings_of(chosen, source)
    baseline, changed = (models.outcomes(live, (sample,), named, done)[:shown] for done in (None, intervention))
    strings = tuple(
        tuple(sample.batch.strings[i, : int(sample.batch.lengths[i])].tolist()) for i in range(len(baseline))
    )
    control = controlled = None
    if isinstance(intervention, Knockout):
        control = models.outcomes(live, (sample,), named, intervention.matched)[:shown]
        words = intervention.words, intervention.matched.words
        controlled = compare_controlled(baseline, changed, control, *words)
        effect = controlled.effect
    else:
        effect = compare(baseline, changed, intervention.words)
    code = code_of(models, chosen, intervention)
    batch = view.input == "batch"
    return Done(intervention, batch, strings, baseline, changed, control, effect, controlled, code)


def strings_of(chosen: Chosen, source: Chosen | None = None) -> "tuple[Sample, int, Hashable]":
    """Return the strings of a view, how many of them are shown, and what tells them from all others.

    Generated ones are drawn from the task of `source`, and encoded for the model of `chosen`.
    """
    from analyses.samples import Sample
    from models.tasks import CopyTask

    live, view = chosen.live, chosen.view
    of = live if source is None else source.live
    drawn = (settings_of(of, view).model_dump_json(), view.seed)
    if view.input == "batch":
        sample = generate(of, view, view.count)
        if of is not live:
            require_size(live, sample.length, view.count)
            sample = replace(sample, batch=CopyTask(live.task).encode(sample.batch.strings.tolist()))
        return sample, view.count, ("batch", *drawn, length_of(of, view), view.count)
    others: list[list[int]] = []
    if takes_from_others(view):
        if chosen.length < 2:
            raise UsageError("values are taken from shorter strings; give a string of at least 2 tokens")
        require_size(live, chosen.length, 1 + COMPANIONS)
        others = generate(of, view.change(length=chosen.length), COMPANIONS).batch.strings.tolist()
    batch = CopyTask(live.task).encode([chosen.tokens, *others])
    return Sample("plain", chosen.origin, chosen.length, 0, batch), 1, (chosen.tokens, bool(others) and drawn)


def words_of(done: Done, chosen: Chosen) -> str:
    """Return on which strings an intervention was done, in words."""
    view = chosen.view
    if not done.batch:
        return chosen.words
    strings = f"{len(done.strings)} strings, {settings_of(chosen.live, view).distribution}, "
    return f"{strings}n = {length_of(chosen.live, view):,}, seed {view.seed}"
