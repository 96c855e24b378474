"""Hand-built models: they copy what they claim to and no more, and every head does what it was built for."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from models.config import Mark
from models.constructions import CONSTRUCTIONS
from models.constructions.base import ANY, Construction, add
from models.constructions.fixed import F_LARGE, certified_gain
from models.errors import UsageError
from models.evaluation import answer, evaluate
from models.recipes import dump_recipe, parse_recipe
from models.tasks import CopyBatch, CopyTask
from models.transformer import CopyTransformer

MODELS: dict[str, CopyTransformer] = {}
MARKS = [(name, mark) for name in CONSTRUCTIONS for mark in CONSTRUCTIONS[name].marks]
LENGTHS = (1, 2, 20, 100, 500)
ROLES = [(name, n) for name in CONSTRUCTIONS for n in LENGTHS if n <= CONSTRUCTIONS[name].longest]


def built(name: str) -> CopyTransformer:
    if name not in MODELS:
        MODELS[name] = CONSTRUCTIONS[name].build()
    return MODELS[name]


def draw(name: str, length: int, distribution: str, n: int = 3) -> CopyBatch:
    generator = torch.Generator().manual_seed(length)
    return CopyTask(CONSTRUCTIONS[name].task).sample(n, generator, lengths=length, distribution=distribution)


def patterns(name: str, batch: CopyBatch) -> dict[str, Tensor]:
    _, cache = built(name).run_with_cache(batch.tokens, names_filter=lambda hook: hook.endswith("hook_pattern"))
    return dict(cache)


@pytest.mark.parametrize(
    ("name", "mark"), MARKS, ids=[f"{name}-{mark.length}-{mark.at_least:g}" for name, mark in MARKS]
)
def test_models_copy_what_they_claim_and_fail_where_they_must(name: str, mark: Mark) -> None:
    scores = evaluate(
        built(name),
        CopyTask(CONSTRUCTIONS[name].task),
        intervals=[(mark.length, mark.length)],
        distributions=mark.distributions,
        strings=mark.strings if mark.length <= 500 else 3,
    )
    for score in scores:
        assert mark.at_least <= score.exact_match <= mark.at_most, score


@pytest.mark.parametrize("name", [name for name in CONSTRUCTIONS if CONSTRUCTIONS[name].marks])
def test_every_short_length_is_copied(name: str) -> None:
    entry = CONSTRUCTIONS[name]
    scores = evaluate(
        built(name), CopyTask(entry.task), intervals=[(1, 40)], distributions=entry.distributions, strings=60
    )
    assert [score.exact_match for score in scores] == [1.0] * len(entry.distributions)


def test_claims_are_as_wide_as_the_issue_asks() -> None:
    claimed = {
        name: max(
            mark.length
            for mark in CONSTRUCTIONS[name].marks
            if mark.at_least == 1 and set(ANY) <= set(mark.distributions)
        )
        for name in ("rope2d-aligned", "rope2d-aligned-100", "rope-locator", "rope-locator-4", "rope-hybrid")
    }
    assert min(claimed["rope2d-aligned"], claimed["rope2d-aligned-100"], claimed["rope-locator-4"]) >= 1000
    assert claimed["rope-locator"] >= 200 and claimed["rope-hybrid"] >= 100


# ------------------------------------------------------------------ roles, seen directly in the patterns


def mass_at_source(pattern: Tensor, batch: CopyBatch) -> Tensor:
    rows, _ = batch.scored_rows
    return pattern[torch.arange(len(batch))[:, None], rows, batch.source_position.gather(1, rows)]


def mass_on_anchors(pattern: Tensor, batch: CopyBatch) -> Tensor:
    anchors = batch.anchor_positions[:, None].expand(-1, pattern.shape[1], -1)
    return pattern.gather(2, anchors).sum(-1)


def mass_on_duplicates(pattern: Tensor, batch: CopyBatch) -> Tensor:
    same = (batch.tokens[:, :, None] == batch.tokens[:, None]).tril(-1)
    return (pattern * same).sum(-1)[same.any(-1)]


def mass_on_role(role: str, pattern: Tensor, batch: CopyBatch) -> Tensor:
    """What a head of this role has on its claimed keys, one value an eligible row; 1 is perfect."""
    kind, _, argument = role.rstrip(")").partition("(")
    n_tokens = pattern.shape[-1]
    position = torch.arange(n_tokens)
    match kind:
        case "aligned" | "induction":  # the same key on unique contexts, where induction is measured
            return mass_at_source(pattern, batch)
        case "locator":
            return mass_on_anchors(pattern, batch)
        case "look-back":
            return pattern.diagonal(-int(argument), 1, 2)
        case "self":
            return pattern.diagonal(0, 1, 2)
        case "sink":
            return pattern[:, :, 0]
        case "duplicate":
            return mass_on_duplicates(pattern, batch)
        case "diffuse":
            return 1 - (pattern * (position[:, None] + 1) - torch.ones(n_tokens, n_tokens).tril()).abs()
        case "modular":
            hit = position % int(argument) == 1
            return torch.where(hit, pattern[:, :, 0], 1 - pattern[:, :, 0])[:, 1:]
    raise AssertionError(role)


@pytest.mark.parametrize(("name", "length"), ROLES)
def test_heads_attend_as_their_role_says(name: str, length: int) -> None:
    entry = CONSTRUCTIONS[name]
    for distribution in entry.distributions:
        batch = draw(name, length, distribution)
        seen = patterns(name, batch)
        for expected in entry.expected:
            if expected.role == "induction" and distribution != "unique-context":
                continue
            pattern = seen[f"blocks.{expected.layer}.attn.hook_pattern"][:, expected.head]
            mass = mass_on_role(expected.role, pattern, batch)
            assert mass.numel() and float(mass.min()) > 0.99, (distribution, expected)


@pytest.mark.parametrize("name", ["rope-locator", "rope-locator-4", "rope-hybrid"])
def test_the_split_among_anchors_tells_the_index_and_nothing_else(name: str) -> None:
    """The same split at the source and at the query of every index, whatever the length; different ones differ."""
    a, splits = CONSTRUCTIONS[name].task.a, []
    for length in (40, 90):
        batch = draw(name, length, "uniform", n=1)
        pattern = patterns(name, batch)["blocks.0.attn.hook_pattern"][0, 0]
        rows, _ = batch.scored_rows
        source = batch.source_position[0, rows[0]]
        on_prefix = pattern[source][:, :a]
        after = batch.anchor_positions[0, a:].tolist()
        on_delimiter = pattern[rows[0]][:, after[len(after) - a - 1 : -1]]
        assert float((on_prefix.sum(1) - 1).abs().max()) < 1e-5
        torch.testing.assert_close(on_prefix, on_delimiter, atol=2e-5, rtol=0)
        splits.append(on_prefix)
    torch.testing.assert_close(splits[0], splits[1][: len(splits[0])], atol=2e-5, rtol=0)
    nearest = torch.cdist(splits[1].double(), splits[1].double()) + torch.eye(len(splits[1]))
    assert float(nearest.min()) > 2e-4


def test_induction_spreads_over_the_occurrences_of_a_repeated_context() -> None:
    block = list(range(10, 20))
    batch = CopyTask(CONSTRUCTIONS["induction"].task).encode([[*block, 30, *block, 31, *block, 32]])
    pattern = patterns("induction", batch)["blocks.1.attn.hook_pattern"][0, 0]
    query = int(batch.scored_rows[0][0, 10])  # the copied block ends here, its context has occurred three times
    sources = [2 + 10, 2 + 21, 2 + 32]
    torch.testing.assert_close(pattern[query, sources], torch.full((3,), 1 / 3), atol=1e-4, rtol=0)


def test_the_context_decides_beyond_the_hybrids_limit_and_only_there() -> None:
    batch = draw("rope-hybrid", 300, "uniform", n=12)
    outcome = answer(built("rope-hybrid"), batch)
    failed = [(row, int(k)) for row, k in enumerate(outcome.first_error) if k >= 0]
    assert failed
    for row, k in failed:
        assert k > 100
        string = batch.strings[row].tolist()
        contexts = [tuple(string[i - 3 : i]) for i in range(3, len(string) + 1)]
        assert contexts.count(tuple(string[k - 3 : k])) > 1
    resting = patterns("rope-hybrid", batch)["blocks.1.attn.hook_pattern"][:, 0]
    rows, _ = batch.scored_rows
    assert float(resting[0, rows[0, 101:], 0].min()) > 0.99


def test_the_modular_head_is_exact_to_the_bit() -> None:
    pattern = patterns("modular", draw("modular", 500, "uniform", n=1))["blocks.0.attn.hook_pattern"][0, 0]
    hit = torch.arange(len(pattern)) % 4 == 1
    assert bool((pattern[hit, 0] == 1).all()) and bool((pattern[~hit, 0][1:] == 0).all())


def test_the_look_back_head_is_exact_to_the_bit_as_far_as_it_is_certified() -> None:
    length = CONSTRUCTIONS["look-back"].longest
    pattern = patterns("look-back", draw("look-back", length, "uniform", n=1))["blocks.0.attn.hook_pattern"][0, 0]
    assert len(pattern) > 700 and bool((pattern.diagonal(-3) == 1).all())


def test_certified_gains_are_a_staircase_with_the_papers_steps() -> None:
    longest = [6, 25, 43, 44, 332, 710]
    gains = [certified_gain(1.0, n) for n in longest]
    for gain, reported in zip(gains, [2.6e3, 1.2e4, 1.2e4, 6.6e5, 6.6e5, 5.7e10], strict=True):
        assert gain == pytest.approx(reported, rel=0.03)
    assert all(small <= large for small, large in pairwise(gains))
    assert gains[0] * (1 - math.cos(6)) == pytest.approx(F_LARGE)


# ------------------------------------------------------------------ the registry and the models


@pytest.mark.parametrize("name", list(CONSTRUCTIONS))
def test_fast_and_explicit_attention_answer_alike(name: str) -> None:
    entry = CONSTRUCTIONS[name]
    length = min(100, entry.longest)
    batch = draw(name, length, entry.distributions[0])
    model = built(name)
    explicit, _ = model.run_with_cache(batch.tokens, names_filter="blocks.0.attn.hook_pattern")
    torch.testing.assert_close(model(batch.tokens), explicit, atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("name", list(CONSTRUCTIONS))
def test_models_do_not_tell_their_roles(name: str) -> None:
    """Nothing in the model object names the construction or a role, and its parameters are a trained model's."""
    entry, model = CONSTRUCTIONS[name], built(name)
    plain = CopyTransformer(entry.model, CopyTask(entry.task).vocabulary)
    assert vars(model).keys() == vars(plain).keys()
    assert [key for key, _ in model.named_parameters()] == [key for key, _ in plain.named_parameters()]
    assert vars(model.cfg) == vars(plain.cfg) and model.settings == entry.model


@pytest.mark.parametrize("name", list(CONSTRUCTIONS))
def test_recipes_survive_the_round_trip(name: str) -> None:
    recipe = CONSTRUCTIONS[name].recipe
    assert parse_recipe(dump_recipe(recipe)) == recipe and recipe.name == name


def test_a_name_is_registered_once_and_every_head_has_a_role() -> None:
    entry = CONSTRUCTIONS["sink"]
    with pytest.raises(UsageError, match="registered already"):
        add(entry)
    values = {key: getattr(entry, key) for key in ("description", "task", "model", "write", "distributions", "longest")}
    with pytest.raises(UsageError, match="role of every head"):
        add(Construction(name="new", roles=(("sink", "self"),), **values))
    assert "new" not in CONSTRUCTIONS and len(set(CONSTRUCTIONS)) == len(CONSTRUCTIONS)


def test_the_aligned_margin_is_the_same_at_every_length() -> None:
    """Scores depend on columns alone, so the margin at 1,000 tokens bounds that of every shorter string."""
    batch = draw("rope2d-aligned", 1000, "uniform", n=1)
    model, margins = built("rope2d-aligned"), []
    _, cache = model.run_with_cache(batch.tokens, names_filter="blocks.0.attn.hook_attn_scores")
    scores = cache["blocks.0.attn.hook_attn_scores"][0, 0]
    for row in batch.scored_rows[0][0].tolist():
        source = int(batch.source_position[0, row])
        others = scores[row, : row + 1].clone()
        others[source] = -math.inf
        margins.append(float(scores[row, source] - others.max()))
    assert min(margins) > 20 and np.isfinite(margins).all()
