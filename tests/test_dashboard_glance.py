"""The heads of a capture at a glance, and the keys that walk strings and heads."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import fake_reports, fake_store
from workbench.dashboard import pickers
from workbench.dashboard.data import Data
from workbench.dashboard.pages import attention_heads
from workbench.dashboard.pages.heads_reports import Reports
from workbench.dashboard.selection import select
from workbench.dashboard.state import ViewState
from workbench.runs import Store


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    root = tmp_path_factory.mktemp("glance") / "store"
    ids = fake_store.fill(root)
    fake_reports.keep_heads(root, ids["rope"], [["locator", "look-back(1)"], ["aligned"]])
    fake_reports.keep_heads(root, ids["rope2d"], [["mixed", "sink"]], step=300)
    return root, ids


def grid_of(data: Data, view: ViewState) -> str:
    there = select(data, view)
    known = attention_heads.known_heads(Reports(data), there)
    grid = attention_heads.head_grid(there, view, "/attention", set(), known)
    return json.dumps(grid, default=lambda part: part.to_plotly_json())


def test_thumbnails_carry_label_and_score_of_the_step_that_is_shown(reported: tuple[Path, dict[str, str]]) -> None:
    data = Data(Store(reported[0]))
    grid = grid_of(data, ViewState(run=reported[1]["rope"]))
    for label in ("locator", "look-back(1)", "aligned"):
        assert label in grid
    assert "/heads?" in grid and "checkpoint=500" in grid
    assert "/heads?" not in grid_of(data, ViewState(run=reported[1]["rope2d"])), "its report is of another step"
    assert "/heads?" not in grid_of(data, ViewState(run=reported[1]["auto2d"])), "it keeps none"


def test_arrows_lead_to_the_heads_beside(reported: tuple[Path, dict[str, str]]) -> None:
    grid = grid_of(Data(Store(reported[0])), ViewState(run=reported[1]["rope"]))
    assert grid.count("aria-keyshortcuts") == 2
    keys = set(re.findall(r"aria-keyshortcuts\W+(\w+)", grid))
    assert keys == {"ArrowRight", "ArrowDown"}


def test_brackets_walk_the_list_and_f_lists_failed_strings_alone(reported: tuple[Path, dict[str, str]]) -> None:
    data = Data(Store(reported[0]))

    def listed(view: ViewState) -> str:
        there = select(data, view)
        part = pickers.string_list(there.listed, there.view.string, view, "/attention")
        return json.dumps(part, default=lambda part: part.to_plotly_json())

    everything = listed(ViewState(run=reported[1]["rope"], string=5))
    assert everything.count('"#') == 6
    assert "failing=on" in everything and '"aria-keyshortcuts": "f"' in everything
    alone = listed(ViewState(run=reported[1]["rope"], string=5, failing=True))
    assert alone.count('"#') == 3
    assert '"aria-keyshortcuts": "["' in alone and '"aria-keyshortcuts": "]"' not in alone, "5 is the last that fails"


@given(st.lists(st.integers(0, 50), unique=True, max_size=8), st.integers(0, 50), st.sampled_from([-1, 1]))
def test_a_step_in_a_list_stays_in_it(order: list[int], at: int, by: int) -> None:
    to = pickers.beside_in(order, at, by)
    assert to is None or to in order
    if at in order and to is not None:
        assert order.index(to) - order.index(at) == by
