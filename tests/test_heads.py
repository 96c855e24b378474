"""Every head of every construction gets its label, whatever it is called, wherever it stands, in whatever basis."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch

from analyses.ground_truth import LENGTHS, as_markdown, check_construction, checks, lengths_around, page
from analyses.heads import HeadReport, classify, default_lengths, label_heads, score_heads
from analyses.labels import RULES
from analyses.measures.base import formulas
from analyses.noise import add_noise, label_accuracy_under_noise
from analyses.templates import GROUPS
from models.config import TaskSettings
from models.constructions import CONSTRUCTIONS, Construction
from models.errors import UsageError
from models.tasks import CopyTask
from models.transformer import CopyTransformer

Labels = Mapping[tuple[int, int], str]
SHORT = lengths_around(20)


def expected(entry: Construction) -> Labels:
    return {(role.layer, role.head): role.role for role in entry.expected}


def labels(model: CopyTransformer, entry: Construction, **options: object) -> Labels:
    given = {"lengths": SHORT, "distributions": entry.distributions[:1], "strings": 2, "beyond_labels": False}
    report = classify(model, CopyTask(entry.task), **(given | options))
    return {(label.layer, label.head): label.label for label in report.labels}


# ------------------------------------------------------------------ ground truth

# At 20 tokens, in another basis and under other names, all of them are in the next section.
SOME = ("rope2d-aligned", "induction", "modular", "duplicate", "rope-locator")


@pytest.mark.parametrize("name", SOME)
def test_every_head_gets_its_label(name: str) -> None:
    entry = CONSTRUCTIONS[name]
    for check in check_construction(entry, 100, entry.distributions[-1], strings=2):
        assert check.right, (check.expected, check.label)


@pytest.mark.slow
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", list(CONSTRUCTIONS))
def test_every_head_of_every_construction_gets_its_label_for_sure(name: str, length: int) -> None:
    """At every length and on every distribution where the role is defined."""
    found = list(checks([name], [length]))
    assert bool(found) == (length <= CONSTRUCTIONS[name].longest)
    for check in found:
        assert check.right and check.label.certain and check.label.margin > 0.2, check


# ------------------------------------------------------------------ what must not matter


def copied(model: CopyTransformer) -> CopyTransformer:
    same = CopyTransformer(model.settings, model.vocabulary)
    same.load_state_dict(model.state_dict())
    return same


@torch.no_grad()
def permute_heads(model: CopyTransformer, orders: list[list[int]]) -> CopyTransformer:
    """Head i of layer l is what head orders[l][i] was."""
    permuted = copied(model)
    for block, order in zip(permuted.blocks, orders, strict=True):
        for weight in (block.attn.W_Q, block.attn.W_K, block.attn.W_V, block.attn.W_O):
            weight[: len(order)] = weight[order].clone()
    return permuted


@torch.no_grad()
def rotate_stream(model: CopyTransformer, seed: int) -> CopyTransformer:
    """The same function in another orthonormal basis of the residual stream; gains other than 1 would see the basis."""
    generator = torch.Generator().manual_seed(seed)
    width = model.settings.d_model
    basis = torch.linalg.qr(torch.randn(width, width, generator=generator, dtype=torch.float64))[0]
    rotated = copied(model)
    assert all(bool((w == 1).all()) for name, w in rotated.named_parameters() if name.endswith(".w"))

    def turn(weight: torch.Tensor, product: Callable[[torch.Tensor], torch.Tensor]) -> None:
        weight.copy_(product(weight.double()).float())

    turn(rotated.embed.W_E, lambda w: w @ basis)
    turn(rotated.unembed.W_U, lambda w: basis.T @ w)
    for block in rotated.blocks:
        for weight in (block.attn.W_Q, block.attn.W_K, block.attn.W_V):
            turn(weight, lambda w: basis.T @ w)
        turn(block.attn.W_O, lambda w: w @ basis)
    return rotated


@torch.no_grad()
def rename(model: CopyTransformer, seed: int) -> CopyTransformer:
    """Source tokens under other ids, and a model under another name."""
    order = torch.randperm(model.vocabulary.alphabet, generator=torch.Generator().manual_seed(seed))
    renamed = copied(model)
    renamed.embed.W_E[: len(order)] = model.embed.W_E[order]
    renamed.unembed.W_U[:, : len(order)] = model.unembed.W_U[:, order]
    renamed.cfg.model_name = "another"
    return renamed


def test_the_transformations_leave_the_function_alone() -> None:
    entry = CONSTRUCTIONS["rope-hybrid"]
    model, task = entry.build(), CopyTask(entry.task)
    batch = task.sample(2, torch.Generator().manual_seed(0), lengths=20, distribution="uniform")
    answers = model(batch.tokens).argmax(-1)[batch.loss_mask]
    for changed in (permute_heads(model, [[2, 0, 3, 1], [1, 0]]), rotate_stream(model, 1)):
        assert bool((changed(batch.tokens).argmax(-1)[batch.loss_mask] == answers).all())
        assert any(not torch.equal(a, b) for a, b in zip(model.parameters(), changed.parameters(), strict=True))


@pytest.mark.parametrize("name", list(CONSTRUCTIONS))
def test_labels_survive_another_basis_and_other_names(name: str) -> None:
    entry = CONSTRUCTIONS[name]
    assert labels(rename(rotate_stream(entry.build(), 1), 2), entry) == expected(entry)


@pytest.mark.parametrize("name", ["rope-hybrid", "induction-3"])
def test_labels_follow_permuted_heads(name: str) -> None:
    entry = CONSTRUCTIONS[name]
    rng = np.random.default_rng(3)
    orders = [rng.permutation(n).tolist() for n in entry.model.heads]
    assert any(order != sorted(order) for order in orders)
    found = labels(permute_heads(entry.build(), orders), entry)
    roles = expected(entry)
    assert found == {(layer, i): roles[layer, old] for layer, order in enumerate(orders) for i, old in enumerate(order)}


# ------------------------------------------------------------------ noise


def test_noise_is_relative_to_each_matrix_and_leaves_the_model_alone() -> None:
    model = CONSTRUCTIONS["rope-hybrid"].build()
    before = [weight.clone() for weight in model.parameters()]
    noisy = add_noise(model, 0.1, seed=0)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    change = noisy.blocks[0].attn.W_Q - model.blocks[0].attn.W_Q
    rms = model.blocks[0].attn.W_Q.square().mean((1, 2)).sqrt()
    torch.testing.assert_close(change.std((1, 2)), 0.1 * rms, rtol=0.05, atol=0)
    assert bool((noisy.blocks[1].attn.W_Q[2:] == 0).all())  # heads that the layer has not
    assert torch.equal(noisy.blocks[0].ln1_post.w, model.blocks[0].ln1_post.w)


def test_labels_hold_under_little_noise_and_not_under_much() -> None:
    entry = CONSTRUCTIONS["look-back"]
    curve = label_accuracy_under_noise(
        entry.build(),
        CopyTask(entry.task),
        expected(entry),
        levels=(1e-3, 1.0),
        draws=2,
        lengths=SHORT,
        distributions=entry.distributions[:1],
        strings=2,
    )
    little, much = curve.accuracy
    assert (little.value, little.rows, little.strings) == (1.0, 2, 2) and curve.certain[0] == 1
    assert much.value is not None and much.value < 0.5
    assert curve.surely_wrong[0] == 0 and all(curve.surely_wrong <= curve.certain)
    text = page(list(checks(["sink"], [20], strings=2)), {"look-back": curve})
    assert "| look-back | 100% |" in text and "4 of 4 labels are right" in text


# ------------------------------------------------------------------ the facade


@pytest.fixture(scope="module")
def report() -> HeadReport:
    entry = CONSTRUCTIONS["rope-locator"]
    return classify(entry.build(), CopyTask(entry.task), lengths=(18, 20), distributions=["uniform"], strings=2)


def test_three_lines_in_a_notebook(report: HeadReport) -> None:
    assert [label.label for label in report.labels] == ["locator", "aligned"]
    lines = str(report).splitlines()
    assert len(lines) == 3 and lines[1].startswith("0.0   locator") and "aligned.near 1.00" in lines[2]


def test_everything_rules_and_evidence_name_is_measured_and_has_a_formula(report: HeadReport) -> None:
    named = {c.score for rule in RULES for c in rule.conditions} | {score for rule in RULES for score in rule.beside}
    named |= {rule.parameter for rule in RULES if rule.parameter} | {f"share.{group}" for group in GROUPS}
    assert named <= set(report.scores.scores)
    assert named <= set(formulas())


def test_reports_are_json_and_deterministic(report: HeadReport) -> None:
    entry = CONSTRUCTIONS["rope-locator"]
    text = json.dumps(report.as_dict())
    again = classify(entry.build(), CopyTask(entry.task), lengths=(18, 20), distributions=["uniform"], strings=2)
    assert json.dumps(again.as_dict()) == text
    head = json.loads(text)["heads"][0]
    assert {"layer", "head", "label", "margin", "certain", "evidence", "scores"} <= head.keys()
    assert set(head["scores"]["locator.mass"]) == {"value", "interval", "rows", "strings", "chance"}


def test_scores_can_be_asked_for_and_labelled_later(report: HeadReport) -> None:
    assert report.scores.at("aligned.mass", 1, 0).value == pytest.approx(1, abs=1e-3)
    assert label_heads(report.scores) == report.labels
    with pytest.raises(UsageError, match="no score is called 'alinged'"):
        report.scores.at("alinged", 0, 0)
    with pytest.raises(UsageError, match=r"no head 0\.1"):
        report.scores.at("aligned.mass", 0, 1)
    with pytest.raises(UsageError, match=r"no head 2\.0"):
        report.label(2, 0)


def test_samples_are_described(report: HeadReport) -> None:
    described = {(s.kind, s.length, s.m, s.strings) for s in report.scores.samples}
    assert ("plain", 18, 0, 2) in described and ("exchanged", 20, 4, 2) in described


def test_progress_ends_at_one_and_never_goes_back() -> None:
    entry = CONSTRUCTIONS["sink"]
    seen: list[float] = []
    options = {"lengths": (12, 14), "distributions": ["uniform"], "strings": 2}
    score_heads(entry.build(), CopyTask(entry.task), progress=seen.append, **options)
    assert seen == sorted(seen) and seen[-1] == pytest.approx(1)


def test_what_a_task_cannot_have_is_left_out_with_a_note() -> None:
    entry = CONSTRUCTIONS["sink"]
    short = CopyTask(TaskSettings(context=3))
    model = CopyTransformer(entry.model, short.vocabulary)
    scores = score_heads(model, short, lengths=(8, 14), strings=2, beyond_labels=False)
    assert len(scores.notes) == 1 and "unique-context strings of 14 tokens are left out" in scores.notes[0]
    assert {s.distribution for s in scores.samples} == {"imbalanced", "uniform", "unique-context"}


@pytest.mark.parametrize("strings", [0, 1, 3])
def test_half_of_the_strings_choose_so_their_number_is_even(strings: int) -> None:
    entry = CONSTRUCTIONS["sink"]
    with pytest.raises(UsageError, match="give an even number"):
        score_heads(entry.build(), CopyTask(entry.task), strings=strings)


def test_an_unknown_distribution_is_refused() -> None:
    entry = CONSTRUCTIONS["sink"]
    with pytest.raises(UsageError, match="unknown distribution"):
        score_heads(entry.build(), CopyTask(entry.task), distributions=["unifrom"])


@pytest.mark.parametrize(
    ("trained", "lengths"),
    [((1, 100), (25, 50, 75, 100)), ((1, 20), (10, 15, 18, 20)), ((1, 60), (15, 30, 45, 60)), ((3, 6), (3, 4, 6))],
)
def test_default_lengths_lie_in_the_trained_range(trained: tuple[int, int], lengths: tuple[int, ...]) -> None:
    found = default_lengths(CopyTask(TaskSettings(lengths=trained)))
    assert all(trained[0] <= length <= trained[1] for length in found) and max(found) == trained[1]
    if trained != (3, 6):
        assert found == lengths


def test_the_table_says_what_went_wrong() -> None:
    found = list(checks(["duplicate"], [20], strings=2))
    assert "| duplicate | 0.0 | duplicate | 20 | unique-context, uniform | duplicate |" in as_markdown(found)
    wrong = [replace(check, label=replace(check.label, label="sink")) for check in found[:1]]
    assert "| duplicate; ~~sink~~ (unique-context) |" in as_markdown([*wrong, *found[1:]])
