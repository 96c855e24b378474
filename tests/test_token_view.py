"""CircuitsVis in a frame: escaped and visible tokens, exact weights, no way out (test_browser.py sees it drawn)."""

import json
import re
import subprocess
import sys
from base64 import b64decode
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from flask.testing import FlaskClient

from models.attention import open_capture
from tests import fake_store
from workbench.dashboard import create_app, token_view

NAMES = ["<s>", "</script>", '"', "a b", "\n", " ", "&amp;", "<!--", "\u2028", "PAD"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tokens")
    run = root / fake_store.add_run(root, "rope-2l-s0-0000", "rope-2l", ["rope"], [2, 20])
    fake_store.add_capture(run, ["rope"], [2, 20], n=12, strings=1, name="short", names=NAMES)
    fake_store.add_capture(run, ["rope"], [2, 20], n=98, strings=1, name="long")
    return root


@pytest.fixture(scope="module")
def client(root: Path) -> FlaskClient:
    return create_app(root).server.test_client()


def props(page: str) -> dict[str, list[str] | str]:
    found = re.search(r'<script id="props" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_the_document_holds_the_exact_weights_of_the_layer(client: FlaskClient, root: Path) -> None:
    shown = props(client.get(token_view.address("rope-2l-s0-0000", "short", 0, 0, 1)).text)
    string = open_capture(root / "rope-2l-s0-0000" / "captures" / "short").string(0)
    n = len(string.tokens)
    codes = np.frombuffer(b64decode(shown["weights"]), "<u2").reshape(2, -1)
    for head in (0, 1):
        tile = string.head(0, head).tile(slice(0, n), slice(0, n))
        assert codes[head] / 65_535 == pytest.approx(tile[np.tril_indices(n)], abs=1e-5)
    assert shown["heads"] == ["Head 0", "Head 1"]


def test_tokens_are_escaped_and_visible(client: FlaskClient) -> None:
    page = client.get(token_view.address("rope-2l-s0-0000", "short", 0, 0, 0)).text
    tokens = props(page)["tokens"]
    assert not any(set("<>\"' \n\u2028") & set(token) for token in tokens), "nothing that is markup, nothing unseen"
    seen = {unescape(token) for token in tokens}
    assert {"<s>", "</script>", '"', "a␣b", "⏎", "␣", "&amp;", "<!--"} >= seen - {"\\u2028", "PAD"}
    assert page.count("</script>") == 4, "no token ends a script"


def test_many_heads_are_shown_sixteen_at_a_time(client: FlaskClient) -> None:
    assert token_view.heads_shown(20, 3) == range(16)
    assert token_view.heads_shown(20, 17) == range(16, 20)
    shown = props(client.get(token_view.address("rope-2l-s0-0000", "short", 0, 1, 17)).text)
    assert shown["heads"] == [f"Head {head}" for head in range(16, 20)]


def test_the_payload_stays_small(client: FlaskClient, root: Path) -> None:
    run = root / "rope-2l-s0-0000"
    fake_store.add_capture(run, ["rope"], [1, 16], n=97, strings=1, name="limit")
    page = client.get(token_view.address(run.name, "limit", 0, 1, 0))
    assert page.status_code == 200
    assert len(page.data) < 900_000


def test_the_document_can_do_nothing_but_draw(client: FlaskClient) -> None:
    answer = client.get(token_view.address("rope-2l-s0-0000", "short", 0, 0, 0))
    policy = dict(part.strip().partition(" ")[::2] for part in answer.headers["Content-Security-Policy"].split(";"))
    assert policy["sandbox"] == "allow-scripts", "without an origin, and so without storage or a way to the dashboard"
    assert policy["default-src"] == "'none'", "which is also what it may connect to"
    assert policy["frame-ancestors"] == "'self'"
    assert "http" not in answer.headers["Content-Security-Policy"]
    again = client.get(answer.request.path, headers={"If-None-Match": answer.headers["ETag"]})
    assert again.status_code == 304


def test_the_script_is_the_installed_one_and_is_kept_by_the_browser(client: FlaskClient) -> None:
    page = client.get(token_view.address("rope-2l-s0-0000", "short", 0, 0, 0)).text
    address = re.findall(r'<script src="([^"]+)"', page)
    assert len(address) == 1
    answer = client.get(address[0])
    assert answer.data == token_view.bundle().read_bytes()
    assert "max-age=31536000" in answer.headers["Cache-Control"]
    assert answer.headers["Cross-Origin-Resource-Policy"] == "cross-origin"


def test_finding_the_script_imports_neither_circuitsvis_nor_torch() -> None:
    program = "import sys; from workbench.dashboard.token_view import bundle; bundle();"
    program += " assert not {'torch', 'circuitsvis'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).resolve().parent.parent)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("rope-2l-s0-0000/long/0/0/0", "202 tokens"),
        ("rope-2l-s0-0000/short/3/0/0", "no string 3"),
        ("rope-2l-s0-0000/short/0/5/0", "no layer 5"),
        ("rope-2l-s0-0000/short/0/0/2", "no head 2"),
        ("rope-2l-s0-0000/none/0/0/0", "none"),
        ("..%00/short/0/0/0", ""),
    ],
)
def test_what_cannot_be_shown_is_a_readable_404(client: FlaskClient, path: str, said: str) -> None:
    answer = client.get("/tokens/" + path)
    assert answer.status_code == 404
    assert answer.mimetype == "text/plain"
    assert said in answer.text
