"""Help, the list of keys, tables of figures; and every page under every hostile value of every field of a view."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dash import Dash, html
from flask.testing import FlaskClient

from analyses.labels import RULES
from tests import checkpointed, fake_store
from tests.test_dashboard import call, request_for, server_callbacks
from workbench.cli import app as command_line
from workbench.dashboard import create_app
from workbench.dashboard.numbers import MOST_ROWS, at_most, plain
from workbench.dashboard.pages import PAGES, help_words
from workbench.dashboard.pages.help import page_list
from workbench.dashboard.pages.help_pictures import A, B, N, T, pattern, picture
from workbench.dashboard.shortcuts import SHORTCUTS, shortcut_table
from workbench.dashboard.state import ViewState, Zoom
from workbench.figures.space import LABEL_STYLES

# A value of every field that is not its default: what a link has to carry.
OTHER: dict[str, Any] = {
    "run": "a", "runs": ("a", "b"), "capture": "c", "string": 3, "layer": 1, "head": 2, "row": 9,
    "zoom": Zoom(1, 5, 0, 4), "scale": "linear", "palette": "viridis", "source": False, "tab": "tokens",
    "checkpoint": 100, "score": "aligned.mass", "sort": "-margin", "pane": "space", "input": "batch", "text": "0110",
    "distribution": "uniform", "length": 7, "seed": 4, "period": 3, "flip": 0.25, "count": 5, "mode": "free",
    "heads": ((0, 1), (1, 0)), "fed": ((1, 0), (3, 1)), "way": "mean", "keys": "anchors", "how": "zero",
    "drawn": "strings", "order": "-length", "cause": "stop",
}  # fmt: skip
HOSTILE = ("", "-1", "999999999", "NaN", "1e99", "../../etc/passwd", "<script>", "‮", "a" * 4000, "0-1", "on,off")
# Run models, which the store of these tests does not hold: tests/test_dashboard_playground.py and _intervene.py.
WITHOUT = {"/playground", "/intervene"}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    root = tmp_path_factory.mktemp("help") / "store"
    return root, fake_store.fill(root)


@pytest.fixture(scope="module")
def app(filled: tuple[Path, dict[str, str]]) -> Dash:
    return create_app(filled[0])


def written(component: Any) -> str:
    return json.dumps(component.to_plotly_json(), default=lambda part: part.to_plotly_json(), ensure_ascii=False)


# ---- help ------------------------------------------------------------------------------------------------------------


def test_help_names_every_other_page_by_its_own_words_and_keeps_the_view() -> None:
    text = written(page_list(ViewState(run="a", layer=1)))
    for path in PAGES:
        if path != "/help":
            assert PAGES[path].purpose in text
            assert f'"{path}?run=a&layer=1"' in text


def test_help_has_the_rules_of_the_classifier_each_with_its_look() -> None:
    text = written(PAGES["/help"].layout())
    for rule in RULES:
        assert rule.sentence in text
        assert all(str(condition) in text for condition in rule.conditions)
        assert rule.label in LABEL_STYLES, "a label looks like itself everywhere"


def test_every_term_is_there_once_and_those_of_the_papers_name_their_place() -> None:
    names = [term.name for term in help_words.TERMS]
    assert len(set(names)) == len(names)
    asked = ["locator", "induction", "aligned", "previous-token", "anchors", "competitor", "exact", "survival"]
    assert all(any(word in name for name in names) for word in asked)
    assert all(term.source for term in help_words.TERMS if term.name in ("exact match", "survival", "locator"))


def test_the_commands_of_help_exist() -> None:
    verbs = {
        command.name or command.callback.__name__.replace("_", "-") for command in command_line.registered_commands
    }
    for command, _ in help_words.COMMANDS:
        assert command.split()[0] in verbs


def test_commands_name_the_store_that_is_served(app: Dash, client: FlaskClient, filled: tuple[Path, Any]) -> None:
    answer = json.dumps(call(app, client, "help-store.children", ""))
    assert str(filled[0]) in answer
    assert f"workbench heads latest --store {filled[0]}" in answer


def test_pictures_are_patterns_of_what_they_stand_for() -> None:
    for label in LABEL_STYLES:
        if picture(label) is None:
            continue
        weights = pattern(label)
        assert weights.sum(axis=1) == pytest.approx(np.ones(T))
        assert not np.triu(weights, 1).any(), "no query sees a later key"
    copying = np.arange(A + N + B - 1, T)
    sources = copying - (A + N + B - 1) + A
    assert (pattern("aligned")[copying, sources] == 1).all()
    anchors = [*range(A), *range(A + N, A + N + B)]
    assert pattern("locator")[:, anchors].sum(axis=1) == pytest.approx(np.ones(T))
    on_source = pattern("induction")[copying, sources]
    assert 0.3 < on_source.mean() < 1, "it also goes where else the context fits"


def test_keys_of_the_list_stand_for_themselves() -> None:
    text = written(shortcut_table(where=False))
    assert text.count("data-here") == len(SHORTCUTS)
    assert "data-here" not in written(shortcut_table(where=True))
    assert all(shortcut.does in text for shortcut in SHORTCUTS)


def test_pages_put_every_key_of_the_list_on_a_control_and_no_other(
    checkpointed_store: tuple[Path, dict[str, str]],
) -> None:
    root, ids = checkpointed_store
    app = create_app(root)
    client, data = app.server.test_client(), app.server.extensions["workbench"]
    found: set[str] = set()
    for layer in (0, 1):
        for head in (0, 1):
            view = ViewState(run=ids["rope"], string=head, checkpoint=10, layer=layer, head=head)
            checkpointed.chosen(data, view)
            for page in ("attention", "coordinates"):
                for output in server_callbacks(app):
                    if f"{page}-" in output and "-shows.data" in output:
                        body = request_for(app, output, {"url.search": view.query(), "url.pathname": f"/{page}"})
                        answer = client.post("/_dash-update-component", json=body).get_data(as_text=True)
                        found |= set(re.findall(r'aria-keyshortcuts\\?": ?\\?"([^"\\]+)', answer))
    listed = {key for shortcut in SHORTCUTS if shortcut.here is None for key in shortcut.keys}
    assert found == listed


# ---- tables of figures -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2, 200, 201, 20_000])
def test_a_long_table_is_thinned_evenly_and_keeps_its_ends(count: int) -> None:
    rows = at_most(count)
    assert len(rows) == min(count, MOST_ROWS)
    assert len(set(rows.tolist())) == len(rows)
    if count:
        assert (rows[0], rows[-1]) == (0, count - 1)


def test_the_table_of_a_map_is_what_its_pattern_holds(app: Dash, client: FlaskClient, filled: tuple[Path, Any]) -> None:
    query = f"?run={filled[1]['rope']}&string=0&layer=1"
    answer = call(app, client, "attention-map-numbers.children", query, **{"attention-map-opened.data": 1})
    text = answer["attention-map-numbers"]["children"]["props"]["data-plain"]
    said = call(app, client, "attention-map-said.children", query)["attention-map-said"]["children"]
    assert text.count('"tr"') == 61 + 1, "60 copied tokens and EOS, below the heading"
    assert "mean weight on the true source is" in said


def test_elements_are_written_short_and_text_stays_text() -> None:
    shown = html.Div(
        [
            html.Button("<b>", type="button", className="cell", tabIndex=-1, style={"--p": "0.5"}),
            ["a", html.B("c")],
            None,
        ],
        **{"data-grid": "1"},
    )
    told = json.loads(plain(shown).to_plotly_json()["props"]["data-plain"])
    button = ["button", {"class": "cell", "tabindex": -1, "style": "--p:0.5"}, "<b>"]
    assert told == ["div", {"data-grid": "1"}, [button, ["a", ["b", {}, "c"]], ""]]


@pytest.mark.parametrize("opened", [None, "x", [], -1, float("inf")])
@pytest.mark.parametrize("name", ["runs-training", "runs-lengths", "attention-map"])
def test_tables_answer_whatever_asked(app: Dash, client: FlaskClient, name: str, opened: Any) -> None:
    output = next(n for n in server_callbacks(app) if f"{name}-numbers.children" in n)
    for query in ("", "?run=none", "?zoom=x"):
        body = request_for(app, output, {f"{name}-opened.data": opened, "url.search": query})
        answer = client.post("/_dash-update-component", data=json.dumps(body), content_type="application/json")
        assert answer.status_code == (200 if type(opened) is int else 204), "only what was opened is filled"
        assert "Traceback" not in answer.text


# ---- addresses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(ViewState)])
def test_every_field_of_a_view_is_carried_by_a_link(field: str) -> None:
    if field in OTHER:
        view = dataclasses.replace(ViewState(), **{field: OTHER[field]})
    else:  # a switch, or one of a few words: any value that is read back as itself
        reads = next(f for f in dataclasses.fields(ViewState) if f.name == field).metadata["codec"].read
        values = [
            value for text in ("on", "off", "7", "a", "length", "cause", "layer:1") if (value := _read(reads, text))
        ]
        view = dataclasses.replace(ViewState(), **{field: values[0]})
    assert view != ViewState()
    assert ViewState.parse(view.query()) == (view, [])


def _read(reads: Any, text: str) -> Any:
    try:
        return reads(text)
    except ValueError:
        return None


@pytest.mark.parametrize("path", [path for path in PAGES if path not in WITHOUT])
def test_a_page_answers_every_hostile_value_of_every_field(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict[str, str]], path: str
) -> None:
    name = PAGES[path].name
    regions = [n for n in server_callbacks(app) if f"{name}-" in n and "-shows.data" in n] or list(
        server_callbacks(app)
    )
    assert regions
    fields = [f.name for f in dataclasses.fields(ViewState)]
    for at, field in enumerate(fields):
        bad = HOSTILE[at % len(HOSTILE)]
        query = f"?{field}={bad}&run={filled[1]['rope']}" if field != "run" else f"?run={bad}"
        _, notes = ViewState.parse(query)
        assert all(len(note) < 300 and "\n" not in note for note in notes)
        for output in regions:
            answer = client.post("/_dash-update-component", json=request_for(app, output, {"url.search": query}))
            assert answer.status_code in (200, 204), f"{output} at {query}"
            assert "Traceback" not in answer.text
