"""Theorem 3.1 of [C2D] as a check: contradictions in its scope, and how far its statement holds."""

import itertools

import numpy as np
import pytest
import torch
from scipy.optimize import linprog

from models.config import ModelSettings, Recipe, TaskSettings
from models.constructions import contradict
from models.constructions.base import architecture, planes
from models.errors import UsageError
from models.evaluation import answer
from models.tasks import CopyTask
from models.training import Trainer
from models.transformer import CopyTransformer

TASK = CopyTask(TaskSettings())
V = len(TASK.vocabulary)
SCOPE = {"heads": (1,), "d_model": 16, "d_head": 8, "d_mlp": 0, "final_norm": False, "residual": False, "init_std": 0.5}


def random_model(scheme: object, seed: int, **changes: object) -> CopyTransformer:
    settings = ModelSettings.model_validate(SCOPE | {"positions": scheme, "normalization": "none"} | changes)
    return CopyTransformer(settings, TASK.vocabulary, seed=seed)


def right(model: CopyTransformer, string: str, index: int) -> bool:
    """Is the copied token right, among the two source tokens."""
    batch = TASK.encode([string])
    logits = model(batch.tokens)[0, int(batch.scored_rows[0][0, index - 1])].detach()
    target = int(string[index - 1])
    return bool(logits[target] > logits[1 - target])


SCHEMES = ["rope", "nope", "alibi", "periodic-rope", "random-rope", {"scheme": "rope", "window": 9}]


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_any_model_in_scope_contradicts_itself(scheme: object, seed: int) -> None:
    model = random_model(scheme, seed)
    found = contradict(model)
    assert found.longest <= 6 and found.wrong
    for case in found.cases:
        assert len(case.string) <= found.longest and case.target == int(case.string[case.index - 1])
        assert (case.margin > 0) == right(model, case.string, case.index)
    scale = sum(abs(case.term) for case in found.cases)
    assert found.total <= 1e-5 * scale
    if found.longest == 6:
        assert abs(found.total) <= 1e-5 * scale


def test_norms_before_attention_are_within_scope() -> None:
    assert contradict(random_model("rope", 0, normalization="RMS", norm_placement="pre")).wrong


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"residual": True}, "a residual connection"),
        ({"heads": (2,)}, "2 heads"),
        ({"heads": (1, 1)}, "2 layers"),
        ({"d_mlp": 8}, "an MLP"),
        ({"normalization": "RMS", "final_norm": True}, "a norm after attention"),
        ({"positions": "rope2d"}, "the scheme rope2d"),
        ({"positions": "learned"}, "the scheme learned"),
    ],
)
def test_models_outside_the_scope_are_refused(changes: dict, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        contradict(random_model("rope", 0, **changes))


def copier_of_five() -> CopyTransformer:
    """One RoPE head in the theorem's scope that copies every string of at most 5 tokens.

    Both source tokens speak for 0, all anchors for 1. What a token at a distance must add, exp(score), solves one
    linear program for each query token; any finite table of scores is then a sum of RoPE planes.
    """
    v, sign = TASK.vocabulary, np.where(np.arange(V) < 2, 1.0, -1.0)
    queries, n_planes = (0, 1, v.delimiter[-1]), 16
    frequencies = 2 * np.pi * np.arange(n_planes) / 31
    keys = np.zeros((V, len(queries) * n_planes), complex)
    for block, query in enumerate(queries):
        wanted = []
        for string in map("".join, (s for n in range(1, 6) for s in itertools.product("01", repeat=n))):
            batch = TASK.encode([string])
            for token, position in zip(string, batch.scored_rows[0][0].tolist(), strict=False):
                read = batch.tokens[0, : position + 1].tolist()
                if read[-1] == query:
                    wanted.append((read[::-1], 1 if token == "0" else -1))
        places = sorted({place for read, _ in wanted for place in enumerate(read)})
        rows = np.array(
            [[-y * sign[c] if d < len(read) and read[d] == c else 0.0 for d, c in places] for read, y in wanted]
        )
        rows = np.hstack([rows, np.ones((len(rows), 1))])
        bounds = [(0.01, 100.0)] * len(places) + [(None, None)]
        solved = linprog(np.eye(len(bounds))[-1] * -1, A_ub=rows, b_ub=np.zeros(len(rows)), bounds=bounds)
        scores = np.log(solved.x[:-1])
        for token in range(V):
            of = [i for i, (_, c) in enumerate(places) if c == token]
            if of:
                angles = np.outer([places[i][0] for i in of], frequencies)
                fit = np.linalg.lstsq(np.hstack([np.cos(angles), np.sin(angles)]), scores[of], rcond=None)[0]
                keys[token, block * n_planes :][:n_planes] = fit[:n_planes] + 1j * fit[n_planes:]

    rope = {"scheme": "rope", "frequencies": [*frequencies] * len(queries)}
    model = CopyTransformer(
        architecture(v, heads=(1,), d_head=2 * keys.shape[1], residual=False, positions=rope), TASK.vocabulary
    )
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
        attn = model.blocks[0].attn
        model.embed.W_E[:, :V], model.unembed.W_U[-V:] = torch.eye(V), torch.eye(V)
        for block, query in enumerate(queries):
            own = np.repeat(np.eye(len(queries))[block], n_planes).astype(complex)
            attn.W_Q[0, query] = planes(own) / attn.scale
        for token in range(V):
            attn.W_K[0, token] = planes(keys[token])
        attn.W_V[0, :V, 0], attn.W_V[0, :V, 1] = torch.tensor(sign), 10.0
        attn.W_O[0, 0, -V], attn.W_O[0, 0, 1 - V] = 1.0, -1.0
        attn.W_O[0, 1, -V : 2 - V] = 1.0
    return model


def test_five_tokens_are_not_enough_for_a_contradiction() -> None:
    """The theorem says 5. Its proof passes over a copied token that differs; this head copies all 62 strings."""
    model = copier_of_five()
    for n in range(1, 6):
        batch = TASK.encode(["".join(string) for string in itertools.product("01", repeat=n)])
        predicted = model(batch.tokens).argmax(-1)
        copied = batch.targets < 2
        scored = batch.loss_mask & copied
        assert bool((predicted[scored] == batch.targets[scored]).all())
    found = contradict(model)
    assert found.longest == 6 and len(found.wrong) == 1 and len(found.wrong[0].string) == 6


@pytest.mark.parametrize("values", [(1.0, -1.0), (-1.0, 1.0)])
def test_five_tokens_are_enough_where_0_and_1_speak_for_different_tokens(values: tuple[float, float]) -> None:
    model = random_model("rope", 1, tied=False)
    with torch.no_grad():
        for weight in (model.unembed.W_U, model.blocks[0].attn.W_O, model.blocks[0].attn.W_V):
            weight.zero_()
        direction = torch.linalg.pinv(model.embed.W_E)[:, :2] @ torch.tensor(values)
        model.blocks[0].attn.W_V[0, :, 0] = direction
        model.blocks[0].attn.W_O[0, 0, 0] = 1.0
        model.unembed.W_U[0, 0] = 1.0
    found = contradict(model)
    assert found.longest <= 5 and found.wrong and found.total <= 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_with_residual_and_mlp_one_layer_learns_them_all(seed: int) -> None:
    """Outside the theorem's scope: one layer of RoPE with residual connection and MLP copies all 62 short strings."""
    recipe = Recipe.model_validate(
        {
            "seed": seed,
            "task": {"lengths": [1, 5], "distribution": "uniform"},
            "model": {"heads": [1], "d_model": 64, "d_head": 64, "positions": "rope"},
            "train": {"steps": 1000, "learning_rate": 3e-3, "warmup": 50},
        }
    )
    trainer = Trainer(recipe, "cpu")
    for _ in trainer.run():
        pass
    strings = ["".join(tokens) for n in range(1, 6) for tokens in itertools.product("01", repeat=n)]
    assert len(strings) == 62
    assert bool(answer(trainer.model.eval(), trainer.task.encode(strings)).exact.all())
