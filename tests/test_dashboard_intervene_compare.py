"""Intervene on two subjects without a browser: what is shown is what each computes alone, and their difference."""

import ast
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dash import Dash
from flask.testing import FlaskClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from analyses.effects import contrast
from analyses.interventions import Ablation
from models.constructions import CONSTRUCTIONS
from models.errors import UsageError, WorkbenchError
from models.recipes import dump_recipe
from tests.test_dashboard import hostile, request_for, server_callbacks
from tests.test_dashboard_intervene import built
from tests.test_dashboard_playground import models_of, ready, show, text_of, view
from workbench.dashboard import create_app
from workbench.dashboard.beside import second_view
from workbench.dashboard.live_models import LiveModels, Loading
from workbench.dashboard.pages import intervene_compare, intervene_outcome
from workbench.dashboard.pages.intervene_compare import Both, names, swapped
from workbench.dashboard.pages.playground_strings import choose
from workbench.dashboard.state import ViewState
from workbench.figures.intervene import compared_differences
from workbench.runs import Store

BATCH = "input=batch&length=12&count=5&seed=2&distribution=uniform&heads=0.0"
STRING = "text=0110100101&heads=0.0"
Trained = tuple[Path, dict[str, str]]


@pytest.fixture(scope="module")
def app(checkpointed_store: Trained) -> Dash:
    return create_app(checkpointed_store[0])


@pytest.fixture
def models(app: Dash) -> LiveModels:
    return models_of(app)


@pytest.fixture
def ids(checkpointed_store: Trained) -> dict[str, str]:
    return checkpointed_store[1]


def query_of(ids: dict[str, str], query: str) -> str:
    """An address on the rope run; "auto2d" in it stands for the other."""
    return f"?run={ids['rope']}&" + query.replace("auto2d", ids["auto2d"])


def loaded(models: LiveModels, shown: ViewState) -> None:
    """Wait for the models of both subjects, where there are such."""
    for each in (shown, second_view(shown)):
        try:
            ready(models, ViewState(run=each.run, checkpoint=each.checkpoint))
        except WorkbenchError:
            continue


def both_of(models: LiveModels, query: str) -> Both:
    shown = view(query)
    loaded(models, shown)
    chosen = choose(models, shown)
    done = intervene_outcome.run(models, chosen)
    assert done is not None
    both = intervene_compare.run(models, chosen, done, shown)
    assert both is not None
    return both


def opened(app: Dash, client: FlaskClient, contains: str, query: str) -> dict[str, Any]:
    loaded(models_of(app), ViewState.parse(query)[0])
    return show(app, client, contains, query)


def evaluated(code: str) -> tuple[dict[str, Any], Any]:
    """Run a cell of a notebook; its names, and the value of its last expression."""
    found: dict[str, Any] = {}
    tree = ast.parse(code)
    last = tree.body.pop()
    assert isinstance(last, ast.Expr)
    exec(compile(tree, "cell", "exec"), found)
    return found, eval(compile(ast.Expression(last.value), "cell", "eval"), found)


# ---- what is done ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["", "&way=resample", "&way=same-place", "&keys=anchors", "&keys=source&how=zero"])
@pytest.mark.parametrize(
    ("strings", "beside"),
    [
        (BATCH, "checkpoint:5"),
        (BATCH + "&distribution=repeat-structure&period=3", "run:auto2d,checkpoint:10"),
        (STRING, "run:auto2d"),
        (STRING, "layer:1,head:0"),
        ("string=1&heads=0.0", "checkpoint:5,head:1"),
        ("input=generated&length=14&seed=3&heads=0.0", "text:0110110"),
    ],
)
def test_the_code_computes_what_the_page_shows(
    models: LiveModels, ids: dict[str, str], strings: str, beside: str, what: str
) -> None:
    both = both_of(models, query_of(ids, f"{strings}{what}&beside={beside}"))
    found, shown = evaluated(intervene_compare.code(models, both))
    for side, done in (("first", both.first), ("second", both.second)):
        assert shown[side] == (done.controlled or done.effect).as_dict()
        assert all(np.array_equal(a.margins, b.margins) for a, b in zip(found[side][1], done.changed, strict=True))
    pairs = [(done.baseline, done.changed) for done in (both.first, both.second)]
    assert shown["difference"] == {name: one.as_dict() for name, one in contrast(*pairs).items()}
    assert np.allclose(shown["by_index"], both.contrast.values, atol=1e-5)
    assert repr(found["intervention"]) == repr(both.second.intervention)


def test_each_subject_is_what_it_is_alone(models: LiveModels, ids: dict[str, str]) -> None:
    """A batch that both draw alike: the second is the page of its own address."""
    both = both_of(models, query_of(ids, f"{BATCH}&beside=run:auto2d,checkpoint:5"))
    alone = view(f"?run={ids['auto2d']}&checkpoint=5&{BATCH}")
    done = intervene_outcome.run(models, choose(models, alone))
    assert done is not None
    assert both.first.strings == both.second.strings == done.strings
    assert both.second.effect.as_dict() == done.effect.as_dict()


def test_a_named_head_is_ablated_in_place_of_the_ticked_ones(models: LiveModels, ids: dict[str, str]) -> None:
    both = both_of(models, query_of(ids, "text=0110&heads=0.0,0.1&beside=layer:1,head:0"))
    assert both.first.intervention == Ablation(((0, 0), (0, 1)), "zero")
    assert both.second.intervention == Ablation(((1, 0),), "zero")
    assert both.called == ("heads 0.0, 0.1", "head 1.0")


def test_ticked_heads_that_the_second_lacks_are_left_out_with_a_note(
    app: Dash, client: FlaskClient, models: LiveModels, ids: dict[str, str]
) -> None:
    query = query_of(ids, "text=0110&heads=0.0,1.0&beside=run:auto2d")
    both = both_of(models, query)
    assert both.second.intervention == Ablation(((0, 0),), "zero")
    assert "no head 1.0; left out there" in text_of(opened(app, client, "intervene-what.children", query))
    none = opened(app, client, "intervene-what.children", query_of(ids, "text=0110&heads=1.0&beside=run:auto2d"))
    assert "has no head 1.0: choose a head for the second" in text_of(none["intervene-beside"])


def test_heads_that_the_first_lacks_are_done_to_the_second_and_kept_when_swapped(
    models: LiveModels, ids: dict[str, str]
) -> None:
    both = both_of(models, f"?run={ids['auto2d']}&text=0110&heads=0.0,1.0&beside=run:{ids['rope']}")
    assert both.first.intervention == Ablation(((0, 0),), "zero")
    assert both.second.intervention == Ablation(((0, 0), (1, 0)), "zero")
    turned = intervene_compare.swapped(both.pair, both.pair.first.view)
    assert turned is not None
    again = both_of(models, turned.query())
    assert (again.first.intervention, again.second.intervention) == (both.second.intervention, both.first.intervention)


def test_a_generated_string_is_the_same_for_both(models: LiveModels, ids: dict[str, str]) -> None:
    both = both_of(models, query_of(ids, "input=generated&heads=0.0&beside=run:auto2d"))
    assert both.first.strings == both.second.strings and both.pair.same_string
    named = both_of(models, query_of(ids, "input=generated&heads=0.0&beside=run:auto2d,text:01101"))
    assert named.second.strings == ((0, 1, 1, 0, 1),)


def other_alphabet(checkpointed_store: Trained, root: Path) -> tuple[Dash, FlaskClient]:
    """An app over a store whose second run reads a hundred tokens."""
    shutil.copytree(checkpointed_store[0], root)
    run = Store(root).open(checkpointed_store[1]["auto2d"]).path
    (run / "config.toml").write_text(dump_recipe(CONSTRUCTIONS["induction"].recipe))
    save_file(CONSTRUCTIONS["induction"].build().state_dict(), run / "weights.safetensors")
    shutil.rmtree(run / "captures")
    app = create_app(root)
    client = app.server.test_client()
    client.get("/")
    return app, client


def test_a_batch_needs_one_alphabet_and_a_string_only_tokens_that_both_read(
    checkpointed_store: Trained, tmp_path: Path
) -> None:
    app, client = other_alphabet(checkpointed_store, tmp_path / "store")
    ids = checkpointed_store[1]
    refused = query_of(ids, f"{BATCH}&beside=run:auto2d")
    answered = text_of(opened(app, client, "intervene-what.children", refused)["intervene-beside"])
    assert "their alphabets differ" in answered
    assert "Exact match" in text_of(opened(app, client, "intervene-effect.children", refused))
    both = both_of(models_of(app), query_of(ids, "text=0110&heads=0.0&beside=run:auto2d"))
    assert both.first.strings == both.second.strings == ((0, 1, 1, 0),)
    _, shown = evaluated(intervene_compare.code(models_of(app), both))
    assert shown["second"] == both.second.effect.as_dict()
    unread = opened(app, client, "intervene-what.children", f"?run={ids['auto2d']}&text=7.3&beside=run:{ids['rope']}")
    assert "not in the alphabet" in text_of(unread["intervene-beside"])


# ---- differences -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strings", [BATCH, STRING])
def test_the_difference_of_effects_is_paired_and_turns_its_sign(
    models: LiveModels, ids: dict[str, str], strings: str
) -> None:
    both = both_of(models, query_of(ids, f"{strings}&beside=checkpoint:5"))
    sides = [(done.baseline, done.changed) for done in (both.first, both.second)]
    apart, turned, same = contrast(*sides), contrast(*sides[::-1]), contrast(sides[0], sides[0])
    for name in ("exact_match", "token_accuracy", "logit_difference"):
        ours, theirs = (getattr(done.effect, name).difference.value for done in (both.first, both.second))
        value = apart[name].value
        assert value == pytest.approx(ours - theirs, abs=1e-9)
        assert turned[name].value == pytest.approx(-(value or 0), abs=1e-9)
        assert same[name].value == 0 and same[name].interval == (0, 0)
    assert apart["divergence"].value == pytest.approx(
        (both.first.effect.divergence.value or 0) - (both.second.effect.divergence.value or 0)
    )
    margins = both.first.margins.difference - both.second.margins.difference
    assert np.allclose(both.contrast.values, margins, atol=1e-5)


def test_strings_that_are_no_pairs_are_refused(models: LiveModels, ids: dict[str, str]) -> None:
    one = both_of(models, query_of(ids, f"{BATCH}&beside=checkpoint:5")).first
    longer = both_of(models, query_of(ids, f"{BATCH.replace('length=12', 'length=13')}&beside=checkpoint:5")).first
    with pytest.raises(UsageError, match="come in pairs"):
        contrast((one.baseline, one.changed), (one.baseline[:2], one.changed[:2]))
    with pytest.raises(UsageError, match="same length"):
        contrast((one.baseline, one.changed), (longer.baseline, longer.changed))


def test_strings_of_other_lengths_are_compared_up_to_the_shorter(models: LiveModels, ids: dict[str, str]) -> None:
    both = both_of(models, query_of(ids, "text=0110100101&heads=0.0&beside=text:011010"))
    assert both.rows == 6 == len(both.contrast.values)
    assert both.called == ("typed 0110100101", "typed 011010")
    said = intervene_compare.finding(both)
    assert "10 and 6 tokens; compared by position up to 5" in said


def test_panels_share_positions_and_scale_and_zero_is_in_the_middle(models: LiveModels, ids: dict[str, str]) -> None:
    both = both_of(models, query_of(ids, f"{BATCH}&keys=anchors&beside=checkpoint:5"))
    figure = compared_differences(both.first.margins, both.second.margins, both.contrast, ("a<b>", "c"))
    layout = figure.layout
    assert all(trace.xaxis in (None, "x") for trace in figure.data), "one axis of positions, one zoom, one cursor"
    assert layout.yaxis.range == layout.yaxis2.range and layout.yaxis2.matches == "y"
    assert layout.yaxis3.range[0] == -layout.yaxis3.range[1]
    assert "a&lt;b&gt;" in layout.annotations[0].text
    bars = [trace for trace in figure.data if trace.type == "bar"]
    assert (bars[0].y >= 0).all() and (bars[1].y < 0).all()
    drawn = dict(zip([*bars[0].x, *bars[1].x], [*bars[0].y, *bars[1].y], strict=True))
    assert [drawn[k] for k in sorted(drawn)] == both.contrast.values.tolist()


def test_the_finding_says_which_is_hurt_more_and_where(
    trained_store: Path, tmp_path: Path, models: LiveModels, ids: dict[str, str]
) -> None:
    """Of a model that is built by hand each of two heads is needed, one more than the other."""
    app, _ = built(trained_store, tmp_path / "store", "rope-locator")
    for heads, beside in (("0.0", "layer:1,head:0"), ("1.0", "layer:0,head:0")):
        both = both_of(models_of(app), f"?text=011010011&heads={heads}&beside={beside}")
        ours, theirs = (done.effect.logit_difference.difference.value or 0 for done in (both.first, both.second))
        said = intervene_compare.finding(both)
        assert min(abs(ours), abs(theirs)) > 1
        assert said.startswith("The first is hurt more" if ours < theirs else "The second is hurt more")
        at = int(np.abs(both.contrast.values).argmax())
        assert f"at {'EOS' if at == 9 else f'token {at}'} (" in said
    alike = both_of(models_of(app), "?text=011010011&heads=0.0&beside=same")
    assert intervene_compare.finding(alike).startswith("Both change alike")


# ---- the address -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "beside"),
    [
        (BATCH, "checkpoint:5"), (BATCH, "run:auto2d"), (BATCH, "same"), (STRING, "head:1"), (STRING, "layer:1,head:0"),
        (STRING, "run:auto2d,head:1"), ("string=1&heads=0.0", "string:0"), ("string=1&heads=0.0", "run:auto2d"),
        ("input=generated&heads=0.0&length=9", "text:0110"), ("input=generated&heads=0.0", "run:auto2d"),
        ("heads=0.0,0.1&layer=1&text=0110", "run:auto2d"),
    ],
)  # fmt: skip
def test_swapping_turns_the_difference_and_twice_is_the_same(
    models: LiveModels, ids: dict[str, str], query: str, beside: str
) -> None:
    address = query_of(ids, f"{query}&beside={beside}")
    both = both_of(models, address)
    turned_view = swapped(both.pair, view(address))
    assert turned_view is not None
    turned = both_of(models, turned_view.query())
    if "text" not in beside:  # a generated string is typed where it is beside another
        assert turned.called == both.called[::-1]
    assert (turned.first.strings, turned.second.strings) == (both.second.strings, both.first.strings)
    assert np.allclose(turned.contrast.values, -both.contrast.values, atol=1e-5)
    again_view = swapped(turned.pair, view(turned_view.query()))
    assert again_view is not None
    again = both_of(models, again_view.query())
    assert again.first.strings == both.first.strings and again.pair.second.run.id == both.pair.second.run.id
    assert again.first.intervention == both.first.intervention


def test_several_heads_against_one_cannot_be_swapped(app: Dash, client: FlaskClient, ids: dict[str, str]) -> None:
    query = query_of(ids, "text=0110&heads=0.0,0.1&beside=layer:1,head:0")
    said = text_of(opened(app, client, "intervene-what.children", query)["intervene-beside"])
    assert 'Swap"' not in said and "once one head alone is ticked" in said and "Close" in said


# ---- the page --------------------------------------------------------------------------------------------------------


def test_both_effects_and_their_difference_are_shown(
    app: Dash, client: FlaskClient, models: LiveModels, ids: dict[str, str]
) -> None:
    query = query_of(ids, f"{BATCH}&keys=anchors&beside=run:auto2d")
    shown, both = opened(app, client, "intervene-effect.children", query), both_of(models, query)
    table = text_of(shown["intervene-effect"])
    for said in ("First: without", "Second: without", "First − second", "Logit difference beyond control", " ms"):
        assert said in table
    assert shown["intervene-figure"]["aria-label"] == intervene_compare.finding(both)
    assert {trace.get("yaxis", "y") for trace in shown["intervene-graph"]["figure"]["data"]} == {"y", "y2", "y3"}
    assert text_of(shown["intervene-tokens"]).count('"type": "Tr"') == 6
    assert shown["intervene-code"]["children"] == intervene_compare.code(models, both)
    one = opened(app, client, "intervene-effect.children", query_of(ids, f"{STRING}&beside=checkpoint:5"))
    tokens = text_of(one["intervene-tokens"])
    assert "First: step 20" in tokens and "Second: step 5" in tokens and "intervene-grid-second" in tokens


def test_the_numbers_of_the_figure_are_those_drawn(
    app: Dash, client: FlaskClient, models: LiveModels, ids: dict[str, str]
) -> None:
    for beside, columns in (("", 4), ("&beside=text:0110", 8)):
        query = query_of(ids, STRING + beside)
        answered = show(
            app, client, "intervene-margins-numbers.children", query, **{"intervene-margins-opened.data": 1}
        )
        assert text_of(answered).count('\\"scope\\"') == columns or text_of(answered).count("scope") == columns
        assert text_of(answered).count('tr\\"') >= 12
    apart = both_of(models, query).contrast.values
    assert f"{apart[2]:+.3f}".replace("-", "−") in text_of(answered)


def test_nothing_changes_while_nothing_is_compared(app: Dash, client: FlaskClient, ids: dict[str, str]) -> None:
    query = query_of(ids, STRING)
    assert opened(app, client, "intervene-what.children", query)["intervene-beside"]["children"] == []
    shown = opened(app, client, "intervene-effect.children", query)
    names_of = [trace.get("name") for trace in shown["intervene-graph"]["figure"]["data"]]
    assert names_of == ["without", "with the intervention", "change"]
    assert "beside" not in shown["intervene-outcome-shows"]["data"]["view"]


def test_a_batch_offers_no_other_strings(
    app: Dash, client: FlaskClient, models: LiveModels, ids: dict[str, str]
) -> None:
    batch = text_of(opened(app, client, "intervene-what.children", query_of(ids, f"{BATCH}&beside=checkpoint:5")))
    assert "beside-text" not in batch and "beside-string" not in batch and "beside-checkpoint" in batch
    string = text_of(opened(app, client, "intervene-what.children", query_of(ids, "heads=0.0&beside=checkpoint:5")))
    assert "beside-text" in string and "beside-string" in string
    named = both_of(models, query_of(ids, f"{BATCH}&beside=checkpoint:5,text:0000"))
    assert named.first.strings == named.second.strings, "and takes none"


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        ("run:nobody", "nobody"),
        ("checkpoint:7", "step"),
        ("string:99", "no string 99"),
        ("capture:nothing", "nothing"),
        ("of:nobody,capture:x", "nobody"),
        ("text:0192", "not in the alphabet"),
        ("text:" + "01" * 1500, "reads at most 2,000"),
        ("text:999999999.1", "not in the alphabet"),
        ("text:0,run:auto2d&way=resample", "at least 2 tokens"),
    ],
)
def test_a_second_that_cannot_be_shown_says_so_and_the_first_stays(
    app: Dash, client: FlaskClient, ids: dict[str, str], beside: str, said: str
) -> None:
    query = query_of(ids, f"heads=0.0&beside={beside}")
    panel = text_of(opened(app, client, "intervene-what.children", query)["intervene-beside"])
    assert said in panel and "beside-run" in panel and "Close" in panel and "Traceback" not in panel
    shown = text_of(opened(app, client, "intervene-effect.children", query))
    assert "Exact match" in shown and "First − second" not in shown


def test_a_head_that_is_not_there_is_replaced_with_a_note(app: Dash, client: FlaskClient, ids: dict[str, str]) -> None:
    query = query_of(ids, "text=0110&heads=0.0&beside=layer:99,head:99")
    said = text_of(opened(app, client, "intervene-what.children", query)["intervene-beside"])
    assert "no head 99.99; 1.0 is taken" in said


def test_a_second_that_is_being_loaded_is_waited_for(
    app: Dash, client: FlaskClient, models: LiveModels, ids: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    query = query_of(ids, f"{STRING}&beside=checkpoint:5")
    loaded(models, view(query))
    get = models.get

    def slow(run_id: str, step: int | None) -> Any:
        if step == 5:
            raise Loading(f"the model of run {run_id} is being loaded")
        return get(run_id, step)

    monkeypatch.setattr(models, "get", slow)
    panel = text_of(show(app, client, "intervene-what.children", query)["intervene-beside"])
    assert "is being loaded … The first is shown meanwhile" in panel
    assert "Exact match" in text_of(show(app, client, "intervene-effect.children", query))
    assert show(app, client, "intervene-state.children", query)["intervene-wait"]["data"] > 0, "looked at again"


def test_nothing_ticked_still_says_what_to_do(app: Dash, client: FlaskClient, ids: dict[str, str]) -> None:
    for beside in ("checkpoint:5", "head:1"):
        query = query_of(ids, f"text=0110&beside={beside}")
        assert "Tick at least one head" in text_of(opened(app, client, "intervene-effect.children", query))
        assert "Close" in text_of(opened(app, client, "intervene-what.children", query))


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    value=hostile,
    query=st.sampled_from(
        [
            "heads=0.0&beside=head:1",
            "heads=0.0&beside=checkpoint:3,string:99",
            "input=batch&heads=0.0&beside=run:x,of:y",
        ]
    ),
)
def test_no_argument_of_the_page_makes_it_fail(
    app: Dash, client: FlaskClient, ids: dict[str, str], value: Any, query: str
) -> None:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        value = "NaN"
    for output in server_callbacks(app):
        if "intervene" in output:
            body = request_for(app, output, {"url.search": query_of(ids, query)}, value)
            answer = client.post("/_dash-update-component", json=body)
            assert answer.status_code in (200, 204, 413), (output, answer.text)


def test_long_lists_of_heads_are_counted(models: LiveModels, ids: dict[str, str]) -> None:
    both = both_of(models, query_of(ids, "text=0110&heads=0.0&beside=head:1"))
    many = replace(both.pair.first, view=replace(both.pair.first.view, heads=((0, 0), (0, 1), (1, 0))))
    assert names(replace(both.pair, first=many))[0] == "heads 0.0, 0.1, 1.0"
