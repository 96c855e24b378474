"""Activation patching: pairs differ in one respect, and what is found is what hand-built circuits are made of."""

import json

import numpy as np
import pytest
import torch
from transformer_lens import patching

from analyses.pairs import PAIRS, Pairs, make_pairs
from analyses.patching import DIRECTIONS, POSITIONS, Patched, patch
from analyses.relations import relations_of
from models.config import ModelSettings, TaskSettings
from models.constructions import CONSTRUCTIONS
from models.errors import UsageError
from models.tasks import CopyBatch, CopyTask
from models.transformer import CopyTransformer

MODELS = {name: CONSTRUCTIONS[name].build() for name in ("rope-locator", "induction-3", "rope-hybrid")}


def batch_for(name: str, n: int = 6, length: int = 40) -> CopyBatch:
    entry = CONSTRUCTIONS[name]
    distribution = "unique-context" if "unique-context" in entry.distributions else "uniform"
    generator = torch.Generator().manual_seed(0)
    return CopyTask(entry.task).sample(n, generator, lengths=length, distribution=distribution)


def patched(name: str, kind: str, direction: str = "denoising") -> Patched:
    return patch(MODELS[name], make_pairs(batch_for(name), kind, m=3), direction)


def query(pairs: Pairs, batch: CopyBatch, i: int) -> int:
    return int(batch.scored_rows[0][i, pairs.index[i]])


# ------------------------------------------------------------------------------------------------ the pairs


def test_flipped_pairs_differ_in_the_true_source_alone() -> None:
    pairs = make_pairs(batch_for("induction-3"), "flipped")
    for i in range(len(pairs)):
        changed = (pairs.clean.tokens[i] != pairs.corrupted.tokens[i]).nonzero()[:, 0].tolist()
        row = query(pairs, pairs.clean, i)
        assert changed == [int(pairs.clean.source_position[i, row])] and changed[0] < row
        assert int(pairs.clean.targets[i, row]) == int(pairs.right[i])
        assert int(pairs.corrupted.tokens[i, changed[0]]) == int(pairs.wrong[i]) != int(pairs.right[i])


@pytest.mark.parametrize("m", [1, 3])
def test_ambiguous_pairs_have_one_more_candidate_that_calls_for_another_token(m: int) -> None:
    pairs = make_pairs(batch_for("induction-3", 10), "ambiguous", m=m)
    for i in range(len(pairs)):
        row, decoy = query(pairs, pairs.clean, i), int(pairs.decoy[i])
        source = int(pairs.clean.source_position[i, row])
        before, after = (
            set(np.flatnonzero(relations_of(batch, i).context_matches(row, row + 1)[0] >= m))
            for batch in (pairs.clean, pairs.corrupted)
        )
        assert {source, decoy} <= after and decoy > source + m and decoy < row
        assert after - before <= {decoy} | set(range(decoy - m, decoy))  # what was written there may match by itself
        assert int(pairs.corrupted.tokens[i, decoy]) == int(pairs.wrong[i]) != int(pairs.right[i])
        changed = (pairs.clean.tokens[i] != pairs.corrupted.tokens[i]).nonzero()[:, 0]
        assert int(changed.min()) >= decoy - m and int(changed.max()) <= decoy


def test_length_pairs_are_shorter_and_call_for_another_token_at_the_same_index() -> None:
    pairs = make_pairs(batch_for("rope-locator"), "length")
    for i in range(len(pairs)):
        assert int(pairs.corrupted.lengths[i]) < int(pairs.clean.lengths[i])
        for batch, answer in ((pairs.clean, pairs.right), (pairs.corrupted, pairs.wrong)):
            assert int(batch.targets[i, query(pairs, batch, i)]) == int(answer[i])
        assert int(pairs.right[i]) != int(pairs.wrong[i])


def test_pairs_are_repeatable_and_what_cannot_be_made_is_said() -> None:
    batch = batch_for("rope-locator")
    for kind in PAIRS:
        first, again, other = (make_pairs(batch, kind, seed=seed) for seed in (1, 1, 2))
        assert torch.equal(first.corrupted.tokens, again.corrupted.tokens) and torch.equal(first.index, again.index)
        assert not torch.equal(first.index, other.index)
    with pytest.raises(UsageError, match="Did you mean 'flipped'"):
        make_pairs(batch, "fliped")
    task = CopyTask(TaskSettings())
    with pytest.raises(UsageError, match="at least 10 tokens"):
        make_pairs(task.encode(["011010011"]), "ambiguous")
    with pytest.raises(UsageError, match="no two of the strings differ"):
        make_pairs(task.encode(["0000", "0000"]), "length")
    with pytest.raises(UsageError, match="give at least 2"):
        make_pairs(task.encode(["0110"]), "length")
    with pytest.raises(UsageError, match="unknown direction"):
        patch(MODELS["rope-locator"], make_pairs(batch, "flipped"), "both")


# ------------------------------------------------------------------------------------------------ the patching


def test_heads_agree_with_transformer_lens_where_it_can_do_it() -> None:
    task = CopyTask(TaskSettings())
    settings = ModelSettings(heads=(2, 2), d_model=32, d_head=8, positions="rope", init_std=0.4)
    model = CopyTransformer(settings, task.vocabulary, seed=0)
    # A draw on which the random model happens to prefer the right tokens.
    pairs = make_pairs(task.sample(8, torch.Generator().manual_seed(1), lengths=12), "flipped", seed=1)
    ours = patch(model, pairs)
    rows = pairs.clean.scored_rows[0].gather(1, pairs.index[:, None])[:, 0]

    def difference(logits: torch.Tensor) -> torch.Tensor:
        at, strings = logits[torch.arange(len(rows)), rows], torch.arange(len(rows))
        return (at[strings, pairs.right] - at[strings, pairs.wrong]).mean()

    with torch.no_grad():
        clean, cache = model.run_with_cache(pairs.clean.tokens)
        corrupted = difference(model(pairs.corrupted.tokens))
        theirs = patching.get_act_patch_attn_head_out_all_pos(model, pairs.corrupted.tokens, cache, difference)
    share = (theirs - corrupted) / (difference(clean) - corrupted)
    assert ours.heads.value == pytest.approx(share.numpy(), abs=1e-4)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("kind", ["flipped", "length"])
def test_position_alone_is_carried_by_the_aligned_head_and_the_true_source(kind: str, direction: str) -> None:
    """A locator's output is the same in both strings, also across lengths: nothing flows through it."""
    found = patched("rope-locator", kind, direction)
    assert found.clean.value > 1 and found.corrupted.value < -1
    assert found.heads.value == pytest.approx(np.array([[0.0], [1.0]]), abs=1e-4)
    stream = dict(zip(POSITIONS, found.stream.value.T, strict=True))
    assert stream.pop("true source") == pytest.approx([1.0, 1.0], abs=1e-4)
    assert np.isnan(stream.pop("decoy")).all()
    for name, values in stream.items():
        assert values == pytest.approx([0.0, 0.0], abs=1e-4), name


def test_an_ambiguous_context_means_nothing_to_a_position_based_model() -> None:
    found = patched("rope-locator", "ambiguous")
    assert found.clean.value == pytest.approx(found.corrupted.value, abs=1e-3)
    assert not found.heads.at(1, 0).measurable and "do not differ" in found.heads.at(1, 0).reason


def test_an_ambiguous_context_goes_through_the_whole_induction_circuit() -> None:
    """Two equal candidates: without any one of the three look-backs at the decoy the true source wins again."""
    found = patched("induction-3", "ambiguous")
    assert found.corrupted.value == pytest.approx(0.0, abs=0.2) and found.clean.value == pytest.approx(1.0, abs=0.1)
    assert found.heads.value[0] == pytest.approx([1.0, 1.0, 1.0], abs=0.35)
    assert found.heads.value[1, 0] == pytest.approx(1.0, abs=1e-3) and np.isnan(found.heads.value[1, 1:]).all()
    decoy = POSITIONS.index("decoy")
    assert found.stream.value[1, decoy] == pytest.approx(1.0, abs=1e-3)
    others = np.delete(found.stream.value[1], decoy)
    assert others == pytest.approx(np.zeros(len(others)), abs=1e-3)
    # Noising: one look-back alone makes no second candidate.
    assert patched("induction-3", "ambiguous", "noising").heads.value[0] == pytest.approx(np.zeros(3), abs=0.35)


def test_both_heads_of_a_hybrid_copy_and_one_is_confused() -> None:
    flipped, ambiguous = (patched("rope-hybrid", kind) for kind in ("flipped", "ambiguous"))
    assert flipped.heads.value[1, :2].sum() == pytest.approx(1.0, abs=0.01) and (flipped.heads.value[1, :2] > 0.2).all()
    assert flipped.heads.value[0] == pytest.approx(np.zeros(4), abs=0.01)
    assert ambiguous.heads.value[1, 0] == pytest.approx(0.0, abs=0.01)
    assert ambiguous.heads.value[1, 1] == pytest.approx(1.0, abs=0.01)


def test_patching_everything_from_itself_changes_nothing() -> None:
    batch = batch_for("rope-hybrid")
    pairs = make_pairs(batch, "flipped")
    same = Pairs("flipped", batch, batch, pairs.index, pairs.right, pairs.wrong, pairs.decoy)
    found = patch(MODELS["rope-hybrid"], same)
    assert found.clean == found.corrupted
    assert np.isnan(found.heads.value).all() and not found.stream.at(0, 0).measurable


def test_padded_pairs_and_json() -> None:
    entry = CONSTRUCTIONS["rope-locator"]
    batch = CopyTask(entry.task).sample(6, torch.Generator().manual_seed(1), lengths=(12, 40), distribution="uniform")
    shares: list[float] = []
    for kind in ("flipped", "length"):
        found = patch(MODELS["rope-locator"], make_pairs(batch, kind), progress=shares.append)
        assert found.heads.value == pytest.approx(np.array([[0.0], [1.0]]), abs=1e-3)
        loaded = json.loads(json.dumps(found.as_dict(), allow_nan=False))
        assert [(head["layer"], head["head"]) for head in loaded["heads"]] == [(0, 0), (1, 0)]
        assert {cell["positions"] for cell in loaded["stream"]} == set(POSITIONS) - {"decoy"}
    assert shares == [0.5, 1.0, 0.5, 1.0]
