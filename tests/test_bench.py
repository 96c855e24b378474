"""Benchmarks: what a measurement says, the JSON contract, and that baselines are of the shape they claim."""

import json

import pytest
import torch

from models.config import Recipe
from models.training import Trainer
from workbench import bench
from workbench.bench import Measurement
from workbench.bench.training import SHAPE, PlainModel, _boot_native, _flops
from workbench.cli import main


def test_a_target_is_about_the_ratio_where_there_is_one() -> None:
    fast = Measurement("speed", 30.0, "steps/s", 10.0, 3.0, target=3.0)
    assert fast.met is True
    assert Measurement("speed", 29.0, "steps/s", 10.0, 2.9, target=3.0).met is False
    assert Measurement("time", 4.0, "s", 1.0, 4.0, better="lower", target=3.9).met is False
    assert Measurement("time", 4.0, "ms", better="lower", target=5.0).met is True
    assert Measurement("share", 0.4, "").met is None


def test_bench_json_has_the_contracts_keys(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    one = Measurement("train", 30.0, "steps/s", 10.0, 3.0, target=3.0, against="a plain loop")
    monkeypatch.setattr(bench, "_all", lambda progress: iter([one]))
    assert main(["bench", "--json", "-"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["measurements"][0].items() >= {"name": "train", "value": 30.0, "unit": "steps/s"}.items()
    assert {"baseline", "ratio"} <= result["measurements"][0].keys()
    assert result["machine"]["cores"] >= 1


def test_baselines_have_our_shape_and_read_the_same_batches() -> None:
    trainer = Trainer(Recipe.model_validate(SHAPE), "cpu")
    ours = trainer.model
    batch = trainer.task.sample(3, torch.Generator().manual_seed(0))
    plain, native = PlainModel(ours.cfg.d_vocab), _boot_native(trainer)
    for baseline in (plain, native):
        assert baseline(batch.tokens).shape == (3, batch.tokens.shape[1], ours.cfg.d_vocab)
    block = sum(weight.numel() for name, weight in ours.named_parameters() if weight.ndim == 3 or ".mlp." in name)
    plain_block = sum(w.numel() for name, w in plain.named_parameters() if w.ndim == 2 and "embed" not in name)
    assert block == plain_block


def test_necessary_operations_are_counted_by_hand() -> None:
    values = {
        "task": {"a": 1, "b": 1},
        "model": {"heads": [1], "d_model": 2, "d_head": 2, "d_mlp": 3, "positions": "rope"},
    }
    trainer = Trainer(Recipe.model_validate(values), "cpu")
    batch = trainer.task.encode(["01"])
    scored, vocabulary = 3, trainer.model.cfg.d_vocab
    projections, after = vocabulary * 3 * 2 * 2, scored * (2 * 2 + 2 * 2 * 3 + 2 * vocabulary)
    pairs = sum(position + 1 for position in (3, 4, 5))  # what the three scored queries see
    assert _flops(trainer, batch) == 6 * (projections + after + 2 * 2 * pairs)
