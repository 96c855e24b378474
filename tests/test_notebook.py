"""What notebooks are given: runs found or trained on the spot, heads and figures without a network, tables."""

import html
import re
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest

from models.errors import UsageError
from models.recipes import load_recipe
from models.tasks import CopyTask
from workbench.notebook import (
    OfflineRenderer,
    Table,
    TokenHeads,
    captured,
    head_map,
    marked,
    own_subject,
    temporary_store,
    train_here,
)
from workbench.runs import STORE_VARIABLE, Store
from workbench.subjects import Subject, load_subject


@pytest.fixture(scope="module")
def subject(trained_store: Path) -> Subject:
    return load_subject(Store(trained_store), "latest", "cpu")


def test_a_store_that_is_named_gives_its_newest_finished_run_of_the_recipe(
    trained_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert own_subject("tiny") is None
    monkeypatch.setenv(STORE_VARIABLE, str(trained_store))
    found = own_subject("tiny")
    assert found is not None and found.name == Store(trained_store).open("latest").id
    assert own_subject("rope-2l") is None


def test_training_gives_the_finished_run_and_leaves_the_users_store_alone(
    tiny_recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = train_here(str(tiny_recipe), ["train.steps=3"])
    assert (found.step, found.run.path.parent) == (3, temporary_store().root)
    assert not (tmp_path / "runs").exists()
    assert "\x1b" not in capsys.readouterr().out, "no bar is redrawn in a cell's output"
    again = train_here(load_recipe(str(tiny_recipe), ["train.steps=3"]), store=Store(tmp_path / "own"))
    assert again.run.path.parent == tmp_path / "own"
    for name, weight in found.load("cpu").model.state_dict().items():
        assert (weight == again.load("cpu").model.state_dict()[name]).all()
    with pytest.raises(UsageError, match="unknown field"):
        train_here(str(tiny_recipe), ["train.stps=3"])


def test_captured_strings_hold_the_patterns_of_the_model(subject: Subject) -> None:
    batch = CopyTask(subject.recipe.task).encode(["0110", "10"])
    capture = captured(subject.model, batch)
    assert len(capture) == 2 and capture.string(1).length == 2
    _, cache = subject.model.run_with_cache(batch.select([0]).tokens)
    n = len(capture.string(0).tokens)
    tile = capture.string(0).head(0, 0).tile(slice(0, n), slice(0, n))
    np.testing.assert_allclose(tile, cache["pattern", 0][0, 0].numpy(), atol=1e-5)
    figure = head_map(capture.string(0), 0, 0, "t", rows=slice(-3, None), cols=slice(0, 4))
    assert figure.data[0].z.shape == (3, 4)


def test_circuitsvis_stands_alone_in_a_frame_without_an_origin(subject: Subject) -> None:
    string = captured(subject.model, CopyTask(subject.recipe.task).encode(["0110"])).string(0)
    frame = TokenHeads(string, 0)._repr_html_()
    assert frame.startswith('<iframe sandbox="allow-scripts" srcdoc="') and frame.count("<") == 2
    page = html.unescape(re.search(r'srcdoc="(.*?)"', frame, re.DOTALL)[1])
    assert "CircuitsVis.render" in page and not re.search(r"<(script|link|img)[^>]*(src|href)=", page)
    assert page.count("</script>") == 4, "nothing in the script ends its element"
    with pytest.raises(UsageError, match="200"):
        TokenHeads(captured(subject.model, CopyTask(subject.recipe.task).encode(["01" * 60])).string(0), 0)


def test_figures_ask_no_other_machine() -> None:
    page = OfflineRenderer().to_mimebundle(go.Figure(go.Scatter(y=[1, 2])).to_dict())["text/html"]
    assert "http" not in page and "Plotly.newPlot" in page


def test_tables_are_escaped_and_aligned() -> None:
    table = Table(["a", "<b>"], [["x", 0.125], ["<i>", 3]])
    assert "<i>" not in table._repr_html_() and "&lt;i&gt;" in table._repr_html_() and "0.12" in table._repr_html_()
    lines = repr(table).splitlines()
    assert [line.index(cell) for line, cell in zip(lines, ("<b>", "0.12", "3"), strict=True)] == [5, 5, 5]


def test_marks_stand_below_their_tokens() -> None:
    assert marked([0, 1, 1], 2, [0]) == "011\n* ^"
    assert marked([0, 1], 2) == "01\n  ^"
    text, marks = marked([5, 12, 3], 1, [2]).splitlines()
    assert (text[marks.index("^") - 1 : marks.index("^") + 1], text[marks.index("*")]) == ("12", "3")
