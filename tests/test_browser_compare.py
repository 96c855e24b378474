"""Checkpoints, comparison and keys of the Attention page in Chromium; an empty console and nothing leaves."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests import fake_store
from tests.browsing import ARGUMENTS, Site, serving, watched
from tests.test_browser import drawn, map_box

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser(chromium_path: str) -> Iterator[Browser]:
    expect.set_options(timeout=30_000)  # the first model may be loaded while other tests run
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=ARGUMENTS)
        yield browser
        browser.close()
    expect.set_options(timeout=5_000)


@pytest.fixture(scope="module")
def served(checkpointed_store: tuple[Path, dict[str, str]]) -> Iterator[tuple[str, dict[str, str], Path]]:
    root, ids = checkpointed_store
    with serving(root) as address:
        yield address, ids, root


@pytest.fixture
def site(browser: Browser, served: tuple[str, dict[str, str], Path]) -> Iterator[Site]:
    with watched(browser, served, 30_000) as site:
        yield site


def step_of(page: Page) -> int:
    return int(page.locator(".weights-step b").inner_text())


def test_a_head_is_followed_through_training_by_slider_and_keys(site: Site) -> None:
    page = site.page
    site.open(f"/attention?run={site.ids['rope']}&layer=1")
    map_box(page)
    expect(page.locator(".weights-step")).to_have_text(re.compile("^Step 20"))
    slider = page.get_by_role("slider", name="Checkpoint")
    before = page.evaluate("JSON.stringify(document.querySelector('#attention-map .js-plotly-plot').data[0].z)")
    slider.focus()
    page.keyboard.press("Home")
    page.wait_for_url(re.compile("checkpoint=5"))
    expect(page.locator(".weights-step")).to_have_text("Step 5")
    expect(page.locator(".weights")).to_contain_text("loss ")
    changed = "b => JSON.stringify(document.querySelector('#attention-map .js-plotly-plot').data[0].z) !== b"
    page.wait_for_function(changed, arg=before)
    expect(slider).to_have_attribute("aria-valuetext", re.compile("step 5, (wrong|string|EOS)"))
    assert "@5/" in (page.get_by_title("Layer 1, head 0").locator("img").get_attribute("src") or "")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".weights-step")).to_have_text("Step 10")
    assert "layer=1" in page.url, "the key moves the slider, not the head"
    page.locator("h1").click()
    page.keyboard.press(".")
    expect(page.locator(".weights-step")).to_have_text("Step 15")
    box = slider.bounding_box()
    assert box
    page.mouse.move(box["x"] + 1, box["y"] + 10)
    page.mouse.down()
    for share in (0.3, 0.6, 1.0):
        page.mouse.move(box["x"] + box["width"] * share, box["y"] + 10, steps=3)
    page.mouse.up()
    page.wait_for_url(lambda address: "checkpoint" not in address)
    expect(page.locator(".weights-step")).to_have_text(re.compile("^Step 20"))
    page.go_back()
    expect(page.locator(".weights-step")).to_have_text("Step 15")


def test_two_heads_are_compared_read_subtracted_and_swapped(site: Site) -> None:
    page = site.page
    site.open(f"/attention?run={site.ids['rope']}")
    map_box(page)
    page.keyboard.press("c")
    page.wait_for_url(re.compile("beside=head:1"))
    drawn(page, "compare-map")
    drawn(page, "compare-difference")
    expect(page.locator("#compare-bar")).to_contain_text("First: head 0.0 · second: head 0.1")
    expect(page.locator("#compare-finding")).to_contain_text("of the attention of queries that copy lies on other keys")
    page.wait_for_function(
        "() => document.querySelector('#attention-map .js-plotly-plot').dataset.linked === 'true' &&"
        "document.querySelector('#compare-map .js-plotly-plot').dataset.linked === 'true'"
    )
    box = map_box(page)
    page.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + box["height"] * 0.8, steps=4)
    readout = page.locator("#compare-readout")
    expect(readout).to_have_text(
        re.compile(r"query \d+ → key \d+ · weight: first [\d.< ]+, second [\d.< ]+ · difference")
    )
    expect(page.locator(".crosshair")).to_have_count(4)
    numbers = re.search(r"first ([\d.]+), second ([\d.]+) · difference ([+-]?[\d.]+)", readout.inner_text())
    if numbers:
        first, second, minus = map(float, numbers.groups())
        assert minus == pytest.approx(first - second, abs=2e-4)
    page.get_by_label("Head", exact=True).select_option("1.0")
    page.wait_for_url(re.compile("beside=(layer:1,head:0|head:0,layer:1)"))
    expect(page.locator("#compare-bar")).to_contain_text("second: head 1.0")
    page.get_by_role("link", name="Swap").click()
    page.wait_for_url(re.compile("layer=1"))
    expect(page.locator("#compare-bar")).to_contain_text("First: head 1.0 · second: head 0.0")
    page.locator("#compare-table summary").click()
    expect(page.locator("#compare-table tbody tr").first).to_be_visible()
    page.go_back()
    expect(page.locator("#compare-bar")).to_contain_text("First: head 0.0 · second: head 1.0")
    page.keyboard.press("c")
    expect(page.locator("#compare-map")).to_have_count(0)
    assert "beside" not in page.url


def test_zoom_and_pinned_row_are_shared(site: Site) -> None:
    page = site.page
    site.open(f"/attention?run={site.ids['rope']}&beside=checkpoint:5")
    drawn(page, "compare-map")
    drawn(page, "compare-difference")
    map_box(page)
    box = page.locator("#compare-map .nsewdrag").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 0.1, box["y"] + box["height"] * 0.4)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.9, steps=5)
    page.mouse.up()
    page.wait_for_url(re.compile("zoom="))
    ranges = "id => document.querySelector(`#${id} .js-plotly-plot`).layout.xaxis.range.join()"
    there = page.evaluate("new URLSearchParams(location.search).get('zoom').split('.')[1].split('-').map(Number)")
    wanted = f"{there[0] - 0.5:g},{there[1] - 0.5:g}"
    for graph in ("attention-map", "compare-map", "compare-difference"):
        page.wait_for_function(f"([id, wanted]) => ({ranges})(id) === wanted", arg=[graph, wanted])
    page.mouse.click(box["x"] + box["width"] * 0.3, box["y"] + box["height"] * 0.5)
    page.wait_for_url(re.compile(r"row=\d+"))
    row = re.search(r"row=(\d+)", page.url)[1]  # type: ignore[index]
    expect(page.locator(".row-name")).to_contain_text(f"Query {row}")
    outlined = "id => document.querySelector(`#${id} .js-plotly-plot`).layout.shapes[0].y0"
    for graph in ("attention-map", "compare-map", "compare-difference"):
        page.wait_for_function(f"([id, y]) => ({outlined})(id) === y", arg=[graph, int(row) - 0.5])


def test_walking_heads_asks_for_nothing_more_while_nothing_is_compared(site: Site) -> None:
    page = site.page
    site.open(f"/attention?run={site.ids['rope']}")
    map_box(page)
    page.wait_for_load_state("networkidle")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.post_data or "") if request.method == "POST" else None)
    page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile("head=1"))
    expect(page.locator(".thumbnail[aria-current]")).to_have_attribute("title", "Layer 0, head 1")
    page.wait_for_load_state("networkidle")
    assert asked and not [body for body in asked if "compare" in body.split('"inputs"')[0]]
    page.keyboard.press("ArrowDown")
    expect(page.locator(".thumbnail[aria-current]")).to_have_attribute("title", "Layer 1, head 0")


def test_keys_walk_strings_and_list_failed_ones_but_not_while_typing(site: Site) -> None:
    page = site.page
    site.open(f"/attention?run={site.ids['rope']}")
    map_box(page)
    rows = page.locator(".strings a")
    total = rows.count()
    first = page.locator(".strings a[aria-current] .string-number").inner_text()
    page.keyboard.press("]")
    page.wait_for_url(re.compile("string="))
    expect(page.locator(".strings a[aria-current] .string-number")).not_to_have_text(first)
    page.keyboard.press("[")
    expect(page.locator(".strings a[aria-current] .string-number")).to_have_text(first)
    page.keyboard.press("f")
    page.wait_for_url(re.compile("failing=on"))
    expect(page.get_by_role("checkbox", name="Failed")).to_be_checked()
    assert rows.count() <= total
    expect(page.locator(".strings .good")).to_have_count(0)
    page.keyboard.press("f")
    page.wait_for_url(lambda address: "failing" not in address)
    page.keyboard.press("c")
    drawn(page, "compare-map")
    page.get_by_label("Head", exact=True).focus()
    here = page.url
    page.keyboard.press("c")
    page.wait_for_timeout(300)
    assert page.url == here, "a key in a list belongs to the list"


def test_a_panel_fills_the_window_and_gives_the_focus_back(site: Site) -> None:
    page = site.page
    site.open(f"/attention?run={site.ids['rope']}")
    small = map_box(page)
    page.keyboard.press("m")
    page.wait_for_function("w => document.querySelector('#attention-map .nsewdrag').getBoundingClientRect().width > w",
                           arg=small["width"] * 1.3)  # fmt: skip
    expect(page.get_by_role("button", name="Maximise the map")).to_have_attribute("aria-pressed", "true")
    assert page.evaluate("document.querySelector('#attention-columns > .side').inert"), (
        "what is covered is out of reach"
    )
    page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile("head=1"))
    page.keyboard.press("Escape")
    page.wait_for_function("w => document.querySelector('#attention-map .nsewdrag').getBoundingClientRect().width < w",
                           arg=small["width"] * 1.2)  # fmt: skip
    assert not page.evaluate("document.querySelector('#attention-columns > .side').inert")
    assert page.evaluate("document.activeElement.dataset.maximise") == "attention-middle"
    for name in ("all heads", "the row"):
        page.get_by_role("button", name=f"Maximise {name}").click()
        expect(page.locator("[data-maximised]")).to_have_count(1)
        page.get_by_role("button", name=f"Maximise {name}").click()
        expect(page.locator("[data-maximised]")).to_have_count(0)


def test_a_comparison_is_a_link_and_goes_along_to_coordinates(site: Site, browser: Browser) -> None:
    page = site.page
    site.open(f"/attention?run={site.ids['auto2d']}&beside=checkpoint:5")
    drawn(page, "compare-map")
    page.locator("#nav a", has_text="Coordinates").click()
    drawn(page, "coordinates-both")
    expect(page.locator("#coordinates-both .gtitle")).to_contain_text("rows apart: step 20, dashed step 5")
    assert "beside=checkpoint:5" in page.url
    other = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    other.goto(page.url)
    drawn(other, "coordinates-both")
    other.context.close()


@pytest.mark.parametrize("width", [768, 1280, 1920])
def test_nothing_runs_off_the_side_of_a_comparison(site: Site, width: int) -> None:
    page = site.page
    page.set_viewport_size({"width": width, "height": 900})
    site.open(f"/attention?run={site.ids['rope']}&beside=run:{site.ids['auto2d']}")
    drawn(page, "compare-difference")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    tops = [page.locator(f"#{graph} .nsewdrag").bounding_box() for graph in ("attention-map", "compare-map")]
    assert all(tops)
    if width > 1100:
        assert tops[0]["y"] == pytest.approx(tops[1]["y"], abs=16), "maps stand side by side"  # type: ignore[index]


def test_a_key_waits_for_the_heads_to_follow_the_one_before(site: Site) -> None:
    page = site.page
    site.open(f"/attention?run={site.ids['rope']}")
    map_box(page)
    expect(page.locator("a.thumbnail[aria-current]")).to_have_attribute("title", re.compile("head 0"))
    page.route("**/_dash-update-component*", lambda route: None)
    page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile("head=1"))
    page.keyboard.press("ArrowLeft")
    assert "head=1" in page.url, "the heads that are shown still stand around head 0, which has none to its left"
    page.unroute("**/_dash-update-component*")  # which lets go what was held
    page.wait_for_url(lambda address: "head=" not in address)
    expect(page.locator("a.thumbnail[aria-current]")).to_have_attribute("title", re.compile("head 0"))


def test_focus_and_scrolling_stay_when_a_list_follows_the_address(site: Site) -> None:
    page = site.page
    site.open(f"/attention?run={site.ids['rope']}")
    map_box(page)
    second = page.locator(".strings a").nth(1)
    second.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("string="))
    expect(second).to_have_attribute("aria-current", "true")
    expect(second).to_be_focused()
    grid = page.locator("a.thumbnail")
    before = grid.first.locator("img").element_handle()
    grid.nth(1).focus()
    page.keyboard.press("Enter")
    expect(grid.nth(1)).to_have_attribute("aria-current", "true")
    expect(grid.nth(1)).to_be_focused()
    assert page.evaluate("image => image.isConnected && image.src.length > 0", before), "pictures are not loaded anew"


def test_the_keys_of_a_row_that_the_second_has_not_stay_in_their_panel(browser: Browser, tmp_path: Path) -> None:
    ids = fake_store.fill(tmp_path / "store")
    run = tmp_path / "store" / ids["rope"]
    for name, n in (("long", 40), ("short", 8)):
        fake_store.add_capture(run, ["rope", "rope"], [2, 1], n=n, strings=1, name=name)
    with serving(tmp_path / "store") as address, watched(browser, (address, ids, tmp_path), 30_000) as site:
        site.open(f"/attention?run={ids['rope']}&capture=long&row=80&beside=capture:short")
        expect(site.page.locator("#attention-keys")).to_contain_text("The second string ends before query 80")
        expect(site.page.locator("#attention-keys")).to_contain_text("All other keys together")
        panel = site.page.locator("#attention-right").bounding_box()
        keys = site.page.locator("#attention-keys .scroll").first.bounding_box()
        assert panel and keys and keys["y"] + keys["height"] <= panel["y"] + panel["height"]
