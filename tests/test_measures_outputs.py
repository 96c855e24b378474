"""What heads write: contributions that sum to the logits, and a copying score that means what its formula says."""

import numpy as np
import pytest
import torch

from analyses.measures.outputs import attribute, copying, outputs, reaches_logits
from analyses.passes import Measured
from analyses.samples import draw_samples
from models.config import ModelSettings, TaskSettings
from models.constructions import CONSTRUCTIONS
from models.tasks import CopyTask
from models.transformer import CopyTransformer

TASK = CopyTask(TaskSettings(alphabet=5))


def random_model(seed: int = 0, **changes: object) -> CopyTransformer:
    """Random weights, random gains included."""
    settings = {"heads": (3, 2), "d_model": 24, "d_head": 8, "init_std": 0.3, "tied": False, "positions": "rope"}
    model = CopyTransformer(ModelSettings.model_validate(settings | changes), TASK.vocabulary, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        if name.endswith((".w", "W_pos")):
            weight.data += 0.3 * torch.randn(weight.shape, generator=generator)
    return model


def measure(model: CopyTransformer, task: CopyTask, distribution: str = "uniform", length: int = 30) -> Measured:
    samples = draw_samples(task, lengths=[length], distributions=[distribution], strings=3, seed=0, kinds=["plain"])
    return outputs(model, task, samples, seed=0)


@pytest.mark.parametrize("norm", ["RMS", "LN", "none"])
@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("d_mlp", [None, 0])
@pytest.mark.parametrize("positions", ["rope2d", "learned"])
def test_contributions_sum_to_the_logits(
    norm: str, placement: str, residual: bool, d_mlp: int | None, positions: str
) -> None:
    changes = {"normalization": norm, "norm_placement": placement, "residual": residual, "d_mlp": d_mlp}
    model = random_model(positions=positions, gated_mlp=True, **changes)
    batch = TASK.sample(1, torch.Generator().manual_seed(1), lengths=11)
    found = attribute(model, batch)
    parts = found.heads.sum((1, 2)) + found.rest
    assert np.abs(parts - found.total).max() < 1e-4 * max(1, np.abs(found.total).max())
    assert not found.heads[:, 1, 2].any(), "layer 1 has two heads"
    assert found.heads[:, 1].any() == reaches_logits(model, 1)

    logits = model(batch.tokens).detach()[0, batch.scored_rows[0][0]]
    logits = (logits - logits.mean(1, keepdim=True)).numpy()
    targets = batch.targets[0, batch.scored_rows[0][0]].numpy()
    assert found.total[:, 0] == pytest.approx(logits[np.arange(len(logits)), targets], rel=1e-4, abs=1e-5)
    others = [max(row[t] for t in range(5) if t != target) for row, target in zip(logits, targets, strict=True)]
    assert found.total[:, 1] == pytest.approx(np.array(others), rel=1e-4, abs=1e-5)


def test_a_head_counts_as_much_as_its_removal_takes_away() -> None:
    """Without a norm that could answer, removing a last-layer head changes the logits by what it was attributed."""
    model = random_model(normalization="none", d_mlp=0)
    batch = TASK.sample(1, torch.Generator().manual_seed(1), lengths=11)
    before = attribute(model, batch)
    model.blocks[1].attn.W_O.data[1] = 0
    after = attribute(model, batch)
    # The right token's logit alone: the strongest wrong token may be another one now.
    assert before.total[:, 0] - after.total[:, 0] == pytest.approx(before.heads[:, 1, 1, 0], abs=1e-4)


@pytest.mark.parametrize("name", ["rope2d-aligned", "induction", "rope-locator", "rope-hybrid"])
def test_heads_that_copy(name: str) -> None:
    construction = CONSTRUCTIONS[name]
    found = measure(construction.build(), CopyTask(construction.task), construction.distributions[0]).scores
    last = len(construction.roles) - 1
    assert found["ov.copying"].value[last, 0] == pytest.approx(1.0)
    assert found["ov.eigenvalues"].value[last, 0] == pytest.approx(1.0)
    assert found["logit.difference"].value[last, 0] > 0.9
    both = found["logit.right"].value - found["logit.wrong"].value
    assert np.allclose(found["logit.difference"].value, both, equal_nan=True)
    if last:  # look-back heads and locators write for the next layer, no logits
        assert np.isnan(found["ov.copying"].value[0]).all() and not np.nan_to_num(found["logit.right"].value[0]).any()


def test_copying_is_its_formula() -> None:
    for norm in ("RMS", "LN"):
        model = random_model(normalization=norm)
        found = copying(model)
        for layer, head in ((0, 2), (1, 1)):
            block = model.blocks[layer]
            read = block.ln1(model.W_E[:5]).detach()
            write = read @ block.attn.W_V[head] @ block.attn.W_O[head]
            if norm == "LN":
                write = write - write.mean(-1, keepdim=True)
            circuit = (write @ (model.ln_final.w[:, None] * model.W_U[:, :5])).detach().double().numpy()
            circuit -= circuit.mean(1, keepdims=True)
            value = np.trace(circuit) / (2 * np.linalg.norm(circuit))
            assert found["ov.copying"].value[layer, head] == pytest.approx(value, abs=1e-5)
            eigenvalues = np.linalg.eigvals(circuit)
            ratio = eigenvalues.real.sum() / np.abs(eigenvalues).sum()
            assert found["ov.eigenvalues"].value[layer, head] == pytest.approx(ratio, abs=1e-4)
        assert np.isnan(found["ov.copying"].value[1, 2]) and found["ov.copying"].rows.tolist() == [[5] * 3, [5, 5, 0]]


def test_copying_of_opposites_and_of_a_head_that_writes_the_same_whatever_it_sees() -> None:
    construction = CONSTRUCTIONS["rope2d-aligned"]
    model = construction.build()
    attn = model.blocks[0].attn
    attn.W_O.data *= -3
    assert copying(model)["ov.copying"].value[0, 0] == pytest.approx(-1.0)
    logits = model.settings.d_model - len(model.vocabulary)
    attn.W_V.data[:, :, 0] = 1.0
    attn.W_O.data.zero_()
    attn.W_O.data[0, 0, logits] = 2.0  # token 0, always
    found = copying(model)
    assert found["ov.copying"].value[0, 0] == pytest.approx(0.0)
    assert found["ov.copying"].at(0, 0).interval == (0.0, 0.0) and found["ov.copying"].at(0, 0).strings == 0


def test_scores_do_not_change_when_the_stream_is_rotated_and_heads_are_permuted() -> None:
    construction = CONSTRUCTIONS["induction-3"]
    task = CopyTask(construction.task)
    model, turned = construction.build(), construction.build()
    rotation = torch.linalg.qr(torch.randn(model.cfg.d_model, model.cfg.d_model)).Q
    turned.embed.W_E.data @= rotation
    turned.unembed.W_U.data = rotation.T @ turned.unembed.W_U.data
    order = [2, 0, 1]
    for layer, block in enumerate(turned.blocks):
        for name in ("W_Q", "W_K", "W_V"):
            weight = getattr(block.attn, name)
            weight.data = rotation.T @ weight.data
        block.attn.W_O.data @= rotation
        if layer == 0:
            for name in ("W_Q", "W_K", "W_V", "W_O"):
                getattr(block.attn, name).data = getattr(block.attn, name).data[order]
    before, after = (measure(m, task, "unique-context", 20).scores for m in (model, turned))
    for name in before:
        first, second = before[name].value.copy(), after[name].value
        first[0] = first[0, order]
        assert np.allclose(first, second, atol=1e-4, equal_nan=True)


def test_heads_out_of_reach_of_the_logits_are_not_measurable() -> None:
    for d_mlp, reached in ((0, [False, True]), (None, [False, False])):
        model = random_model(residual=False, d_mlp=d_mlp, final_norm=False)
        found = measure(model, TASK).scores
        assert [not np.isnan(row).all() for row in found["logit.right"].value] == reached
        assert "residual" in found["logit.right"].reason
        assert np.isnan(found["ov.copying"].value).all(), (
            "a layer reads the embedding or writes to the logits, not both"
        )
    assert np.isfinite(
        measure(random_model(residual=False, heads=(2,), d_mlp=0), TASK).scores["ov.copying"].value
    ).all()
