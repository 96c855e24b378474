"""Moved positions: aligned heads slip by one, induction heads stay, and what cannot move is not measurable."""

from functools import partial

import numpy as np
import pytest
import torch

from analyses.measures.moved import moved_positions, shift_copy
from analyses.passes import Measured, read_string
from analyses.relations import relations_of
from analyses.samples import draw_samples
from models.config import ModelSettings, TaskSettings
from models.constructions import CONSTRUCTIONS
from models.tasks import CopyTask
from models.transformer import CopyTransformer


def measure(model: CopyTransformer, task: CopyTask, distribution: str = "uniform", length: int = 30) -> Measured:
    samples = draw_samples(task, lengths=[length], distributions=[distribution], strings=3, seed=0, kinds=["plain"])
    return moved_positions(model, task, samples, seed=0)


def built(name: str) -> tuple[CopyTransformer, CopyTask, str]:
    construction = CONSTRUCTIONS[name]
    return construction.build(), CopyTask(construction.task), construction.distributions[0]


@pytest.mark.parametrize(
    ("name", "layer", "head", "slip", "stays"),
    [
        ("rope2d-aligned", 0, 0, 1.0, 0.0),
        ("rope2d-aligned-100", 0, 0, 1.0, 0.0),
        ("rope-locator", 1, 0, 1.0, 0.0),
        ("rope-hybrid", 1, 0, 1.0, 0.0),
        ("rope-hybrid", 1, 1, 0.0, 1.0),
        ("induction", 1, 0, 0.0, 1.0),
        ("induction-3", 1, 0, 0.0, 1.0),
    ],
)
@pytest.mark.parametrize("length", [20, 90])
def test_aligned_heads_slip_and_induction_heads_stay(
    name: str, layer: int, head: int, slip: float, stays: float, length: int
) -> None:
    found = measure(*built(name), length=length).scores
    slipped, stayed = (found[score].at(layer, head) for score in ("moved.slip", "moved.stays"))
    assert slipped.value == pytest.approx(slip, abs=0.03) and stayed.value == pytest.approx(stays, abs=0.03)
    assert slipped.strings == 3 and slipped.rows == 3 * (length - 1 - 8) and slipped.chance == 0.0


@pytest.mark.parametrize("name", ["sink", "uniform", "look-back", "modular", "self", "duplicate", "alibi-previous"])
def test_heads_that_do_not_attend_to_the_source_are_not_measurable(name: str) -> None:
    found = measure(*built(name)).scores["moved.slip"].at(0, 0)
    assert not found.measurable and found.interval is None and "positions" in found.reason


def test_a_blunt_pattern_that_moves_as_a_whole_slips() -> None:
    model, task, distribution = built("rope2d-aligned-100")
    model.blocks[0].attn.W_Q.data *= 0.02
    batch = task.sample(1, torch.Generator().manual_seed(0), lengths=30)
    string = read_string(model, batch, 0)
    row = string.relations.copy_rows[15]
    assert string.head(0, 0).row(row)[string.relations.source_position[row]] < 0.45
    found = measure(model, task, distribution).scores
    assert found["moved.slip"].value[0, 0] > 0.95 and found["moved.stays"].value[0, 0] < 0.05


def test_learned_coordinates_move_by_their_own_step() -> None:
    """Auto-2D that counts columns in halves; query and source share a column, so any step makes an aligned head."""
    construction = CONSTRUCTIONS["rope2d-aligned-100"]
    task = CopyTask(construction.task)
    learned = ModelSettings.model_validate({"positions": "auto2d"}).positions
    model = CopyTransformer(construction.model.model_copy(update={"positions": learned}), task.vocabulary)
    model.load_state_dict(model.state_dict() | construction.build().state_dict())
    scheme = model.blocks[0].attn.scheme
    scheme.b_pos.data = torch.tensor([40.0, 0.0])  # u = 1, v = 1/2
    scheme.W_pos.data[task.vocabulary.delimiter[0]] = -80.0  # u = v = 0: the next row
    found = measure(model, task).scores
    assert found["moved.slip"].value[0, 0] == pytest.approx(1.0, abs=0.05)
    assert found["moved.stays"].value[0, 0] == pytest.approx(0.0, abs=0.05)


@pytest.mark.parametrize("scheme", ["rope", "rope2d", "alibi", "learned"])
def test_copied_tokens_alone_move_by_one(scheme: str) -> None:
    task = CopyTask(TaskSettings())
    settings = {"heads": (1,), "d_model": 16, "d_head": 8, "positions": scheme}
    model = CopyTransformer(ModelSettings.model_validate(settings), task.vocabulary)
    batch = task.sample(1, torch.Generator().manual_seed(0), lengths=7)
    relations = relations_of(batch, 0)
    name = next(name for name in model.hook_dict if name.endswith("hook_coords"))
    _, before = model.run_with_cache(batch.tokens, names_filter=name)
    with model.hooks(fwd_hooks=[(name, partial(shift_copy, relations=relations))]):
        _, after = model.run_with_cache(batch.tokens, names_filter=name)
    moved = (after[name] - before[name])[0]
    assert not moved[: relations.copy_rows[1]].any() and not moved[:, :-1].any()
    assert (moved[relations.copy_rows[1] :, -1] == 1).all()


def test_a_learned_table_without_a_further_position_is_not_measurable() -> None:
    task = CopyTask(TaskSettings())
    for room, rows in ((66, 0), (67, 3 * 21)):  # a string of 30 has 66 tokens
        positions = {"scheme": "learned", "max_positions": room}
        settings = {"heads": (1,), "d_model": 16, "d_head": 8, "positions": positions}
        found = measure(CopyTransformer(ModelSettings.model_validate(settings), task.vocabulary), task)
        assert found.scores["moved.slip"].rows[0, 0] == rows


def test_layers_before_the_first_positions_are_not_measurable() -> None:
    task = CopyTask(TaskSettings())
    settings = {"heads": (1, 2), "d_model": 16, "d_head": 8, "positions": ("nope", "rope"), "init_std": 0.5}
    model = CopyTransformer(ModelSettings.model_validate(settings), task.vocabulary)
    found = measure(model, task).scores["moved.slip"]
    assert found.rows.tolist() == [[0, 0], [63, 63]] and np.isnan(found.value[0]).all()


def test_shares_are_shares_and_nothing_stays_hooked() -> None:
    task = CopyTask(TaskSettings())
    for seed, scheme in enumerate(["rope", "rope2d", "auto2d", "alibi", "sinusoidal", "periodic-rope"]):
        settings = {"heads": (3, 2), "d_model": 24, "d_head": 8, "positions": scheme, "init_std": 0.6}
        model = CopyTransformer(ModelSettings.model_validate(settings), task.vocabulary, seed=seed)
        for name in ("moved.slip", "moved.stays"):
            value = measure(model, task).scores[name].value
            assert ((value >= 0) & (value <= 1) | np.isnan(value)).all() and np.isnan(value[1, 2])
        assert not any(point.fwd_hooks for point in model.hook_dict.values())


def test_progress_reaches_one() -> None:
    model, task, distribution = built("rope2d-aligned")
    shares: list[float] = []
    samples = draw_samples(task, lengths=[20], distributions=[distribution], strings=2, seed=0)
    moved_positions(model, task, samples, seed=0, progress=shares.append)
    assert shares == [0.5, 1.0]
