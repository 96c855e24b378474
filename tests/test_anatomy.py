"""Anatomy of failures whose mechanism is known, and what follows a first error."""

import json
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformer_lens.hook_points import HookPoint

from analyses.aftermath import aftermath, best_offset, continue_greedily
from analyses.anatomy import Anatomy, anatomy, stripe_breaks
from analyses.questions import Question
from analyses.row_views import KINDS
from models.constructions import CONSTRUCTIONS
from models.errors import UsageError
from models.evaluation import greedy_copy
from models.tasks import CopyBatch, CopyTask
from models.transformer import CopyTransformer


@cache
def built(name: str) -> CopyTransformer:
    return CONSTRUCTIONS[name].build()


def task_of(name: str) -> CopyTask:
    return CopyTask(CONSTRUCTIONS[name].task)


def draw(name: str, length: int, distribution: str, n: int = 1) -> CopyBatch:
    return task_of(name).sample(n, torch.Generator().manual_seed(1), lengths=length, distribution=distribution)


def look(name: str, batch: CopyBatch, row: int = 0, model: CopyTransformer | None = None, steps: int = 12) -> Anatomy:
    return anatomy(model or built(name), batch, row, trained=CONSTRUCTIONS[name].longest, steps=steps)


# A block of 6 tokens stands twice; 20 and 21 follow it.
BLOCK = [5, 6, 7, 8, 9, 10]
REPEATED = [1, 2, *BLOCK, 20, 3, 4, *BLOCK, 21, 11, 12, 13, 14, 15, 16, 17, 18, 19]


# ------------------------------------------------------------------ repetition


def test_an_induction_heads_error_is_dissected() -> None:
    """At the second occurrence's end both successors get half of the mass; the draw goes to the smaller id."""
    found = look("induction", task_of("induction").encode([REPEATED]))
    index = REPEATED.index(21)
    assert (found.first_error, found.right, found.predicted) == (index, "21", "20")
    assert found.query == 2 + len(REPEATED) + 4 - 1 + index
    head = next(head for head in found.heads if head.layer == 1)
    assert (head.copied, head.match) == ("20", pytest.approx(6))
    first, second = head.keys[:2]
    assert {(key.kind, key.token, key.match) for key in (first, second)} == {
        ("source", "21", 16),
        ("competitor", "20", 6),
    }
    assert first.weight + second.weight + head.keys[2].weight == pytest.approx(1)
    assert head.keys[2].kind == "competitor" and head.keys[2].position > found.query - index  # its image in the copy
    assert head.to_predicted == pytest.approx(2 / 3, abs=1e-3) and head.to_right == pytest.approx(1 / 3, abs=1e-3)
    assert found.margin == pytest.approx(1 / 3, abs=1e-3)
    assert found.attended.competitors == pytest.approx(2 / 3, abs=1e-3) and not found.attended.anchors > 1e-3


def test_it_goes_on_where_the_competitor_stands_and_comes_back() -> None:
    """The copy jumps back to the first occurrence, and at its end runs into the same choice again."""
    found = look("induction", task_of("induction").encode([REPEATED])).aftermath
    slip = REPEATED.index(20) - REPEATED.index(21)
    once = REPEATED[REPEATED.index(20) : REPEATED.index(21)]
    assert (found.slip, found.follows, found.recovers_at) == (slip, len(once), None)
    assert list(found.continuation) == (once + once)[:12]


# ------------------------------------------------------------------ length


def test_beyond_its_length_the_locator_splits_too_finely() -> None:
    found = look("rope-locator", draw("rope-locator", 500, "uniform"))
    assert found.first_error > 200
    locator = next(head for head in found.heads if head.layer == 0)
    assert locator.mass["anchor"] == pytest.approx(1) and locator.copied is None
    assert sum(locator.anchors.values()) == pytest.approx(1) and set(locator.anchors) == {
        "A1",
        "A2",
        "⏎",
        "B2",
        "B3",
        "B4",
    }
    aligned = next(head for head in found.heads if head.layer == 1)
    assert aligned.mass["source"] < 0.6 and max(key.index for key in aligned.keys[:4]) <= found.first_error + 3
    stripes = {(stripe.layer, stripe.stripe): stripe for stripe in found.stripes}
    assert stripes[0, "locator"].at is None and stripes[1, "aligned"].at is None  # both blur, neither stops
    split = stripes[0, "split"]
    assert split.at is not None and 200 < split.at < found.first_error and split.relative == split.at / 200
    assert [coordinate.outside for coordinate in found.coordinates] == [True]


def test_within_its_length_no_stripe_breaks() -> None:
    for stripe in stripe_breaks(built("rope-locator"), draw("rope-locator", 200, "uniform"), 200):
        assert stripe.at is None and stripe.relative is None


def test_the_hybrid_rests_on_the_prefix_and_copies_a_competitor() -> None:
    found = look("rope-hybrid", draw("rope-hybrid", 200, "repeat-structure"))
    aligned, induction = (head for head in found.heads if head.layer == 1)
    assert found.first_error > 100 and aligned.anchors["A1"] > 0.99 and aligned.copied is None
    assert induction.mass["competitor"] > 0.5 and induction.copied == found.predicted
    assert induction.match is not None and induction.match >= 3
    assert found.attended.elected > 0.5 and found.attended.source < 0.1
    stripe = next(stripe for stripe in found.stripes if (stripe.layer, stripe.head, stripe.stripe) == (1, 0, "aligned"))
    assert stripe.at is not None and 95 <= stripe.at <= 105


# ------------------------------------------------------------------ stopping


def without_stop(name: str) -> CopyTransformer:
    model = CONSTRUCTIONS[name].build()
    with torch.no_grad():
        model.blocks[-1].attn.W_V[:, model.vocabulary.delimiter[0]] = 0
    return model


def test_a_model_that_cannot_stop_is_right_up_to_the_end() -> None:
    found = look("rope2d-aligned", draw("rope2d-aligned", 30, "uniform"), model=without_stop("rope2d-aligned"))
    (head,) = found.heads
    assert (found.first_error, found.right, found.wrong_rows) == (30, "EOS", 0)
    assert head.mass["source"] == pytest.approx(1) and head.anchors["⏎"] == pytest.approx(1) and head.copied is None
    assert found.aftermath.stops_at is None and not any(c.outside for c in found.coordinates)


# ------------------------------------------------------------------ any model


@pytest.mark.parametrize("name", ["induction-3", "rope-hybrid"])
def test_parts_sum_to_the_whole_and_to_json(name: str) -> None:
    found = look(name, draw(name, 150, "recursive-flip"))
    for head in found.heads:
        assert sum(head.mass.values()) == pytest.approx(1, abs=1e-5) and set(head.mass) == set(KINDS)
        assert [key.weight for key in head.keys] == sorted((key.weight for key in head.keys), reverse=True)
        assert head.mass["anchor"] <= sum(head.anchors.values()) + 1e-6
    written = [head for head in found.heads if head.layer == 1]
    assert sum(head.to_right for head in written) == pytest.approx(found.logits[0], abs=1e-3)
    assert sum(head.to_predicted for head in written) == pytest.approx(found.logits[1], abs=1e-3)
    assert json.loads(json.dumps(found.as_dict()))["first_error"] == found.first_error


def test_a_right_copy_has_no_anatomy() -> None:
    with pytest.raises(UsageError, match="without an error"):
        look("rope2d-aligned", draw("rope2d-aligned", 20, "uniform"))


# ------------------------------------------------------------------ what follows


def test_the_continuation_is_greedy_decoding() -> None:
    batch = draw("induction-3", 40, "recursive-flip", n=4)
    for row, whole in enumerate(greedy_copy(built("induction-3"), batch)):
        question = Question(batch.strings[row].numpy(), 7)
        if whole[:7] == question.string[:7].tolist():
            tokens = continue_greedily(built("induction-3"), question.prompt(batch.vocabulary), 10)
            assert tokens.tolist() == whole[7:17]


def test_a_right_row_goes_on_in_step_and_stops() -> None:
    string = draw("rope2d-aligned", 30, "uniform").strings[0].numpy()
    found = aftermath(built("rope2d-aligned"), Question(string, 20))
    assert (found.slip, found.follows, found.recovers_at, found.stops_at) == (0, 11, 20, 30)


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32 - 1), st.integers(0, 99), st.integers(0, 99), st.integers(12, 32))
def test_a_planted_slip_is_found(seed: int, index: int, start: int, steps: int) -> None:
    string = np.random.default_rng(seed).permutation(200)[:100]  # no token twice: one offset can be right
    tokens = string[start : start + steps]
    assert best_offset(string, index, tokens) == (start - index, len(tokens))


def test_a_single_wrong_token_is_a_recovery_and_no_slip() -> None:
    """A head that is switched off in one row alone."""
    model, string = built("rope2d-aligned"), draw("rope2d-aligned", 60, "uniform").strings[0].numpy()
    failure = Question(string, 20)
    query = len(failure.prompt(model.vocabulary)) - 1

    def turn_round(z: Tensor, hook: HookPoint) -> Tensor:
        z[:, query, :, :2] = torch.tensor([1.0, 0.0]) if string[20] else torch.tensor([0.0, 1.0])
        return z

    with model.hooks(fwd_hooks=[("blocks.0.attn.hook_z", turn_round)]):
        found = aftermath(model, failure)
    assert found.continuation[0] == 1 - string[20]
    assert (found.slip, found.recovers_at) == (0, 21)


def test_what_follows_no_part_of_the_string_has_no_slip() -> None:
    found = look("rope-locator", draw("rope-locator", 500, "uniform"), steps=24).aftermath
    assert found.slip is None and found.recovers_at is None
