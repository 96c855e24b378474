"""A captured string under the weights of other checkpoints and other runs, without a browser."""

import json
from pathlib import Path

import numpy as np
import pytest
from dash import Dash
from flask.testing import FlaskClient

from models.errors import UsageError
from tests.checkpointed import chosen, patiently
from workbench.dashboard import create_app, recaptures, weights_bar
from workbench.dashboard.data import Data
from workbench.dashboard.parts import Nothing
from workbench.dashboard.state import ViewState

STEPS = (5, 10, 15, 20)


@pytest.fixture(scope="module")
def app(checkpointed_store: tuple[Path, dict[str, str]]) -> Dash:
    return create_app(checkpointed_store[0])


@pytest.fixture
def trained(checkpointed_store: tuple[Path, dict[str, str]]) -> tuple[Path, dict[str, str]]:
    return checkpointed_store


def test_a_string_under_the_weights_it_was_captured_with_is_the_capture(
    data: Data, trained: tuple[Path, dict[str, str]]
) -> None:
    """The newest weights, asked for as those of another run's string would be, give the captured numbers again."""
    run = trained[1]["rope"]
    there = chosen(data, ViewState(run=run))
    wanted = recaptures.Wanted(run, 20, run, there.listed, there.index)
    again = patiently(lambda: data.recaptures.get(wanted)).string(0)
    for name in ("tokens", "targets", "predicted", "source_position", "anchor_positions"):
        assert np.array_equal(getattr(again, name), getattr(there.string, name)), name
    whole = slice(0, there.n_tokens)
    for layer, head in ((0, 0), (0, 1), (1, 0)):
        assert again.head(layer, head).tile(whole, whole) == pytest.approx(
            there.string.head(layer, head).tile(whole, whole), abs=1e-5
        )


def test_an_earlier_step_is_the_same_string_under_other_weights(
    data: Data, trained: tuple[Path, dict[str, str]]
) -> None:
    captured = chosen(data, ViewState(run=trained[1]["rope"], string=1))
    early = chosen(data, ViewState(run=trained[1]["rope"], string=1, checkpoint=5))
    assert (captured.step, early.step) == (20, 5)
    assert captured.view.checkpoint is None and early.view.checkpoint == 5
    assert np.array_equal(early.string.tokens, captured.string.tokens)
    whole = slice(0, early.n_tokens)
    difference = early.string.head(1, 0).tile(whole, whole) - captured.string.head(1, 0).tile(whole, whole)
    assert np.abs(difference).max() > 1e-3
    assert early.listed is captured.listed and early.order == captured.order, "the list of strings stays"


def test_a_step_that_was_not_kept_is_replaced_with_a_note(data: Data, trained: tuple[Path, dict[str, str]]) -> None:
    near = chosen(data, ViewState(run=trained[1]["rope"], checkpoint=11))
    assert near.step == 10
    assert "kept no weights of step 11" in near.notes[0]
    at_rest = chosen(data, ViewState(run=trained[1]["rope"], checkpoint=999))
    assert at_rest.view.checkpoint is None and at_rest.step == 20


def test_a_long_string_is_refused_with_the_command_to_type(
    data: Data, trained: tuple[Path, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recaptures, "LONGEST", 10)
    fresh = recaptures.Recaptures(" --store somewhere")
    fresh.models = data.recaptures.models
    there = chosen(data, ViewState(run=trained[1]["rope"]))
    with pytest.raises(Nothing, match="up to 10 tokens") as refused:
        fresh.get(recaptures.Wanted(trained[1]["rope"], 5, trained[1]["rope"], there.listed, 0))
    assert f"--checkpoint 5 --length {there.string.length}" in refused.value.commands[0]
    assert refused.value.commands[0].endswith("--store somewhere")


def test_few_strings_are_kept_and_nothing_is_left_when_the_dashboard_closes(
    data: Data, trained: tuple[Path, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recaptures, "_KEPT", 2)
    fresh = recaptures.Recaptures("")
    fresh.models = data.recaptures.models
    run = trained[1]["rope"]
    listed = chosen(data, ViewState(run=run)).listed
    folders = []
    for step in STEPS:
        capture = patiently(lambda step=step: fresh.get(recaptures.Wanted(run, step, run, listed, 0)))
        folders.append(capture.folder)
    assert [folder.is_dir() for folder in folders] == [False, False, True, True]
    fresh.close()
    assert not any(folder.exists() for folder in folders)
    assert trained[0] not in folders[0].parents, "the store is not written to"


def test_the_slider_names_its_step_and_what_is_copied(data: Data, trained: tuple[Path, dict[str, str]]) -> None:
    view = ViewState(run=trained[1]["rope"], checkpoint=10)
    string = chosen(data, view).string
    bar, ready = weights_bar.weights_bar(data, view, "/attention")
    text = json.dumps(bar, default=lambda part: part.to_plotly_json())
    assert ready
    assert '"data-steps": "5,10,15,20"' in text and '"aria-valuenow": "1"' in text
    assert '"aria-valuetext": "step 10, ' in text
    assert ("string copied" if string.exact else "wrong") in text
    assert "loss " in text and "exact match " in text
    assert f"/attention?run={view.run}&checkpoint=15" in text
    resting, _ = weights_bar.weights_bar(data, view.change(checkpoint=15), "/attention")
    onward = json.dumps(resting, default=lambda part: part.to_plotly_json())
    assert f'"/attention?run={view.run}"' in onward, "the last step is the capture itself, which needs no field"


def test_another_runs_string_is_looked_at_under_its_own_name(
    app: Dash, client: FlaskClient, data: Data, trained: tuple[Path, dict[str, str]]
) -> None:
    rope, auto2d = trained[1]["rope"], trained[1]["auto2d"]
    own = chosen(data, ViewState(run=rope))
    other = chosen(data, ViewState(run=auto2d, of=rope))
    assert (other.run.id, other.owner.id) == (auto2d, rope)
    assert other.capture.heads == (2,) and other.scheme == "auto2d"
    assert np.array_equal(other.string.tokens, own.string.tokens)
    assert other.name == f"{own.view.capture}@newest@{auto2d}"
    picture = f"/thumbnail/{rope}/{other.name}/{other.view.string}/0/1/cividis-sqrt.png"
    assert client.get(picture).status_code == 200
    assert client.get(picture.replace("/0/1/", "/1/0/")).status_code == 404, "the other run has one layer"


@pytest.mark.parametrize("name", ["x@", "x@y", "x@5@..", "x@5@a@b", "@5", "x@-1", "x@9" + "9" * 40, "x@newest@nobody"])
def test_names_of_captures_are_hostile(client: FlaskClient, trained: tuple[Path, dict[str, str]], name: str) -> None:
    real = next((trained[0] / trained[1]["rope"] / "captures").iterdir()).name
    for called in (name, name.replace("x", real, 1)):
        for address in (
            "/thumbnail/{}/{}/0/0/0/cividis-sqrt.png",
            "/tokens/{}/{}/0/0/0",
            "/export/{}/{}/0/0/0/0-4.0-4.csv",
        ):
            answer = client.get(address.format(trained[1]["rope"], called))
            assert 400 <= answer.status_code < 500
            assert "Traceback" not in answer.text


def test_files_of_an_earlier_step_hold_its_cells(
    client: FlaskClient, data: Data, trained: tuple[Path, dict[str, str]]
) -> None:
    early = chosen(data, ViewState(run=trained[1]["rope"], checkpoint=5))
    there = f"/export/{early.owner.id}/{early.name}/{early.view.string}/1/0/0-6.0-6.csv"
    lines = client.get(there).text.splitlines()
    weights = np.array([float(line.rsplit(",", 1)[1]) for line in lines[1:]], np.float32).reshape(6, 6)
    assert np.array_equal(weights, early.string.head(1, 0).tile(slice(0, 6), slice(0, 6)))


def test_a_foreign_token_is_refused_by_name(data: Data, trained: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    """A string of a larger alphabet cannot be run by a model of a smaller one."""
    there = chosen(data, ViewState(run=trained[1]["rope"]))
    there.listed.names[0], kept = "other", there.listed.names[0]
    try:
        with pytest.raises(UsageError, match="knows no token 'other'"):
            patiently(
                lambda: data.recaptures.get(
                    recaptures.Wanted(trained[1]["auto2d"], 10, trained[1]["rope"], there.listed, 1)
                )
            )
    finally:
        there.listed.names[0] = kept
