"""Intervene without a browser: what the page shows is what its code computes, and nothing it is asked makes it fail."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dash import Dash
from flask.testing import FlaskClient
from safetensors.torch import save_file

from analyses.interventions import Ablation, Knockout
from models.constructions import CONSTRUCTIONS
from models.evaluation import wilson
from models.recipes import dump_recipe
from tests.test_dashboard_playground import cells, models_of, ready, show, text_of, view
from workbench.content.heads import About, HeadContent, HeadsContent
from workbench.dashboard import create_app
from workbench.dashboard.live_models import LiveModels
from workbench.dashboard.pages import intervene_outcome
from workbench.dashboard.pages.intervene_outcome import Done
from workbench.dashboard.pages.playground_strings import choose
from workbench.dashboard.state import ViewState
from workbench.reports import keep
from workbench.runs import Store

BATCH = "?input=batch&length=20&count=6&seed=2&distribution=uniform&heads=0.0"
STRING = "?text=0110100101&heads=0.0"


@pytest.fixture(scope="module")
def app(trained_store: Path) -> Dash:
    app = create_app(trained_store)
    ready(models_of(app), ViewState())
    return app


@pytest.fixture
def models(app: Dash) -> LiveModels:
    return models_of(app)


def done_by(models: LiveModels, query: str) -> Done:
    done = intervene_outcome.run(models, choose(models, view(query)))
    assert done is not None
    return done


# ---- the code --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "what",
    ["", "&way=mean", "&way=resample", "&way=same-place", "&keys=anchors", "&keys=source&how=zero",
     "&keys=wrong-candidates(2)", "&keys=first"],
)  # fmt: skip
@pytest.mark.parametrize(
    "strings",
    [BATCH, STRING, "?string=1&heads=0.0", "?input=generated&length=14&seed=3&period=3&flip=0.2"
     "&distribution=repeat-structure&heads=0.0&step=10", BATCH + "&step=5&period=4"],
)  # fmt: skip
def test_the_code_computes_what_the_page_shows(models: LiveModels, strings: str, what: str) -> None:
    done = done_by(models, strings + what)
    names: dict[str, Any] = {}
    *lines, shown = done.code.splitlines()
    exec("\n".join(lines), names)
    shown_by_page = done.controlled or done.effect
    assert eval(shown, names) == shown_by_page.as_dict()
    assert repr(names["intervention"]) == repr(done.intervention)
    margins = [outcome.margins for outcome in names["changed"]]
    assert all(np.array_equal(a, b.margins) for a, b in zip(margins, done.changed, strict=True))
    assert max(map(len, done.code.splitlines())) <= 120 or "string" in strings or "/" in done.code


def test_the_view_says_what_is_done(models: LiveModels) -> None:
    assert done_by(models, BATCH + "&way=mean").intervention == Ablation(((0, 0),), "mean")
    knockout = done_by(models, BATCH + "&keys=wrong-candidates(3)&how=zero").intervention
    assert knockout == Knockout("wrong-candidates(3)", ((0, 0),), "zero")
    assert intervene_outcome.run(models, choose(models, view("?text=0110"))) is None


def test_one_string_takes_values_from_others_and_shows_itself(models: LiveModels) -> None:
    done = done_by(models, STRING + "&way=resample")
    assert done.strings == ((0, 1, 1, 0, 1, 0, 0, 1, 0, 1),)
    assert len(done.baseline) == len(done.changed) == 1
    assert done.code.count("[:1]") == 2


# ---- the page --------------------------------------------------------------------------------------------------------


def test_a_batch_is_shown_beside_its_baseline_and_control(app: Dash, client: FlaskClient, models: LiveModels) -> None:
    query = BATCH + "&keys=anchors"
    answered = show(app, client, "intervene-effect.children", query)
    done = done_by(models, query)
    table = text_of(answered["intervene-effect"])
    hits = sum(bool(one.right.all()) for one in done.baseline)
    low, high = wilson(hits, 6)
    assert f"{hits / 6:.2f}" in table and f"[{low:.2f}, {high:.2f}]" in table
    assert "Control" in table and "Beyond control" in table and "Attention removed" in table
    names = [trace.get("name") for trace in answered["intervene-graph"]["figure"]["data"]]
    assert names == ["without", "with the intervention", "with its control", "95 % interval", "change"]
    changed = sum(int((a != b).sum()) for a, b, _ in map(done.answers, range(6)))
    assert f"{changed:,} of {6 * 21:,} predicted tokens change" in answered["intervene-figure"]["aria-label"]
    assert answered["intervene-code"]["children"] == done.code
    assert text_of(answered["intervene-tokens"]).count('"type": "Tr"') == 7
    ablation = text_of(show(app, client, "intervene-effect.children", BATCH)["intervene-effect"])
    assert "Control" not in ablation


def test_paired_differences_and_their_interval(models: LiveModels) -> None:
    margins = done_by(models, BATCH + "&keys=anchors").margins
    assert margins.low is not None and margins.high is not None and margins.control is not None
    assert np.allclose(margins.difference, margins.changed - margins.baseline)
    assert (margins.low <= margins.difference + 1e-6).all() and (margins.difference <= margins.high + 1e-6).all()
    assert done_by(models, STRING).margins.low is None, "one string has no interval"


def test_one_string_is_shown_token_by_token(app: Dash, client: FlaskClient, models: LiveModels) -> None:
    answered = show(app, client, "intervene-effect.children", STRING)
    before, after = done_by(models, STRING).answers(0)
    names = ready(models, ViewState()).vocabulary.names
    assert [cell["children"] for cell in cells(answered, 1)] == [names[i] for i in before]
    assert [cell["children"] for cell in cells(answered, 2)] == [names[i] for i in after]
    marked = [k for k, cell in enumerate(cells(answered, 2)) if "changed" in cell["className"].split()]
    assert marked == np.flatnonzero(before != after).tolist()


def built(trained_store: Path, root: Path, name: str) -> tuple[Dash, FlaskClient]:
    """An app over a store whose run is a hand-built model."""
    shutil.copytree(trained_store, root)
    run = Store(root).open("latest").path
    (run / "config.toml").write_text(dump_recipe(CONSTRUCTIONS[name].recipe))
    save_file(CONSTRUCTIONS[name].build().state_dict(), run / "weights.safetensors")
    shutil.rmtree(run / "captures")
    app = create_app(root)
    client = app.server.test_client()
    client.get("/")
    ready(models_of(app), ViewState())
    return app, client


def test_an_exact_model_fails_without_its_heads(trained_store: Path, tmp_path: Path) -> None:
    app, client = built(trained_store, tmp_path / "store", "rope-locator")
    query = "?input=batch&count=5&length=12&distribution=uniform&heads=0.0,1.0"
    answered = show(app, client, "intervene-effect.children", query)
    table, strings = text_of(answered["intervene-effect"]), text_of(answered["intervene-tokens"])
    assert "1.00" in table and "−1.00" in table
    assert "5 of 5 change" in strings and strings.count("✓") == 5 and strings.count("✕") == 5
    one = show(app, client, "intervene-effect.children", "?text=011010011&heads=0.0,1.0")
    kinds = [cell["className"].split() for cell in cells(one, 2)]
    assert any("changed" in kind and "wrong" in kind for kind in kinds)
    assert not any("wrong" in cell["className"] for cell in cells(one, 1))


def test_a_large_alphabet_is_typed_with_dots(trained_store: Path, tmp_path: Path) -> None:
    app, client = built(trained_store, tmp_path / "store", "induction")
    done = done_by(models_of(app), "?text=12.7.99.3&heads=1.0")
    assert done.strings == ((12, 7, 99, 3),)
    names: dict[str, Any] = {}
    exec(done.code, names)
    assert names["effect"].as_dict() == done.effect.as_dict()
    bar = text_of(show(app, client, "playground-row.figure", "?text=12.7.99.3&row=3"))
    assert "text=12.8.99.3" in bar or "text=12.6.99.3" in bar


def test_nothing_ticked_says_what_to_do(app: Dash, client: FlaskClient) -> None:
    answered = show(app, client, "intervene-effect.children", "?text=0110")
    assert "Tick at least one head" in text_of(answered)
    assert answered["intervene-code"]["children"] == ""


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (BATCH + "&keys=nothing", "nknown class of keys"),
        (BATCH + "&keys=anchors(3)", "write anchors"),
        (BATCH + "&keys=wrong-candidates(9)", "m is 1 to 8"),
        (BATCH.replace("count=6", "count=99999"), "strings of this length"),
        (BATCH.replace("count=6", "count=0"), "at least 1"),
        (BATCH.replace("count=6", "count=1") + "&way=resample", "at least 2 strings"),
        (BATCH.replace("length=20", "length=1000"), "at most 997"),
        ("?text=1&heads=0.0&way=resample", "at least 2 tokens"),
    ],
)
def test_what_cannot_be_is_said(app: Dash, client: FlaskClient, query: str, said: str) -> None:
    answered = text_of(show(app, client, "intervene-effect.children", query))
    state = text_of(show(app, client, "intervene-state.children", query))
    assert said in answered or said in state
    assert "Traceback" not in answered


def test_heads_of_another_model_are_left_out_with_a_note(app: Dash, client: FlaskClient, models: LiveModels) -> None:
    answered = text_of(show(app, client, "intervene-what.children", "?text=0110&heads=0.0,3.7"))
    assert "not in this model" in answered
    assert done_by(models, "?text=0110&heads=0.0,3.7").intervention == Ablation(((0, 0),), "zero")


def test_heads_are_ticked_one_by_one_and_all(app: Dash, client: FlaskClient) -> None:
    nothing = text_of(show(app, client, "intervene-what.children", "?text=0110"))
    assert '"aria-checked": "false"' in nothing and "heads=0.0" in nothing
    assert "workbench heads tiny-s0" in nothing, "labels need a report; the command is said"
    ticked = text_of(show(app, client, "intervene-what.children", "?text=0110&heads=0.0"))
    assert '"aria-checked": "true"' in ticked


def test_heads_are_ticked_by_label(trained_store: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(trained_store, tmp_path / "store"))
    run = Store(root).open("latest")
    for step in (10, 20):
        head = HeadContent(layer=0, head=0, label=f"locator<b>{step}", margin=0.5, certain=True, scores={})
        about = About(created="2026-01-01T00:00:00Z", versions={}, seed=0, device="cpu")
        keep.keep(
            run,
            HeadsContent(
                subject=run.id, recipe="tiny", step=step, schemes=("rope2d",), finding="", heads=(head,), strings=(),
                rules=(), expectations={}, about=about,
            ),
        )  # fmt: skip
    app = create_app(root)
    client = app.server.test_client()
    client.get("/")
    for query in ("", "?step=10", "?step=5"):
        ready(models_of(app), ViewState.parse(query)[0])
    newest = text_of(show(app, client, "intervene-what.children", ""))
    assert "locator<b>20 · 1" in newest and "heads=0.0" in newest
    assert "locator<b>10 · 1" in text_of(show(app, client, "intervene-what.children", "?step=10"))
    assert "labels are those of step 20" in text_of(show(app, client, "intervene-what.children", "?step=5"))


def test_a_long_batch_is_sent_in_little(app: Dash, client: FlaskClient) -> None:
    answered = show(app, client, "intervene-effect.children", "?input=batch&length=990&count=10&heads=0.0")
    assert len(text_of(answered)) < 1_500_000
