"""The Heads page in Chromium: sorting, walking with the arrow keys, what is drawn, and the way to Attention."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests import fake_reports, fake_store
from tests.browsing import ARGUMENTS, Site, serving, watched

pytestmark = pytest.mark.browser

LABELS = [["locator", "look-back(1)"], ["aligned"]]


@pytest.fixture(scope="module")
def chromium(chromium_path: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def heads_served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str], Path]]:
    root = tmp_path_factory.mktemp("browser-heads") / "store"
    ids = fake_store.fill(root)
    fake_reports.keep_heads(root, ids["rope"], LABELS)
    fake_reports.keep_heads(root, ids["rope"], [["mixed", "mixed"], ["mixed"]], step=300)
    fake_reports.keep_history(root, ids["rope"], LABELS)
    fake_reports.keep_heads(root, ids["rope2d"], [["aligned", "diffuse"]])
    wide = [["sink", "self", "aligned", "mixed"]] * 2
    fake_reports.keep_heads(root, ids["failed"], wide)
    with serving(root) as address:
        yield address, ids, root


@pytest.fixture
def heads_site(chromium: Browser, heads_served: tuple[str, dict[str, str], Path]) -> Iterator[Site]:
    with watched(chromium, heads_served, 15_000) as site:
        yield site


def drawn(page: Page, traces: int = 1) -> None:
    """Wait until the large figure has its traces."""
    script = "n => (document.querySelector('#heads-graph .js-plotly-plot')?.data ?? []).length >= n"
    page.wait_for_function(script, arg=traces)


def selected(page: Page, name: str) -> None:
    """Expect a head to be selected in the table, the evidence and the address."""
    expect(page.locator(".head-name")).to_contain_text(f"Head {name}")
    expect(page.locator(".heads-list tr.current")).to_contain_text(name)


def test_a_heading_sorts_by_click_and_by_keyboard(heads_site: Site) -> None:
    page = heads_site.page
    heads_site.open(f"/heads?run={heads_site.ids['rope']}")
    first = page.locator(".heads-list tbody tr").first
    expect(first).to_contain_text("0.0")
    heading = page.get_by_role("columnheader", name="Label")
    heading.get_by_role("link").click()
    expect(first).to_contain_text("aligned")
    expect(heading).to_have_attribute("aria-sort", "ascending")
    heading.get_by_role("link").press("Enter")
    expect(heading).to_have_attribute("aria-sort", "descending")
    expect(first).to_contain_text("look-back(1)")
    assert "sort=-label" in page.url
    page.reload()
    expect(first).to_contain_text("look-back(1)")


def test_arrow_keys_walk_through_heads_but_not_in_a_field(heads_site: Site) -> None:
    page = heads_site.page
    heads_site.open(f"/heads?run={heads_site.ids['rope']}")
    selected(page, "0.0")
    for key, name in (("ArrowRight", "0.1"), ("ArrowDown", "1.0"), ("ArrowUp", "0.0")):
        page.keyboard.press(key)
        selected(page, name)
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowRight")
    selected(page, "0.1")
    page.go_back()
    selected(page, "0.0")
    page.locator("#heads-score").click()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(500)
    selected(page, "0.0")
    page.keyboard.press("Escape")


def test_the_selected_row_stays_in_sight(heads_site: Site) -> None:
    page = heads_site.page
    page.set_viewport_size({"width": 1280, "height": 560})
    heads_site.open(f"/heads?run={heads_site.ids['failed']}")
    selected(page, "0.0")
    page.keyboard.press("ArrowDown")
    selected(page, "1.0")
    inside = """() => {
        const row = document.querySelector(".heads-list tr.current").getBoundingClientRect();
        const box = document.querySelector("#heads-table").getBoundingClientRect();
        return row.top >= box.top && row.bottom <= box.bottom + 1;
    }"""
    page.wait_for_function(inside)
    assert page.evaluate("window.scrollY") == 0, "the page itself stays where it is"


def test_a_row_selects_its_head_and_its_number_opens_attention(heads_site: Site) -> None:
    page = heads_site.page
    heads_site.open(f"/heads?run={heads_site.ids['rope']}")
    page.locator(".heads-list tbody tr").nth(2).locator("td").nth(4).click(force=True)  # the row's link covers it
    selected(page, "1.0")
    assert page.url.endswith("&layer=1")
    expect(page.locator("#heads-evidence")).to_contain_text("the true source is largest")
    page.get_by_role("link", name="head 1.0 in Attention").click()
    expect(page.locator("h1")).to_have_text("Attention")
    expect(page.locator(".thumbnail[aria-current]")).to_have_attribute("title", "Layer 1, head 0")
    assert "string=" in page.url and f"run={heads_site.ids['rope']}" in page.url


def test_a_click_on_a_cell_of_the_score_map_opens_attention(heads_site: Site) -> None:
    page = heads_site.page
    heads_site.open(f"/heads?run={heads_site.ids['rope']}")
    drawn(page)
    expect(page.locator("#heads-graph .heatmap-label text")).to_have_count(3)
    box = page.locator("#heads-graph .nsewdrag").first.bounding_box()
    assert box
    page.mouse.click(box["x"] + box["width"] * 0.75, box["y"] + box["height"] * 0.25)
    expect(page.locator("h1")).to_have_text("Attention")
    expect(page.locator(".thumbnail[aria-current]")).to_have_attribute("title", "Layer 0, head 1")
    page.go_back()
    expect(page.locator("h1")).to_have_text("Heads")
    selected(page, "0.0")


def test_scores_are_chosen_from_a_list_and_what_is_not_measurable_is_said(heads_site: Site) -> None:
    page = heads_site.page
    heads_site.open(f"/heads?run={heads_site.ids['rope']}")
    drawn(page)
    page.locator("#heads-score").click()
    page.locator(".dash-dropdown-option", has_text="locator.decoding").click()
    page.wait_for_url(re.compile(r"score=locator\.decoding"))
    expect(page.locator("#heads-said")).to_contain_text("not measurable for 2 of 3 heads")
    expect(page.locator("#heads-graph")).to_contain_text("measurable")
    page.get_by_text("Show as table").first.click()
    expect(page.locator("#heads-below table")).to_contain_text("not measurable")
    page.locator(".all-scores").get_by_role("link", name="entropy").click()
    expect(page.locator("#heads-said")).to_contain_text("entropy")


def test_reports_of_other_steps_and_runs_are_chosen_from_lists(heads_site: Site) -> None:
    page = heads_site.page
    heads_site.open(f"/heads?run={heads_site.ids['rope']}")
    page.locator("#heads-step").click()
    page.locator(".dash-dropdown-option", has_text="step 300").click()
    page.wait_for_url(re.compile("checkpoint=300"))
    expect(page.locator("#heads-about")).to_contain_text("mixed, mixed")
    page.locator("#heads-run").click()
    page.locator(".dash-dropdown-option", has_text=heads_site.ids["nope"]).click()
    expect(page.locator("#heads-state .command")).to_contain_text(f"workbench heads {heads_site.ids['nope']} --store")
    expect(page.locator(".heads-grid")).to_be_hidden()
    assert "checkpoint=" not in page.url


def test_the_space_and_the_history_are_drawn_when_asked_for(heads_site: Site) -> None:
    page, ids = heads_site.page, heads_site.ids
    heads_site.open(f"/heads?run={ids['rope']}&runs={ids['rope2d']}")
    page.get_by_role("link", name="Score space").click()
    expect(page.locator("#heads-said")).to_contain_text("5 heads of 2 runs", timeout=60_000)
    drawn(page, 3)
    expect(page.locator("#heads-score-field")).to_be_hidden()
    page.get_by_role("link", name="History").click()
    expect(page.locator("#heads-said")).to_contain_text("Head 0.0 is locator from step 300 on")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#heads-said")).to_contain_text("Head 0.1 is look-back(1) from step 300 on")


def test_numbers_in_cells_are_readable_in_both_themes(heads_site: Site) -> None:
    page = heads_site.page
    heads_site.open(f"/heads?run={heads_site.ids['rope']}&score=locator.mass")
    drawn(page)
    fills = (
        "() => [...document.querySelectorAll('#heads-graph .heatmap-label text')].map(t => getComputedStyle(t).fill)"
    )
    page.wait_for_function(f"() => ({fills})().length === 3")
    light = page.evaluate(fills)
    assert len(set(light)) == 2, "dark on a bright cell, bright on a dark one"
    page.locator("#theme").click()
    assert page.evaluate(fills) == light, "cells have the same colours in the dark theme"


@pytest.mark.parametrize("width", [768, 1280, 1920])
@pytest.mark.parametrize("pane", ["scores", "history"])
def test_nothing_runs_off_the_side_or_below_the_page(heads_site: Site, width: int, pane: str) -> None:
    page = heads_site.page
    page.set_viewport_size({"width": width, "height": 1080})
    heads_site.open(f"/heads?run={heads_site.ids['rope']}&pane={pane}")
    drawn(page)
    selected(page, "0.0")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    last = "Math.max(...[...document.querySelectorAll('.panel')].map(panel => panel.getBoundingClientRect().bottom))"
    assert page.evaluate(
        f"document.documentElement.scrollHeight - window.scrollY <= Math.max(innerHeight, {last} + 24)"
    )


def test_pictures_arrive(heads_site: Site) -> None:
    heads_site.open(f"/heads?run={heads_site.ids['rope']}")
    heads_site.page.wait_for_function(
        "() => { const image = document.querySelector('#heads-evidence .thumbnail img');"
        " return image && image.complete && image.naturalWidth === 126; }"
    )


def test_walking_shifts_nothing(heads_site: Site) -> None:
    page = heads_site.page
    heads_site.open(f"/heads?run={heads_site.ids['failed']}")
    drawn(page)
    selected(page, "0.0")
    page.evaluate(
        "() => { window.shift = 0; new PerformanceObserver(list => { for (const entry of list.getEntries())"
        " for (const source of entry.sources) if (!source.node?.parentElement?.closest('#heads-evidence'))"
        " window.shift += entry.value; }).observe({type: 'layout-shift'}); }"
    )
    page.keyboard.press("ArrowRight")
    selected(page, "0.1")
    page.wait_for_timeout(800)
    assert page.evaluate("window.shift") < 0.01


def grids(page: Page) -> None:
    """Wait for the grids of both reports and their difference."""
    script = (
        "() => (document.querySelector('#heads-graph .js-plotly-plot')?.data ?? [])"
        ".filter(trace => trace.type === 'heatmap').length === 3"
    )
    page.wait_for_function(script)


def test_two_heads_and_two_reports_are_compared_swapped_and_closed(heads_site: Site) -> None:
    page, ids = heads_site.page, heads_site.ids
    heads_site.open(f"/heads?run={ids['rope']}")
    selected(page, "0.0")
    drawn(page)
    page.keyboard.press("c")
    page.wait_for_url(re.compile("beside=head:1"))
    expect(page.locator("#heads-beside")).to_contain_text("First: head 0.0 · second: head 0.1")
    expect(page.locator(".one-head")).to_have_count(2)
    page.get_by_label("Run", exact=True).and_(page.locator("select")).select_option(ids["rope2d"])
    page.wait_for_url(re.compile(f"run:{ids['rope2d']}"))
    row = page.locator(".heads-both tbody tr").first
    expect(row).to_contain_text("locator")
    expect(row).to_contain_text("aligned")
    expect(row.locator(".sign")).to_be_visible()
    grids(page)
    expect(page.locator("#heads-said")).to_contain_text("The largest difference of locator.mass is at head 0.0")
    page.locator("#beside-head").select_option("0.0")
    page.wait_for_url(re.compile("layer:0"))
    expect(page.locator("#heads-beside")).to_contain_text(f"second: {ids['rope2d']}")
    expect(page.locator(".both-scores").first).to_contain_text("second: ≥ 0.5")
    box = page.locator("#heads-graph .nsewdrag").first.bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + box["height"] * 0.25, steps=4)
    expect(page.locator(".cell-outline")).to_have_count(3)
    found = Axe().run(page, context="#heads-page").response["violations"]
    assert [rule["id"] for rule in found if rule["impact"] in ("serious", "critical")] == []
    page.get_by_role("link", name="Swap").click()
    expect(page.locator("#heads-beside")).to_contain_text(f"First: {ids['rope2d']}")
    selected(page, "0.0")
    page.go_back()
    expect(page.locator("#heads-beside")).to_contain_text(f"First: {ids['rope']}")
    page.go_forward()
    expect(page.locator("#heads-beside")).to_contain_text(f"First: {ids['rope2d']}")
    page.get_by_role("link", name="Close").click()
    expect(page.locator("#heads-beside")).to_be_hidden()
    expect(page.locator(".one-head")).to_have_count(0)
    assert "beside" not in page.url


def test_a_link_opens_both_heads_in_attention(heads_site: Site) -> None:
    page = heads_site.page
    heads_site.open(f"/heads?run={heads_site.ids['rope']}&beside=layer:1,head:0")
    page.get_by_role("link", name="Open both in Attention").click()
    expect(page.locator("h1")).to_have_text("Attention")
    expect(page.locator("#compare-bar")).to_contain_text("First: head 0.0 · second: head 1.0")


@pytest.mark.parametrize("width", [768, 1280, 1920])
def test_nothing_runs_off_the_side_while_comparing(heads_site: Site, width: int) -> None:
    page, ids = heads_site.page, heads_site.ids
    page.set_viewport_size({"width": width, "height": 1080})
    heads_site.open(f"/heads?run={ids['failed']}&beside=run:{ids['rope']}")
    grids(page)
    expect(page.locator(".one-head")).to_have_count(2)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    inside = "e => e.scrollWidth <= e.clientWidth + 1"
    assert page.locator("#heads-evidence").evaluate(inside)


def test_nothing_more_is_asked_for_while_nothing_is_compared(heads_site: Site) -> None:
    page = heads_site.page
    heads_site.open(f"/heads?run={heads_site.ids['rope']}&score=entropy")
    selected(page, "0.0")
    drawn(page)
    page.wait_for_load_state("networkidle")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.post_data or "") if request.method == "POST" else None)
    page.keyboard.press("ArrowRight")
    selected(page, "0.1")
    page.wait_for_load_state("networkidle")
    regions = [body for body in asked if '"changedPropIds":["url.search"]' in body and "heads-" in body]
    assert len(regions) == 4, "table, evidence, pane and lists"
