"""The decoder: two attention paths with one result, padding, hooks, and TransformerLens' tools on it."""

import gc
import weakref

import psutil
import pytest
import torch

from models.config import ModelSettings, TaskSettings
from models.errors import UsageError
from models.layers import take_rows
from models.positions import ALTERNATIONS, SCHEMES
from models.tasks import CopyBatch, CopyTask
from models.transformer import CopyTransformer

ALL_SCHEMES = [*SCHEMES, *ALTERNATIONS]
TASK = CopyTask(TaskSettings(lengths=(1, 9)))


def make(scheme: object = "rope", **changes: object) -> CopyTransformer:
    """A small model with unequal heads and weights large enough for sharp patterns."""
    values = {"heads": (2, 1), "d_model": 16, "d_head": 8, "d_mlp": 24, "init_std": 0.3, "positions": scheme} | changes
    return CopyTransformer(ModelSettings.model_validate(values), TASK.vocabulary, seed=3)


def draw(n: int = 4, seed: int = 0) -> CopyBatch:
    return TASK.sample(n, torch.Generator().manual_seed(seed))


def left_padded(batch: CopyBatch) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and pad mask with every string pushed to the right end."""
    tokens, mask = torch.full_like(batch.tokens, batch.vocabulary.pad), torch.ones_like(batch.pad_mask)
    for row, pads in enumerate(batch.pad_mask):
        n = int((~pads).sum())
        tokens[row, -n:], mask[row, -n:] = batch.tokens[row, :n], False
    return tokens, mask


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("padding", ["right", "left"])
@pytest.mark.parametrize("scheme", ALL_SCHEMES)
def test_fast_path_equals_explicit_path_forward_and_backward(scheme: str, padding: str, strict: bool) -> None:
    model, batch = make(scheme, strict_mask=strict), draw()
    tokens, pad_mask = (batch.tokens, batch.pad_mask) if padding == "right" else left_padded(batch)
    gradients, outputs = [], []
    for names in ([], ["blocks.0.attn.hook_pattern", "blocks.1.attn.hook_attn_scores"]):
        model.zero_grad()
        with model.hooks(fwd_hooks=[(name, lambda tensor, hook: None) for name in names]):
            logits = model(tokens, pad_mask=pad_mask)
        logits[~pad_mask].square().mean().backward()
        outputs.append(logits.detach())
        gradients.append({name: weight.grad.clone() for name, weight in model.named_parameters()})
    torch.testing.assert_close(*outputs, atol=2e-5, rtol=1e-4)
    assert outputs[0].isfinite().all()
    for name in gradients[0]:
        assert gradients[0][name].isfinite().all(), name
        scale = gradients[1][name].abs().max()
        torch.testing.assert_close(gradients[0][name], gradients[1][name], atol=float(2e-5 * scale + 1e-7), rtol=1e-3)


@pytest.mark.parametrize("window", [1, 3])
@pytest.mark.parametrize("scheme", ["rope2d", "alibi", "auto2d"])
def test_window_and_small_blocks_equal_the_explicit_path(
    scheme: str, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, batch = make({"scheme": scheme, "window": window}), draw()
    with torch.no_grad():
        whole = model(batch.tokens)
        monkeypatch.setattr("models.layers.BLOCK_ELEMENTS", 64)
        blocked = model(batch.tokens)
        explicit, _ = model.run_with_cache(batch.tokens, names_filter="blocks.0.attn.hook_pattern")
    torch.testing.assert_close(whole, blocked, atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(whole, explicit, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("scheme", ALL_SCHEMES)
def test_padded_equals_unpadded_and_batched_equals_single(scheme: str) -> None:
    model, batch = make(scheme), draw(5)
    left_tokens, left_mask = left_padded(batch)
    with torch.no_grad():
        right = model(batch.tokens)
        left = model(left_tokens, pad_mask=left_mask)
        for row in range(len(batch)):
            alone = model(batch.select([row]).tokens)[0]
            torch.testing.assert_close(right[row, : len(alone)], alone, atol=2e-5, rtol=1e-4)
            torch.testing.assert_close(left[row, -len(alone) :], alone, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("scheme", ALL_SCHEMES)
def test_queried_rows_equal_the_full_forward(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = make(scheme), draw(5)
    rows, exists = batch.scored_rows
    with torch.no_grad():
        full = take_rows(model(batch.tokens), rows)
        few = model(batch.tokens, rows=rows)
        monkeypatch.setattr("models.layers.BLOCK_ELEMENTS", 16)  # as if the rows were many
        many = model(batch.tokens, rows=rows)
    torch.testing.assert_close(few[exists], full[exists], atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(many[exists], full[exists], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("padding", ["right", "left"])
@pytest.mark.parametrize("scheme", [*ALL_SCHEMES, {"scheme": "auto2d", "reads": "raw"}])
def test_looking_tokens_up_equals_computing_each_in_logits_and_gradients(
    scheme: object, padding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, batch = make(scheme), draw(5)
    for weight in model.parameters():  # a new model's steps and learned positions are zero
        weight.data.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)) * 0.1)
    rows, exists = batch.scored_rows
    tokens, pad_mask = batch.tokens, batch.pad_mask
    if padding == "left":
        tokens, pad_mask = left_padded(batch)
        rows = rows + batch.pad_mask.sum(1, keepdim=True)
    looked_up = []
    monkeypatch.setattr("models.layers.F.embedding", lambda ids, table: looked_up.append(1) or table[ids])
    for wanted in ({}, {"rows": rows}, {"rows": rows, "keep": exists}):
        results = []
        for names in (["hook_embed"], []):  # whatever is hooked, every value is computed where it stands
            looked_up.clear()
            with model.hooks(fwd_hooks=[(name, lambda tensor, hook: None) for name in names]):
                logits = model(tokens, pad_mask=pad_mask, **wanted)
            logits = logits[~pad_mask] if not wanted else logits if "keep" in wanted else logits[exists]
            gradients = torch.autograd.grad(logits.square().mean(), list(model.parameters()))
            results.append((logits.detach(), *gradients))
            assert len(looked_up) == (1 if names or model.pos_embed is not None else 4 + ("auto2d" in str(scheme)))
        for expected, found in zip(*results, strict=True):
            torch.testing.assert_close(found, expected, atol=1e-5 * float(expected.abs().max()), rtol=1e-5)


def test_kept_rows_are_those_of_each_string_in_turn_and_need_rows() -> None:
    model, batch = make(), draw(5)
    rows, exists = batch.scored_rows
    logits, loss = model(batch.tokens, "both", rows=rows, keep=exists, targets=batch.targets)
    assert logits.shape == (int(batch.loss_mask.sum()), len(TASK.vocabulary))
    torch.testing.assert_close(logits, model(batch.tokens)[batch.loss_mask], atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(loss, model(batch.tokens, "loss", targets=batch.targets))
    with pytest.raises(UsageError, match="keep was given without rows"):
        model(batch.tokens, keep=exists)


def test_hooks_on_plain_modules_see_every_token() -> None:
    model, batch = make("auto2d"), draw(5)
    rows, _ = batch.scored_rows
    for module in (model.embed, model.blocks[0].ln1, model.blocks[0].attn, model.ln_final):
        seen: list[torch.Size] = []
        with module.register_forward_hook(lambda module, inputs, output, seen=seen: seen.append(output.shape)):
            model(batch.tokens, rows=rows)
        assert seen == [(*batch.tokens.shape, 16)]


def test_bfloat16_products_looked_up_have_gradients_summed_in_float32() -> None:
    model, batch = make("rope2d"), TASK.sample(64, torch.Generator().manual_seed(0), lengths=100)
    gradients = []
    for enabled in (False, True):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            loss = model(batch.tokens, "loss", targets=batch.targets)
        gradients.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))]))
    assert (gradients[1] - gradients[0]).norm() < 0.02 * gradients[0].norm()


@pytest.mark.parametrize("scheme", [*ALL_SCHEMES, {"scheme": "rope", "window": 3}])
def test_a_range_of_rows_from_a_middle_layer_equals_the_full_forward(scheme: object) -> None:
    model, batch = make(scheme), draw(1)
    with torch.no_grad():
        full = model(batch.tokens)
        resid = model(batch.tokens, stop_at_layer=1)
        for rows in (range(0, 4), range(5, 9), range(0, batch.tokens.shape[1])):
            cut = model(batch.tokens, rows=rows, start_at_layer=1, resid=resid)
            torch.testing.assert_close(cut, full[:, rows.start : rows.stop], atol=2e-5, rtol=1e-4)
        two = torch.cat([batch.tokens, batch.tokens])
        torch.testing.assert_close(model(two, rows=range(2, 6)), full[:, 2:6].expand(2, -1, -1), atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("norm", ["RMS", "LN", "none"])
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_norms_computed_through_hooks_equal_the_fused_ones(norm: str, placement: str) -> None:
    model, batch = make("rope", normalization=norm, norm_placement=placement, gated_mlp=True, tied=False), draw()
    with torch.no_grad():
        hooked, _ = model.run_with_cache(batch.tokens)
        torch.testing.assert_close(hooked, model(batch.tokens), atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("shape", [(5, 16), (3, 4, 16), (2, 3, 2, 16)])
def test_rms_norm_and_its_gradients_equal_pytorchs(shape: tuple[int, ...]) -> None:
    from models.norm import Norm

    generator = torch.Generator().manual_seed(0)
    norm, x = Norm("RMS", 16, 1e-6), torch.randn(shape, generator=generator, requires_grad=True)
    assert norm.w is not None
    norm.w.data.copy_(torch.rand(16, generator=generator) + 0.5)
    weight, grad = norm.w, torch.randn(shape, generator=generator)
    ours, theirs = norm(x), torch.nn.functional.rms_norm(x, (16,), weight, eps=1e-6)
    torch.testing.assert_close(ours, theirs)
    for mine, reference in zip(
        torch.autograd.grad(ours, (x, weight), grad), torch.autograd.grad(theirs, (x, weight), grad), strict=True
    ):
        torch.testing.assert_close(mine, reference)


@pytest.mark.parametrize("scheme", ALL_SCHEMES)
def test_every_advertised_hook_fires_and_an_edit_reaches_the_logits(scheme: str) -> None:
    model, batch = make(scheme, gated_mlp=True), draw(2)
    with torch.no_grad():
        clean = model(batch.tokens)
        for name in model.hook_dict:
            fired = []

            def edit(tensor: torch.Tensor, hook: object, fired: list = fired) -> torch.Tensor:
                fired.append(True)
                noise = torch.rand(tensor.shape, generator=torch.Generator().manual_seed(1))
                return tensor * (0.5 + noise) if hook.name.endswith("coords") else tensor + noise

            edited = model.run_with_hooks(batch.tokens, fwd_hooks=[(name, edit)])
            assert fired == [True], f"{name} fired {len(fired)} times"
            assert (edited - clean).abs().max() > 1e-4, f"an edit at {name} does not reach the logits"


@pytest.mark.parametrize("scheme", ALL_SCHEMES)
def test_coordinates_are_hooked_for_every_scheme_with_positions(scheme: str) -> None:
    model, batch = make(scheme), draw(3)
    _, cache = model.run_with_cache(batch.tokens)
    hooked = {name: tensor.shape for name, tensor in cache.items() if name.endswith("hook_coords")}
    for layer in range(2):
        settings = model.settings.scheme_of(layer)
        kind = SCHEMES[settings.scheme]
        name = "hook_coords" if kind.at_embedding else f"blocks.{layer}.attn.hook_coords"
        if kind.n_coords:
            assert hooked[name] == (3, batch.tokens.shape[1], kind.n_coords)
        else:
            assert name not in hooked


def test_scores_are_before_and_pattern_after_the_softmax() -> None:
    model, batch = make("rope"), draw(3)
    _, cache = model.run_with_cache(batch.tokens)
    scores, pattern = cache["attn_scores", 0], cache["pattern", 0]
    causal = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    pads = batch.pad_mask[:, None, None, :] | batch.pad_mask[:, None, :, None]
    assert (scores[..., ~causal] == -torch.inf).all()
    torch.testing.assert_close(pattern.sum(-1), (~batch.pad_mask).float()[:, None].expand(-1, 2, -1), atol=1e-5, rtol=0)
    assert (pattern[pads.expand_as(pattern)] == 0).all()
    assert (cache["pattern", 1][:, 1] == 0).all(), "the absent head attends to nothing"


def test_fully_masked_rows_are_zero_with_finite_gradients() -> None:
    model = make("rope", strict_mask=True)
    _, cache = model.run_with_cache(draw().tokens)
    assert (cache["pattern", 0][:, :, 0] == 0).all()
    assert not cache["pattern", 0].isnan().any()
    batch = draw()
    model(batch.tokens, "loss", targets=batch.targets).backward()
    assert all(weight.grad.isfinite().all() for weight in model.parameters())


def test_changing_pad_ids_changes_no_loss() -> None:
    model, batch = make("rope2d"), draw(5)
    junk = torch.where(batch.pad_mask, 0, batch.tokens)
    for targets in (batch.targets, None):
        clean = model(batch.tokens, "loss", pad_mask=batch.pad_mask, targets=targets)
        torch.testing.assert_close(model(junk, "loss", pad_mask=batch.pad_mask, targets=targets), clean)
    per_token = model(batch.tokens, "loss", targets=batch.targets, loss_per_token=True)
    assert (per_token[~batch.loss_mask] == 0).all()
    torch.testing.assert_close(
        per_token.sum() / batch.loss_mask.sum(), model(batch.tokens, "loss", targets=batch.targets)
    )


def test_dtype_changes_leave_coordinates_and_rotation_exact() -> None:
    model, batch = make("rope2d").to(torch.bfloat16), draw()
    logits, cache = model.run_with_cache(batch.tokens)
    assert model.cfg.dtype == logits.dtype == torch.bfloat16
    assert cache["blocks.0.attn.hook_coords"].dtype == torch.float32
    assert model.blocks[0].attn.scheme._frequency.dtype == torch.float64


# ------------------------------------------------------------- TransformerLens' tools


def test_residual_decompositions_add_up_to_the_logits() -> None:
    from transformer_lens.ActivationCache import ActivationCache

    model, batch = make("rope2d", gated_mlp=True), draw(1)
    with torch.no_grad():
        model.ln_final.w.copy_(torch.rand(16) + 0.5)
        logits, cache = model.run_with_cache(batch.tokens)
        assert isinstance(cache, ActivationCache)
        accumulated = cache.accumulated_resid(incl_mid=True)
        torch.testing.assert_close(accumulated[-1], cache["resid_post", 1])
        parts = cache.decompose_resid()
        torch.testing.assert_close(parts.sum(0), cache["resid_post", 1], atol=1e-4, rtol=1e-4)
        whole = cache.get_full_resid_decomposition(expand_neurons=False)
        torch.testing.assert_close(whole.sum(0), cache["resid_post", 1], atol=1e-4, rtol=1e-4)
        attributed = cache.logit_attrs(parts, tokens=0, incorrect_tokens=1).sum(0)
        torch.testing.assert_close(attributed, logits[..., 0] - logits[..., 1], atol=1e-4, rtol=1e-4)
        normed = cache.apply_ln_to_stack(accumulated[-1:], layer=-1)[0] * model.ln_final.w
        torch.testing.assert_close(normed @ model.W_U, logits, atol=1e-4, rtol=1e-4)
        assert cache.logit_lens().labels[-1] == "final_post"


def test_head_results_keep_their_labels_with_unequal_heads() -> None:
    model, batch = make("rope"), draw(2)
    with torch.no_grad():
        _, cache = model.run_with_cache(batch.tokens)
        stacked, labels = cache.stack_head_results(return_labels=True)
        assert labels == model.all_head_labels() == ["L0H0", "L0H1", "L1H0", "L1H1"]
        for index, label in enumerate(labels):
            layer, head = int(label[1]), int(label[3])
            torch.testing.assert_close(stacked[index], cache["z", layer][:, :, head] @ model.W_O[layer, head])
        assert (stacked[3] == 0).all()
        assert model.real_heads.tolist() == [[True, True], [True, False]]
        per_layer = stacked.unflatten(0, (2, 2)).sum(1)
        torch.testing.assert_close(per_layer[0], cache["attn_out", 0], atol=1e-5, rtol=1e-4)
        model.set_use_attn_result(True)
        torch.testing.assert_close(cache["result", 0], stacked[:2].movedim(0, 2), atol=1e-5, rtol=1e-4)


def test_weight_properties_have_transformer_lens_shapes() -> None:
    model = make("rope")
    assert model.W_Q.shape == model.W_K.shape == model.W_V.shape == (2, 2, 16, 8)
    assert model.W_O.shape == (2, 2, 8, 16)
    assert model.W_E.shape == (len(TASK.vocabulary), 16)
    torch.testing.assert_close(model.W_U, model.W_E.T)
    torch.testing.assert_close(model.OV.AB, model.W_V @ model.W_O)
    torch.testing.assert_close(model.QK.AB, model.W_Q @ model.W_K.transpose(-1, -2))
    absent = 4 * 16 * 8
    assert model.n_params == sum(weight.numel() for weight in model.parameters()) - absent


def test_patching_restores_the_clean_metric() -> None:
    from transformer_lens import patching

    model = make("rope")
    clean, corrupted = TASK.encode(["0110"]).tokens, TASK.encode(["0111"]).tokens

    def metric(logits: torch.Tensor) -> torch.Tensor:
        return logits[0, -1, 0] - logits[0, -1, 1]

    with torch.no_grad():
        clean_logits, cache = model.run_with_cache(clean)
        _, corrupted_cache = model.run_with_cache(corrupted)
        resid = patching.get_act_patch_resid_pre(model, corrupted, cache, metric)
        torch.testing.assert_close(resid[1, -1], metric(clean_logits), atol=0.5, rtol=0.5)
        every = patching.get_act_patch_attn_head_out_all_pos(model, corrupted, cache, metric)
        assert every.shape == (2, 2)
        torch.testing.assert_close(every[1, 1], metric(model(corrupted)), atol=1e-5, rtol=1e-4)
        for z_layer, z_head in ((0, 0), (1, 0)):

            def put(z: torch.Tensor, hook: object, layer: int = z_layer, head: int = z_head) -> torch.Tensor:
                z = z.clone()
                z[:, :, head] = cache["z", layer][:, :, head]
                return z

            own = metric(model.run_with_hooks(corrupted, fwd_hooks=[(f"blocks.{z_layer}.attn.hook_z", put)]))
            torch.testing.assert_close(every[z_layer, z_head], own, atol=1e-5, rtol=1e-4)
        paths = patching.get_act_patch_direct_path(model, corrupted, cache, corrupted_cache, metric, 0, 0, "q")
        assert paths.shape == (2, 2)
        assert (paths[1, 0] - metric(model(corrupted))).abs() > 1e-6


def test_detect_head_reads_our_patterns() -> None:
    from transformer_lens.head_detector import detect_head

    model = make("rope")
    tokens = TASK.encode(["01101"]).tokens
    scores = detect_head(model, tokens, "previous_token_head")
    _, cache = model.run_with_cache(tokens)
    pattern = cache["pattern", 0][0]
    previous = pattern.diagonal(-1, dim1=-2, dim2=-1).sum(-1) / pattern.sum((-1, -2))
    torch.testing.assert_close(scores[0], previous, atol=1e-5, rtol=1e-4)


def test_position_slices_cut_the_position_axis_of_every_activation() -> None:
    model, batch = make("auto2d"), draw(2)
    _, whole = model.run_with_cache(batch.tokens)
    _, cut = model.run_with_cache(batch.tokens, pos_slice=(2, 5))
    for name, tensor in cut.items():
        axis = model.hook_dict[name].pos_dim or 1
        torch.testing.assert_close(tensor, whole[name].narrow(axis, 2, 3))


# ------------------------------------------------------------------ memory and errors


def test_cached_calls_do_not_grow_memory_and_the_model_is_freed() -> None:
    model, batch = make("rope2d"), TASK.sample(16, torch.Generator().manual_seed(0), lengths=100)
    process = psutil.Process()
    for call in range(50):
        model.run_with_cache(batch.tokens, names_filter="blocks.0.attn.hook_pattern")
        if call == 10:
            gc.collect()
            before = process.memory_info().rss
    assert process.memory_info().rss - before < 60e6
    watched = weakref.ref(model)
    del model
    gc.collect()
    assert watched() is None


def test_a_cache_over_budget_is_refused_before_anything_runs() -> None:
    model = make("rope2d")
    tokens = TASK.encode(["01" * 1000]).tokens
    with pytest.raises(UsageError, match=r"budget.*largest: blocks\.0\.attn\.hook_attn_scores"):
        model.run_with_cache(tokens, budget=10_000_000)
    _, cache = model.run_with_cache(tokens, names_filter="blocks.1.hook_resid_post", budget=10_000_000)
    assert list(cache.keys()) == ["blocks.1.hook_resid_post"]


def test_the_estimated_cache_size_is_the_real_one() -> None:
    from models.caching import cache_bytes

    model, batch = make("auto2d"), draw(3)
    _, cache = model.run_with_cache(batch.tokens)
    real = sum(tensor.numel() * tensor.element_size() for tensor in cache.values())
    estimate = cache_bytes(model, list(model.hook_dict), 3, batch.tokens.shape[1])
    assert real <= estimate <= 1.02 * real


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (torch.tensor([[99]]), "token id 99 is outside the vocabulary of 10"),
        (torch.tensor([[-1]]), "token id -1"),
        (torch.zeros(1, 2, 3), "expected long"),
        (torch.zeros(1, 0, dtype=torch.long), "expected long"),
        (torch.zeros(1, 50, dtype=torch.long), "n_ctx of 40"),
        ("abc", "encode strings"),
        (["A1", "Z"], "no token is called 'Z'"),
    ],
)
def test_bad_tokens_are_named(tokens: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make("rope", n_ctx=40)(tokens)


def test_unmatched_names_and_batch_dims_raise() -> None:
    model, batch = make("rope"), draw(2)
    for names in ("nothing", ["blocks.0.hook_resid_pre", "nothing"], lambda name: False):
        with pytest.raises(UsageError):
            model.run_with_cache(batch.tokens, names_filter=names)
    for name in ("blocks.0.attn.hook_zzz", lambda name: False):
        with pytest.raises(UsageError, match="no hook"):
            model.run_with_hooks(batch.tokens, fwd_hooks=[(name, lambda tensor, hook: None)])
    with pytest.raises(UsageError, match="batch axis"):
        model.run_with_cache(batch.tokens, remove_batch_dim=True)


def test_the_same_seed_gives_the_same_weights_and_absent_heads_stay_zero() -> None:
    first, second = make("rope"), make("rope")
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)
    batch = draw(4)
    first(batch.tokens, "loss", targets=batch.targets).backward()
    attn = first.blocks[1].attn
    for weight in (attn.W_Q, attn.W_K, attn.W_V, attn.W_O):
        assert (weight[1:] == 0).all()
        assert (weight.grad[1:] == 0).all()


def test_two_schemes_at_the_embedding_are_refused_and_one_is_added_once() -> None:
    with pytest.raises(UsageError, match="only one scheme can add to the embedding"):
        make(["learned", "sinusoidal"])
    assert sum("pos" in name for name, _ in make("learned").named_parameters()) == 1
    with pytest.raises(UsageError, match=r"learned table of 8"):
        make({"scheme": "learned", "max_positions": 8})(torch.zeros(1, 9, dtype=torch.long))


@pytest.mark.parametrize("mlp", [0, 24])
def test_without_residual_a_sublayer_replaces_the_stream(mlp: int) -> None:
    model, batch = make(residual=False, d_mlp=mlp), draw()
    _, cache = model.run_with_cache(batch.tokens)
    for layer in range(2):
        torch.testing.assert_close(cache["resid_mid", layer], cache["attn_out", layer])
        written = cache["mlp_out", layer] if mlp else cache["attn_out", layer]
        torch.testing.assert_close(cache["resid_post", layer], written)
    rows = torch.tensor([[3], [4], [5], [2]])
    torch.testing.assert_close(
        model(batch.tokens, rows=rows), take_rows(model(batch.tokens), rows), atol=1e-5, rtol=1e-4
    )
