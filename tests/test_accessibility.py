"""Every page for everybody: axe-core, the keyboard alone, what figures say without being seen, nothing that jumps.

The pages are those of the registry, over a store in which every page has content, so a new page is held to all of it.
"""

import logging
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright
from werkzeug.serving import make_server

from tests import fake_reports, fake_store
from tests.browsing import ARGUMENTS, is_local
from workbench.dashboard import create_app
from workbench.dashboard.pages import PAGES
from workbench.dashboard.shortcuts import SHORTCUTS

pytestmark = pytest.mark.browser

LABELS = [["locator", "look-back(1)"], ["aligned"]]
PAINTED = 200  # milliseconds without a change, after which a page is done
# What a page is opened with so that it has content.
VIEWS = {
    "/attention": "?run={rope}",
    "/heads": "?run={rope}",
    "/failures": "?run={rope}",
    "/coordinates": "?run={auto2d}",
    "/intervene": "?run={trained}&heads=0.0",
    "/playground": "?run={trained}",
}
# Every page, and those that look otherwise while something is compared or a checkpoint is looked at.
OPENED = [
    *(path + VIEWS.get(path, "") for path in PAGES),
    "/attention?run={trained}&checkpoint=5&beside=head:1",
    "/heads?run={rope}&beside=head:1",
    "/failures?run={rope}&beside=failure:1",
    "/coordinates?run={placed}&checkpoint=5&beside=head:1",
    "/playground?run={trained}&text=0110100&beside=checkpoint:5",
    "/intervene?run={trained}&heads=0.0&keys=anchors&beside=checkpoint:5",
]
MOVING = ("/runs", "/attention", "/failures")  # of which most is drawn late
SETTLED = """(quiet) => {
    if (window.asked > 0) { return false; }
    const now = document.getElementById("page").innerHTML.length + "," + document.querySelectorAll("svg").length;
    const busy = document.querySelector('#page [data-dash-is-loading="true"], .columns.loading, .waiting');
    if (busy || window.lastSeen !== now) { window.lastSeen = now; window.lastSince = performance.now(); return false; }
    return performance.now() - window.lastSince > quiet;
}"""
# Rows of numbers look alike: axe-core, which measures the contrast of each cell, sees the first of them.
SEEN = {"exclude": [[".figure-numbers tbody tr:nth-child(n + 4)"]]}
# Shifts of what was there already; one that follows a key or a click within half a second does not count.
OBSERVE = """
window.asked = 0;
const ask = window.fetch;
window.fetch = (...what) => {
    window.asked += 1;
    return ask(...what).finally(() => { window.asked -= 1; });
};
window.shifted = 0;
new PerformanceObserver(list => list.getEntries().forEach(entry => {
    if (!entry.hadRecentInput) { window.shifted += entry.value; }
})).observe({ type: "layout-shift", buffered: true });
"""
# Of every figure: its id, what it is called, and how many rows of numbers stand with it once they are asked for.
FIGURES = """() => Array.from(document.querySelectorAll("#page .dash-graph")).filter(g => g.offsetParent).map(graph => {
    const around = graph.closest("figure"), panel = graph.closest(".panel"), role = graph.closest("[role=img]");
    const said = around && around.querySelector("figcaption");
    const tables = [around, panel, graph.closest(".columns")].filter(Boolean).map(
        place => Array.from(place.querySelectorAll("table")).map(table => table.querySelectorAll("tbody tr").length));
    const rows = tables.find(found => found.length) || [0];
    return {
        id: graph.id,
        empty: !(graph.querySelector(".js-plotly-plot")?.data ?? []).length,
        said: ((said && said.textContent) || (role && role.getAttribute("aria-label")) || "").trim(),
        rows: Math.max(...rows)
    };
})"""


@pytest.fixture(scope="module")
def chromium(chromium_path: str) -> Iterator[Browser]:
    expect.set_options(timeout=20_000)  # other tests may be running, and the first model takes a while
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=ARGUMENTS)
        yield browser
        browser.close()
    expect.set_options(timeout=5_000)


@pytest.fixture(scope="module")
def full(
    tmp_path_factory: pytest.TempPathFactory, checkpointed_store: tuple[Path, dict[str, str]]
) -> Iterator[tuple[str, dict[str, str]]]:
    """The address of a dashboard whose pages all have content, and the ids of its runs by role."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    root = tmp_path_factory.mktemp("accessible") / "store"
    ids = fake_store.fill(root)
    fake_reports.keep_heads(root, ids["rope"], LABELS)
    fake_reports.keep_history(root, ids["rope"], LABELS)
    fake_reports.keep_failures(root, ids["rope"])
    trained, kept = checkpointed_store
    for run in kept.values():
        shutil.copytree(trained / run, root / run)
    server = make_server("127.0.0.1", 0, create_app(root).server, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", {**ids, "trained": kept["rope"], "placed": kept["auto2d"]}
    server.shutdown()
    thread.join()


@pytest.fixture
def page(chromium: Browser, full: tuple[str, dict[str, str]]) -> Iterator[Page]:
    context = chromium.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=full[0])
    page = context.new_page()
    page.set_default_timeout(20_000)
    page.add_init_script(OBSERVE)
    said, left = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("request", lambda request: left.append(request.url) if not is_local(request.url, full[0]) else None)
    yield page
    context.close()
    assert said == [], "the console stays empty"
    assert left == [], "nothing leaves the machine"


def show(page: Page, full: tuple[str, dict[str, str]], path: str) -> None:
    """Open a page with content, or one of `OPENED`, and wait until it is drawn."""
    address, ids = full
    page.goto(address + (path + VIEWS.get(path, "")).format(**ids))
    expect(page.locator("#page h1")).to_be_visible()
    settle(page)


def settle(page: Page) -> None:
    page.wait_for_function(SETTLED, arg=PAINTED)


def set_theme(page: Page, theme: str) -> None:
    page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)


def violations(page: Page) -> list[str]:
    """What axe-core finds serious or critical, each with the elements it is about."""
    found = Axe().run(page, context=SEEN).response["violations"]
    return [
        f"{rule['id']}: {node['target'][0]}: {[check['message'] for check in node['any'] + node['all'] + node['none']]}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]


@pytest.mark.slow  # two minutes for all pages
@pytest.mark.parametrize("path", OPENED)
def test_axe_finds_nothing_serious_nothing_jumps_figures_speak_and_keys_are_listed(
    page: Page, full: tuple[str, dict[str, str]], path: str
) -> None:
    show(page, full, path)
    assert page.evaluate("window.shifted") < 0.1, "cumulative layout shift while the page loads"
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    for summary in page.locator("#page figure details[data-numbers] > summary").all():
        if summary.is_visible():
            summary.click()
            expect(summary.locator("xpath=..").locator("table, .quiet").first).to_be_visible()
    assert violations(page) == []
    used = page.evaluate("Array.from(document.querySelectorAll('[aria-keyshortcuts]'), e => e.ariaKeyShortcuts)")
    assert set(used) <= {key for shortcut in SHORTCUTS for key in shortcut.keys}, "keys that the list does not name"
    figures = page.evaluate(FIGURES)
    assert len({figure["id"] for figure in figures}) == len(figures)
    if "beside" in path:  # these three hold both subjects and their difference as panels of one figure, or as tokens
        least = 1 if path.startswith(("/failures", "/playground", "/intervene")) else 3
        assert len([figure for figure in figures if not figure["empty"]]) >= least
    for figure in figures:
        if not figure["empty"]:
            assert len(figure["said"]) > 15, f"{figure['id']} has no text alternative that states its finding"
            assert 0 < figure["rows"] <= 200, f"{figure['id']} has no table of its numbers"
    set_theme(page, "dark")
    page.set_viewport_size({"width": 768, "height": 1000})
    settle(page)
    page.wait_for_function("() => document.documentElement.scrollWidth <= 768")
    assert violations(page) == []


@pytest.mark.parametrize("path", MOVING)
def test_nothing_jumps_while_a_page_loads_in_a_narrow_window(
    page: Page, full: tuple[str, dict[str, str]], path: str
) -> None:
    page.set_viewport_size({"width": 768, "height": 1000})
    show(page, full, path)
    assert page.evaluate("window.shifted") < 0.1


def reached(page: Page, presses: int) -> list[str]:
    """What has the focus after each press of Tab, as CSS would find it; ends where the page begins anew."""
    script = """() => {
        const e = document.activeElement;
        if (!e || e === document.body) { return ""; }
        e.dataset.reached = "true";
        return e.id || e.className || e.tagName;
    }"""
    found = []
    for _ in range(presses):
        page.keyboard.press("Tab")
        found.append(page.evaluate(script))
        if not found[-1]:
            break
    return found


@pytest.mark.parametrize("path", ["/attention", "/help"])
def test_tab_reaches_every_control_and_shows_where_it_is(
    page: Page, full: tuple[str, dict[str, str]], path: str
) -> None:
    show(page, full, path)
    reached(page, 250)
    missed = page.evaluate(
        """() => Array.from(document.querySelectorAll("a[href], button, input, textarea, select, summary"))
            .filter(e => e.checkVisibility({ visibilityProperty: true }) && !e.disabled && !e.dataset.reached)
            .filter(e => e.tabIndex >= 0 || e.matches(".dash-dropdown"))
            .map(e => e.id || e.className || e.textContent)"""
    )
    assert missed == []
    page.evaluate("document.activeElement.blur()")
    page.locator("#theme").focus()
    page.keyboard.press("Tab")
    outline = "() => getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(outline) == "solid"


def test_skip_leads_past_the_bar(page: Page, full: tuple[str, dict[str, str]]) -> None:
    show(page, full, "/attention")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    expect(page.locator(".skip")).to_be_in_viewport()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")


def test_choices_are_opened_and_made_by_keys(page: Page, full: tuple[str, dict[str, str]]) -> None:
    show(page, full, "/heads")
    choice = page.locator("button#heads-score")
    choice.focus()
    page.keyboard.press("Enter")
    expect(choice).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Escape")
    expect(choice).to_be_focused()


# ---- the list of keys ------------------------------------------------------------------------------------------------


def test_a_question_mark_lists_the_keys_of_the_page_and_gives_the_focus_back(
    page: Page, full: tuple[str, dict[str, str]]
) -> None:
    show(page, full, "/heads")
    dialog = page.get_by_role("dialog", name="Keys of this page")
    before = page.locator("#nav a").nth(1)
    before.focus()
    page.keyboard.press("?")
    expect(dialog).to_be_visible()
    shown = dialog.locator("tbody tr:visible")
    expect(shown.filter(has_text="head before, head after")).to_be_visible()
    expect(dialog.locator("tr", has_text="type over it")).to_be_hidden()
    assert violations(page) == []
    selected = page.locator(".head-name").inner_text()
    for _ in range(6):
        page.keyboard.press("Tab")
        assert page.evaluate(
            "document.activeElement === document.body || document.activeElement.closest('dialog') !== null"
        )
    page.keyboard.press("ArrowRight")
    assert page.locator(".head-name").inner_text() == selected, "keys of the page rest while the list is open"
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(before).to_be_focused()
    page.locator("#keys").click()
    expect(dialog).to_be_visible()
    dialog.get_by_role("button", name="Close").click()
    expect(page.locator("#keys")).to_be_focused()


def test_keys_rest_while_something_is_typed(page: Page, full: tuple[str, dict[str, str]]) -> None:
    show(page, full, "/playground")
    field = page.locator("#playground-text")
    field.focus()
    page.keyboard.press("?")
    expect(page.locator("#keys-list")).to_be_hidden()
    assert field.input_value().endswith("?")
    field.press("Backspace")


# ---- links -----------------------------------------------------------------------------------------------------------


def test_a_copied_link_opens_the_same_view_elsewhere(
    page: Page, chromium: Browser, full: tuple[str, dict[str, str]]
) -> None:
    address, ids = full
    there = f"{address}/attention?run={ids['rope']}&string=2&layer=1&row=70&zoom=60-100.0-50&scale=linear"
    page.goto(there)
    expect(page.locator(".row-name")).to_contain_text("Query 70")
    page.locator("#copy-link").click()
    expect(page.get_by_role("status").filter(has_text="Link copied")).to_be_visible()
    link = page.evaluate("navigator.clipboard.readText()")
    assert link == there
    other = chromium.new_context(viewport={"width": 1280, "height": 800})
    second = other.new_page()
    second.goto(link)
    expect(second.locator(".row-name")).to_contain_text("Query 70")
    expect(second.locator(".thumbnail[aria-current]")).to_have_attribute("title", page.locator(
        ".thumbnail[aria-current]").get_attribute("title") or "")  # fmt: skip
    expect(second.locator("#attention-foot")).to_contain_text("queries 60–99, keys 0–49")
    other.close()
    expect(page.locator("#link-said")).to_be_empty()


def test_a_browser_that_keeps_its_clipboard_still_copies_or_says_so(
    page: Page, full: tuple[str, dict[str, str]]
) -> None:
    page.add_init_script("navigator.clipboard.writeText = () => Promise.reject(new Error('no'))")
    show(page, full, "/help")
    page.locator("#copy-link").click()
    expect(page.get_by_role("status").filter(has_text="Link copied")).to_be_visible()
    expect(page.locator("#copy-link")).to_be_focused()


def test_nothing_moves_for_those_who_asked_for_that(chromium: Browser, full: tuple[str, dict[str, str]]) -> None:
    context = chromium.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.goto(f"{full[0]}/runs")
    expect(page.locator(".progress span").first).to_be_attached()
    assert page.evaluate("getComputedStyle(document.querySelector('.progress span')).transitionDuration") == "0s"
    context.close()
