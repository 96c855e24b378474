"""Views taken out of captures: tables and arrays are the exact cells, pictures show the same ones."""

import csv
import io

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.attention import CapturedString, open_capture
from models.errors import UsageError
from models.overview import load_overview
from tests.fake_store import add_capture
from workbench.figures.attention import MASKED, TOP_CODE
from workbench.views import Crop, cells_of, draw, write_csv, write_npz


@pytest.fixture(scope="module")
def strings(tmp_path_factory: pytest.TempPathFactory) -> dict[int, CapturedString]:
    """Captured strings of 86, 606 and 2406 tokens."""
    root = tmp_path_factory.mktemp("views")
    folders = {n: add_capture(root, ["rope"], [2], n=n, strings=1) for n in (40, 300, 1200)}
    return {n: open_capture(folder).string(0) for n, folder in folders.items()}


def crop(string: CapturedString, rows: slice | None = None, cols: slice | None = None, head: int = 1) -> Crop:
    whole = slice(0, len(string.tokens))
    return Crop(string, 0, head, rows or whole, cols or whole)


def rows_of(cells: object, names: list[str]) -> list[dict[str, str]]:
    text = io.StringIO(newline="")
    write_csv(text, cells, names)  # type: ignore[arg-type]
    return list(csv.DictReader(io.StringIO(text.getvalue(), newline="")))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_table_reads_back_as_the_same_numbers(strings: dict[int, CapturedString], data: st.DataObject) -> None:
    string = strings[40]
    n = len(string.tokens)
    rows, cols = (
        slice(*sorted(data.draw(st.lists(st.integers(0, n), min_size=2, max_size=2, unique=True)))) for _ in range(2)
    )
    names = [f'tok,"{i}"\n' for i in range(n)]
    table = rows_of(cells_of(crop(string, rows, cols), None, 10_000), names)
    exact = string.head(0, 1).tile(rows, cols)
    assert [(int(line["query"]), int(line["key"])) for line in table] == [
        (q, k) for q in range(n)[rows] for k in range(n)[cols]
    ]
    read = np.array([line["weight"] for line in table], dtype=np.float32).reshape(exact.shape)
    np.testing.assert_array_equal(read, exact)
    assert all(line["query_token"] == names[int(line["query"])] for line in table)
    assert all(line["key_token"] == names[int(line["key"])] for line in table)


def test_a_pooled_table_says_what_its_cells_cover(strings: dict[int, CapturedString]) -> None:
    string = strings[40]
    exact = string.head(0, 1).tile(slice(0, 86), slice(0, 86))
    shares: list[float] = []
    cells = cells_of(crop(string, slice(10, 80)), 7, 49, shares.append)
    table = rows_of(cells, string.token_names)
    assert len(table) == 49 and shares[-1] == pytest.approx(1)
    assert (int(table[0]["query"]), int(table[-1]["query_last"]), int(table[-1]["key_last"])) == (10, 79, 85)
    for line in table:
        q, q_last, k, k_last = (int(line[name]) for name in ("query", "query_last", "key", "key_last"))
        assert float(line["weight"]) == pytest.approx(exact[q : q_last + 1, k : k_last + 1].max(), abs=1e-6)


def test_arrays_hold_the_cells_and_what_they_are(strings: dict[int, CapturedString]) -> None:
    string, part = strings[40], (slice(50, 80), slice(0, 44))
    file = io.BytesIO()
    chosen = crop(string, *part)
    write_npz(file, cells_of(chosen, None, 10_000), chosen, {"run": "r", "layer": 0})
    file.seek(0)
    held = np.load(file, allow_pickle=False)
    np.testing.assert_array_equal(held["weights"], string.head(0, 1).tile(*part))
    assert held["row_edges"].tolist() == list(range(50, 81)) and held["col_edges"].tolist() == list(range(45))
    assert held["query_tokens"].tolist() == string.token_names[part[0]]
    assert held["key_tokens"].tolist() == string.token_names[part[1]]
    np.testing.assert_array_equal(held["true_source"], string.source_position[part[0]])
    assert str(held["run"]) == "r" and int(held["layer"]) == 0


def test_too_many_cells_are_refused_before_they_are_computed(
    strings: dict[int, CapturedString], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CapturedString, "head", pytest.fail)
    with pytest.raises(UsageError, match=r"2,406 x 2,406 cells .* hold 4,000,000; crop .*--pooled 768"):
        cells_of(crop(strings[1200]), None, 4_000_000)
    with pytest.raises(UsageError, match="--pooled 10"):
        cells_of(crop(strings[1200]), 11, 100)


def test_a_small_picture_is_exact_and_empty_where_keys_lie_ahead(strings: dict[int, CapturedString]) -> None:
    string, part = strings[300], (slice(100, 180), slice(60, 200))
    figure = draw(crop(string, *part), title="run, <b>capture</b>")
    z = np.asarray(figure.data[0].z)
    ahead = np.arange(60, 200)[None] > np.arange(100, 180)[:, None]
    assert np.isnan(z[ahead]).all()
    np.testing.assert_array_equal(z[~ahead], string.head(0, 1).tile(*part)[~ahead])
    assert figure.layout.title.subtitle.text == "run, &lt;b&gt;capture&lt;/b&gt;"
    assert figure.layout.paper_bgcolor == "white"


@pytest.mark.parametrize("n", [300, 1200])
def test_a_large_picture_is_pooled_and_never_loses_a_weight(strings: dict[int, CapturedString], n: int) -> None:
    string = strings[n]
    size = len(string.tokens)
    figure = draw(crop(string), title="whole", bins=200)
    heatmap = figure.data[0]
    codes, edges = np.asarray(heatmap.z), (np.asarray(heatmap.x) + 0.5).astype(int)
    exact = string.head(0, 1).tile(slice(0, size), slice(0, size))
    best = np.maximum.reduceat(np.maximum.reduceat(exact, edges[:-1], axis=0), edges[:-1], axis=1)
    shown = codes != MASKED
    assert codes.dtype == np.uint8 and max(codes.shape) <= 200 and (best[~shown] == 0).all()
    decoded = (codes[shown] / TOP_CODE) ** 2
    assert (decoded >= best[shown] - 1e-4).all() and (decoded <= (np.sqrt(best[shown]) + 1 / TOP_CODE) ** 2).all()
    assert "each cell is the largest weight of" in figure.layout.title.text
    assert (load_overview(string, 0, 1) is not None) == (n == 1200)
