"""Causal checks of what heads are said to do; one place to import them from.

`ablation.py` alters what heads write, `knockout.py` what they attend to, `patching.py` moves activations between the
clean and corrupted strings of `pairs.py`. `effects.py` measures what that changes, `confirmation.py` says whether it
agrees with the labels, which predict what `expectations.py` lists. In a notebook:

    samples = draw_samples(task, lengths=(20, 100), distributions=("uniform",), strings=10, seed=0, kinds=("plain",))
    intervene(model, samples, Ablation(heads=((0, 0),), way="resample"))
    knockout = Knockout(keys="source", heads=((1, 0),))
    intervene_controlled(model, samples, knockout, knockout.matched)
    patch(model, make_pairs(samples[0].batch, "flipped"))

The repr of an intervention is the code that makes it.
"""

from analyses.ablation import WAYS, Ablation
from analyses.confirmation import STATES, Confirmation, confirm, confirm_heads, confirm_labels
from analyses.effects import Change, ControlledEffect, Effect, ablate_labels, contrast, intervene, intervene_controlled
from analyses.expectations import EXPECTATIONS, Expectation
from analyses.knockout import CLASSES, Flatten, Knockout
from analyses.outcomes import Intervention, read_outcomes
from analyses.pairs import PAIRS, Pairs, make_pairs
from analyses.patching import DIRECTIONS, POSITIONS, Patched, patch

__all__ = [
    "CLASSES",
    "DIRECTIONS",
    "EXPECTATIONS",
    "PAIRS",
    "POSITIONS",
    "STATES",
    "WAYS",
    "Ablation",
    "Change",
    "Confirmation",
    "ControlledEffect",
    "Effect",
    "Expectation",
    "Flatten",
    "Intervention",
    "Knockout",
    "Pairs",
    "Patched",
    "ablate_labels",
    "confirm",
    "confirm_heads",
    "confirm_labels",
    "contrast",
    "intervene",
    "intervene_controlled",
    "make_pairs",
    "patch",
    "read_outcomes",
]
