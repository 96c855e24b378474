"""Ablation takes away what heads know; a locator is destroyed only by values from other places."""

import numpy as np
import pytest
import torch

from analyses.ablation import WAYS, Ablation, replacements
from analyses.effects import intervene
from analyses.samples import Sample, draw_samples
from analyses.segments import segments_of
from models.config import ModelSettings, TaskSettings
from models.constructions import CONSTRUCTIONS
from models.errors import UsageError
from models.tasks import CopyBatch, CopyTask
from models.transformer import CopyTransformer

TASK = CopyTask(TaskSettings())


def strings(length: int | tuple[int, int], n: int = 6, seed: int = 0) -> CopyBatch:
    return TASK.sample(n, torch.Generator().manual_seed(seed), lengths=length, distribution="uniform")


def random_model() -> CopyTransformer:
    """One head with random weights."""
    settings = ModelSettings(
        heads=(1,), d_model=8, d_head=8, d_mlp=0, normalization="none", final_norm=False, positions="rope"
    )
    return CopyTransformer(settings, TASK.vocabulary, seed=1)


def resampled(name: str = "rope-locator", length: int = 40) -> tuple[CopyTransformer, tuple[Sample, ...]]:
    entry = CONSTRUCTIONS[name]
    task = CopyTask(entry.task)
    samples = draw_samples(task, lengths=(20, length), distributions=("uniform",), strings=6, seed=0, kinds=("plain",))
    return entry.build(), samples


def test_resampling_destroys_a_locator_and_values_of_the_same_place_do_not() -> None:
    """The contrast that the choice of replacements is about: a locator's output depends on the place alone."""
    model, samples = resampled()
    effects = {way: intervene(model, samples, Ablation(((0, 0),), way)) for way in WAYS}
    assert effects["resample"].exact_match.baseline.value == 1.0
    for way in ("zero", "mean", "resample"):
        assert effects[way].exact_match.changed.value == 0.0
        assert effects[way].logit_difference.difference.interval[1] < -2
    assert effects["same-place"].exact_match.changed.value == 1.0
    assert abs(effects["same-place"].logit_difference.difference.value) < 1e-3


def test_a_mean_over_strings_at_the_same_position_leaves_a_locator_intact() -> None:
    model, samples = resampled()
    batch = samples[1].batch
    name = "blocks.0.attn.hook_z"
    _, cache = model.run_with_cache(batch.tokens, names_filter=name)
    hook = (name, lambda z, hook: cache[name].mean(0, keepdim=True).expand_as(z))
    rows, _ = batch.scored_rows
    logits = model.run_with_hooks(batch.tokens, rows=rows, fwd_hooks=[hook])
    assert torch.equal(logits.argmax(-1), batch.targets.gather(1, rows))


def test_both_ways_of_taking_values_destroy_a_head_that_copies_tokens() -> None:
    model, samples = resampled()
    for way in ("resample", "same-place"):
        assert intervene(model, samples, Ablation(((1, 0),), way)).exact_match.changed.value == 0.0


@pytest.mark.parametrize("length", [2, 7, (3, 12)])
def test_resampled_values_are_from_the_same_segment_another_index_and_another_length(
    length: int | tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outputs are made to name the length and the position that they are from."""
    batch, seen = strings(length), []

    def outputs(model: object, donors: CopyBatch, layers: tuple[int, ...]) -> dict[int, torch.Tensor]:
        seen.append(donors)
        width = donors.tokens.shape[1]
        where = torch.arange(width).float().expand(len(donors), -1)
        source = torch.arange(len(donors)).float()[:, None].expand(-1, width)
        return {0: torch.stack([source, where], -1)[:, :, None]}

    monkeypatch.setattr("analyses.ablation._outputs", outputs)
    values = replacements(random_model(), batch, "resample", (0,), np.random.default_rng(0))[0][:, :, 0].long()
    own, donors = segments_of(batch), segments_of(seen[0])
    moved = 0
    for i in range(len(batch)):
        assert int(seen[0].lengths[i]) < int(batch.lengths[i])
        for t in range(int((~batch.pad_mask[i]).sum())):
            donor, position = values[i, t].tolist()
            assert donor == i
            assert donors.segment[i, position] == own.segment[i, t]
            alone = int(donors.sizes[i, own.segment[i, t]]) == 1
            assert alone or donors.index[i, position] != own.index[i, t]
            moved += not alone
    assert moved > 0
    others = [
        any(torch.equal(seen[0].strings[i, :n], batch.strings[j, :n]) for j in range(len(batch)) if j != i)
        for i, n in enumerate(seen[0].lengths.tolist())
    ]
    assert all(others)


def test_means_run_over_a_segment_and_over_strings() -> None:
    model, batch = random_model(), strings(9)
    name = "blocks.0.attn.hook_z"
    _, cache = model.run_with_cache(batch.tokens, names_filter=name)
    means = replacements(model, batch, "mean", (0,), np.random.default_rng(0))[0]
    sources = cache[name][:, 2:11].mean((0, 1))
    assert torch.allclose(means[3, 5], sources, atol=1e-6) and torch.equal(means[0, 2], means[5, 10])
    assert torch.allclose(means[0, -1], cache[name][:, 14:].mean((0, 1)), atol=1e-6)


def test_zero_ablation_is_a_model_without_the_head() -> None:
    entry = CONSTRUCTIONS["rope-hybrid"]
    model, without = entry.build(), entry.build()
    with torch.no_grad():
        without.blocks[1].attn.W_O[0] = 0
    task = CopyTask(entry.task)
    samples = draw_samples(task, lengths=(30,), distributions=("uniform",), strings=4, seed=0, kinds=("plain",))
    effect = intervene(model, samples, Ablation(((1, 0),), "zero"))
    expected = intervene(without, samples, Ablation(((1, 0),), "zero"))
    assert effect.logit_difference.changed.value == pytest.approx(expected.logit_difference.baseline.value)
    assert effect.token_accuracy.changed.value == expected.token_accuracy.baseline.value


def test_a_set_of_heads_takes_its_values_from_the_same_rows() -> None:
    model = CONSTRUCTIONS["induction-3"].build()
    task = CopyTask(CONSTRUCTIONS["induction-3"].task)
    batch = task.sample(4, torch.Generator().manual_seed(0), lengths=30, distribution="unique-context")
    together = replacements(model, batch, "resample", (0, 1), np.random.default_rng(5))
    alone = replacements(model, batch, "resample", (0,), np.random.default_rng(5))
    assert torch.equal(together[0], alone[0])


def test_the_same_seed_gives_the_same_effect() -> None:
    model, samples = resampled()
    first, again = (intervene(model, samples, Ablation(None, "resample"), seed=3) for _ in range(2))
    assert first == again


def test_what_cannot_be_ablated_is_said() -> None:
    model, samples = resampled()
    with pytest.raises(UsageError, match=r"no head 0\.1; layers have 1, 1 heads"):
        intervene(model, samples, Ablation(((0, 1),)))
    with pytest.raises(UsageError, match="Did you mean 'resample'"):
        Ablation(((0, 0),), "resampel")
    with pytest.raises(UsageError, match="at least 2 strings"):
        intervene(model, (Sample("plain", "uniform", 9, 0, strings(9, 1)),), Ablation(((0, 0),)))
    with pytest.raises(UsageError, match="strings of at least 2 tokens"):
        intervene(model, (Sample("plain", "uniform", 1, 0, strings(1)),), Ablation(((0, 0),)))
    with pytest.raises(UsageError, match="no head was named"):
        intervene(model, samples, Ablation(()))
    with pytest.raises(UsageError, match="at least one sample"):
        intervene(model, (), Ablation(((0, 0),)))


def test_the_repr_is_the_code() -> None:
    spec = Ablation(((0, 1), (1, 0)), "mean")
    assert eval(repr(spec), {"Ablation": Ablation}) == spec and "0.1, 1.0" in spec.words
