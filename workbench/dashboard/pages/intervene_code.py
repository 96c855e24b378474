"""What does in a notebook what the Intervene page shows: of one subject, or of two and their difference."""

from typing import TYPE_CHECKING

from workbench.dashboard.live_models import LiveModels
from workbench.dashboard.pages.playground_strings import Chosen, length_of, settings_of, write_tokens
from workbench.dashboard.state import ViewState

if TYPE_CHECKING:
    from analyses.outcomes import Intervention

FROM_OTHERS = ("resample", "same-place")  # ways of ablation that take values from other strings
COMPANIONS = 3  # strings that values are taken from where there is one string


def takes_from_others(view: ViewState) -> bool:
    """Whether replaced values come from other strings."""
    return view.keys is None and view.way in FROM_OTHERS


def code_of(models: LiveModels, chosen: Chosen, intervention: "Intervention") -> str:
    """Return what does the same in a notebook."""
    lines = [
        *_imports(chosen, intervention),
        "",
        _store(models),
        *_subject(chosen),
        *_strings(chosen),
        *_effect(chosen, intervention),
        "effect.as_dict()",
    ]
    return "\n".join(lines)


def code_of_both(
    models: LiveModels, first: tuple[Chosen, "Intervention"], second: tuple[Chosen, "Intervention"]
) -> str:
    """Return what does both in a notebook, and their difference; each a subject and what is done to it."""
    (one, done), (other, done_there) = first, second
    shorter = min(one.length, other.length)  # of strings of different length, EOS is not compared
    cut = "" if one.length == other.length else f"[:{shorter}]"
    lines = [
        "import numpy as np",
        "",
        *_imports(one, done, both=True),
        "",
        _store(models),
        "",
        "# The first.",
        *_subject(one),
        *_strings(one),
        *_effect(one, done),
        "first, first_effect = (baseline, changed), effect",
        "",
        "# The second.",
        *_strings_of_second(one, other),
        *_effect(other, done_there),
        "second, second_effect = (baseline, changed), effect",
        "",
        "# The difference: what changes in the first minus what changes in the second.",
        "by_index = [",
        "    np.mean([after.margins - before.margins for before, after in zip(*answers, strict=True)], 0)",
        "    for answers in (first, second)",
        "]",
        "{",
        '    "first": first_effect.as_dict(),',
        '    "second": second_effect.as_dict(),',
        '    "difference": {name: estimate.as_dict() for name, estimate in contrast(first, second).items()},',
        f'    "by_index": (by_index[0]{cut} - by_index[1]{cut}).tolist(),',
        "}",
    ]
    return "\n".join(lines)


def _imports(chosen: Chosen, intervention: "Intervention", *, both: bool = False) -> list[str]:
    one = chosen.view.input != "batch"
    companions = one and takes_from_others(chosen.view)
    names = [*(["Sample"] if one or both else []), *(["draw_samples"] if not one or companions else [])]
    compares = "compare_controlled" if chosen.view.keys is not None else "compare"
    return [
        f"from analyses.effects import {compares}{', contrast' if both else ''}",
        f"from analyses.interventions import {type(intervention).__name__}, read_outcomes",
        f"from analyses.samples import {', '.join(names)}",
        "from models.tasks import CopyTask",
        "from workbench.runs import Store",
        "from workbench.subjects import load_subject",
    ]


def _store(models: LiveModels) -> str:
    return f"store = Store({str(models.data.store.root)!r})"


def _loaded(chosen: Chosen) -> str:
    checkpoint = chosen.live.checkpoint
    step = "" if checkpoint is None else f", checkpoint={checkpoint}"
    return f"subject = load_subject(store, {chosen.run.id!r}{step})"


def _subject(chosen: Chosen) -> list[str]:
    """Lines that load a subject, and the task that strings are drawn from."""
    live, view = chosen.live, chosen.view
    settings, task = settings_of(live, view), "subject.recipe.task"
    changes = {name: getattr(settings, name) for name in ("period", "flip") if getattr(view, name) is not None}
    if changes and (view.input == "batch" or takes_from_others(view)):
        task += f".model_copy(update={changes!r})"
    return [_loaded(chosen), f"task = CopyTask({task})"]


def _drawn(chosen: Chosen, distribution: str) -> str:
    """What draws the strings of a batch, or those that values are taken from."""
    view, one = chosen.view, chosen.view.input != "batch"
    return (
        f"draw_samples(\n    task,\n    lengths=({chosen.length if one else length_of(chosen.live, view)},),\n"
        f"    distributions=({distribution!r},),\n    strings={COMPANIONS if one else view.count},\n"
        f'    seed={view.seed},\n    kinds=("plain",),\n)'
    )


def _strings(chosen: Chosen) -> list[str]:
    """Lines that make the samples."""
    distribution = settings_of(chosen.live, chosen.view).distribution
    if chosen.view.input == "batch":
        return [f"samples = {_drawn(chosen, distribution)}"]
    return [*_others(chosen, distribution), *_one(chosen)]


def _others(chosen: Chosen, distribution: str) -> list[str]:
    if not takes_from_others(chosen.view):
        return []
    return [f"others = {_drawn(chosen, distribution)}[0].batch.strings.tolist()"]


def _one(chosen: Chosen) -> list[str]:
    alphabet = chosen.live.task.alphabet
    string = write_tokens(chosen.tokens, alphabet) if alphabet <= 10 else list(chosen.tokens)
    others = ", *others" if takes_from_others(chosen.view) else ""
    return [
        f"batch = task.encode([{string!r}{others}])",
        f'samples = (Sample("plain", {chosen.origin!r}, {chosen.length}, 0, batch),)',
    ]


def _strings_of_second(first: Chosen, second: Chosen) -> list[str]:
    """Lines that load the second subject and give it its strings, drawn from the task of the first where they are."""
    settings = settings_of(first.live, first.view)
    loaded = [_loaded(second), "task = CopyTask(subject.recipe.task)"]
    if second.view.input == "batch":
        length = length_of(first.live, first.view)
        return [
            "strings = samples[0].batch.strings.tolist()",
            *loaded,
            f'samples = (Sample("plain", {settings.distribution!r}, {length}, 0, task.encode(strings)),)',
        ]
    others = [] if first.length == second.length else _others(second, settings.distribution)
    return [*others, *loaded, *_one(second)]


def _effect(chosen: Chosen, intervention: "Intervention") -> list[str]:
    """Lines that intervene and measure the effect."""
    part = "[:1]" if chosen.view.input != "batch" and takes_from_others(chosen.view) else ""
    lines = [
        f"intervention = {intervention!r}",
        f"baseline = read_outcomes(subject.model, samples){part}",
        f"changed = read_outcomes(subject.model, samples, intervention){part}",
    ]
    if chosen.view.keys is None:
        return [*lines, "effect = compare(baseline, changed, intervention.words)"]
    return [
        *lines,
        f"control = read_outcomes(subject.model, samples, intervention.matched){part}",
        "effect = compare_controlled(",
        "    baseline, changed, control, intervention.words, intervention.matched.words",
        ")",
    ]
