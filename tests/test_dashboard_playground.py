"""The Playground without a browser, and the models that the server keeps for it."""

import json
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dash import Dash
from flask.testing import FlaskClient

from analyses.decoding import teacher_forced
from models.errors import UsageError, WorkbenchError
from models.evaluation import answer, greedy_copy
from models.tasks import CopyTask
from tests.test_dashboard import call, request_for, server_callbacks
from workbench.dashboard import create_app, live_models
from workbench.dashboard.gate import Gate
from workbench.dashboard.live_models import MOST_TOKENS, Live, LiveModels, Loading, require_size
from workbench.dashboard.pages.playground_strings import choose, read_tokens, write_tokens
from workbench.dashboard.parts import Nothing
from workbench.dashboard.state import ViewState

OPEN = {"playground-open.data": 1, "playground-at.data": -1, "intervene-open.data": 1}


def view(query: str) -> ViewState:
    parsed, notes = ViewState.parse(query)
    assert notes == []
    return parsed


def models_of(app: Dash) -> LiveModels:
    return app.server.extensions["workbench-models"]


def ready(models: LiveModels, shown: ViewState) -> Live:
    """Wait for a view's model."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            return choose(models, shown).live
        except Loading:
            time.sleep(0.05)
    raise AssertionError("the model was never loaded")


def show(app: Dash, client: FlaskClient, contains: str, query: str, **values: Any) -> dict[str, Any]:
    """What a region shows in a page that is open."""
    return call(app, client, contains, query, **{**OPEN, **values})


def text_of(answered: Any) -> str:
    return json.dumps(answered, ensure_ascii=False)


@pytest.fixture(scope="module")
def app(trained_store: Path) -> Dash:
    app = create_app(trained_store)
    ready(models_of(app), ViewState())
    return app


# ---- the copy --------------------------------------------------------------------------------------------------------


def as_props(element: list[Any]) -> dict[str, Any]:
    """Properties of a component that `numbers.plain` wrote as an element."""
    _, written, children = element
    style = dict(part.split(":", 1) for part in written.get("style", "").split(";") if part)
    return {**written, "className": written.get("class", ""), "children": children, "style": style}


def cells(answered: dict[str, Any], line: int) -> list[dict[str, Any]]:
    """Properties of the cells of a line of the token grid, in order."""
    found: list[dict[str, Any]] = []

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            props = node.get("props", {})
            if "data-plain" in props:
                walk(json.loads(props["data-plain"]))
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            column = len(node) == 3 and isinstance(node[1], dict) and node[1].get("class") == "col"
            if column and len(node[2]) > 1 + line and node[2][1 + line][0] == "button":
                found.append(as_props(node[2][1 + line]))
            for part in node:
                walk(part)

    walk(answered)
    return found


def test_both_copies_are_those_of_the_model(app: Dash, client: FlaskClient) -> None:
    live = ready(models_of(app), ViewState())
    batch = CopyTask(live.task).encode(["0110101101"])
    answered = show(app, client, "playground-copy.children", "?text=0110101101")
    names = live.vocabulary.names
    assert [cell["children"] for cell in cells(answered, 0)][:10] == list("0110101101")
    outcome = answer(live.subject.model, batch)
    assert [cell["children"] for cell in cells(answered, 1)] == [names[i] for i in outcome.predicted[0]]
    assert [cell["children"] for cell in cells(answered, 2)] == [
        names[i] for i in greedy_copy(live.subject.model, batch)[0]
    ]
    wrong = [k for k, cell in enumerate(cells(answered, 1)) if "wrong" in cell["className"]]
    assert wrong == np.flatnonzero(~outcome.right[0].numpy()).tolist()
    firsts = [k for k, cell in enumerate(cells(answered, 1)) if "first" in cell["className"].split()]
    assert firsts == wrong[:1]
    if wrong:
        assert f"first error at token {wrong[0]}" in text_of(answered) or wrong[0] == 10
    confidence = [float(cell["style"]["--p"]) for cell in cells(answered, 1)]
    assert all(0 < value <= 1 for value in confidence)
    one = show(app, client, "playground-copy.children", "?text=0110101101&mode=free")
    assert [c["children"] for c in cells(one, 1)] == [c["children"] for c in cells(answered, 2)]
    assert cells(one, 2) == []


def test_copied_tokens_that_are_fed_otherwise_are_those_that_the_model_reads(app: Dash, client: FlaskClient) -> None:
    models = models_of(app)
    live = ready(models, ViewState())
    plain = show(app, client, "playground-copy.children", "?text=0110101101&mode=forced")
    assert [cell["children"] for cell in cells(plain, 2)] == list("0110101101"), "what is fed is shown"
    answered = show(app, client, "playground-copy.children", "?text=0110101101&fed=3:1,4:1")
    expected = teacher_forced(live.subject.model, CopyTask(live.task).encode(["0110101101"]), {3: 1})
    names = live.vocabulary.names
    assert [cell["children"] for cell in cells(answered, 1)] == [names[i] for i in expected.predicted]
    assert [cell["children"] for cell in cells(answered, 2)] == list("0111101101")
    assert [k for k, cell in enumerate(cells(answered, 2)) if "changed" in cell["className"]] == [3]
    assert "fed otherwise at 3:" in text_of(answered) and "Feed the right copy" in text_of(answered)
    free = show(app, client, "playground-copy.children", "?text=0110101101&fed=3:1&mode=free")
    assert cells(free, 2) == [] and "fed otherwise" not in text_of(free)


def test_what_cannot_be_fed_is_left_out_with_a_note(app: Dash, client: FlaskClient) -> None:
    chosen = choose(models_of(app), view("?text=0110&fed=1:0,4:0,2:9"))
    assert chosen.fed == ((1, 0),)
    assert "left out" in text_of(show(app, client, "playground-bar.children", "?text=0110&fed=9:0"))


def test_another_string_forgets_what_was_fed() -> None:
    fed = ViewState(text="0110", fed=((1, 0),))
    for changes in ({"text": "0111"}, {"string": 1}, {"seed": 3}, {"run": "other"}):
        assert fed.change(**changes).fed is None, changes
    assert fed.change(layer=1, mode="forced", row=5).fed == ((1, 0),)


def test_the_captured_string_is_shown_first_and_a_generated_one_on_demand(app: Dash, client: FlaskClient) -> None:
    models = models_of(app)
    run = models.data.runs()[0]
    chosen = choose(models, view("?string=1"))
    captured = models.data.string(models.data.capture(run.id, run.captures[0]), 1)
    assert list(chosen.tokens) == captured.tokens[2 : 2 + captured.length].tolist()
    made = choose(models, view("?input=generated&length=12&seed=3&distribution=repeat-structure&period=3&flip=0"))
    assert made.origin == "generated" and made.tokens == made.tokens[:3] * 4
    again = choose(models, view("?input=generated&length=12&seed=3&distribution=repeat-structure&period=3&flip=0"))
    assert again.tokens == made.tokens
    assert choose(models, view("?input=generated&length=12&seed=4")).tokens != made.tokens


def test_the_row_is_the_pattern_of_the_model(app: Dash, client: FlaskClient) -> None:
    answered = show(app, client, "playground-row.figure", "?text=01101011&row=17")
    bars = answered["playground-row"]["figure"]["data"]
    chosen = choose(models_of(app), view("?text=01101011"))
    decoded = models_of(app).decoded(chosen.live, chosen.tokens, free=False)
    expected = decoded.string.head(0, 0).row(17)[:18]
    assert np.allclose(_numbers(bars[0]["y"]), expected, atol=1e-6)
    assert "Query" in text_of(answered["playground-row-bar"])
    assert f"{expected.max():.2f}" in answered["playground-finding"]["children"]
    pointed = show(app, client, "playground-row.figure", "?text=01101011&row=17", **{"playground-at.data": 2 * 15 + 1})
    assert "free-running" in text_of(pointed["playground-row-bar"])


def _numbers(value: Any) -> np.ndarray:
    if isinstance(value, dict):
        import base64

        return np.frombuffer(base64.b64decode(value["bdata"]), np.dtype(value["dtype"]))
    return np.array(value, float)


def test_a_token_is_changed_removed_and_doubled_by_links(app: Dash, client: FlaskClient) -> None:
    bar = text_of(show(app, client, "playground-row.figure", "?text=0010&row=3"))
    assert "text=0110&" in bar or 'text=0110"' in bar
    assert "text=010&" in bar or 'text=010"' in bar
    assert "text=00010&" in bar or 'text=00010"' in bar


def test_a_row_beyond_the_copy_is_replaced_with_a_note(app: Dash, client: FlaskClient) -> None:
    assert "no query 999" in text_of(show(app, client, "playground-row.figure", "?text=0110&row=999"))


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("?text=" + "01" * 600, f"reads at most {MOST_TOKENS:,}: give a string of at most 997"),
        ("?text=0171", "oken 7 is not in the alphabet"),
        ("?text=1.2222222222222", "more than 9 digits"),
        ("?input=generated&length=0", "impossible"),
        ("?input=generated&length=5000", "give a string of at most 997"),
        ("?input=generated&distribution=no-such", "unknown distribution"),
        ("?input=generated&distribution=repeat-structure&period=0", "period"),
        ("?string=99", "has no string 99"),
        ("?capture=nothing", "nothing"),
        ("?run=nothing", "Unknown run"),
        ("?step=123456", "kept no checkpoint at step 123456"),
    ],
)
def test_what_cannot_be_is_said(app: Dash, client: FlaskClient, query: str, said: str) -> None:
    answered = show(app, client, "playground-state.children", query)
    assert said in text_of(answered["playground-state"])
    assert "nothing" in answered["playground-columns"]["className"]
    for region in ("copy.children", "row.figure", "places.figure", "bar.children"):
        assert "Traceback" not in text_of(show(app, client, f"playground-{region}", query))


def test_a_string_as_long_as_is_allowed_is_shown_in_little(app: Dash, client: FlaskClient) -> None:
    answered = show(app, client, "playground-copy.children", "?input=generated&length=997&mode=both")
    assert len(cells(answered, 1)) == 998
    assert len(text_of(answered)) < 1_500_000
    row = show(app, client, "playground-row.figure", "?input=generated&length=997&row=1990")
    assert len(text_of(row)) < 100_000


def test_a_checkpoint_is_another_model(app: Dash, client: FlaskClient) -> None:
    models = models_of(app)
    first, last = ready(models, view("?step=5")), ready(models, ViewState())
    assert first.subject.step == 5 and last.subject.step == 20
    assert ready(models, view("?step=20")) is last, "the last step is the finished run itself"
    weights = (next(iter(live.subject.model.parameters())) for live in (first, last))
    assert not np.array_equal(*(w.detach().numpy() for w in weights))


# ---- choices ---------------------------------------------------------------------------------------------------------


def choices_request(app: Dash, query: str, change: Any) -> dict[str, Any]:
    return request_for(app, "playground-go.data", {"playground-changed.data": change, "url.search": query})


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (["length", 12], "/playground?input=generated&length=12"),
        (["text", "0110"], "/playground?row=4&input=generated&text=0110"),
        (["text", "0 1, 1"], "/playground?row=4&input=generated&text=0.1.1"),
        (["seed", 7], "/playground?input=generated&seed=7"),
        (["flip", 0.25], "/playground?input=generated&flip=0.25"),
        (["length", None], "/playground?row=4&input=generated"),
        (["checkpoint", -1], "/playground?row=4&input=generated"),
        (["run", "other"], "/playground?run=other&input=generated"),
    ],
)
def test_a_field_leads_to_its_view(app: Dash, client: FlaskClient, change: list[Any], expected: str) -> None:
    body = choices_request(app, "?input=generated&row=4", change)
    answered = client.post("/_dash-update-component", json=body).get_json()
    assert answered["response"]["playground-go"]["data"] == expected


@pytest.mark.parametrize("change", [None, [], ["length"], ["zoom", "1"], ["__class__", 1], [["a"], 1], ["text", ["0"]]])
def test_what_is_no_field_leads_nowhere(app: Dash, client: FlaskClient, change: Any) -> None:
    assert client.post("/_dash-update-component", json=choices_request(app, "", change)).status_code == 204


@pytest.mark.parametrize(
    "change", [["text", "<script>"], ["length", -3], ["text", "1" * 7000], ["flip", 3], ["seed", 1e300]]
)
def test_an_impossible_field_is_told(app: Dash, client: FlaskClient, change: list[Any]) -> None:
    answered = client.post("/_dash-update-component", json=choices_request(app, "", change))
    assert answered.status_code in (200, 204)
    assert "xpected" in answered.text
    assert "playground-go" not in answered.get_json().get("response", {})


@pytest.mark.parametrize("value", ["NaN", [], {}, "x" * 9000, -1, 10**30, True, {"a": [1]}, "\x00", "?text=<b>"])
def test_hostile_values_of_an_open_page_are_answered(app: Dash, client: FlaskClient, value: Any) -> None:
    ours = [name for name in server_callbacks(app) if "playground" in name or "intervene" in name]
    assert len(ours) >= 12
    for output in ours:
        for given in ({**OPEN, "url.search": value}, {**OPEN, "url.search": "?heads=0.0&keys=anchors"}):
            answered = client.post("/_dash-update-component", json=request_for(app, output, given, value))
            assert answered.status_code in (200, 204), (output, answered.text)
            assert "Traceback" not in answered.text


@pytest.mark.parametrize("alphabet", [2, 10, 11, 300])
def test_typed_strings_are_read_back(alphabet: int) -> None:
    tokens = tuple(int(t) for t in np.random.default_rng(0).integers(0, alphabet, 40))
    text = write_tokens(tokens, alphabet)
    assert read_tokens(text, alphabet) == tokens
    parsed, notes = ViewState.parse(ViewState(text=text).query())
    assert notes == [] and parsed.text == text


# ---- models in the server --------------------------------------------------------------------------------------------


@pytest.fixture
def models(own_store: Path) -> LiveModels:
    return models_of(create_app(own_store))


def test_a_model_is_loaded_once_and_again_when_its_files_change(models: LiveModels) -> None:
    live = ready(models, ViewState())
    assert ready(models, ViewState()) is live
    weights = models.data.store.path_of(live.subject.name) / "weights.safetensors"
    copy = weights.with_suffix(".copy")
    shutil.copy(weights, copy)
    copy.replace(weights)
    assert ready(models, ViewState()) is not live


def test_a_request_does_not_wait_for_a_model(models: LiveModels, monkeypatch: pytest.MonkeyPatch) -> None:
    go, load = threading.Event(), live_models._loaded

    def slow(*args: Any) -> Live:
        assert go.wait(20)
        return load(*args)

    monkeypatch.setattr(live_models, "_loaded", slow)
    started = time.monotonic()
    with pytest.raises(Loading, match="is being loaded"):
        choose(models, ViewState())
    assert time.monotonic() - started < 5
    run = models.data.runs()[0]
    assert models.stamp(run.id, None).startswith("absent")
    go.set()
    ready(models, ViewState())
    assert models.stamp(run.id, None).startswith("ready")


def test_the_page_says_that_it_waits_and_then_shows_the_copy(own_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go, load = threading.Event(), live_models._loaded
    monkeypatch.setattr(live_models, "_loaded", lambda *args: load(*args) if go.wait(20) else None)
    app = create_app(own_store)
    client = app.server.test_client()
    client.get("/")
    closed = request_for(
        app, next(n for n in server_callbacks(app) if "playground-state.children" in n), {"url.search": ""}
    )
    assert client.post("/_dash-update-component", json=closed).status_code == 204, "nothing is loaded for a closed page"
    assert models_of(app)._loading == {}
    first = show(app, client, "playground-state.children", "")
    assert "is being loaded" in text_of(first)
    assert first["playground-wait"]["data"] > 0
    assert "loading" in first["playground-columns"]["className"]
    copy = show(app, client, "playground-copy.children", "")
    assert cells(copy, 0) == []
    go.set()
    ready(models_of(app), ViewState())
    shown = {
        f"playground-{name}-shows.data": first_of(answered, name)
        for answered, name in ((first, "state"), (copy, "copy"))
    }
    then = show(app, client, "playground-state.children", "", **shown)
    assert then["playground-wait"]["data"] == 0 and then["playground-state"]["children"] == []
    assert cells(show(app, client, "playground-copy.children", "", **shown), 1)


def first_of(answered: dict[str, Any], region: str) -> Any:
    return answered[f"playground-{region}-shows"]["data"]


def test_damaged_weights_and_a_run_without_any_are_told(own_store: Path) -> None:
    (run,) = (path for path in own_store.iterdir() if path.is_dir())
    config = run / "config.toml"
    config.write_text(config.read_text().replace("d_model = 16", "d_model = 32"))
    models = models_of(create_app(own_store))
    for _ in range(2):
        with pytest.raises(WorkbenchError, match="damaged"):
            ready(models, ViewState())
    about = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**about, "state": "failed", "message": "no disk"}))
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(Nothing, match="no weights") as told:
        ready(models_of(create_app(own_store)), ViewState())
    assert told.value.commands[0].startswith("workbench train --resume")


def test_two_tabs_do_not_disturb_each_other(app: Dash) -> None:
    from analyses.interventions import Ablation, read_outcomes
    from analyses.samples import draw_samples

    models = models_of(app)
    live = ready(models, ViewState())
    samples = draw_samples(
        CopyTask(live.task), lengths=(30,), distributions=("uniform",), strings=4, seed=5, kinds=("plain",)
    )
    strings = [tuple(map(int, np.random.default_rng(seed).integers(0, 2, 40))) for seed in range(8)]
    ablations = [Ablation(((0, 0),), way) for way in ("zero", "mean", "resample", "same-place")] * 2
    alone = [read_outcomes(live.subject.model, samples, ablation) for ablation in ablations]
    found: dict[int, Any] = {}

    def tab(number: int) -> None:
        decoded = models.decoded(live, strings[number], free=bool(number % 2))
        found[number] = decoded, models.outcomes(live, samples, f"tab {number}", ablations[number])

    threads = [threading.Thread(target=tab, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(8):
        decoded, outcomes = found[number]
        batch = CopyTask(live.task).encode([strings[number]])
        assert all(np.array_equal(a.margins, b.margins) for a, b in zip(outcomes, alone[number], strict=True))
        expected = (
            greedy_copy(live.subject.model, batch)[0] if number % 2 else answer(live.subject.model, batch).predicted[0]
        )
        assert decoded.predicted.tolist() == list(map(int, expected))


def test_sizes_are_bounded(app: Dash) -> None:
    live = ready(models_of(app), ViewState())
    require_size(live, 997)
    with pytest.raises(UsageError, match="at most 997"):
        require_size(live, 998)
    with pytest.raises(UsageError, match="at most 10 strings"):
        require_size(live, 997, 11)


def test_the_gate_keeps_requests_out_while_it_is_closed() -> None:
    gate, seen = Gate(), []
    gate.enter()

    def close() -> None:
        with gate.closed():
            seen.append("closed")
            time.sleep(0.2)
            seen.append("open")

    def request() -> None:
        gate.enter()
        seen.append("request")
        gate.leave()

    closing = threading.Thread(target=close)
    closing.start()
    time.sleep(0.1)
    assert seen == [], "a request that is being answered is waited for"
    asking = threading.Thread(target=request)
    asking.start()
    gate.leave()
    closing.join()
    asking.join()
    assert seen == ["closed", "open", "request"]


@pytest.mark.parametrize(
    ("query", "name", "value"),
    [("run=nope", "run", "nope"), ("checkpoint=7", "checkpoint", 7), ("capture=nope", "capture", "nope")],
)
def test_lists_hold_what_the_address_names_also_where_it_is_not_there(
    app: Dash, client: FlaskClient, query: str, name: str, value: Any
) -> None:
    shown = show(app, client, "playground-run.options", f"?{query}")[f"playground-{name}"]
    assert shown["value"] == value
    assert shown["options"][-1] == {"label": f"{value} · not there", "value": value}, "a list drops what it lacks"
