"""The pinned row of the Attention page under two subjects: both distributions, their difference, and its keys."""

import json
import re
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest
from dash import Dash
from flask.testing import FlaskClient
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import fake_store
from tests.checkpointed import compared, patiently
from tests.test_dashboard import call
from tests.test_figures import tokens_of_length
from workbench.dashboard import create_app
from workbench.dashboard.beside import Beside
from workbench.dashboard.data import Data
from workbench.dashboard.pages import attention_compare, attention_numbers, attention_row
from workbench.dashboard.selection import select
from workbench.dashboard.state import ViewState
from workbench.figures.row_pair import row_pair
from workbench.runs import Store

PATH = "/attention"


@pytest.fixture(scope="module")
def app(checkpointed_store: tuple[Path, dict[str, str]]) -> Dash:
    return create_app(checkpointed_store[0])


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=600))
def test_both_rows_share_an_axis_and_the_difference_is_centred_at_zero(weights: list[tuple[float, float]]) -> None:
    first, second = np.array(weights).T
    n = len(first)
    figure = row_pair(n - 1, first, second, tokens_of_length(n), title="t")
    ours, theirs, minus = figure.data
    assert max(*ours.y, *theirs.y) <= figure.layout.yaxis.range[1]
    low, high = figure.layout.yaxis2.range
    assert low == -high and max(np.abs(minus.y)) <= high
    assert float(np.abs(np.asarray(minus.y, float)).max()) == pytest.approx(float(np.abs(first - second).max()))
    assert max(ours.y) == pytest.approx(first.max()) and max(theirs.y) == pytest.approx(second.max())
    assert len(ours.x) <= 240
    if n <= 240:
        assert np.asarray(minus.y, float) == pytest.approx(np.asarray(ours.y, float) - np.asarray(theirs.y, float))


def test_it_is_a_figure_that_plotly_accepts_and_names_are_no_markup() -> None:
    n = 5
    figure = row_pair(n - 1, np.full(n, 0.2), np.full(n, 0.1), tokens_of_length(n, ["<script>"] * n), title="t")
    assert go.Figure(figure.to_dict()).layout.title.text == "t"
    assert "<script" not in figure.to_json().replace("\\u003c", "<")


def test_the_keys_of_both_are_listed_with_their_difference(
    data: Data, checkpointed_store: tuple[Path, dict[str, str]]
) -> None:
    view = ViewState(run=checkpointed_store[1]["rope"], beside=Beside(head=1))
    pair = compared(data, view)
    row = pair.first.row
    figure, bar, keys = attention_row.render(pair.first, view, PATH, pair.second)
    ours, theirs = (of.string.head(0, of.view.head).row(row)[: row + 1] for of in (pair.first, pair.second))
    assert np.asarray(figure.data[0].y, float) == pytest.approx(ours) and len(figure.data) == 3
    text = json.dumps(keys, default=lambda part: part.to_plotly_json(), ensure_ascii=False)
    best = int(np.maximum(ours, theirs).argmax())
    for value in (f"{ours[best]:.4f}", f"{theirs[best]:.4f}", f"{float(ours[best]) - float(theirs[best]):+.4f}"):
        assert value in text
    assert "under either subject" in text and "in the second" in text
    said = attention_numbers.row_said(pair.first, pair.second)
    assert f"key {int(ours.argmax())} " in said and f"key {int(theirs.argmax())} " in said
    assert re.search(r"largest difference is at key \d+: (0\.00|[+−]\d\.\d\d)\.", said)
    predicted = json.dumps(bar, default=lambda part: part.to_plotly_json(), ensure_ascii=False)
    assert "First: " in predicted and " · second: " in predicted


def test_a_row_that_the_second_string_has_not_shows_the_first_alone(tmp_path: Path) -> None:
    root = tmp_path / "store"
    ids = fake_store.fill(root)
    fake_store.add_capture(root / ids["rope"], ["rope", "rope"], [2, 1], n=20, strings=2, name="short")
    data = Data(Store(root))
    view = ViewState(run=ids["rope"], row=100, beside=Beside(capture="short"))
    first = select(data, ViewState(run=ids["rope"], row=100, capture=data.run(ids["rope"]).captures[-1]))
    second = attention_compare.second_subject(data, first, view)
    assert second is not None and second.n_tokens <= first.row
    figure, _, keys = attention_row.render(first, view, PATH, second)
    assert len(figure.data) == 1
    assert "ends before query" in json.dumps(keys, default=lambda part: part.to_plotly_json())
    assert "attends most" in attention_numbers.row_said(first, second)


def test_a_row_about_another_token_of_the_copy_says_of_which(tmp_path: Path) -> None:
    root = tmp_path / "store"
    ids = fake_store.fill(root)
    for name, n in (("short", 20), ("shorter", 19)):
        fake_store.add_capture(root / ids["rope"], ["rope", "rope"], [2, 1], n=n, strings=2, name=name)
    data = Data(Store(root))
    view = ViewState(run=ids["rope"], capture="short", row=30, beside=Beside(capture="shorter"))
    first = select(data, view)
    for beside, said in ((Beside(capture="shorter"), "(token 6 of its copy, in the first token 5)"), (Beside(), None)):
        second = attention_compare.second_subject(data, first, ViewState(**{**vars(view), "beside": beside}))
        bar = attention_row.row_bar(first, view, PATH, second)
        text = json.dumps(bar, default=lambda part: part.to_plotly_json())
        assert (said in text) if said else "of its copy" not in text


def test_the_row_is_drawn_anew_once_the_second_has_been_run(
    app: Dash, client: FlaskClient, data: Data, checkpointed_store: tuple[Path, dict[str, str]]
) -> None:
    query = f"?run={checkpointed_store[1]['rope']}&layer=1&beside=checkpoint:10"
    view, _ = ViewState.parse(query)
    call(app, client, "attention-row.figure", query)
    patiently(lambda: attention_compare.pair_of(data, view))
    assert not attention_compare.waits(data, view)
    answer = call(app, client, "attention-row.figure", query)
    assert len(answer["attention-row"]["figure"]["data"]) == 3
    assert (
        "First" in json.dumps(answer["attention-keys"]) and "in the first" in answer["attention-row-said"]["children"]
    )


@pytest.mark.parametrize(
    "beside", ["run:nobody", "capture:none", "head:999999999", "checkpoint:999999999", "string:999"]
)
def test_a_second_that_is_not_there_leaves_the_first(
    app: Dash, client: FlaskClient, checkpointed_store: tuple[Path, dict[str, str]], beside: str
) -> None:
    answer = call(app, client, "attention-row.figure", f"?run={checkpointed_store[1]['rope']}&beside={beside}")
    assert answer["attention-row"]["figure"]["data"]
    assert "Traceback" not in json.dumps(answer)


def test_without_a_comparison_the_row_is_as_it_was(
    app: Dash, client: FlaskClient, checkpointed_store: tuple[Path, dict[str, str]]
) -> None:
    answer = call(app, client, "attention-row.figure", f"?run={checkpointed_store[1]['rope']}")
    assert len(answer["attention-row"]["figure"]["data"]) == 1
    assert "second" not in json.dumps(answer)
