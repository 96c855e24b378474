"""Knock-outs take away exactly the attention they name, and their controls the same mass elsewhere."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from analyses.effects import intervene, intervene_controlled
from analyses.knockout import CLASSES, Flatten, Knockout, same_mass
from analyses.outcomes import Intervention, Tally
from analyses.relations import relations_of
from analyses.samples import Sample, draw_samples
from models.config import ModelSettings, TaskSettings
from models.constructions import CONSTRUCTIONS
from models.errors import UsageError
from models.tasks import CopyBatch, CopyTask
from models.transformer import CopyTransformer

TASK = CopyTask(TaskSettings())
BATCH = TASK.encode(["0110100", "110"])
ALL = ("anchors", "source", "candidates(2)", "wrong-candidates(1)", "conflict-source(1)", "conflict-candidates(1)",
       "back(3)", "first", "self", "duplicates")  # fmt: skip


def model() -> CopyTransformer:
    """Two layers with broad random attention; the second has one head fewer."""
    settings = ModelSettings(heads=(2, 1), d_model=16, d_head=8, positions="alibi", init_std=0.5)
    return CopyTransformer(settings, TASK.vocabulary, seed=3)


@torch.inference_mode()
def patterns(done: Intervention | None, batch: CopyBatch = BATCH, layer: int = 0) -> tuple[Tensor, Tally]:
    subject, tally = model(), Tally(len(batch))
    hooks = [] if done is None else done.hooks(subject, batch, np.random.default_rng(0), tally)
    name = f"blocks.{layer}.attn.hook_pattern"
    kept = {}
    subject.run_with_hooks(batch.tokens, fwd_hooks=[*hooks, (name, lambda value, hook: kept.update(pattern=value))])
    return kept["pattern"], tally


@pytest.mark.parametrize("keys", ALL)
@pytest.mark.parametrize("rows", ["scored", "all"])
def test_masking_removes_the_class_and_renormalises_and_zeroing_does_not(keys: str, rows: str) -> None:
    before, _ = patterns(None)
    masked, tally = patterns(Knockout(keys, ((0, 1),), "mask", rows))
    zeroed, zero_tally = patterns(Knockout(keys, ((0, 1),), "zero", rows))
    gone = Knockout(keys, rows=rows).matrix(BATCH)
    assert torch.equal(masked[:, 0], before[:, 0]) and torch.equal(zeroed[:, 0], before[:, 0])
    assert not masked[:, 1][gone].any() and not zeroed[:, 1][gone].any()
    kept = before[:, 1].masked_fill(gone, 0.0)
    assert torch.equal(zeroed[:, 1], kept)
    mass = kept.sum(-1, keepdim=True)
    expected = torch.where(mass > 1e-6, kept / mass.clamp_min(1e-9), 0.0)
    assert torch.allclose(masked[:, 1], expected, atol=1e-6)
    removed = (before[:, 1] * gone).sum((1, 2)).numpy()
    assert np.allclose(tally.mass, removed, atol=1e-5) and np.allclose(zero_tally.mass, removed, atol=1e-5)
    causal = gone & torch.ones_like(gone).tril()
    assert tally.rows.tolist() == causal.any(-1).sum(1).tolist()


def test_classes_are_what_relations_say() -> None:
    for i in range(len(BATCH)):
        relations = relations_of(BATCH, i)
        size, scored = len(relations), relations.copy_rows

        def keys(name: str, row: int, i: int = i, size: int = size) -> list[int]:
            return np.flatnonzero(Knockout(name).matrix(BATCH)[i, row, :size].numpy()).tolist()

        for row in scored:
            source = int(relations.source_position[row])
            assert keys("source", row) == [source]
            assert keys("first", row) == [0] and keys("self", row) == [row] and keys("back(2)", row) == [row - 2]
            assert keys("anchors", row) == relations.anchors.tolist()
            found = [k for k in range(1, row + 1) if relations.tokens[k - 1] == relations.tokens[row]]
            assert keys("candidates(1)", row) == found
            assert keys("wrong-candidates(1)", row) == [k for k in found if k != source]
            assert keys("duplicates", row) == [k for k in range(row) if relations.tokens[k] == relations.tokens[row]]
            in_conflict = found and source not in found
            assert keys("conflict-source(1)", row) == ([source] if in_conflict else [])
            assert keys("conflict-candidates(1)", row) == (found if in_conflict else [])
        others = np.setdiff1d(np.arange(size), scored)
        for name in ALL:
            assert not any(keys(name, row) for row in others)


def test_unmatched_conflicts_exist_only_where_the_copy_was_corrupted() -> None:
    plain, corrupted = draw_samples(
        TASK, lengths=(40,), distributions=("uniform",), strings=3, seed=0, kinds=("plain", "corrupted"), m=4
    )
    first_scored = [int(rows[0]) for rows in plain.batch.scored_rows[0]]
    conflicts = Knockout("conflict-source(4)").matrix(plain.batch)
    # Where the copy begins, the last tokens are the delimiter's.
    assert all(not conflicts[i, row + 4 :].any() for i, row in enumerate(first_scored))
    assert Knockout("conflict-source(4)").matrix(corrupted.batch).sum() >= 12


def test_a_control_removes_the_same_mass_at_other_keys() -> None:
    weights = torch.rand(2, 3, 50, 200, generator=torch.Generator().manual_seed(0)).softmax(-1)
    target = torch.zeros(2, 3, 50, 200, dtype=torch.bool)
    target[..., 20:60] = True
    gone = same_mass(weights, target, torch.Generator().manual_seed(1))
    assert not (gone & target).any()
    difference = (weights * gone).sum(-1) - (weights * target).sum(-1)
    assert difference.abs().max() <= weights.max()
    used = gone.float().mean((0, 1, 2))[60:]
    assert used.std() < 0.1 and 0.15 < used.mean() < 0.35  # keys are random, not the first or the heaviest


def test_a_control_takes_all_there_is_where_that_is_less() -> None:
    weights = torch.tensor([0.05, 0.9, 0.0, 0.05]).expand(1, 1, 2, 4)
    target = torch.tensor([[False, True, False, False], [False] * 4]).expand(1, 1, 2, 4)
    gone = same_mass(weights, target, torch.Generator().manual_seed(0))
    assert gone[0, 0].tolist() == [[True, False, False, True], [False] * 4]


@pytest.mark.parametrize("how", ["mask", "zero"])
def test_controls_leave_the_class_alone_and_remove_its_mass_elsewhere(how: str) -> None:
    knockout = Knockout("anchors", ((0, 0), (0, 1)), how)
    before, _ = patterns(None)
    control, tally = patterns(knockout.matched)
    anchors = knockout.matrix(BATCH)[:, None] & (before > 0)
    assert (control[anchors] > 0).all()
    gone = (before > 0) & (control == 0)
    assert not (gone & anchors).any() and gone.any()
    removed, wanted = (before * gone).sum(-1), (before * anchors).sum(-1)
    meetable = (wanted > 0) & (before.sum(-1) - wanted > wanted)
    assert meetable.any() and (removed <= 2 * wanted + 1e-6).all()
    assert np.allclose(tally.mass, removed.sum((1, 2)).numpy(), atol=1e-5)
    _, effect_tally = patterns(knockout)
    assert tally.rows.tolist() == effect_tally.rows.tolist()


def test_a_row_that_loses_all_its_keys_attends_to_nothing() -> None:
    after, tally = patterns(Knockout("self", ((0, 0),), rows="all"))
    assert not after[:, 0, 0].any() and torch.isfinite(after).all()
    assert tally.rows.tolist() == [20, 12]


def test_strings_and_padding_do_not_touch_each_other() -> None:
    subject = model()
    together = Sample("plain", "uniform", 7, 0, BATCH)
    alone = [Sample("plain", "uniform", 7, 0, BATCH.select([i])) for i in range(2)]
    knockout = Knockout("anchors", ((0, 1), (1, 0)))
    both, each = intervene(subject, (together,), knockout), intervene(subject, alone, knockout)
    assert both.logit_difference.changed.value == pytest.approx(each.logit_difference.changed.value)
    assert both.removed.value == pytest.approx(each.removed.value)


def test_knocking_out_the_source_destroys_an_aligned_head_and_the_control_does_not() -> None:
    entry = CONSTRUCTIONS["rope2d-aligned"]
    samples = draw_samples(
        CopyTask(entry.task), lengths=(20, 60), distributions=("uniform",), strings=5, seed=0, kinds=("plain",)
    )
    for how in ("mask", "zero"):
        knockout = Knockout("source", ((0, 0),), how)
        found = intervene_controlled(entry.build(), samples, knockout, knockout.matched)
        assert found.effect.exact_match.changed.value == 0.0
        assert found.control.exact_match.changed.value == 1.0
        assert found.effect.removed.value == pytest.approx(1.0) and found.control.removed.value == pytest.approx(0.0)
        assert found.beyond["logit_difference"].interval[1] < -0.5


def test_wrong_candidates_are_why_an_induction_head_fails_on_repeats() -> None:
    """Without attention to them the copy is right where it was wrong."""
    entry = CONSTRUCTIONS["induction-3"]
    samples = draw_samples(
        CopyTask(entry.task), lengths=(60,), distributions=("repeat-structure",), strings=6, seed=0, kinds=("plain",)
    )
    knockout = Knockout("wrong-candidates(3)", ((1, 0),))
    found = intervene_controlled(entry.build(), samples, knockout, knockout.matched)
    assert found.effect.exact_match.baseline.value == 0.0 and found.effect.exact_match.changed.value == 1.0
    assert found.beyond["logit_difference"].interval[0] > 0.1


def test_flattened_heads_attend_to_all_they_see_alike() -> None:
    after, _ = patterns(Flatten(((0, 1),)))
    before, _ = patterns(None)
    assert torch.equal(after[:, 0], before[:, 0])
    assert torch.allclose(after[0, 1], torch.ones(20, 20).tril() / torch.arange(1, 21)[:, None])


def test_all_heads_are_meant_by_none_and_absent_ones_stay_absent() -> None:
    for layer in (0, 1):
        after, _ = patterns(Knockout("anchors"), layer=layer)
        assert not after[:, :, 15, [0, 1]].any()
    assert not patterns(Flatten(None), layer=1)[0][:, 1].any()


def test_what_cannot_be_knocked_out_is_said() -> None:
    hints = {
        "sources": "Did you mean 'source'",
        "candidates": r"write candidates\(m\)",
        "source(2)": "write source",
        "candidates(9)": "m is 1 to 8",
        "back(x)": "unknown class",
    }
    for keys, hint in hints.items():
        with pytest.raises(UsageError, match=hint):
            Knockout(keys)
    with pytest.raises(UsageError, match="unknown way"):
        Knockout("source", how="masc")
    with pytest.raises(UsageError, match="unknown rows"):
        Knockout("source", rows="copy")
    long = TASK.encode([[0, 1] * 511])
    with pytest.raises(UsageError, match=r"2050 x 2050 tokens .* at most 1021"):
        intervene(model(), (Sample("plain", "uniform", 1022, 0, long),), Knockout("source"))


def test_the_repr_is_the_code_and_words_name_every_class() -> None:
    for keys in ALL:
        spec = Knockout(keys, ((0, 1),))
        assert eval(repr(spec), {"Knockout": Knockout}) == spec
        assert "{}" not in spec.words and spec.matched == replace(spec, control=True)
        assert spec.matched.words != spec.words
    assert {keys.partition("(")[0] for keys in ALL} == set(CLASSES)
