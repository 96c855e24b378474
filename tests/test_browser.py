"""The dashboard in Chromium: journeys through the pages with an empty console and no request off the machine."""

import csv
import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from models.attention import open_capture
from tests import fake_store
from tests.browsing import ARGUMENTS, Site, serving, watched
from workbench.figures.tokens import visible

pytestmark = pytest.mark.browser

# Plotly makes room for labels in a second pass: the map is where it stays once two looks in a row agree.
STILL = """() => {
    const box = document.querySelector("#attention-map .nsewdrag").getBoundingClientRect();
    const now = [box.x, box.y, box.width, box.height].join();
    const before = window.lastBox;
    window.lastBox = now;
    return now === before && document.querySelector("#attention-map .gtitle");
}"""
CELL = re.compile(r"query (\d+) (\S+)\s+→\s+key (\d+) (\S+)\s+·\s+offset (-?\d+)\s+·\s+(weight [\d.< ]+|in the future)")


@pytest.fixture(scope="module")
def browser(chromium_path: str) -> Iterator[Browser]:
    expect.set_options(timeout=20_000)  # other tests may be running on the same cores
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=ARGUMENTS)
        yield browser
        browser.close()
    expect.set_options(timeout=5_000)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str], Path]]:
    root = tmp_path_factory.mktemp("browser") / "store"
    ids = fake_store.fill(root)
    fake_store.add_capture(root / ids["rope"], ["rope", "rope"], [2, 1], n=400, strings=1, name="long")
    fake_store.add_capture(root / ids["rope"], ["rope", "rope"], [2, 1], n=2200, strings=1, name="longer")
    for name in ("long", "longer"):
        os.utime(root / ids["rope"] / "captures" / name / "capture.json", (0, 0))  # the other capture is the newest
    with serving(root) as address:
        yield address, ids, root


@pytest.fixture
def site(browser: Browser, served: tuple[str, dict[str, str], Path]) -> Iterator[Site]:
    with watched(browser, served, 30_000) as site:
        yield site


def drawn(page: Page, graph: str) -> None:
    """Wait until a figure has its traces."""
    page.wait_for_function("id => (document.querySelector(`#${id} .js-plotly-plot`)?.data ?? []).length > 0", arg=graph)


def map_box(page: Page) -> dict[str, float]:
    drawn(page, "attention-map")
    page.wait_for_function(STILL)
    box = page.locator("#attention-map .nsewdrag").first.bounding_box()
    assert box
    return {"x": box["x"], "y": box["y"], "width": box["width"], "height": box["height"]}


def test_every_page_opens_and_says_what_it_answers(site: Site) -> None:
    site.open("/")
    for title in ("Runs", "Attention", "Coordinates"):
        site.page.locator("#nav a", has_text=title).click()
        expect(site.page.locator("h1")).to_have_text(title)
        expect(site.page.locator(".heading p")).to_contain_text("?")
        expect(site.page).to_have_title(f"{title} · Copy Workbench")
    drawn(site.page, "coordinates-path")


def test_ticking_runs_is_kept_in_the_address_and_by_going_back(site: Site) -> None:
    site.open("/runs")
    page, rope, auto = site.page, site.ids["rope"], site.ids["auto2d"]
    drawn(page, "runs-lengths")
    expect(page.locator("#runs-key")).to_contain_text("Newest")
    page.get_by_role("checkbox", name=f"draw {rope}").click()
    expect(page.get_by_role("checkbox", name=f"draw {rope}")).to_be_checked()
    assert site.query() == f"runs={rope}"
    page.get_by_role("checkbox", name=f"draw {auto}").press(" ")
    expect(page.locator("#runs-key .key-entry")).to_have_count(2)
    page.go_back()
    expect(page.locator("#runs-key .key-entry")).to_have_count(1)
    expect(page.get_by_role("checkbox", name=f"draw {auto}")).not_to_be_checked()
    page.go_forward()
    expect(page.get_by_role("checkbox", name=f"draw {auto}")).to_be_checked()


def test_status_is_text_and_damaged_folders_are_listed(site: Site) -> None:
    site.open("/runs")
    table = site.page.locator("#runs-table")
    for text in ("finished", "failed", "killed", "unreadable", "not a run", "loss is not a number at step 300"):
        expect(table).to_contain_text(text)


def test_curves_grow_while_a_run_trains_and_ticks_stay(browser: Browser, site: Site, tmp_path: Path) -> None:
    rope = site.ids["rope"]
    site.open(f"/runs?runs={rope}")
    expect(site.page.get_by_role("checkbox", name=f"draw {rope}")).to_be_checked()
    training = fake_store.Training(site.root, "aaa-new-s0-0001")
    try:
        training.advance(40)
        row = site.page.locator("tr", has_text="aaa-new-s0-0001")
        expect(row).to_contain_text("training")
        expect(row).to_contain_text("40 / 500")
        expect(site.page.get_by_role("checkbox", name=f"draw {rope}")).to_be_checked()
        expect(site.page.get_by_role("checkbox", name="draw aaa-new-s0-0001")).not_to_be_checked()
        site.page.get_by_role("checkbox", name="draw aaa-new-s0-0001").click()
        last = "document.querySelector('#runs-training .js-plotly-plot').data.map(trace => trace.x?.length ?? 0)"
        site.page.wait_for_function(f"() => {last}.length === 4")
        training.advance(60)
        expect(row).to_contain_text("100 / 500")
        ends = "document.querySelector('#runs-training .js-plotly-plot')._fullData.map(t => t._length)"
        site.page.wait_for_function(f"() => {ends}.includes(100)")
    finally:
        training.close()
        for file in sorted(training.folder.rglob("*"), reverse=True):
            file.unlink() if file.is_file() else file.rmdir()
        training.folder.rmdir()


def test_from_a_run_to_its_failed_string_and_a_pinned_row(site: Site) -> None:
    page, rope = site.page, site.ids["rope"]
    site.open("/runs")
    page.locator("tr", has_text=rope).get_by_role("link", name="attention").click()
    expect(page.locator("h1")).to_have_text("Attention")
    first = page.locator(".strings a").first
    expect(first).to_have_attribute("aria-current", "true")
    expect(first).to_contain_text("error at")
    expect(page.locator(".no-head")).to_have_count(1)
    page.get_by_title("Layer 1, head 0").click()
    expect(page.locator(".thumbnail[aria-current]")).to_have_attribute("title", "Layer 1, head 0")
    box = map_box(page)
    site.page.wait_for_function(
        "() => document.querySelector('#attention-map .gtitle')?.textContent.includes('Layer 1')"
    )
    page.mouse.click(box["x"] + box["width"] * 0.2, box["y"] + box["height"] * 0.75)
    page.wait_for_url(re.compile(r"row=\d+"))
    row = int(re.search(r"row=(\d+)", page.url)[1])  # type: ignore[index]
    assert row == pytest.approx(0.75 * 126, abs=2)
    expect(page.locator(".row-name")).to_contain_text(f"Query {row}")
    expect(page.locator(".keys tbody tr").first).to_be_visible()
    page.get_by_label("row after").click()
    expect(page.locator(".row-name")).to_contain_text(f"Query {row + 1}")
    page.go_back()
    expect(page.locator(".row-name")).to_contain_text(f"Query {row}")


def test_pointing_at_a_cell_reads_query_key_offset_and_weight(site: Site) -> None:
    site.open(f"/attention?run={site.ids['rope']}&layer=1&string=0")
    page = site.page
    box = map_box(page)
    page.mouse.move(box["x"] + box["width"] * 0.31, box["y"] + box["height"] * 0.8, steps=4)
    readout = page.locator("#attention-readout")
    expect(readout).to_have_text(re.compile("query (99|100|101) "))
    expect(readout).to_have_text(CELL)
    query, _, key, _, offset, weight = CELL.search(readout.inner_text()).groups()  # type: ignore[union-attr]
    assert int(offset) == int(query) - int(key)
    assert weight.startswith("weight")
    page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + box["height"] * 0.1, steps=4)
    expect(readout).to_contain_text("in the future")


def test_dragging_refines_a_pooled_map_and_a_double_click_shows_all(site: Site) -> None:
    site.open(f"/attention?run={site.ids['rope']}&capture=long")
    page = site.page
    expect(page.locator("#attention-map .gtitle")).to_contain_text("largest weight of 2 queries × 2 keys")
    box = map_box(page)
    page.mouse.move(box["x"] + box["width"] * 0.1, box["y"] + box["height"] * 0.55)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + box["height"] * 0.75, steps=5)
    page.mouse.up()
    page.wait_for_url(re.compile(r"zoom=\d+-\d+\.\d+-\d+"))
    expect(page.locator("#attention-map .gtitle")).to_contain_text("true source")
    shape = page.evaluate("(() => { const z = document.querySelector('#attention-map .js-plotly-plot')._fullData[0].z;"
                          " return [z.length, z[0].length, typeof z[0][0]]; })()")  # fmt: skip
    assert shape[0] == pytest.approx(0.2 * 806, abs=4)
    page.mouse.dblclick(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.5)
    expect(page.locator("#attention-map .gtitle")).to_contain_text("largest weight of 2 queries")
    assert "zoom=" not in page.url


def drag(page: Page, box: dict[str, float], start: tuple[float, float], end: tuple[float, float]) -> None:
    """Drag over the map between two points, given as shares of its width and height."""
    (x0, y0), (x1, y1) = ((box["x"] + box["width"] * x, box["y"] + box["height"] * y) for x, y in (start, end))
    page.mouse.move(x0, y0)
    page.mouse.down()
    page.mouse.move(x1, y1, steps=5)
    page.mouse.up()


def test_a_very_long_map_is_computed_in_the_background_and_zoomed_down_to_exact_cells(site: Site) -> None:
    page = site.page
    site.open(f"/attention?run={site.ids['rope']}&capture=longer&layer=1")
    title = page.locator("#attention-map .gtitle")
    expect(title).to_contain_text("largest weight of", timeout=30_000)
    expect(page.locator("#attention-progress")).to_be_empty()
    expect(page.locator("#attention-foot")).to_contain_text("4,406 tokens")
    expect(page.get_by_title("Layer 1, head 0").locator("img")).to_be_visible()
    expect(page.locator(".no-overview")).to_have_count(2)
    narrow = title.text_content() or ""
    page.set_viewport_size({"width": 1920, "height": 1080})
    expect(title).not_to_have_text(narrow)
    expect(title).to_contain_text("largest weight of")
    page.set_viewport_size({"width": 1280, "height": 800})
    expect(title).to_have_text(narrow)
    box = map_box(page)
    cells = "(() => { const t = document.querySelector('#attention-map .js-plotly-plot')._fullData[0];"
    columns = page.evaluate(cells + " return t._length ?? t.z[0].length; })()")
    assert columns <= box["width"], "never more cells than pixels"
    drag(page, box, (0.2, 0.7), (0.5, 0.95))
    page.wait_for_url(re.compile(r"zoom="))
    before = site.query()
    expect(page.locator("#attention-foot")).to_contain_text("queries")
    drag(page, map_box(page), (0.3, 0.3), (0.42, 0.45))
    page.wait_for_function("before => !location.search.endsWith(before)", arg=before)
    expect(title).to_contain_text("true source")
    match = re.search(r"zoom=(\d+)-(\d+)\.(\d+)-(\d+)", site.query())
    assert match
    top, bottom, left, right = map(int, match.groups())
    assert max(bottom - top, right - left) <= 256
    drawn_cells = page.evaluate(cells + " return Array.from(t.z, row => Array.from(row)); })()")
    string = open_capture(site.root / site.ids["rope"] / "captures" / "longer").string(0)
    tile = string.head(1, 0).tile(slice(top, bottom), slice(left, right))
    assert np.array(drawn_cells, dtype=np.float32) == pytest.approx(tile, abs=1e-7)
    page.mouse.click(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.5)
    page.wait_for_url(re.compile(r"row=\d+"))
    row = int(re.search(r"row=(\d+)", page.url)[1])  # type: ignore[index]
    assert top <= row < bottom
    expect(page.locator(".row-name")).to_contain_text(f"Query {row}")
    expect(page.locator("#attention-row")).to_contain_text("each bar the largest of")
    key = page.locator(".keys tbody a").first
    at = int(key.inner_text().replace(",", ""))
    key.click()
    page.wait_for_url(re.compile(r"zoom="))
    expect(page.locator("#attention-foot")).to_contain_text("keys")
    match = re.search(r"zoom=(\d+)-(\d+)\.(\d+)-(\d+)", site.query())
    assert match
    top, bottom, left, right = map(int, match.groups())
    assert top <= row < bottom and left <= at < right and bottom - top == 64


def test_the_view_is_saved_as_pictures_and_as_its_exact_cells(site: Site, tmp_path: Path) -> None:
    page = site.page
    site.open(f"/attention?run={site.ids['rope']}&layer=1&string=0&zoom=60-100.0-50")
    map_box(page)
    saved = {}
    for kind in ("PNG", "SVG", "CSV", "NPZ"):
        with page.expect_download() as download:
            page.locator("#attention-foot").get_by_text(kind, exact=True).click()
        saved[kind] = tmp_path / download.value.suggested_filename
        download.value.save_as(saved[kind])
        assert saved[kind].suffix == f".{kind.lower()}"
        assert site.ids["rope"] in saved[kind].name
    assert saved["PNG"].read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    picture = saved["SVG"].read_text()
    assert "Layer 1, head 0" in picture and "data:image/png" in picture
    captures = site.root / site.ids["rope"] / "captures"
    capture = next(path for path in captures.iterdir() if path.name.startswith("imbalanced"))
    tile = open_capture(capture).string(0).head(1, 0).tile(slice(60, 100), slice(0, 50))
    rows = list(csv.DictReader(saved["CSV"].open(newline="")))
    assert np.array_equal(np.array([r["weight"] for r in rows], np.float32).reshape(tile.shape), tile)
    assert np.array_equal(np.load(saved["NPZ"], allow_pickle=False)["weights"], tile)
    assert "zoom=60-100.0-50" in page.url, "the page stays where it is"


def test_the_tokens_tab_shows_the_heads_of_the_layer_in_circuitsvis(site: Site) -> None:
    page = site.page
    site.open(f"/attention?run={site.ids['rope']}")
    map_box(page)
    page.get_by_role("link", name="Tokens").click()
    frame = page.frame_locator(".token-frame iframe")
    expect(frame.locator("canvas")).to_have_count(3)
    expect(frame.locator("figcaption")).to_have_text(["Head 0", "Head 1"])
    expect(frame.locator(".tokens button")).to_have_count(126)
    expect(frame.locator(".tokens button").nth(62)).to_have_text("⏎")
    painted = "canvas => new Set(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data).size"
    assert all(canvas.evaluate(painted) > 3 for canvas in frame.locator("canvas").all()), "heads are drawn"
    expect(page.locator("#attention-map")).to_be_hidden()
    page.get_by_title("Layer 1, head 0").click()
    expect(frame.locator("canvas")).to_have_count(2)
    page.get_by_role("link", name="Map").click()
    map_box(page)
    expect(page.locator(".token-frame")).to_have_count(0)
    site.open(f"/attention?run={site.ids['rope']}&capture=long&tab=tokens")
    expect(page.locator("#attention-token-view .command")).to_contain_text(f"workbench capture {site.ids['rope']}")


def test_colour_switch_overlay_and_palette_change_the_figure_in_place(site: Site) -> None:
    site.open(f"/attention?run={site.ids['rope']}")
    page = site.page
    map_box(page)
    first = "document.querySelector('#attention-map .js-plotly-plot').data"
    sqrt = page.evaluate(f"JSON.stringify({first}[0].colorscale)")
    page.get_by_role("link", name="linear").click()
    page.wait_for_function(f"() => JSON.stringify({first}[0].colorscale) !== {sqrt!r}")
    page.get_by_role("group", name="True source").get_by_role("link", name="off").click()
    page.wait_for_function(f"() => {first}[1].visible === false")
    assert site.query().endswith("scale=linear&source=off")
    page.get_by_role("link", name="Viridis").click()
    expect(page.get_by_role("link", name="Viridis")).to_have_attribute("aria-current", "true")


def test_choosing_a_run_and_a_capture_from_the_lists(site: Site) -> None:
    site.open(f"/attention?run={site.ids['rope']}&layer=1")
    page = site.page
    expect(page.locator("#attention-run")).to_contain_text(site.ids["rope"])
    page.locator("#attention-capture").click()
    page.get_by_role("option", name=re.compile("imbalanced 400")).or_(
        page.locator(".dash-dropdown-option", has_text="imbalanced 400")
    ).first.click()
    page.wait_for_url(re.compile("capture=long"))
    page.locator("#attention-run").click()
    page.locator(".dash-dropdown-option", has_text=site.ids["auto2d"]).click()
    page.wait_for_url(re.compile(f"run={site.ids['auto2d']}"))
    assert "capture=" not in page.url
    expect(page.locator("#attention-map .gtitle")).to_contain_text("Auto-2D-RoPE")
    page.go_back()
    expect(page.locator("#attention-run")).to_contain_text(site.ids["rope"])
    assert "capture=long" in page.url


def test_a_link_shows_the_same_view_in_another_browser(site: Site, browser: Browser) -> None:
    site.open(f"/attention?run={site.ids['rope']}&string=3&layer=1&row=90&zoom=60-100.0-40&scale=linear")
    other = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    other.goto(site.page.url)
    for page in (site.page, other):
        expect(page.locator(".row-name")).to_contain_text("Query 90")
        expect(page.locator(".strings a[aria-current]")).to_contain_text("#3")
        drawn(page, "attention-map")
        ranges = page.evaluate("document.querySelector('#attention-map .js-plotly-plot').layout.xaxis.range")
        assert ranges == [-0.5, 39.5]
    other.context.close()


def test_the_selection_goes_along_from_page_to_page(site: Site) -> None:
    site.open(f"/attention?run={site.ids['auto2d']}&string=2")
    site.page.locator("#nav a", has_text="Coordinates").click()
    expect(site.page.locator("#coordinates-run")).to_contain_text(site.ids["auto2d"])
    expect(site.page.locator(".strings a[aria-current]")).to_contain_text("#2")
    drawn(site.page, "coordinates-steps")
    drawn(site.page, "coordinates-rule")


def test_schemes_without_rows_are_explained(site: Site) -> None:
    site.open(f"/coordinates?run={site.ids['rope']}")
    expect(site.page.locator(".explain")).to_contain_text("on a line")
    drawn(site.page, "coordinates-line")
    site.open(f"/coordinates?run={site.ids['rope2d']}")
    expect(site.page.locator(".explain")).to_contain_text("line breaks")
    drawn(site.page, "coordinates-path")


def test_a_bad_address_is_explained_on_a_page_that_works(site: Site) -> None:
    site.open("/attention?run=no-such-run&colour=red&layer=x")
    expect(site.page.locator("#notes p")).to_have_count(2)
    expect(site.page.locator("#attention-state")).to_contain_text("Unknown run 'no-such-run'")
    site.page.locator("#attention-run").click()
    site.page.locator(".dash-dropdown-option", has_text=site.ids["rope"]).click()
    map_box(site.page)
    expect(site.page.locator("#attention-state")).to_be_hidden()
    site.open("/nowhere")
    expect(site.page.locator("#page")).to_contain_text("There is no such page")


def test_a_run_without_captures_says_what_to_do(site: Site) -> None:
    site.open(f"/attention?run={site.ids['nope']}")
    expect(site.page.locator("#attention-state .command")).to_contain_text(site.ids["nope"])
    expect(site.page.locator("#attention-map")).to_be_hidden()


def test_thumbnails_arrive(site: Site) -> None:
    site.open(f"/attention?run={site.ids['rope']}")
    site.page.wait_for_function(
        "() => [...document.querySelectorAll('.thumbnail img')].length === 3 &&"
        "[...document.querySelectorAll('.thumbnail img')].every(image => image.complete && image.naturalWidth === 126)"
    )


def test_hostile_token_names_are_text(site: Site) -> None:
    names = ["<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", "<b>A</b>", '"', "\n", "\u200b",
             "\u202e", "שלום", "EOS", "PAD"]  # fmt: skip
    fake_store.add_capture(site.root / site.ids["nope"], ["rope"], [1], n=6, strings=1, name="hostile", names=names)
    alerts: list[str] = []
    site.page.on("dialog", lambda dialog: alerts.append(dialog.message))
    try:
        site.open(f"/attention?run={site.ids['nope']}&capture=hostile")
        box = map_box(site.page)
        site.page.mouse.move(box["x"] + 40, box["y"] + box["height"] - 30, steps=3)
        expect(site.page.locator("#attention-readout")).to_contain_text("<img")
        expect(site.page.locator("#attention-map .yaxislayer-above, #attention-map .ytick text").first).to_contain_text(
            "<b>A</b>"
        )
        site.open(f"/attention?run={site.ids['nope']}&capture=hostile&tab=tokens")
        tokens = site.page.frame_locator(".token-frame iframe").locator(".tokens button")
        expect(tokens).to_have_count(18)
        string = open_capture(site.root / site.ids["nope"] / "captures" / "hostile").string(0)
        assert tokens.all_text_contents() == [visible(name) for name in string.token_names]
        assert any(name.startswith("<img") for name in string.token_names)
        site.open(f"/coordinates?run={site.ids['nope']}&capture=hostile")
        drawn(site.page, "coordinates-line")
        assert site.page.locator("img[src='x']").count() == 0
        assert alerts == []
    finally:
        folder = site.root / site.ids["nope"] / "captures" / "hostile"
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


def test_the_theme_follows_the_system_and_the_button(browser: Browser, site: Site) -> None:
    site.open("/runs")
    theme = "document.documentElement.dataset.theme"
    assert site.page.evaluate(theme) == "light"
    site.page.locator("#theme").click()
    assert site.page.evaluate(theme) == "dark"
    site.page.reload()
    assert site.page.evaluate(theme) == "dark", "the choice is remembered"
    drawn(site.page, "runs-lengths")
    ink = "getComputedStyle(document.querySelector('#runs-lengths .xtick text')).fill"
    surface = "getComputedStyle(document.querySelector('.panel')).backgroundColor"
    assert site.page.evaluate(ink) != site.page.evaluate(surface)
    dark = browser.new_context(color_scheme="dark").new_page()
    dark.goto(site.address)
    assert dark.evaluate(theme) == "dark"
    dark.context.close()


def test_the_charts_are_seen_below_many_runs(site: Site) -> None:
    site.open("/runs")
    drawn(site.page, "runs-lengths")
    expect(site.page.locator("#runs-key .key-entry").first).to_be_visible()
    ends = "[...document.querySelectorAll('.curves .panel')].map(panel => panel.getBoundingClientRect().bottom)"
    site.page.wait_for_function(f"() => {ends}.every(end => end <= window.innerHeight)")


def test_a_double_click_shows_all_and_pins_no_row_and_nothing_covers_the_title(site: Site) -> None:
    page = site.page
    site.open(f"/attention?run={site.ids['rope']}&row=90&zoom=60-100.0-40")
    box = map_box(page)
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.5, steps=2)
    bar, title = (page.locator(f"#attention-map {part}").bounding_box() for part in (".modebar", ".gtitle"))
    assert bar and title and bar["y"] > title["y"] + title["height"]
    page.mouse.dblclick(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.2)
    page.wait_for_url(lambda address: "zoom=" not in address)
    page.wait_for_timeout(700)
    assert "row=90" in page.url
    expect(page.locator(".row-name")).to_contain_text("Query 90")


@pytest.mark.parametrize("width", [768, 1280, 1920])
def test_nothing_runs_off_the_side(site: Site, width: int) -> None:
    site.page.set_viewport_size({"width": width, "height": 800})
    for path in ("/runs", f"/attention?run={site.ids['rope']}", f"/coordinates?run={site.ids['auto2d']}"):
        site.open(path)
        site.page.wait_for_load_state("domcontentloaded")
        assert site.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), path


def test_the_keyboard_reaches_the_controls(site: Site) -> None:
    site.open(f"/attention?run={site.ids['rope']}")
    map_box(site.page)
    reached = set()
    for _ in range(60):
        site.page.keyboard.press("Tab")
        reached.add(site.page.evaluate("document.activeElement.className || document.activeElement.id"))
    assert {"segment", "thumbnail"} <= reached
    site.page.get_by_title("Layer 0, head 1").focus()
    site.page.keyboard.press("Enter")
    expect(site.page.locator(".thumbnail[aria-current]")).to_have_attribute("title", "Layer 0, head 1")
