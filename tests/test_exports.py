"""Files of a view: exactly its cells, a name that says what they are, and a readable no to anything else."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from dash import Dash
from flask.testing import FlaskClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import fake_store
from workbench.dashboard import create_app, exports
from workbench.dashboard.data import Data
from workbench.dashboard.selection import Selection, select
from workbench.dashboard.state import ViewState, Zoom
from workbench.runs import Store


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("exports")
    run = root / fake_store.add_run(root, "rope-2l-s0-0000", "rope-2l", ["rope"], [2, 1])
    fake_store.add_capture(run, ["rope"], [2, 1], n=300, strings=2, names=["0", '"1"', "A1", "A2", "\n", ",", "<b>",
                           "B4", "EOS", "PAD"])  # fmt: skip
    return root


@pytest.fixture(scope="module")
def app(root: Path) -> Dash:
    return create_app(root)


@pytest.fixture(scope="module")
def client(app: Dash) -> FlaskClient:
    return app.server.test_client()


@pytest.fixture
def chosen(root: Path) -> Selection:
    return select(Data(Store(root)), ViewState(layer=1))


def address(chosen: Selection, part: Zoom, kind: str) -> str:
    view = chosen.view
    assert view.run and view.capture and view.string is not None
    return exports.address(kind, view.run, view.capture, view.string, view.layer, view.head, part)


PART = Zoom(310, 350, 5, 90)


def test_a_csv_has_a_line_for_every_cell_that_reads_back_exactly(client: FlaskClient, chosen: Selection) -> None:
    answer = client.get(address(chosen, PART, "csv"))
    assert answer.status_code == 200
    assert 'filename="rope-2l-s0-0000-' in answer.headers["Content-Disposition"]
    assert answer.headers["Content-Disposition"].endswith('-layer1-head0-310-350.5-90.csv"')
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    tile = chosen.string.head(1, 0).tile(PART.rows, PART.cols)
    weights = np.array([row["weight"] for row in rows], np.float32).reshape(tile.shape)
    assert np.array_equal(weights, tile)
    assert [int(row["query"]) for row in rows[:: tile.shape[1]]] == list(range(310, 350))
    names = chosen.string.token_names
    assert all(row["key_token"] == names[int(row["key"])] for row in rows)


def test_an_npz_holds_the_tile_its_edges_and_its_tokens(client: FlaskClient, chosen: Selection) -> None:
    arrays = np.load(io.BytesIO(client.get(address(chosen, PART, "npz")).data), allow_pickle=False)
    assert np.array_equal(arrays["weights"], chosen.string.head(1, 0).tile(PART.rows, PART.cols))
    assert np.array_equal(arrays["row_edges"], np.arange(310, 351))
    assert arrays["key_tokens"].tolist() == chosen.string.token_names[5:90]
    assert (arrays["layer"], arrays["head"], arrays["string"]) == (1, 0, chosen.index)


def test_too_many_cells_are_refused_and_offered_pooled(
    client: FlaskClient, chosen: Selection, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = exports.Kind(1000, "text/csv", exports.KINDS["csv"].write)
    monkeypatch.setitem(exports.KINDS, "csv", small)
    exact = address(chosen, PART, "csv").split("?")[0]
    refused = client.get(exact)
    assert refused.status_code == 400
    assert "40 x 85 cells" in refused.text and "zoom in" in refused.text and "?cells=" in refused.text
    assert address(chosen, PART, "csv").endswith(f"?cells={exports.POOLED}"), "the page asks for what it gets"
    pooled = client.get(exact + "?cells=8")
    assert pooled.status_code == 200
    rows = list(csv.DictReader(io.StringIO(pooled.text)))
    assert len(rows) <= 64
    tile = chosen.string.head(1, 0).tile(PART.rows, PART.cols)
    for row in rows:
        block = tile[
            int(row["query"]) - 310 : int(row["query_last"]) - 309, int(row["key"]) - 5 : int(row["key_last"]) - 4
        ]
        assert float(row["weight"]) == pytest.approx(block.max(), abs=1e-6)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("{run}/{capture}/0/0/0/0-9.0-9.xlsx", 404),
        ("{run}/{capture}/0/0/0/0-9.csv", 400),
        ("{run}/{capture}/0/0/0/9-0.0-9.csv", 400),
        ("{run}/{capture}/0/0/0/0-9.0-999999999.csv", 400),
        ("{run}/{capture}/0/0/0/-1-9.0-9.csv", 400),
        ("{run}/{capture}/0/0/0/0-9.0-9.csv?cells=0", 400),
        ("{run}/{capture}/0/0/0/0-9.0-9.csv?cells=99999", 400),
        ("{run}/{capture}/0/0/0/0-9.0-9.csv?cells=%E0%A5%A8", 400),
        ("{run}/{capture}/9/0/0/0-9.0-9.csv", 400),
        ("{run}/{capture}/0/9/0/0-9.0-9.npz", 400),
        ("{run}/{capture}/0/0/9/0-9.0-9.npz", 400),
        ("{run}/nothing/0/0/0/0-9.0-9.npz", 400),
        ("nothing/{capture}/0/0/0/0-9.0-9.npz", 400),
        ("..%5C../{capture}/0/0/0/0-9.0-9.npz", 400),
        ("%00/{capture}/0/0/0/0-9.0-9.npz", 400),
    ],
)
def test_what_is_not_there_is_one_readable_line(client: FlaskClient, chosen: Selection, path: str, status: int) -> None:
    answer = client.get("/export/" + path.format(run=chosen.view.run, capture=chosen.view.capture))
    assert answer.status_code == status, answer.text
    assert answer.mimetype == "text/plain"
    assert answer.text.count("\n") == 0
    assert "Traceback" not in answer.text
    assert "xpected unknown" not in answer.text and "xpected there" not in answer.text


def test_what_was_not_understood_and_what_is_not_there_are_told_apart(client: FlaskClient, chosen: Selection) -> None:
    here = f"/export/{chosen.view.run}"
    assert client.get(f"{here}/x/0/0/0/0-9.0-9.csv").text.startswith("Unknown capture 'x'.")
    assert client.get(f"{here}/{chosen.view.capture}/0/0/0/0-9.csv").text.startswith("Expected first-last query rows")


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    parts=st.lists(
        st.text(st.characters(blacklist_characters="/?#\\", blacklist_categories=("Cs",))), min_size=6, max_size=6
    )
)
def test_no_address_makes_the_server_fail(client: FlaskClient, parts: list[str]) -> None:
    answer = client.get("/export/" + "/".join(parts) + ".csv")
    assert answer.status_code < 500
    assert "Content-Disposition" not in answer.headers
