"""Captures and the exact views recomputed from them."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from models.attention import Capture, HeadPattern, LayerRule, open_capture
from models.capture import capture_strings
from models.config import ModelSettings, TaskSettings
from models.errors import UsageError, WorkbenchError
from models.evaluation import answer
from models.positions import ALTERNATIONS, SCHEMES
from models.tasks import CopyBatch, CopyTask
from models.transformer import CopyTransformer
from tests import fake_store

TASK = CopyTask(TaskSettings(lengths=(1, 14)))
SCHEME_VALUES = [*SCHEMES, *ALTERNATIONS, {"scheme": "rope2d", "window": 5}, {"scheme": "alibi", "window": 4}]


def make(scheme: object = "rope2d", strict: bool = False) -> CopyTransformer:
    settings = {"heads": (2, 1), "d_model": 16, "d_head": 8, "init_std": 0.4, "positions": scheme}
    return CopyTransformer(ModelSettings.model_validate(settings | {"strict_mask": strict}), TASK.vocabulary, seed=2)


def captured(model: CopyTransformer, folder: Path, n: int = 4) -> tuple[Capture, CopyBatch]:
    batch = TASK.sample(n, torch.Generator().manual_seed(1))
    capture_strings(model, batch, folder / "one", {"id": "one"})
    return open_capture(folder / "one"), batch


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("scheme", SCHEME_VALUES, ids=str)
def test_views_equal_the_explicit_pattern_of_the_padded_batch(scheme: object, strict: bool, tmp_path: Path) -> None:
    model = make(scheme, strict)
    capture, batch = captured(model, tmp_path)
    _, cache = model.run_with_cache(batch.tokens, names_filter=lambda name: "pattern" in name)
    for index, string in enumerate(capture):
        n = int((~batch.pad_mask[index]).sum())
        for layer, heads in enumerate(capture.heads):
            for head in range(heads):
                exact = cache["pattern", layer][index, head, :n, :n].numpy()
                pattern = string.head(layer, head)
                np.testing.assert_allclose(pattern.tile(slice(None), slice(None)), exact, atol=1e-5)
                np.testing.assert_allclose(pattern.tile(slice(2, 7), slice(1, 4)), exact[2:7, 1:4], atol=1e-5)
                np.testing.assert_allclose(pattern.row(n - 1), exact[-1], atol=1e-5)
                np.testing.assert_allclose(pattern.column_mass([3, 0]), exact[:, [3, 0]], atol=1e-5)
                positions, weights = pattern.top_keys(n - 1, 3)
                np.testing.assert_allclose(weights, np.sort(exact[-1])[::-1][:3], atol=1e-5)
                np.testing.assert_allclose(exact[-1][positions], weights, atol=1e-5)
                view = pattern.pooled(out=4)
                for r in range(len(view.values)):
                    for c in range(view.values.shape[1]):
                        rows, cols = slice(*view.row_edges[r : r + 2]), slice(*view.col_edges[c : c + 2])
                        assert view.values[r, c] == pytest.approx(exact[rows, cols].max(), abs=1e-5)


def test_pooling_in_small_blocks_and_of_a_part_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    string = captured(make(), tmp_path)[0].string(0)
    pattern = string.head(0, 1)
    whole = pattern.pooled(out=5)
    monkeypatch.setattr("models.blockwise.ROWS", 3)
    monkeypatch.setattr("models.blockwise.KEYS", 4)
    np.testing.assert_array_equal(pattern.pooled(out=5).values, whole.values)
    part = pattern.pooled(slice(3, 9), slice(2, 8), out=100)
    np.testing.assert_allclose(part.values, pattern.tile(slice(3, 9), slice(2, 8)), atol=1e-6)


def test_pooling_keeps_a_stripe_one_cell_wide() -> None:
    n = 500
    k = np.zeros((n, 2), np.float32)
    k[123] = [30, 0]
    q = np.tile(np.array([[1.0, 0.0]], np.float32), (n, 1))
    scores = np.where(np.tril(np.ones((n, n), bool)), q @ k.T, -np.inf)
    lse = np.log(np.exp(scores).sum(1)).astype(np.float32)
    view = HeadPattern(q, k, lse, LayerRule("nope", scale=1.0)).pooled(out=20)
    stripe = int(np.searchsorted(view.col_edges, 123, side="right")) - 1
    assert (view.values[stripe + 1 :, stripe] > 0.99).all()


def test_no_weight_is_over_one_whatever_the_rounding() -> None:
    k = np.ones((40, 2), np.float32)
    pattern = HeadPattern(k, k, np.full(40, 1.999999, np.float32), LayerRule("nope", scale=1.0))
    assert pattern.tile(slice(0, 40), slice(0, 40)).max() == 1
    assert pattern.pooled(out=4).values.max() == 1


def test_grouped_query_heads_share_keys(tmp_path: Path) -> None:
    capture, _ = captured(make(), tmp_path)
    from safetensors.numpy import load_file, save_file

    path = capture.folder / "string-0000.safetensors"
    tensors = load_file(path)
    save_file(tensors | {"k.0": tensors["k.0"][:1]}, path)
    grouped = open_capture(capture.folder).string(0)
    np.testing.assert_array_equal(grouped.head(0, 1).k, grouped.head(0, 0).k)


def test_what_a_captured_string_says_is_what_the_batch_says(tmp_path: Path) -> None:
    model = make("auto2d")
    capture, batch = captured(model, tmp_path)
    outcome = answer(model, batch)
    _, cache = model.run_with_cache(batch.tokens)
    for index, string in enumerate(capture):
        n = int((~batch.pad_mask[index]).sum())
        assert string.token_names == batch.token_names(index)
        assert string.length == int(batch.lengths[index])
        assert string.exact == bool(outcome.exact[index])
        assert (-1 if string.first_error is None else string.first_error) == int(outcome.first_error[index])
        np.testing.assert_array_equal(string.source_position, batch.source_position[index, :n])
        np.testing.assert_array_equal(string.targets, batch.targets[index, :n])
        np.testing.assert_array_equal(string.anchor_positions, batch.anchor_positions[index])
        rows = batch.scored_rows[0][index, : string.length + 1]
        np.testing.assert_array_equal(string.predicted[rows], outcome.predicted[index, : string.length + 1])
        for layer in range(2):
            for mine, point in ((string.coords(layer), "hook_coords"), (string.steps(layer), "hook_step")):
                theirs = cache[f"blocks.{layer}.attn.{point}"][index, :n]
                np.testing.assert_allclose(mine, theirs, atol=1e-5)
            written = cache.stack_head_results().unflatten(0, (2, 2))[layer, : capture.heads[layer], index, :n]
            np.testing.assert_allclose(string.output_norms(layer), written.norm(dim=-1), atol=1e-4)
    assert captured(make("rope"), tmp_path / "1d")[0].string(0).steps(0) is None


def test_reading_needs_no_torch(tmp_path: Path) -> None:
    captured(make(), tmp_path)
    code = (
        "import sys, models.attention as a; from pathlib import Path; "
        f"a.open_capture(Path({str(tmp_path / 'one')!r})).string(0).head(0, 0).pooled(); "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_broken_captures_and_wrong_requests_are_named(tmp_path: Path) -> None:
    capture, _ = captured(make(), tmp_path)
    string = capture.string(0)
    for request, message in (
        (lambda: capture.string(9), "no string 9"),
        (lambda: string.head(0, 2), "layer 0 has no head 2"),
        (lambda: string.head(5, 0), "no layer 5"),
        (lambda: string.head(-1, 0), "no layer -1"),
        (lambda: string.head(0, 0).row(10_000), "no query row 10000"),
        (lambda: string.head(0, 0).tile(slice(5, 5), slice(None)), "hold no position"),
        (lambda: string.head(0, 0).tile(slice(0, 5, 2), slice(None)), "has a step"),
        (lambda: string.head(0, 0).pooled(out=0), "at least 1"),
    ):
        with pytest.raises(UsageError, match=message):
            request()
    (capture.folder / "string-0000.safetensors").write_bytes(b"junk")
    with pytest.raises(WorkbenchError, match="cannot be read"):
        open_capture(capture.folder).string(0).head(0, 0)
    for broken in ("{", json.dumps({"format": 99}), "[]", json.dumps({"format": 1})):
        (capture.folder / "capture.json").write_text(broken)
        with pytest.raises(WorkbenchError):
            open_capture(capture.folder)


def test_single_weights_are_those_of_the_rows(tmp_path: Path) -> None:
    folder = fake_store.add_capture(tmp_path, ["rope"], [2], n=90, strings=1)
    pattern = open_capture(folder).string(0).head(0, 1)
    queries = np.array([3, 150, 20, *range(95, 180)])
    keys = np.minimum(queries, np.arange(len(queries)) * 2)
    expected = [pattern.row(int(q))[k] for q, k in zip(queries, keys, strict=True)]
    np.testing.assert_allclose(pattern.weights_at(queries, keys), expected, rtol=1e-6)
    assert pattern.weights_at(queries[:0], keys[:0]).shape == (0,)
