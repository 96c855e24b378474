"""Segments agree with the batch's own positions, and strings of different lengths are laid upon each other by index."""

import pytest
import torch

from analyses.segments import COPY, DELIMITER, PREFIX, SOURCE, segments_of
from models.config import TaskSettings
from models.tasks import CopyTask


@pytest.mark.parametrize(("a", "b"), [(2, 4), (1, 1), (3, 2)])
def test_segments_agree_with_the_positions_that_the_batch_names(a: int, b: int) -> None:
    batch = CopyTask(TaskSettings(a=a, b=b)).encode(["011010", "01", "1"])
    found = segments_of(batch)
    assert torch.equal(found.segment < 0, batch.pad_mask)
    rows, exists = batch.scored_rows
    for i in range(len(batch)):
        scored = rows[i][exists[i]]
        assert found.segment[i, scored].eq(COPY).all()
        assert found.index[i, scored].tolist() == list(range(int(batch.lengths[i]) + 1))
        sources = batch.source_position[i, scored][:-1]  # the last is B1, no token of the source
        assert found.segment[i, sources].eq(SOURCE).all()
        assert torch.equal(found.index[i, sources], found.index[i, scored][:-1])
        anchors = found.segment[i, batch.anchor_positions[i]].tolist()
        assert anchors == [PREFIX] * a + [DELIMITER] * (b - 1) + [COPY]


def test_counterparts_have_the_same_token_where_one_string_begins_the_other() -> None:
    task = CopyTask(TaskSettings())
    long, short = task.encode(["0110100", "11"]), task.encode(["011", "1101"])
    there = segments_of(long).counterparts(segments_of(short))
    for i in range(2):
        common = there[i] >= 0
        assert torch.equal(long.tokens[i][common], short.tokens[i][there[i][common]])
        n = min(int(long.lengths[i]), int(short.lengths[i]))
        assert int(common.sum()) == 2 + n + 3 + n + 1
    back = segments_of(short).counterparts(segments_of(long))
    forth = there[0][there[0] >= 0]
    assert torch.equal(there[0][back[0][forth]], forth)
