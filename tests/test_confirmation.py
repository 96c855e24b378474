"""Every right label of a hand-built head is confirmed by its intervention, and wrong ones are not."""

import json
from dataclasses import replace

import pytest

from analyses.confirmation import Confirmation, confirm, confirm_heads, confirm_labels
from analyses.effects import Change, ControlledEffect, Effect
from analyses.estimates import Estimate
from analyses.expectations import EXPECTATIONS, family_of
from analyses.samples import Sample, draw_samples
from models.constructions import CONSTRUCTIONS
from models.constructions.base import Construction
from models.errors import UsageError
from models.tasks import CopyTask

ORDERS = {"induction-3": {(1, 0): 3}, "rope-hybrid": {(1, 1): 3}}
LABELS = ("locator", "aligned", "induction", "look-back(1)", "look-back(3)", "duplicate", "sink", "self", "modular(4)",
          "diffuse", "mixed", "unclear")  # fmt: skip


def samples_of(
    entry: Construction, strings: int = 3, kinds: tuple[str, ...] = ("plain", "corrupted")
) -> tuple[Sample, ...]:
    return draw_samples(
        CopyTask(entry.task),
        lengths=(20, 40),
        distributions=entry.distributions[:2],
        strings=strings,
        seed=0,
        kinds=kinds,
        m=1 if entry.task.context == 1 else 3,
    )


def check(name: str, labels: tuple[tuple[str, ...], ...], **how: object) -> dict[tuple[int, int], Confirmation]:
    entry = CONSTRUCTIONS[name]
    return confirm_heads(entry.build(), samples_of(entry, **how), labels, orders=ORDERS.get(name))


@pytest.mark.parametrize("name", CONSTRUCTIONS)
def test_every_role_of_a_construction_is_confirmed(name: str) -> None:
    roles = CONSTRUCTIONS[name].roles
    found = check(name, roles)
    assert [(at, confirmation.label, confirmation.state) for at, confirmation in found.items()] == [
        ((layer, head), role, "confirmed") for layer, row in enumerate(roles) for head, role in enumerate(row)
    ]
    copies = bool(CONSTRUCTIONS[name].marks)
    assert {confirmation.measure for confirmation in found.values()} == {"logit difference" if copies else "divergence"}


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("rope-locator", (("look-back(1)",), ("induction",))),
        ("rope-locator", (("aligned",), ("locator",))),
        ("rope-locator", (("sink",), ("sink",))),
        ("rope2d-aligned", (("induction",),)),
        ("induction-3", (("locator", "look-back(1)", "self"), ("aligned",))),
        ("induction-3", (("aligned", "sink", "induction"), ("locator",))),
        ("rope-hybrid", (("look-back(1)", "locator", "look-back(1)", "look-back(2)"), ("induction", "aligned"))),
        ("look-back", (("look-back(1)",),)),
        ("sink", (("self",),)),
        ("self", (("look-back(1)",),)),
        ("duplicate", (("sink",),)),
    ],
)
def test_wrong_labels_are_not_confirmed(name: str, labels: tuple[tuple[str, ...], ...]) -> None:
    found = check(name, labels)
    assert not {at: (c.label, c.state) for at, c in found.items() if c.state == "confirmed"}


def test_aligned_and_induction_are_told_apart_on_conflict_strings_only() -> None:
    """On strings without repeats an induction head passes for an aligned one; that is said."""
    labels = (("look-back(1)", "look-back(2)", "look-back(3)"), ("aligned",))
    plain = check("induction-3", labels, kinds=("plain",))[1, 0]
    assert plain.state == "confirmed" and plain.reason.startswith("on plain strings only") and plain.conflict is None
    both = check("induction-3", labels)[1, 0]
    assert both.state == "not confirmed" and both.reason.startswith("on conflict strings")
    assert both.conflict is not None and both.conflict.effect.removed.value < 0.1


def test_a_shared_role_is_confirmed_for_the_heads_together() -> None:
    entry = CONSTRUCTIONS["rope-hybrid"]
    labels = [["look-back(1)" if "look-back" in label else label for label in row] for row in entry.roles]
    found = confirm_labels(entry.build(), samples_of(entry), labels, orders=ORDERS["rope-hybrid"])
    assert found["look-back(1)"].heads == ((0, 1), (0, 2), (0, 3))
    assert {label: confirmation.state for label, confirmation in found.items()} == dict.fromkeys(found, "confirmed")


def estimate(low: float, high: float) -> Estimate:
    return Estimate((low + high) / 2, (low, high), 10, 5)


def effects(
    harm: tuple[float, float], control: tuple[float, float], beyond: tuple[float, float], exact: float = 1.0
) -> ControlledEffect:
    """Falls of the logit difference from 10, or divergences where nothing is copied exactly."""

    def one(low: float, high: float) -> Effect:
        change = Change(estimate(10, 10), estimate(10, 10), estimate(-high, -low))
        match = Change(estimate(exact, exact), estimate(0, 0), estimate(0, 0))
        return Effect("something", match, change, change, estimate(low, high), estimate(0, 0))

    return ControlledEffect(
        one(*harm),
        one(*control),
        {"logit_difference": estimate(-beyond[1], -beyond[0]), "divergence": estimate(*beyond)},
    )


@pytest.mark.parametrize("exact", [1.0, 0.0])
@pytest.mark.parametrize(
    ("label", "harm", "control", "beyond", "state"),
    [
        ("sink", (1, 2), (0, 0), (1, 2), "confirmed"),
        ("sink", (1e-4, 2e-4), (0, 0), (1e-4, 2e-4), "no effect"),  # it is negligible
        ("sink", (1, 2), (1, 2), (-0.5, 0.5), "not confirmed"),  # no more than the control
        ("sink", (0, 0), (1, 2), (-2, -1), "not confirmed"),
        ("sink", (-2, -1), (0, 0), (-2, -1), "not confirmed"),  # the answers get better
        ("sink", (2, 3), (1.5, 2), (0.5, 1), "not confirmed"),  # most of it is the control's too
        ("diffuse", (0, 0), (1, 2), (-2, -1), "confirmed"),
        ("diffuse", (1, 2), (1, 2), (-0.5, 0.5), "not confirmed"),
        ("diffuse", (1, 2), (4, 5), (-3.5, -2.5), "not confirmed"),  # less, but not next to nothing
        ("diffuse", (0, 0), (0, 0), (0, 0), "no effect"),
    ],
)
def test_states(
    label: str,
    harm: tuple[float, float],
    control: tuple[float, float],
    beyond: tuple[float, float],
    state: str,
    exact: float,
) -> None:
    assert confirm(label, effects(harm, control, beyond, exact)).state == state


def test_a_change_in_no_direction_is_not_confirmed_and_not_nothing() -> None:
    assert confirm("sink", effects((-0.1, 2), (0, 0), (-0.1, 2), exact=0.0)).state == "no effect"
    found = effects((-0.1, 2), (0, 0), (-0.1, 2))
    diverged = replace(found, effect=replace(found.effect, divergence=estimate(1, 2)))
    assert confirm("sink", found).state == "no effect" and confirm("sink", diverged).state == "not confirmed"


def test_strings_that_are_not_copied_anyway_do_not_count() -> None:
    """A locator construction far beyond its length, where its answers are arbitrary."""
    entry = CONSTRUCTIONS["rope-locator"]
    samples = draw_samples(
        CopyTask(entry.task), lengths=(20, 500), distributions=("uniform",), strings=3, seed=0, kinds=("plain",)
    )
    model = entry.build()
    both, short = (confirm_heads(model, part, entry.roles)[1, 0] for part in (samples, samples[:1]))
    assert both == short and both.effects.effect.exact_match.baseline.rows == 3
    long = confirm_heads(model, samples[1:], entry.roles)[1, 0]
    assert long.measure == "divergence" and long.effects.effect.exact_match.baseline.value == 0.0


def test_what_cannot_be_asked_is_said() -> None:
    mixed = confirm("mixed", None)
    assert mixed.state == "not measurable" and "no single role" in mixed.as_dict()["reason"]
    assert confirm("sink", None).reason == "no intervention was made"
    with pytest.raises(UsageError, match="Did you mean 'locator'"):
        confirm("locater", None)
    for label in ("look-back", "look-back(x)", "look-back()"):
        with pytest.raises(UsageError, match="unknown label"):
            family_of(label)


def test_every_label_has_its_row_in_the_table() -> None:
    assert {family_of(label)[0] for label in LABELS} == set(EXPECTATIONS)
    roles = {role for name in CONSTRUCTIONS for row in CONSTRUCTIONS[name].roles for role in row}
    assert {family_of(role)[0] for role in roles} <= set(EXPECTATIONS)
    for expectation in EXPECTATIONS.values():
        assert expectation.sentence and expectation.intervention and expectation.control


def test_confirmations_are_json_and_repeatable() -> None:
    entry = CONSTRUCTIONS["rope-locator"]
    first, again = (check("rope-locator", entry.roles)[1, 0].as_dict() for _ in range(2))
    assert json.dumps(first, allow_nan=False) == json.dumps(again)
    assert first["state"] == "confirmed" and first["heads"] == [[1, 0]]
    assert first["conflict"]["effect"]["divergence"]["value"] > 0
