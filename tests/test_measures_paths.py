"""Path patching finds the wiring of hand-built circuits, input by input, and nothing else."""

import json

import numpy as np
import pytest
import torch

from analyses.measures import paths as module
from analyses.measures.base import MODEL_MEASURES
from analyses.measures.paths import INPUTS, Paths, path_patching, paths_between
from analyses.samples import Sample, draw_samples
from models.config import ModelSettings, TaskSettings
from models.constructions import CONSTRUCTIONS
from models.errors import UsageError
from models.tasks import CopyTask
from models.transformer import CopyTransformer


def samples_for(name: str, lengths: tuple[int, ...] = (20, 50)) -> tuple[Sample, ...]:
    entry = CONSTRUCTIONS[name]
    return draw_samples(
        CopyTask(entry.task),
        lengths=lengths,
        distributions=entry.distributions[:1],
        strings=5,
        seed=0,
        kinds=("plain",),
    )


def patched(name: str) -> Paths:
    return path_patching(CONSTRUCTIONS[name].build(), samples_for(name))


def matters(found: Paths, sender: tuple[int, int], receiver: tuple[int, int]) -> str:
    """Inputs through which the path surely lowers attention to the true source and the logit difference."""
    names = ""
    for name in INPUTS:
        attention, logits, _ = found.at(sender, receiver, name)
        if attention.value < -0.05 and attention.interval[1] < 0 and logits.value < -0.05 and logits.interval[1] < 0:
            names += name
    return names


@pytest.mark.parametrize("name", ["rope-locator", "rope-locator-4"])
def test_a_locator_tells_the_aligned_head_through_queries_and_keys(name: str) -> None:
    """Either side's code is what they are matched by; values are of the tokens and come from the embedding."""
    found = patched(name)
    assert matters(found, (0, 0), (1, 0)) == "qk"
    attention, logits, _ = found.at((0, 0), (1, 0), "v")
    assert attention.value == 0.0 and logits.value == pytest.approx(0.0, abs=1e-5)


def test_look_back_heads_tell_an_induction_head_through_keys_and_longer_ones_through_queries() -> None:
    assert matters(patched("induction"), (0, 0), (1, 0)) == "k"
    found = patched("induction-3")
    # The query holds its own token and the two before it, the key the three before it.
    assert [matters(found, (0, head), (1, 0)) for head in range(3)] == ["qk", "qk", "k"]


def test_a_hybrid_has_two_circuits_that_do_not_touch() -> None:
    found = patched("rope-hybrid")
    assert matters(found, (0, 0), (1, 0)) == "qk" and matters(found, (0, 0), (1, 1)) == ""
    for head in (1, 2, 3):
        assert matters(found, (0, head), (1, 0)) == ""
        assert "k" in matters(found, (0, head), (1, 1))
    assert "q" not in matters(found, (0, 3), (1, 1))


def test_composition_norms_point_at_the_inputs_that_read_what_a_sender_writes() -> None:
    composition = patched("rope-locator").composition[0, 0, 1, 0]
    assert composition[0] > 0.2 and composition[1] > 0.2 and composition[2] < 0


def test_composition_is_the_norm_of_the_products() -> None:
    vocabulary = CopyTask(TaskSettings()).vocabulary
    settings = ModelSettings(heads=(1, 1), d_model=24, d_head=4, positions="rope")
    model = CopyTransformer(settings, vocabulary, seed=2)
    with torch.no_grad():
        model.blocks[1].ln1.w.copy_(torch.rand(24) + 0.5)
    gain = torch.diag(model.blocks[1].ln1.w)
    written = model.OV.AB[0, 0]
    query_key, value = gain @ model.QK.AB[1, 0] @ gain, gain @ model.OV.AB[1, 0]
    for number, read in enumerate((query_key, query_key.T, value)):
        expected = (written @ read).norm() / (written.norm() * read.norm()) - 24**-0.5
        assert module._composition(model, (0, 0, 1, 0, number)) == pytest.approx(float(expected.detach()), abs=1e-5)


def test_random_heads_compose_as_the_baseline_says() -> None:
    vocabulary = CopyTask(TaskSettings()).vocabulary
    settings = ModelSettings(heads=(4, 4), d_model=64, d_head=16, positions="rope")
    model = CopyTransformer(settings, vocabulary, seed=0)
    values = [module._composition(model, path) for path in paths_between(model, None, None)]
    assert abs(np.mean(values)) < 0.003


@pytest.mark.parametrize(
    "settings",
    [
        {"positions": "rope"},
        {"positions": "alibi", "norm_placement": "post", "gated_mlp": True},
        {"positions": "rope2d", "normalization": "LN"},
    ],
)
def test_what_a_sender_tells_is_the_change_of_what_its_layer_adds(settings: dict[str, object]) -> None:
    """Norms after attention included, under which heads do not add up."""
    task = CopyTask(TaskSettings())
    model = CopyTransformer(
        ModelSettings.model_validate({"heads": (2, 2), "d_model": 16, "d_head": 8, "init_std": 0.3} | settings),
        task.vocabulary,
        seed=1,
    )
    batch = task.sample(3, torch.Generator().manual_seed(0), lengths=9)
    with torch.inference_mode():
        reader = module._Reader(model, batch)
        values = torch.randn(reader.cache["blocks.0.attn.hook_z"].shape, generator=torch.Generator().manual_seed(1))
        told = reader.told(0, 1, values)

        def replace(z: torch.Tensor, hook: object) -> torch.Tensor:
            z = z.clone()
            z[:, :, 1] = values[:, :, 1]
            return z

        _, after = model.run_with_cache(batch.tokens, names_filter="blocks.0.hook_attn_out")
        with model.hooks(fwd_hooks=[("blocks.0.attn.hook_z", replace)]):
            _, changed = model.run_with_cache(batch.tokens, names_filter="blocks.0.hook_attn_out")
    assert torch.allclose(told, changed["blocks.0.hook_attn_out"] - after["blocks.0.hook_attn_out"], atol=1e-5)


def test_there_are_no_paths_within_a_layer_or_back() -> None:
    found = patched("rope-hybrid")
    for index in ((0, 0, 0, 1, 0), (1, 0, 0, 0, 1), (1, 0, 1, 1, 2)):
        assert np.isnan(found.logits.value[index]) and not found.logits.at(*index).measurable
    strongest = found.strongest(3)
    assert [(path["sender"], path["receiver"], path["input"]) for path in strongest[:2]] == [
        ([0, 0], [1, 0], "q"),
        ([0, 0], [1, 0], "k"),
    ]
    assert len(found.strongest(100)) == 4 * 2 * 3 and json.dumps(strongest, allow_nan=False)


def test_named_senders_and_receivers_give_the_same_as_all() -> None:
    model, samples = CONSTRUCTIONS["rope-hybrid"].build(), samples_for("rope-hybrid", (20,))
    every = path_patching(model, samples, seed=1)
    some = path_patching(model, samples, senders=((0, 2),), receivers=((1, 1),), seed=1)
    assert some.at((0, 2), (1, 1), "k")[:2] == every.at((0, 2), (1, 1), "k")[:2]
    assert np.isnan(some.composition[0, 1, 1, 1, 0])


def test_parts_give_what_the_whole_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    model, samples = CONSTRUCTIONS["rope-hybrid"].build(), samples_for("rope-hybrid", (20,))
    whole = path_patching(model, samples)
    monkeypatch.setattr("analyses.outcomes._PATTERN_ELEMENTS", 2 * 4 * 46**2)
    parts = path_patching(model, samples)
    assert parts.logits.value == pytest.approx(whole.logits.value, abs=1e-3, nan_ok=True)


def test_the_measure_is_registered_and_empty_where_there_is_nothing_to_patch() -> None:
    measure = MODEL_MEASURES["paths"]
    entry = CONSTRUCTIONS["rope-locator"]
    shares: list[float] = []
    found = measure(entry.build(), CopyTask(entry.task), samples_for("rope-locator"), seed=0, progress=shares.append)
    assert {name: profile.shape for name, profile in found.profiles.items()} == dict.fromkeys(
        ("paths.attention", "paths.logits", "paths.composition"), (2, 1, 2, 1, 3)
    )
    assert shares == [0.5, 1.0] and not found.scores
    one = CONSTRUCTIONS["rope2d-aligned"]
    assert not measure(one.build(), CopyTask(one.task), samples_for("rope2d-aligned"), seed=0).profiles


def test_what_cannot_be_patched_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    model, samples = CONSTRUCTIONS["rope-hybrid"].build(), samples_for("rope-hybrid", (20,))
    with pytest.raises(UsageError, match=r"no head 0\.7"):
        path_patching(model, samples, senders=((0, 7),))
    with pytest.raises(UsageError, match="at least one sample"):
        path_patching(model, ())
    monkeypatch.setattr(module, "MAX_PATHS", 10)
    with pytest.raises(UsageError, match="24 paths are over 10; name fewer senders or receivers"):
        path_patching(model, samples)
    assert not MODEL_MEASURES["paths"](model, CopyTask(CONSTRUCTIONS["rope-hybrid"].task), samples, seed=0).profiles
    settings = ModelSettings(heads=(1, 1), d_model=8, d_head=8, d_mlp=0, residual=False, positions="rope")
    without = CopyTransformer(settings, model.vocabulary)
    with pytest.raises(UsageError, match="without residual connections"):
        path_patching(without, samples)
