"""The dashboard without a browser: callbacks in the test client, hostile input, what a local server refuses."""

import dataclasses
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dash import Dash
from flask.testing import FlaskClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.errors import UsageError, WorkbenchError
from tests import fake_store
from workbench.dashboard import create_app, guard, overviews, serve, thumbnails
from workbench.dashboard.data import FRESH_SECONDS, Data
from workbench.dashboard.pages import PAGES
from workbench.dashboard.pages.runs import drawn_runs, runs_table
from workbench.dashboard.parts import ago
from workbench.dashboard.selection import select
from workbench.dashboard.state import ViewState
from workbench.figures import pictures
from workbench.figures.attention import MASKED, TOP_CODE
from workbench.runs import Store


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    root = tmp_path_factory.mktemp("dashboard") / "store"
    return root, fake_store.fill(root)


@pytest.fixture(scope="module")
def app(filled: tuple[Path, dict[str, str]]) -> Dash:
    return create_app(filled[0])


@pytest.fixture
def data(filled: tuple[Path, dict[str, str]]) -> Data:
    return Data(Store(filled[0]))


def server_callbacks(app: Dash) -> dict[str, dict[str, Any]]:
    return {name: entry for name, entry in app.callback_map.items() if "callback" in entry}


def request_for(app: Dash, output: str, values: dict[str, Any], default: Any = None) -> dict[str, Any]:
    """What the browser would send for a callback, with `values` by "id.property"."""
    entry = app.callback_map[output]

    def filled_in(dependencies: list[dict[str, str]]) -> list[dict[str, Any]]:
        return [{**d, "value": values.get(f"{d['id']}.{d['property']}", default)} for d in dependencies]

    outputs = []
    for part in output.strip(".").split("..."):
        component, _, prop = part.rpartition(".")
        outputs.append({"id": component, "property": prop.split("@")[0]})
    changed = [f"{d['id']}.{d['property']}" for d in entry["inputs"]]
    return {
        "output": output,
        "outputs": outputs if output.startswith("..") else outputs[0],
        "inputs": filled_in(entry["inputs"]),
        "state": filled_in(entry["state"]),
        "changedPropIds": changed,
    }


def call(app: Dash, client: FlaskClient, contains: str, query: str, **values: Any) -> dict[str, Any]:
    """Run the callback that sets `contains` ("id.property") for an address; returns its answer by component id."""
    output = next(name for name in server_callbacks(app) if f".{contains}." in f"{name}." or contains in name)
    body = request_for(app, output, {"url.search": query, **values})
    answer = client.post("/_dash-update-component", json=body)
    assert answer.status_code == 200, answer.text
    return answer.get_json()["response"]


def answering(app: Dash, trigger: str) -> str:
    """Return the name of the server callback that a component triggers."""
    return next(n for n in server_callbacks(app) if any(d["id"] == trigger for d in app.callback_map[n]["inputs"]))


# ---- pages and callbacks ---------------------------------------------------------------------------------------------


def test_pages_are_few_words_and_one_question_each() -> None:
    for path in PAGES:
        page = PAGES[path]
        assert page.path == path
        assert page.purpose.endswith("?")
        assert page.purpose.count("?") == 1


def test_two_apps_of_one_process_do_not_share_callbacks(filled: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    first, second = create_app(filled[0]), create_app(tmp_path)
    shown = []
    for app in (first, second):
        client = app.server.test_client()
        client.get("/")
        shown.append(json.dumps(call(app, client, "runs-table.children", "")))
    assert filled[1]["rope"] in shown[0]
    assert filled[1]["rope"] not in shown[1]
    assert "make demo" in shown[1]


def test_the_table_keeps_ticks_by_id_when_a_run_appears(data: Data, filled: tuple[Path, dict[str, str]]) -> None:
    view = ViewState(runs=(filled[1]["rope"],))
    rows = data.runs()
    before = drawn_runs(rows, view)[0]
    newer = dataclasses.replace(rows[0], id="newer")
    after = drawn_runs([newer, *rows], view)[0]
    assert [row.id for row in before] == [row.id for row in after] == [filled[1]["rope"]]
    ticked = str(runs_table([newer, *rows], view, time.time())).count("'aria-checked': 'true'")
    assert ticked <= 1


def test_a_region_whose_fields_did_not_change_is_not_redrawn(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict[str, str]]
) -> None:
    query = f"?run={filled[1]['rope']}"
    shown = call(app, client, "coordinates-figures.children", query)["coordinates-figures-shows"]["data"]
    output = next(name for name in server_callbacks(app) if "coordinates-figures.children" in name)
    same = {"url.search": query + "&head=1&row=3", "coordinates-figures-shows.data": shown}
    assert client.post("/_dash-update-component", json=request_for(app, output, same)).status_code == 204
    other = {"url.search": query + "&layer=1", "coordinates-figures-shows.data": shown}
    assert client.post("/_dash-update-component", json=request_for(app, output, other)).status_code == 200


def test_colours_and_pins_are_patched_without_sending_cells_again(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict[str, str]]
) -> None:
    query = f"?run={filled[1]['rope']}"
    first = call(app, client, "attention-map.figure", query)
    shown = first["attention-map-shows"]["data"]
    patched = call(
        app, client, "attention-map.figure", query + "&scale=linear&row=70", **{"attention-map-shows.data": shown}
    )
    assert patched["attention-map"]["figure"]["__dash_patch_update"]
    assert len(json.dumps(patched)) < 0.2 * len(json.dumps(first))
    zoomed = call(app, client, "attention-map.figure", query + "&zoom=0-9.0-9", **{"attention-map-shows.data": shown})
    assert zoomed["attention-map"]["figure"]["layout"]["xaxis"]["range"] == [-0.5, 8.5]


def test_a_row_of_the_page_is_the_row_of_the_pattern(
    app: Dash, client: FlaskClient, data: Data, filled: tuple[Path, dict[str, str]]
) -> None:
    answer = call(app, client, "attention-row.figure", f"?run={filled[1]['rope']}&layer=1&string=0&row=80")
    text = json.dumps(answer["attention-keys"], ensure_ascii=False)
    pattern = select(data, ViewState(run=filled[1]["rope"], layer=1, string=0)).string.head(1, 0)
    keys, weights = pattern.top_keys(80, 3)
    assert f"{weights[0]:.4f}" in text
    assert str(keys[0]) in text


def test_a_long_capture_is_sent_pooled_and_refined_by_zoom(tmp_path: Path) -> None:
    run_id = fake_store.add_run(tmp_path, "rope-2l-s0-0000", "rope-2l", ["rope"], [1])
    fake_store.add_capture(tmp_path / run_id, ["rope"], [1], n=600, strings=1)
    app = create_app(tmp_path)
    client = app.server.test_client()
    client.get("/")
    whole = call(app, client, "attention-map.figure", "")["attention-map"]["figure"]
    assert whole["data"][0]["z"]["dtype"] == "u1"
    assert len(json.dumps(whole)) < 1_500_000
    close = call(app, client, "attention-map.figure", "?zoom=700-900.100-300")["attention-map"]["figure"]
    assert close["data"][0]["z"]["dtype"] == "f4"
    assert close["data"][0]["z"]["shape"] == "200, 200"


def test_a_very_long_capture_says_how_far_its_overview_is_and_then_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = fake_store.add_run(tmp_path, "rope-2l-s0-0000", "rope-2l", ["rope"], [2])
    capture = fake_store.add_capture(tmp_path / run_id, ["rope"], [2], n=2100, strings=1)
    go, compute = threading.Event(), overviews.ensure_overview

    def wait(string: Any, layer: int, head: int, progress: Any) -> Any:
        progress(0.37)
        assert go.wait(20)
        return compute(string, layer, head, progress)

    monkeypatch.setattr(overviews, "ensure_overview", wait)
    app = create_app(tmp_path)
    client = app.server.test_client()
    client.get("/")
    first = call(app, client, "attention-map.figure", "", **{"attention-pixels.data": 4000})
    waiting = json.dumps(first["attention-progress"], ensure_ascii=False)
    assert "4,206 × 4,206 cells" in waiting and "37%" in waiting
    assert first["attention-map-tick"]["disabled"] is False
    shown = {"attention-map-shows.data": first["attention-map-shows"]["data"], "attention-pixels.data": 4000}
    around = call(app, client, "attention-heads-shown.data-plain", "")
    assert json.dumps(around).count("not computed") == 2
    assert around["attention-heads-tick"]["disabled"] is False
    row = call(app, client, "attention-row.figure", "")["attention-row"]
    assert len(json.dumps(row)) < 60_000, "a long row is sent in few bars"
    assert "largest of" in json.dumps(row)
    close = call(app, client, "attention-map.figure", "?zoom=4000-4100.1900-2000", **shown)
    assert close["attention-map"]["figure"]["data"][0]["z"]["dtype"] == "f4", "what needs no overview does not wait"
    go.set()
    body = request_for(app, next(n for n in server_callbacks(app) if "attention-map.figure" in n), shown)
    until = time.monotonic() + 20
    while time.monotonic() < until:
        answer = client.post("/_dash-update-component", json=body)
        done = answer.get_json()["response"] if answer.status_code == 200 else {}
        if done.get("attention-map", {}).get("figure", {}).get("data"):
            break
        time.sleep(0.05)
    assert done["attention-map-tick"]["disabled"] is True
    assert done["attention-progress"]["children"] == []
    assert len(json.dumps(done)) < 1_500_000
    assert [path.name for path in capture.glob("*overview*")] == ["string-0000-overview-0-0.safetensors"]
    around = call(app, client, "attention-heads-shown.data-plain", "")
    assert json.dumps(around).count("not computed") == 1
    assert around["attention-heads-tick"]["disabled"] is True


def test_a_click_on_a_pooled_cell_pins_the_row_that_made_it(tmp_path: Path) -> None:
    run_id = fake_store.add_run(tmp_path, "rope-2l-s0-0000", "rope-2l", ["rope"], [1])
    fake_store.add_capture(tmp_path / run_id, ["rope"], [1], n=600, strings=1)
    app = create_app(tmp_path)
    client = app.server.test_client()
    client.get("/")
    output = answering(app, "attention-click")
    point = {"points": [{"x": 702.5, "y": 702.5, "z": 3}]}
    values = {"attention-click.data": point, "attention-pixels.data": 256, "url.search": ""}
    answer = client.post("/_dash-update-component", json=request_for(app, output, values)).get_json()["response"]
    row = ViewState.parse(answer["url"]["search"])[0].row
    assert row is not None
    pattern = select(Data(Store(tmp_path)), ViewState()).string.head(0, 0)
    block = pattern.tile(slice(700, 705), slice(700, 705))
    assert row == 700 + int(block.max(axis=1).argmax())


def test_a_click_or_drag_on_the_map_of_a_deleted_run_says_so(tmp_path: Path) -> None:
    run_id = fake_store.add_run(tmp_path, "rope-2l-s0-0000", "rope-2l", ["rope"], [1])
    fake_store.add_capture(tmp_path / run_id, ["rope"], [1], n=60, strings=1)
    app = create_app(tmp_path)
    client = app.server.test_client()
    client.get("/")
    shutil.rmtree(tmp_path / run_id)
    point, resized = {"points": [{"x": 3, "y": 70}]}, {"autosize": True}
    dragged = {f"{axis}axis.range[{end}]": at for axis in "xy" for end, at in enumerate((3.5, 9.5))}
    for trigger, value, told in (
        ("attention-click.data", point, True),
        ("attention-map.relayoutData", dragged, True),
        ("attention-map.relayoutData", resized, False),
    ):
        body = request_for(app, answering(app, trigger.split(".")[0]), {trigger: value, "url.search": f"?run={run_id}"})
        answer = client.post("/_dash-update-component", json=body)
        assert (f"Unknown run '{run_id}'" in answer.text.replace("\\u0027", "'")) is told, trigger


def test_a_ticked_run_that_is_deleted_is_dropped_with_a_note(tmp_path: Path) -> None:
    kept, deleted = (fake_store.add_run(tmp_path, f"rope-2l-s{seed}-0000", "rope-2l", ["rope"], [1]) for seed in (0, 1))
    app = create_app(tmp_path)
    client = app.server.test_client()
    client.get("/")
    query = f"?runs={deleted},{kept}"
    first = call(app, client, "runs-training.figure", query)
    assert "2 ticked runs" in json.dumps(first["runs-key"])
    shutil.rmtree(tmp_path / deleted)
    time.sleep(FRESH_SECONDS)
    shown = {"runs-training-shows.data": first["runs-training-shows"]["data"]}
    then = json.dumps(call(app, client, "runs-training.figure", query, **shown)["runs-key"])
    assert f"Ticked, but not in the store: {deleted}; " in then and "1 ticked run" in then
    assert f'"/runs?runs={kept}"' in then
    alone = json.dumps(call(app, client, "runs-training.figure", f"?runs={deleted}")["runs-key"])
    assert "not in the store" in alone and "Newest run" in alone


def test_a_long_string_has_no_token_view_and_says_what_to_do(tmp_path: Path) -> None:
    run_id = fake_store.add_run(tmp_path, "rope-2l-s0-0000", "rope-2l", ["rope"], [1])
    fake_store.add_capture(tmp_path / run_id, ["rope"], [1], n=98, strings=1)
    app = create_app(tmp_path)
    client = app.server.test_client()
    client.get("/")
    text = json.dumps(call(app, client, "attention-token-view.children", "?tab=tokens"))
    assert "202 tokens" in text and f"workbench capture {run_id} --length" in text
    assert "Iframe" not in text


def test_choosing_a_run_leads_to_its_view_and_setting_one_does_not(
    app: Dash, client: FlaskClient, filled: tuple[Path, dict[str, str]]
) -> None:
    output = "attention-go.data"
    rope, auto = filled[1]["rope"], filled[1]["auto2d"]
    was = {"run": rope, "capture": "c"}
    values = {"attention-run.value": rope, "attention-capture.value": "c", "attention-set.data": was}
    query = {"url.search": f"?run={rope}&row=3&layer=1"}
    assert client.post("/_dash-update-component", json=request_for(app, output, {**values, **query})).status_code == 204
    chosen = {**values, **query, "attention-run.value": auto}
    answer = client.post("/_dash-update-component", json=request_for(app, output, chosen)).get_json()
    assert answer["response"]["attention-go"]["data"] == f"/attention?run={auto}&layer=1"


def test_token_text_of_a_capture_is_never_markup(tmp_path: Path) -> None:
    run_id = fake_store.add_run(tmp_path, "rope-2l-s0-0000", "rope-2l", ["rope"], [1])
    names = ["<script>alert(1)</script>", "\u202e", "</b>", '"', "\n", "\u200b", "<b>", "x" * 500, "EOS", "PAD"]
    fake_store.add_capture(tmp_path / run_id, ["rope"], [1], n=5, strings=1, names=names)
    app = create_app(tmp_path)
    client = app.server.test_client()
    client.get("/")
    for part in ("attention-map.figure", "attention-row.figure", "coordinates-figures.children"):
        text = json.dumps(call(app, client, part, ""), ensure_ascii=False)
        # assets/numbers.js writes every text of a plain table as a text node: tests/test_browser.py looks at it
        text = re.sub(r'"data-plain": "(?:[^"\\]|\\.)*"', "", text)
        figures = text.replace('"children": "<script>alert(1…"', "")  # React escapes text nodes itself
        assert "<script" not in figures
        assert "\u202e" not in text
        assert "x" * 30 not in text


PAGE_QUERIES = ["", "?run=latest", "?layer=1&head=1", "?run=nothing", "?string=3", "?scale=linear&palette=viridis"]


@pytest.mark.parametrize("query", PAGE_QUERIES)
def test_every_region_answers_every_address(app: Dash, client: FlaskClient, query: str) -> None:
    for output in server_callbacks(app):
        body = request_for(app, output, {"url.search": query, "url.pathname": "/attention"})
        assert client.post("/_dash-update-component", json=body).status_code in (200, 204), output


# ---- hostile input ---------------------------------------------------------------------------------------------------


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)
hostile = junk | st.sampled_from(
    ["?run=..%2F..%2Fetc", "?run=%00", "?zoom=0-999999999.0-999999999", "?string=999999999&layer=999999999",
     "?runs=" + ",".join(["a"] * 60), "?" + "&".join(["layer=1"] * 3000), "/../../etc/passwd", "\x00", "A" * 100_000]
)  # fmt: skip


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(value=hostile)
def test_no_argument_of_any_callback_makes_it_fail(app: Dash, client: FlaskClient, value: Any) -> None:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        value = "NaN"
    for output in server_callbacks(app):
        request = request_for(app, output, {}, value)
        answer = client.post("/_dash-update-component", json=request)
        expected = (413,) if len(json.dumps(request)) > guard.MAX_BODY else (200, 204)
        assert answer.status_code in expected, (output, answer.text)
        assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"3", b'{"output": 3}', b'{"output": "nothing.here", "inputs": []}',
     b'{"output": "page.children"}', b'{"inputs": {}}', b'{"output": "..page.children..", "inputs": 1}'],
)  # fmt: skip
def test_malformed_requests_are_refused_without_a_server_error(client: FlaskClient, body: bytes) -> None:
    answer = client.post("/_dash-update-component", data=body, content_type="application/json")
    assert 400 <= answer.status_code < 500
    assert "Traceback" not in answer.text


def test_an_oversized_request_is_refused(client: FlaskClient) -> None:
    answer = client.post("/_dash-update-component", data=b" " * (2 << 20), content_type="application/json")
    assert answer.status_code == 413


def test_an_unforeseen_error_is_told_and_logged(
    app: Dash, client: FlaskClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("workbench.dashboard.pages.runs.runs_table", lambda *_: 1 // 0)
    answer = call(app, client, "runs-table.children", "?runs=never-asked-before")
    assert "ZeroDivisionError" in json.dumps(answer)
    assert "ZeroDivisionError" in caplog.text


# ---- a local server --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil:8050", "", "169.254.1.1", "[::1]"]
)
def test_only_local_host_names_are_answered(client: FlaskClient, host: str) -> None:
    answer = client.get("/", headers={"Host": host})
    assert answer.status_code == 403
    assert "127.0.0.1" in answer.text


@pytest.mark.parametrize("host", ["localhost", "localhost:8050", "127.0.0.1", "127.0.0.1:9999", "LOCALHOST:80"])
def test_local_names_are_answered_on_any_port(client: FlaskClient, host: str) -> None:
    assert client.get("/", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:1"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "http://localhost:8050", "Sec-Fetch-Site": "same-origin"}, 200),
        ({}, 200),
    ],
)
def test_a_foreign_page_cannot_drive_it(app: Dash, client: FlaskClient, headers: dict[str, str], status: int) -> None:
    output = next(name for name in server_callbacks(app) if "nav.children" in name)
    body = request_for(app, output, {"url.search": ""})
    answer = client.post("/_dash-update-component", json=body, headers={"Host": "localhost:8050", **headers})
    assert answer.status_code == status


def test_answers_forbid_loading_from_elsewhere_and_framing(client: FlaskClient) -> None:
    policy = client.get("/").headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "http:" not in policy
    assert "https:" not in policy


def test_the_first_page_names_no_other_place(client: FlaskClient) -> None:
    page = client.get("/").text
    loaded = [part.split('"')[0] for key in ('src="', 'href="') for part in page.split(key)[1:]]
    assert loaded
    assert all(address.startswith(("/", "data:image/svg+xml,")) for address in loaded)


def test_debugging_is_off(app: Dash) -> None:
    assert not app.server.debug
    assert not app.server.config.get("PROPAGATE_EXCEPTIONS")
    assert not app._dev_tools.ui


def test_a_busy_or_impossible_port_is_one_line(filled: tuple[Path, dict[str, str]]) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(WorkbenchError, match="in use"):
            serve(filled[0], taken.getsockname()[1])
    with pytest.raises(UsageError, match="65535"):
        serve(filled[0], 70_000)


# ---- thumbnails ------------------------------------------------------------------------------------------------------


def read_png(content: bytes) -> np.ndarray:
    """Decode what `pictures.png` writes: colour-table indices without filters."""
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    chunks, at = {}, 8
    while at < len(content):
        (length,) = struct.unpack(">I", content[at : at + 4])
        kind, body = content[at + 4 : at + 8], content[at + 8 : at + 8 + length]
        assert struct.unpack(">I", content[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + body)
        chunks[kind] = body
        at += 12 + length
    cols, rows = struct.unpack(">II", chunks[b"IHDR"][:8])
    return np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(rows, cols + 1)[:, 1:]


def test_a_thumbnail_is_the_pattern(client: FlaskClient, data: Data, filled: tuple[Path, dict[str, str]]) -> None:
    chosen = select(data, ViewState(run=filled[1]["rope"], layer=1))
    view = chosen.view
    address = thumbnails.address(view.run, view.capture, view.string, 1, 0, "cividis", "sqrt")
    answer = client.get(address)
    assert answer.mimetype == "image/png"
    codes = read_png(answer.data)
    pattern = chosen.string.head(1, 0)
    weights = pattern.tile(slice(0, chosen.n_tokens), slice(0, chosen.n_tokens))
    assert codes.shape == weights.shape
    seen = codes != MASKED
    assert np.array_equal(seen, np.tril(np.ones_like(seen)))
    assert np.abs((codes[seen] / TOP_CODE) ** 2 - weights[seen]).max() < 0.01
    again = client.get(address, headers={"If-None-Match": answer.headers["ETag"]})
    assert again.status_code == 304


def test_shrinking_keeps_the_largest_weight_and_masks_only_what_is_wholly_masked() -> None:
    codes = np.full((300, 300), MASKED, np.uint8)
    codes[np.tril_indices(300)] = 0
    codes[299, 7] = 200
    small = pictures.shrink(codes)
    assert small.shape == (100, 100)
    assert small[99, 2] == 200
    assert small[0, 0] == 0
    assert small[0, 1] == MASKED


@pytest.mark.parametrize(
    "address",
    [
        "/thumbnail/none/none/0/0/0/cividis-sqrt.png",
        "/thumbnail/..%2f../x/0/0/0/cividis-sqrt.png",
        "/thumbnail/{run}/{capture}/99/0/0/cividis-sqrt.png",
        "/thumbnail/{run}/{capture}/0/9/0/cividis-sqrt.png",
        "/thumbnail/{run}/{capture}/0/0/9/cividis-sqrt.png",
        "/thumbnail/{run}/{capture}/0/0/0/jet-sqrt.png",
        "/thumbnail/{run}/{capture}/0/0/0/cividis-log.png",
    ],
)
def test_a_thumbnail_that_is_not_there_is_a_readable_404(
    client: FlaskClient, data: Data, filled: tuple[Path, dict[str, str]], address: str
) -> None:
    view = select(data, ViewState(run=filled[1]["rope"])).view
    answer = client.get(address.format(run=view.run, capture=view.capture))
    # An address that names no thumbnail at all is answered by Dash's own page, as any other address is.
    if address.startswith("/thumbnail/.."):
        assert answer.status_code in (200, 404)
        assert answer.mimetype != "image/png"
    else:
        assert answer.status_code == 404
        assert "Traceback" not in answer.text


# ---- start -----------------------------------------------------------------------------------------------------------


_SERVE_ALL = """
import json, sys, time
start = time.perf_counter()
from tests.test_dashboard import request_for, server_callbacks
from workbench.dashboard import create_app
app = create_app(sys.argv[1])
client = app.server.test_client()
assert client.get("/").status_code == 200
seconds = time.perf_counter() - start
for path in ("/runs", "/attention", "/coordinates"):
    for query in ("", "?layer=1", "?zoom=0-9.0-9"):
        for output in server_callbacks(app):
            body = request_for(app, output, {"url.search": query, "url.pathname": path})
            assert client.post("/_dash-update-component", json=body).status_code in (200, 204)
print(json.dumps({"seconds": seconds, "torch": "torch" in sys.modules, "pandas": "pandas" in sys.modules}))
"""


def test_serving_every_page_never_imports_torch(filled: tuple[Path, dict[str, str]]) -> None:
    home = Path(__file__).resolve().parent.parent
    done = subprocess.run(
        [sys.executable, "-c", _SERVE_ALL, str(filled[0])],
        cwd=home,
        env={**os.environ, "PYTHONPATH": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    said = json.loads(done.stdout)
    assert not said["torch"]
    assert not said["pandas"]


@pytest.fixture
def front_door(filled: tuple[Path, dict[str, str]], free_port: int) -> Iterator[tuple[subprocess.Popen[str], str]]:
    home = Path(__file__).resolve().parent.parent
    command = [sys.executable, str(home / "app.py"), "--store", str(filled[0]), "--port", str(free_port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/")
    yield process, f"http://127.0.0.1:{free_port}/"
    process.kill()
    process.wait()


def test_the_front_door_answers_soon(front_door: tuple[subprocess.Popen[str], str]) -> None:
    from urllib.error import URLError
    from urllib.request import urlopen

    process, address = front_door
    start = time.monotonic()
    while True:
        try:
            with urlopen(address) as answer:
                assert answer.status == 200
            break
        except (URLError, ConnectionError):
            assert process.poll() is None
            assert time.monotonic() - start < 20
            time.sleep(0.05)
    assert time.monotonic() - start < 10, "under 3 s alone; other tests may be running"
    assert process.stdout is not None
    assert address in process.stdout.readline()


def test_gunicorn_finds_the_server_over_the_store_of_the_environment(
    filled: tuple[Path, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib

    monkeypatch.setenv("COPY_WORKBENCH_STORE", str(filled[0]))
    sys.modules.pop("app", None)
    app = importlib.import_module("app")
    client = app.server.test_client()
    assert client.get("/").status_code == 200
    assert str(filled[0]) in json.dumps(client.get("/_dash-layout").get_json())
    sys.modules.pop("app", None)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "now"), (59, "now"), (60, "1 min"), (3599, "59 min"), (7200, "2 h"), (200_000, "2 d")]
)
def test_ages_are_short(seconds: float, text: str) -> None:
    assert ago(seconds) == text
