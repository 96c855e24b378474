"""Rows read one at a time agree with whole passes: answers, patterns, and direct effects that sum to the logits."""

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from analyses.attention_at import attended_at
from analyses.coordinate_ranges import EMBEDDING, TrainedRanges
from analyses.direct_effects import read_rows
from analyses.questions import Question, ask, encode, is_right
from models.config import ModelSettings, TaskSettings
from models.evaluation import answer
from models.tasks import CopyTask
from models.transformer import CopyTransformer

TASK = CopyTask(TaskSettings(alphabet=3))
SMALL: dict[str, Any] = {"heads": (2, 1), "d_model": 16, "d_head": 8, "d_mlp": 0, "init_std": 0.5}
KINDS: dict[str, dict[str, Any]] = {
    "pre RMS": {"positions": "rope"},
    "post RMS": {"norm_placement": "post", "positions": "rope2d"},
    "pre LN": {"normalization": "LN", "positions": "alibi"},
    "post LN": {"normalization": "LN", "norm_placement": "post", "positions": "auto2d"},
    "no norm": {"normalization": "none", "final_norm": False, "positions": {"scheme": "rope", "window": 5}},
    "strict": {"strict_mask": True, "positions": "sinusoidal"},
}


@cache
def model_of(kind: str, seed: int = 0) -> CopyTransformer:
    model = CopyTransformer(ModelSettings(**SMALL | KINDS[kind]), TASK.vocabulary, seed=seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(".w"):
                weight.copy_(torch.linspace(0.5, 1.5, len(weight)))
    return model


def questions(seed: int = 0) -> list[Question]:
    """Rows of strings of several lengths, the first and the last of a copy among them."""
    rng = np.random.default_rng(seed)
    strings = [rng.integers(3, size=n) for n in (1, 4, 9, 9)]
    return [Question(string, index) for string in strings for index in {0, len(string) // 2, len(string)}]


def prompts(asked: list[Question]) -> list[torch.Tensor]:
    return [torch.from_numpy(question.prompt(TASK.vocabulary)) for question in asked]


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_the_rows_of_the_pattern(kind: str) -> None:
    model, asked = model_of(kind), questions()
    reading = read_rows(model, *encode(TASK.vocabulary, asked))
    for row, prompt in enumerate(prompts(asked)):
        logits, cache = model.run_with_cache(prompt)
        torch.testing.assert_close(reading.logits[row], logits[0, -1], atol=1e-4, rtol=1e-4)
        for layer, heads in enumerate(model.cfg.heads):
            expected = cache[f"blocks.{layer}.attn.hook_pattern"][0, :heads, -1]
            found = reading.weights[layer][row]
            torch.testing.assert_close(found[:, : len(prompt)], expected, atol=1e-5, rtol=1e-4)
            assert not found[:, len(prompt) :].any()


@pytest.mark.parametrize("kind", KINDS)
def test_direct_effects_of_heads_and_embedding_sum_to_the_logits(kind: str) -> None:
    model, asked = model_of(kind), questions()
    reading = read_rows(model, *encode(TASK.vocabulary, asked))
    heads = sum(reading.head_logits(layer).sum(1) for layer in range(model.cfg.n_layers))
    for row, prompt in enumerate(prompts(asked)):
        _, kept = model.run_with_cache(prompt)
        final = kept["ln_final.hook_scale"][0, -1]
        embedded = kept["blocks.0.hook_resid_pre"][0, -1]
        if model.ln_final.kind == "LN":
            embedded = embedded - embedded.mean()
        gain = 1.0 if model.ln_final.w is None else model.ln_final.w
        rest = (embedded / final * gain) @ model.W_U
        torch.testing.assert_close(heads[row] + rest, reading.logits[row], atol=2e-4, rtol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_effects_of_keys_sum_to_those_of_their_head(kind: str) -> None:
    model, asked = model_of(kind), questions()
    reading = read_rows(model, *encode(TASK.vocabulary, asked))
    plus, minus = torch.zeros(len(asked), dtype=torch.long), torch.full((len(asked),), TASK.vocabulary.eos)
    for layer in range(model.cfg.n_layers):
        logits = reading.head_logits(layer)
        one, pair = reading.key_effects(layer, plus).sum(-1), reading.key_effects(layer, plus, minus).sum(-1)
        torch.testing.assert_close(one, logits[:, :, 0], atol=1e-4, rtol=1e-3)
        torch.testing.assert_close(pair, logits[:, :, 0] - logits[:, :, TASK.vocabulary.eos], atol=1e-4, rtol=1e-3)


def test_what_later_layers_replace_has_no_direct_effect() -> None:
    cut = CopyTransformer(ModelSettings(**SMALL, positions="rope", residual=False), TASK.vocabulary)
    reading = read_rows(cut, *encode(TASK.vocabulary, questions()))
    assert not reading.head_logits(0).any() and reading.head_logits(1).any()


@pytest.mark.parametrize("kind", KINDS)
def test_questions_are_answered_as_in_one_pass_over_the_copy(kind: str) -> None:
    model = model_of(kind)
    batch = TASK.sample(6, torch.Generator().manual_seed(1), lengths=(1, 12), distribution="uniform")
    outcome = answer(model, batch)
    asked, expected = [], []
    for row, length in enumerate(batch.lengths.tolist()):
        asked += [Question(batch.strings[row, :length].numpy(), index) for index in range(length + 1)]
        expected += outcome.right[row, : length + 1].tolist()
    assert is_right(model, asked).tolist() == expected


@settings(deadline=None, max_examples=20)
@given(st.permutations(range(10)))
def test_the_company_of_a_question_does_not_matter(order: list[int]) -> None:
    asked = questions()[:10]
    together, alone = ask(model_of("pre RMS"), [asked[i] for i in order]), ask(model_of("pre RMS"), asked[3:4])
    np.testing.assert_allclose(together[order.index(3)], alone[0], atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_masses_of_the_places_sum_to_one(kind: str) -> None:
    for question, row in zip(questions(), attended_at(model_of(kind), questions()), strict=True):
        assert row.rivals.mass.sum() + row.anchors == pytest.approx(1, abs=1e-5)
        assert row.source == row.rivals.mass[question.index] and not row.rivals.strong[question.index]
        assert 0 <= row.elected <= row.competitors + 1e-9 and 0 <= row.random_places <= 1


def test_the_order_of_heads_does_not_matter() -> None:
    plain, swapped = model_of("post RMS"), CopyTransformer(model_of("post RMS").settings, TASK.vocabulary)
    swapped.load_state_dict(plain.state_dict())
    with torch.no_grad():
        for name in ("W_Q", "W_K", "W_V", "W_O"):
            weight = getattr(swapped.blocks[0].attn, name)
            weight.copy_(weight.flip(0).clone())
    for one, other in zip(attended_at(plain, questions()), attended_at(swapped, questions()), strict=True):
        np.testing.assert_allclose(one.rivals.mass, other.rivals.mass, atol=1e-5)


# ------------------------------------------------------------------ coordinates

LENGTH = 9


@pytest.mark.parametrize(
    ("kind", "length", "index", "outside"),
    [
        ("pre RMS", 9, 9, False),  # RoPE: as in training
        ("pre RMS", 5, 2, False),
        ("pre RMS", 10, 1, True),  # the offset to the source is new
        ("post RMS", 30, 9, False),  # 2D-RoPE: one row back, the same column
        ("post RMS", 30, 10, True),  # a column that training never saw
        ("strict", 30, 25, True),  # positions added to the embedding
    ],
)
def test_coordinates_outside_of_training_are_said_so(kind: str, length: int, index: int, outside: bool) -> None:
    ranges = TrainedRanges(model_of(kind), LENGTH)
    found = ranges.of(Question(np.zeros(length, np.int64), index))
    assert any(coordinate.outside for coordinate in found) is outside
    assert {coordinate.layer for coordinate in found} == ({EMBEDDING} if kind == "strict" else {0, 1})


def test_offsets_are_those_of_the_task() -> None:
    v = TASK.vocabulary
    row, column = TrainedRanges(model_of("post RMS"), LENGTH).of(Question(np.zeros(20, np.int64), 4))[:2]
    assert (row.query - row.source, row.trained_offset) == (1, (1, 1))
    assert (column.query - column.source, column.trained_offset) == (v.b - v.a - 2, (v.b - v.a - 2,) * 2)
    (index,) = TrainedRanges(model_of("strict"), LENGTH).of(Question(np.zeros(20, np.int64), 4))
    assert index.query - index.source == 20 + v.b - 1 and index.trained_offset == (1 + v.b - 1, LENGTH + v.b - 1)


def test_a_model_without_positions_has_no_coordinates() -> None:
    model = CopyTransformer(ModelSettings(**SMALL, positions="nope"), TASK.vocabulary)
    assert TrainedRanges(model, LENGTH).of(Question(np.zeros(20, np.int64), 4)) == ()
