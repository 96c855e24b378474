"""Writing captures: what they hold, what they cost, and what is left when they fail."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from models import capture as capturing
from models.attention import Capture, open_capture
from models.capture import capture_strings, find_failures, hooks_named
from models.config import ModelSettings, TaskSettings
from models.errors import UsageError
from models.evaluation import answer
from models.tasks import CopyBatch, CopyTask
from models.transformer import CopyTransformer

TASK = CopyTask(TaskSettings(lengths=(1, 14)))


def make(scheme: object = "rope2d", **more: object) -> CopyTransformer:
    settings = {"heads": (2, 1), "d_model": 16, "d_head": 8, "init_std": 0.4, "positions": scheme}
    return CopyTransformer(ModelSettings.model_validate(settings | more), TASK.vocabulary, seed=2)


def captured(
    model: CopyTransformer, folder: Path, extra: tuple[str, ...] = (), n: int = 3
) -> tuple[Capture, CopyBatch]:
    batch = TASK.sample(n, torch.Generator().manual_seed(1))
    capture_strings(model, batch, folder / "one", {"id": "one"}, extra=extra)
    return open_capture(folder / "one"), batch


def test_extra_activations_are_those_of_the_cache(tmp_path: Path) -> None:
    """Of every hook of token shape at once, aliases of one another and padded heads included."""
    model = make("auto2d", d_mlp=24)
    names = tuple(name for name in model.hook_dict if not name.endswith(("hook_pattern", "hook_attn_scores")))
    capture, batch = captured(model, tmp_path, names)
    _, cache = model.run_with_cache(batch.tokens, names_filter=list(names))
    assert capture.about["extra"] == list(names)
    for index, string in enumerate(capture):
        n = int((~batch.pad_mask[index]).sum())
        assert set(string.extra_names) == set(names)
        for name in names:
            np.testing.assert_allclose(string.extra(name), cache[name][index, :n], atol=1e-5, err_msg=name)


def test_short_names_stand_for_every_layer() -> None:
    model = make()
    assert hooks_named(model, ["resid_post"]) == ("blocks.0.hook_resid_post", "blocks.1.hook_resid_post")
    assert hooks_named(model, ["blocks.1.attn.hook_z", "embed"]) == ("hook_embed", "blocks.1.attn.hook_z")
    assert hooks_named(model, ["z", "blocks.0.attn.hook_z", "z"]) == ("blocks.0.attn.hook_z", "blocks.1.attn.hook_z")
    assert hooks_named(model, []) == ()


@pytest.mark.parametrize("name", ["pattern", "attn_scores", "blocks.0.attn.hook_pattern"])
def test_patterns_are_refused_since_they_are_recomputed(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="recomputed exactly"):
        captured(make(), tmp_path, (name,))
    assert list(tmp_path.iterdir()) == []


def test_wrong_names_are_met_with_the_right_ones(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Did you mean 'resid_post'") as error:
        hooks_named(make(), ["resid_pots"])
    assert "pattern" not in str(error.value)
    string = captured(make(), tmp_path)[0].string(0)
    assert string.extra_names == ()
    with pytest.raises(UsageError, match=r"Known: none.*--names"):
        string.extra("blocks.0.hook_resid_post")


def test_what_a_capture_always_holds_does_not_depend_on_extras(tmp_path: Path) -> None:
    plain, _ = captured(make(), tmp_path)
    more, _ = captured(make(), tmp_path / "more", ("resid_post", "q_input", "result"))
    for one, other in zip(plain, more, strict=True):
        held = {name: facts for name, facts in other.tensors.items() if not name.startswith("extra.")}
        assert one.tensors == held and (one.exact, one.first_error) == (other.exact, other.first_error)
        np.testing.assert_array_equal(one.predicted, other.predicted)
        np.testing.assert_allclose(one.head(1, 0).q, other.head(1, 0).q, atol=1e-5)


def test_norms_are_written_out_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = captured(make(), tmp_path)
    monkeypatch.setattr(capturing, "NORM_BLOCK", 5)
    parts, _ = captured(make(), tmp_path / "parts")
    np.testing.assert_allclose(parts.string(0).output_norms(0), whole.string(0).output_norms(0), rtol=1e-6)


def test_a_string_is_seen_whole_however_few_rows_are_scored_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = captured(make(), tmp_path)
    monkeypatch.setattr("models.evaluation.ROWS_AT_ONCE", 3)
    again, _ = captured(make(), tmp_path / "again")
    for one, other in zip(whole, again, strict=True):
        np.testing.assert_array_equal(one.head(1, 0).q, other.head(1, 0).q)
        np.testing.assert_array_equal(one.predicted, other.predicted)


def test_size_is_linear_in_length(tmp_path: Path) -> None:
    model = make()
    sizes = []
    for n in (500, 1000, 2000):
        batch = TASK.sample(1, torch.Generator().manual_seed(0), lengths=n)
        capture_strings(model, batch, tmp_path / str(n), {"id": str(n)})
        sizes.append((tmp_path / str(n) / "string-0000.safetensors").stat().st_size)
    # per token: 3 heads x (q, k: 2 x 8 floats, lse, norm) + 2 layers x 2 coordinates, and 6 integers
    per_token = 4 * (3 * (2 * 8 + 2) + 2 * 2 + 6 + 1)
    assert (sizes[2] - sizes[1]) / 2000 == pytest.approx((sizes[1] - sizes[0]) / 1000, rel=0.01)
    assert (sizes[2] - sizes[1]) / 2000 <= per_token


def test_an_interrupted_capture_leaves_nothing(tmp_path: Path) -> None:
    batch = TASK.sample(3, torch.Generator().manual_seed(1))

    def stop(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        capture_strings(make(), batch, tmp_path / "one", {"id": "one"}, progress=stop)
    assert list(tmp_path.iterdir()) == []
    captured(make(), tmp_path)
    with pytest.raises(UsageError, match="exists already"):
        captured(make(), tmp_path)


def test_progress_adds_up_to_the_strings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capturing, "BLOCK_ELEMENTS", 200)
    batch = TASK.sample(3, torch.Generator().manual_seed(1))
    seen: list[float] = []
    capture_strings(make(), batch, tmp_path / "one", {"id": "one"}, progress=seen.append)
    assert sum(seen) == pytest.approx(3) and min(seen) > 0 and len(seen) > 10
    exact = make().run_with_cache(batch.select([0]).tokens, names_filter="blocks.0.attn.hook_pattern")[1]
    tile = open_capture(tmp_path / "one").string(0).head(0, 0).tile(slice(None), slice(None))
    np.testing.assert_allclose(tile, exact["blocks.0.attn.hook_pattern"][0, 0], atol=1e-5)


def test_failures_found_are_failures(tmp_path: Path) -> None:
    model = make()
    batch, tried = find_failures(model, TASK, strings=3, length=(5, 9), distribution="uniform", seed=0, tries=100)
    assert batch is not None and len(batch) == 3 and tried == 32
    assert not answer(model, batch).exact.any()
    nothing, tried = find_failures(model, TASK, strings=3, length=5, distribution="uniform", seed=0, tries=0)
    assert nothing is None and tried == 0


def test_long_strings_are_tried_a_few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def count(model: CopyTransformer, batch: CopyBatch) -> object:
        sizes.append(len(batch))
        assert batch.tokens.numel() <= 250 or len(batch) == 1
        return answer(model, batch)

    monkeypatch.setattr(capturing, "answer", count)
    monkeypatch.setattr(capturing, "TOKENS_AT_ONCE", 200)
    search: Callable[..., object] = find_failures
    options = {"distribution": "uniform", "seed": 0, "tries": 9}
    search(make(), TASK, strings=9, length=(10, 20), **options)
    search(make(), TASK, strings=2, length=500, **options)
    assert sizes == [5, 4, 1, 1]
