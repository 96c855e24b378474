"""Training: the gradient of sorted micro-batches, schedules, resuming bit for bit, divergence."""

import math

import pytest
import torch

from models.config import Recipe, TrainSettings
from models.errors import TrainingDiverged, UsageError
from models.training import Trainer, learning_rate, load_weights, micro_batches, step_seed


def recipe(**train: object) -> Recipe:
    values = {"steps": 12, "warmup": 3, "evaluate_every": 0, "evaluation_strings": 2, "batch_size": 8} | train
    return Recipe.model_validate(
        {
            "task": {"lengths": [1, 9]},
            "model": {"heads": [2, 1], "d_model": 16, "d_head": 8, "positions": "hrope"},
            "train": values,
        }
    )


def test_sorted_micro_batches_give_the_gradient_of_the_padded_batch() -> None:
    trainer = Trainer(recipe(), "cpu")
    batch = trainer.task.sample(16, torch.Generator().manual_seed(1))
    model = trainer.model
    model(batch.tokens, "loss", targets=batch.targets).backward()
    whole = {name: weight.grad.clone() for name, weight in model.named_parameters()}
    model.zero_grad()
    scored = int(batch.loss_mask.sum())
    for part in micro_batches(batch, 3):
        (trainer._summed_loss(part) / scored).backward()
    for name, weight in model.named_parameters():
        torch.testing.assert_close(
            weight.grad, whole[name], atol=1e-5 * float(whole[name].abs().max() + 1e-6), rtol=1e-5
        )


def test_micro_batches_have_every_string_once_and_about_equally_many_tokens() -> None:
    task = Trainer(recipe(), "cpu").task
    batch = task.sample(64, torch.Generator().manual_seed(2), lengths=(1, 100))
    parts = list(micro_batches(batch, 16))
    assert len(parts) == 4
    lengths = torch.cat([part.lengths for part in parts])
    assert lengths.tolist() == sorted(batch.lengths.tolist(), reverse=True)
    tokens = [int((~part.pad_mask).sum()) for part in parts]
    assert max(tokens) - min(tokens) <= 2 * batch.tokens.shape[1]
    assert [len(part) for part in micro_batches(batch.select([0]), 16)] == [1]
    assert sum(len(part) for part in micro_batches(batch, 1)) == 64


def test_the_weights_do_not_depend_on_the_cores_that_share_the_micro_batches() -> None:
    before, trained = torch.get_num_threads(), []
    try:
        for cores in (1, 2, 3):
            torch.set_num_threads(cores)
            trainer = Trainer(recipe(micro_batch=2), "cpu")
            list(trainer.run())
            assert torch.get_num_threads() == cores
            trained.append(trainer.weights())
    finally:
        torch.set_num_threads(before)
    for name, weight in trained[0].items():
        assert all(torch.equal(weight, other[name]) for other in trained[1:]), name


def test_edge_weights_count_the_first_token_and_eos_as_often_as_they_say() -> None:
    trainer = Trainer(recipe(edge_weights=[3, 5]), "cpu")
    batch = trainer.task.encode(["011", "1"])
    per_token = trainer.model(batch.tokens, "loss", targets=batch.targets, loss_per_token=True).detach()
    losses = [per_token[row][batch.loss_mask[row]] for row in range(2)]
    expected = sum(row.sum() + 2 * row[0] + 4 * row[-1] for row in losses)
    torch.testing.assert_close(trainer._summed_loss(batch).detach(), expected)
    loss, _, _ = trainer.train_on([batch])
    assert loss == pytest.approx(float(expected) / (2 * (3 + 5) + 2))


def test_accumulated_batches_equal_one_large_batch_in_what_they_optimise() -> None:
    split = Trainer(recipe(accumulation=2, batch_size=4, micro_batch=2), "cpu")
    batches = [split.task.sample(4, torch.Generator().manual_seed(seed)) for seed in (1, 2)]
    split.train_on(batches)
    again = Trainer(recipe(batch_size=8, micro_batch=4), "cpu")
    texts = [batch.strings[row, : int(batch.lengths[row])].tolist() for batch in batches for row in range(4)]
    again.train_on([again.task.encode(texts)])
    for one, other in zip(split.model.parameters(), again.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("interrupted_at", [1, 5, 11])
def test_a_resumed_run_ends_with_bit_identical_weights(interrupted_at: int) -> None:
    straight = Trainer(recipe(), "cpu")
    list(straight.run())
    first = Trainer(recipe(), "cpu")
    for record in first.run():
        if record.step == interrupted_at:
            break
    state = first.state()
    list(first.run())  # going on with the first one must not change the state that was taken
    second = Trainer(recipe(), "cpu", state)
    assert second.step == interrupted_at
    records = list(second.run())
    assert records[0].step == interrupted_at + 1
    for name, weight in straight.weights().items():
        assert torch.equal(weight, second.weights()[name]), name


def test_records_are_due_at_evaluations_checkpoints_and_about_a_thousand_times() -> None:
    trainer = Trainer(recipe(steps=20, evaluate_every=6, checkpoint_every=7), "cpu")
    records = list(trainer.run())
    assert [r.step for r in records] == list(range(1, 21))
    assert [r.step for r in records if r.evaluation] == [6, 12, 18, 20]
    assert records[5].as_dict()["evaluation"][0]["length"] == 9
    assert "evaluation" not in records[0].as_dict()
    assert all(math.isfinite(r.loss) and r.tokens_per_second > 0 and r.grad_norm > 0 for r in records)


def test_absent_heads_stay_zero_and_gains_are_not_decayed() -> None:
    trainer = Trainer(recipe(weight_decay=5.0, learning_rate=1e-9, warmup=0, steps=2), "cpu")
    list(trainer.run())
    attn = trainer.model.blocks[1].attn
    assert all((weight[1:] == 0).all() for weight in (attn.W_Q, attn.W_K, attn.W_V, attn.W_O))
    groups = trainer.optimizer.param_groups
    assert {p.ndim for p in groups[1]["params"]} == {1} and groups[1]["weight_decay"] == 0
    assert min(p.ndim for p in groups[0]["params"]) >= 2 and groups[0]["weight_decay"] == 5.0


def test_schedules() -> None:
    base = {"steps": 100, "warmup": 10, "learning_rate": 1.0, "final_learning_rate": 0.1}
    cosine = TrainSettings.model_validate(base)
    assert [learning_rate(cosine, s) for s in (1, 5, 10)] == pytest.approx([0.1, 0.5, 1.0])
    assert learning_rate(cosine, 55) == pytest.approx(0.55)
    assert learning_rate(cosine, 100) == pytest.approx(0.1)
    wsd = TrainSettings.model_validate(base | {"schedule": "wsd", "decay_fraction": 0.2})
    assert [learning_rate(wsd, s) for s in (10, 50, 80, 90, 100)] == pytest.approx([1, 1, 1, 0.55, 0.1])
    constant = TrainSettings.model_validate(base | {"schedule": "constant"})
    assert learning_rate(constant, 100) == 1.0


def test_step_seeds_differ() -> None:
    seeds = {step_seed(seed, step) for seed in range(50) for step in range(1, 200)}
    assert len(seeds) == 50 * 199


def test_divergence_names_step_and_place_and_keeps_the_last_good_state() -> None:
    trainer = Trainer(recipe(steps=6), "cpu")
    with pytest.raises(TrainingDiverged, match=r"step 4: .*weight blocks\.1\.attn\.W_V.*learning_rate"):
        for record in trainer.run():
            if record.step == 3:
                with torch.no_grad():
                    trainer.model.blocks[1].attn.W_V[0, 0, 0] = math.nan
    assert trainer.step == 3


def test_divergence_in_the_forward_pass_names_the_activation() -> None:
    trainer = Trainer(recipe(steps=6), "cpu")
    with torch.no_grad():
        trainer.model.blocks[1].mlp.W_in.fill_(3e38)
    with pytest.raises(TrainingDiverged, match=r"activation blocks\.1\.mlp\."):
        list(trainer.run())


def test_weights_that_do_not_fit_are_named() -> None:
    trainer = Trainer(recipe(), "cpu")
    weights = trainer.weights()
    with pytest.raises(UsageError, match=r"embed\.W_E has shape \(3, 4\)"):
        load_weights(trainer.model, weights | {"embed.W_E": torch.zeros(3, 4)})
    del weights["embed.W_E"]
    with pytest.raises(UsageError, match=r"embed\.W_E missing or unknown"):
        load_weights(trainer.model, weights)
    with pytest.raises(UsageError, match="the checkpoint lacks"):
        Trainer(recipe(), "cpu", {f"weights.{k}": v for k, v in trainer.weights().items()})


def test_bfloat16_trains_and_keeps_float32_weights() -> None:
    trainer = Trainer(recipe(steps=30, precision="bfloat16", learning_rate=5e-3, warmup=5), "cpu")
    losses = [record.loss for record in trainer.run()]
    assert losses[-1] < losses[0]
    assert all(weight.dtype == torch.float32 for weight in trainer.model.parameters())


def test_an_absent_device_is_named() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(UsageError, match="'cuda' was asked for"):
        Trainer(recipe(), "cuda")
    with pytest.raises(UsageError, match="unknown device 'tpu'"):
        Trainer(recipe(), "tpu")
