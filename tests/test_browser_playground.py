"""Playground and Intervene in Chromium: type, point, edit, tick, copy the code; an empty console and nothing leaves."""

import logging
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright
from werkzeug.serving import make_server

from tests.browsing import ARGUMENTS, Site, is_local
from tests.test_browser import drawn
from workbench.dashboard import create_app
from workbench.runs import Store

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
def served(trained_store: Path) -> Iterator[tuple[str, str]]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, create_app(trained_store).server, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", Store(trained_store).open("latest").id
    server.shutdown()
    thread.join()


@pytest.fixture
def site(browser: Browser, served: tuple[str, str], trained_store: Path) -> Iterator[Site]:
    address, run = served
    context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=address)
    page = context.new_page()
    page.set_default_timeout(30_000)
    site = Site(page, address, {"run": run}, trained_store)
    page.on("console", lambda message: site.said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: site.said.append(f"error: {error}"))
    page.on("request", lambda request: site.left.append(request.url) if not is_local(request.url, address) else None)
    page.on("response", lambda answer: site.left.append(answer.url) if answer.status >= 400 else None)
    yield site
    context.close()
    assert site.said == [], "the console stays empty"
    assert site.left == [], "nothing leaves the machine, nothing fails"


def loaded(page: Page) -> None:
    page.wait_for_function("() => document.querySelector('.columns.live')?.className === 'columns live'")


def cell(page: Page, line: int, k: int) -> Locator:
    return page.locator(f'.token-grid .cell[data-line="{line}"][data-k="{k}"]')


def test_a_typed_string_is_copied_looked_into_and_changed(site: Site) -> None:
    page = site.page
    site.open("/playground")
    loaded(page)
    drawn(page, "playground-row")
    page.locator("#playground-text").fill("0110100")
    page.locator("#playground-text").press("Enter")
    page.wait_for_url(re.compile("text=0110100"))
    expect(page.locator(".copied-words")).to_contain_text("a typed string of 7 tokens")
    expect(page.locator(".token-grid .cell.source")).to_have_count(7)
    cell(page, 1, 3).hover()
    expect(page.locator(".row-name")).to_contain_text("Query 15")
    expect(cell(page, 1, 3)).to_have_attribute("data-shown", "true")
    cell(page, 2, 0).hover()
    expect(page.locator(".row-name")).to_contain_text("free-running")
    cell(page, 1, 5).click()
    page.wait_for_url(re.compile("row=17"))
    page.locator("h1").hover()
    page.locator("h1").click()
    expect(page.locator(".row-name")).to_contain_text("Query 17")
    page.get_by_title("Make it", exact=False).first.click()
    page.wait_for_url(re.compile("text=0110110"))
    expect(page.locator("#playground-text")).to_have_value("0110110")
    page.go_back()
    expect(page.locator("#playground-text")).to_have_value("0110100")


def test_tokens_are_reached_and_changed_by_the_keyboard(site: Site) -> None:
    page = site.page
    site.open("/playground?text=0000")
    loaded(page)
    cell(page, 0, 0).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(cell(page, 0, 2)).to_be_focused()
    expect(page.locator(".row-name")).to_contain_text("Query 4")
    page.keyboard.press("1")
    page.wait_for_url(re.compile("text=0010"))
    expect(cell(page, 0, 2)).to_have_text("1")
    expect(cell(page, 0, 2)).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(cell(page, 1, 2)).to_be_focused()
    expect(page.locator(".row-name")).to_contain_text("Query 11")
    assert cell(page, 1, 2).evaluate("node => getComputedStyle(node).outlineStyle") == "solid"


def test_generated_strings_and_captured_ones(site: Site) -> None:
    page = site.page
    site.open(f"/playground?run={site.ids['run']}&input=generated")
    loaded(page)
    page.locator("#playground-length").fill("13")
    page.locator("#playground-length").press("Enter")
    page.wait_for_url(re.compile("length=13"))
    expect(page.locator(".token-grid .cell.source")).to_have_count(13)
    first = page.locator("#playground-text").input_value()
    page.get_by_role("link", name="Another").click()
    page.wait_for_url(re.compile("seed=1"))
    expect(page.locator("#playground-text")).not_to_have_value(first)
    page.locator("#playground-distribution").click()
    page.locator(".dash-dropdown-option", has_text="repeat-structure").click()
    expect(page.locator("#playground-period")).to_be_visible()
    page.get_by_role("link", name="Captured").click()
    page.locator(".strings a", has_text="#1").click()
    page.wait_for_url(re.compile("string=1"))
    expect(page.locator(".copied-words")).to_contain_text("string #1 of capture")


def test_a_string_that_is_too_long_is_told(site: Site) -> None:
    site.open("/playground?input=generated&length=4000")
    expect(site.page.locator("#playground-state")).to_contain_text("reads at most 2,000")
    expect(site.page.locator(".live-main")).to_be_hidden()


def test_heads_are_ticked_and_the_code_is_copied_and_the_view_shared(site: Site, browser: Browser) -> None:
    page = site.page
    site.open("/intervene?text=01101001")
    loaded(page)
    expect(page.locator("#intervene-effect")).to_contain_text("Tick at least one head")
    page.get_by_role("checkbox", name="head 0.0").press(" ")
    page.wait_for_url(re.compile("heads=0.0"))
    drawn(page, "intervene-graph")
    expect(page.locator("#intervene-effect")).to_contain_text("Exact match")
    page.get_by_role("link", name="Knock out attention").click()
    page.wait_for_url(re.compile("keys=anchors"))
    expect(page.locator("#intervene-effect")).to_contain_text("Beyond control")
    page.get_by_role("link", name="Competitors").click()
    page.wait_for_url(re.compile("keys=wrong-candidates"))
    expect(page.locator("#intervene-code")).to_contain_text("wrong-candidates(2)")
    page.get_by_role("button", name="Copy code").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == page.locator("#intervene-code").text_content()
    page.get_by_role("link", name="Batch").click()
    page.wait_for_url(re.compile("input=batch"))
    expect(page.locator(".changed-strings tbody tr")).to_have_count(16)
    other = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    other.goto(page.url)
    expect(other.locator(".changed-strings tbody tr")).to_have_count(16)
    expect(other.locator("#intervene-code")).to_have_text(page.locator("#intervene-code").text_content() or "")
    other.context.close()


@pytest.mark.parametrize(
    "width", [768, pytest.param(1280, marks=pytest.mark.slow), pytest.param(1920, marks=pytest.mark.slow)]
)
def test_nothing_runs_off_the_side(site: Site, width: int) -> None:
    site.page.set_viewport_size({"width": width, "height": 800})
    for path in ("/playground?input=generated&length=200", "/intervene?heads=0.0&input=batch"):
        site.open(path)
        loaded(site.page)
        site.page.wait_for_load_state("networkidle")
        assert site.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), path
