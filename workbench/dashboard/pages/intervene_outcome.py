"""An intervention on what a view names: the strings, what is done, the answers, and the code that does the same."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from models.errors import UsageError
from workbench.dashboard.live_models import Live, LiveModels, require_size
from workbench.dashboard.pages.playground_strings import Chosen, generate, length_of, settings_of, write_tokens
from workbench.dashboard.state import ViewState
from workbench.figures.intervene import Margins

if TYPE_CHECKING:
    from analyses.effects import ControlledEffect, Effect
    from analyses.knockout import Knockout
    from analyses.outcomes import Heads, Intervention, Outcomes
    from analyses.samples import Sample

FROM_OTHERS = ("resample", "same-place")  # ways of ablation that take values from other strings
COMPANIONS = 3  # strings that values are taken from where there is one string


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

    @property
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


def run(models: LiveModels, chosen: Chosen) -> Done | None:
    """Return the outcome of a view's intervention, None where no head is ticked.

    Raises:
        UsageError: too many or too long strings, or ones that it cannot be done on.
    """
    from analyses.effects import compare, compare_controlled
    from analyses.knockout import Knockout

    live, view = chosen.live, chosen.view
    intervention = intervention_of(live, view)
    if intervention is None:
        return None
    sample, shown, named = strings_of(chosen)
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


def strings_of(chosen: Chosen) -> "tuple[Sample, int, Hashable]":
    """Return the strings of a view, how many of them are shown, and what tells them from all others."""
    from analyses.samples import Sample
    from models.tasks import CopyTask

    live, view = chosen.live, chosen.view
    drawn = (settings_of(live, view).model_dump_json(), view.seed)
    if view.input == "batch":
        return generate(live, view, view.count), view.count, ("batch", *drawn, length_of(live, view), view.count)
    others: list[list[int]] = []
    if takes_from_others(view):
        if chosen.length < 2:
            raise UsageError("values are taken from shorter strings; give a string of at least 2 tokens")
        require_size(live, chosen.length, 1 + COMPANIONS)
        others = generate(live, view.change(length=chosen.length), COMPANIONS).batch.strings.tolist()
    batch = CopyTask(live.task).encode([chosen.tokens, *others])
    return Sample("plain", chosen.origin, chosen.length, 0, batch), 1, (chosen.tokens, bool(others) and drawn)


def takes_from_others(view: ViewState) -> bool:
    """Whether replaced values come from other strings."""
    return view.keys is None and view.way in FROM_OTHERS


def code_of(models: LiveModels, chosen: Chosen, intervention: "Intervention | Knockout") -> str:
    """Return what does the same in a notebook."""
    live, view = chosen.live, chosen.view
    kind, knocks_out = type(intervention).__name__, view.keys is not None
    one, companions = view.input != "batch", view.input != "batch" and takes_from_others(view)
    settings, task = settings_of(live, view), "subject.recipe.task"
    changes = {name: getattr(settings, name) for name in ("period", "flip") if getattr(view, name) is not None}
    if changes and (not one or companions):
        task += f".model_copy(update={changes!r})"
    length = chosen.length if one else length_of(live, view)
    count = COMPANIONS if one else view.count
    drawn = (
        f"draw_samples(\n    task,\n    lengths=({length},),\n    distributions=({settings.distribution!r},),\n"
        f'    strings={count},\n    seed={view.seed},\n    kinds=("plain",),\n)'
    )
    names = [*(["Sample"] if one else []), *(["draw_samples"] if not one or companions else [])]
    lines = [
        f"from analyses.effects import {'compare_controlled' if knocks_out else 'compare'}",
        f"from analyses.interventions import {kind}, read_outcomes",
        f"from analyses.samples import {', '.join(names)}",
        "from models.tasks import CopyTask",
        "from workbench.runs import Store",
        "from workbench.subjects import load_subject",
        "",
        f"store = Store({str(models.data.store.root)!r})",
        f"subject = load_subject(store, {chosen.run.id!r}{_checkpoint(live)})",
        f"task = CopyTask({task})",
    ]
    if one:
        alphabet = live.task.alphabet
        string = write_tokens(chosen.tokens, alphabet) if alphabet <= 10 else list(chosen.tokens)
        others = ", *others" if companions else ""
        lines += [f"others = {drawn}[0].batch.strings.tolist()"] if companions else []
        lines += [
            f"batch = task.encode([{string!r}{others}])",
            f'samples = (Sample("plain", {chosen.origin!r}, {length}, 0, batch),)',
        ]
    else:
        lines.append(f"samples = {drawn}")
    part = "[:1]" if companions else ""
    lines += [
        f"intervention = {intervention!r}",
        f"baseline = read_outcomes(subject.model, samples){part}",
        f"changed = read_outcomes(subject.model, samples, intervention){part}",
    ]
    if knocks_out:
        lines += [
            f"control = read_outcomes(subject.model, samples, intervention.matched){part}",
            "effect = compare_controlled(",
            "    baseline, changed, control, intervention.words, intervention.matched.words",
            ")",
        ]
    else:
        lines.append("effect = compare(baseline, changed, intervention.words)")
    return "\n".join([*lines, "effect.as_dict()"])


def _checkpoint(live: Live) -> str:
    return "" if live.checkpoint is None else f", checkpoint={live.checkpoint}"
