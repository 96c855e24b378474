"""Journeys through all pages in Chromium: from a run to a head, a failed string, an intervention and its link."""

import logging
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright
from werkzeug.serving import make_server

from models.attention import open_capture
from tests import fake_reports
from tests.browsing import ARGUMENTS, Site, is_local
from tests.test_browser import drawn
from workbench.dashboard import create_app
from workbench.runs import Store

pytestmark = pytest.mark.browser

FAILED = 1  # index of the failure whose string is captured


@pytest.fixture(scope="module")
def chromium(chromium_path: str) -> Iterator[Browser]:
    expect.set_options(timeout=30_000)  # the first model may be loaded while other tests run
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=ARGUMENTS)
        yield browser
        browser.close()
    expect.set_options(timeout=5_000)


@pytest.fixture(scope="module")
def served(trained_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str], Path]]:
    """A run that was really trained, so that heads can be taken away, with reports written by hand."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    root = Path(shutil.copytree(trained_store, tmp_path_factory.mktemp("browser-journey") / "store"))
    run = Store(root).open("latest")
    capture = open_capture(run.capture_path(run.captures[0]))
    index = next(i for i, entry in enumerate(capture.about["strings"]) if not entry["exact"])
    held = capture.string(index)
    assert held.first_error is not None
    first, row = held.first_error, 2 + held.length + 4 - 1 + held.first_error
    text = "".join(map(str, held.tokens[2 : 2 + held.length]))
    failures = [fake_reports.failure("01101001", 4, competitors=[7, 2]), fake_reports.failure(text, first, "length")]
    fake_reports.keep_failures(root, run.id, failures, step=run.step)
    fake_reports.keep_heads(root, run.id, [["locator"]], step=run.step)
    server = make_server("127.0.0.1", 0, create_app(root).server, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    ids = {"run": run.id, "capture": run.captures[0], "string": str(index), "row": str(row), "text": text}
    yield f"http://127.0.0.1:{server.server_port}", ids, root
    server.shutdown()
    thread.join()


@pytest.fixture
def site(chromium: Browser, served: tuple[str, dict[str, str], Path]) -> Iterator[Site]:
    address, ids, root = served
    context = chromium.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=address)
    page = context.new_page()
    page.set_default_timeout(30_000)
    site = Site(page, address, ids, root)
    watch(site, page)
    yield site
    context.close()
    assert site.said == [], "the console stays empty"
    assert site.left == [], "nothing leaves the machine, nothing fails"


def watch(site: Site, page: Page) -> None:
    """Write down what the console of a window says and which of its requests leave the machine or fail."""
    page.on("console", lambda message: site.said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: site.said.append(f"error: {error}"))
    page.on("request", lambda asked: site.left.append(asked.url) if not is_local(asked.url, site.address) else None)
    page.on("response", lambda answer: site.left.append(answer.url) if answer.status >= 400 else None)


def to_page(page: Page, name: str) -> None:
    page.locator("#nav").get_by_role("link", name=name, exact=True).click()
    expect(page.locator("h1")).to_have_text(name)


def cell(page: Page, line: int, k: int) -> Locator:
    return page.locator(f'#playground-grid .cell[data-line="{line}"][data-k="{k}"]')


def shown(page: Page) -> tuple[list[str], ...]:
    """What a person sees of an intervention; how long it took is another number every time."""
    done = page.locator(".done-words p").all_text_contents()
    cells = page.locator(".effects td, .effects th").all_text_contents()
    tokens = page.locator("#intervene-grid .cell").all_text_contents()
    ticked = page.locator('.tick-head[aria-checked="true"]').all_text_contents()
    return done, cells, tokens, ticked, page.locator("#intervene-code").all_text_contents()


def test_from_a_run_to_an_intervention_on_the_locator_of_a_failed_string_and_the_link_to_it(
    site: Site, chromium: Browser
) -> None:
    page, ids = site.page, site.ids
    site.open("/")
    page.locator("#runs-table").get_by_role("link", name="heads", exact=True).click()
    page.locator(".heads-list").get_by_text("locator", exact=True).click()
    expect(page.locator("#heads-evidence .head-name")).to_contain_text("Head 0.0")
    page.locator(".ways").get_by_role("link", name="Failures").click()
    page.get_by_role("link", name=f"select failure {FAILED}:").click()
    expect(page.locator(".case-name")).to_have_text(f"Failure {FAILED}")
    page.get_by_role("link", name="Attention at the failed row").click()
    expect(page.locator("h1")).to_have_text("Attention")
    drawn(page, "attention-map")
    for named in ("run", "capture", "string", "row"):
        assert f"{named}={ids[named]}" in page.url, "the link names the failed row of the failed string"
    expect(page.locator(".page-attention")).to_contain_text(f"Query {ids['row']}")

    to_page(page, "Intervene")
    expect(page.locator("#intervene-text")).to_have_value(ids["text"])
    page.get_by_role("link", name="Tick head 0.0").click()
    page.wait_for_url(re.compile("heads=0.0"))
    expect(page.locator("#intervene-effect")).to_contain_text("Outputs of 0.0 set to zero")
    drawn(page, "intervene-graph")
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator("#link-said")).to_have_text("Link copied")
    address = page.evaluate("navigator.clipboard.readText()")
    assert address == page.url

    other = chromium.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light").new_page()
    watch(site, other)
    other.goto(address)
    expect(other.locator("#intervene-effect")).to_contain_text("Outputs of 0.0 set to zero")
    drawn(other, "intervene-graph")
    expect(other.locator(".tick-head").first).to_contain_text("locator")
    assert shown(other) == shown(page), "another browser shows the same view"
    other.context.close()


def test_back_and_forward_through_five_views_restore_each(site: Site) -> None:
    page, ids = site.page, site.ids
    marks: list[tuple[str, Locator, str]] = []

    def remember(mark: Locator, text: str) -> None:
        expect(mark).to_contain_text(text)
        marks.append((page.url, mark, text))

    site.open(f"/heads?run={ids['run']}&pane=space")
    remember(page.locator("#heads-pane-bar [aria-current]"), "Score space")
    page.locator(".ways").get_by_role("link", name="Failures").click()
    page.get_by_role("link", name=f"select failure {FAILED}:").click()
    remember(page.locator(".case-name"), f"Failure {FAILED}")
    page.get_by_role("link", name="Attention at the failed row").click()
    remember(page.locator(".page-attention .row-head").first, f"Query {ids['row']}")
    to_page(page, "Playground")
    expect(page.locator(".row-name")).to_contain_text(f"Query {ids['row']}")
    page.get_by_role("link", name="Free-running").click()
    remember(page.locator("#playground-bar [aria-current]"), "Free-running")
    to_page(page, "Intervene")
    page.get_by_role("checkbox", name="head 0.0").press(" ")
    page.get_by_role("link", name="Mean").click()
    remember(page.locator(".done-words"), "Outputs of 0.0 set to their mean")

    def there(url: str, mark: Locator, text: str, go: str) -> None:
        for _ in range(6):  # between two of the views lie those that were passed through
            if page.url == url:
                break
            was = page.url
            page.evaluate(f"history.{go}()")
            page.wait_for_function("was => location.href !== was", arg=was)
        assert page.url == url
        expect(mark).to_contain_text(text)

    for url, mark, text in reversed(marks[:-1]):
        there(url, mark, text, "back")
    for url, mark, text in marks[1:]:
        there(url, mark, text, "forward")


def test_a_wrong_token_is_fed_by_the_keyboard_and_taken_back(site: Site) -> None:
    page = site.page
    site.open("/playground?text=01101001&mode=forced")
    # Before the model is there, what is waited for stands in the place of the copy.
    waits = "columns => { columns.classList.add('loading'); const shown = getComputedStyle("
    waits += "columns.querySelector('.state')).display; columns.classList.remove('loading'); return shown; }"
    expect(cell(page, 2, 3)).to_be_visible()
    assert page.locator("#playground-columns").evaluate(waits) == "grid"
    cell(page, 2, 3).focus()
    page.keyboard.press("1")
    page.wait_for_url(re.compile("fed=3:1|fed=3%3A1"))
    expect(cell(page, 2, 3)).to_have_text("1")
    expect(cell(page, 2, 3)).to_be_focused()
    expect(page.locator("#playground-verdicts")).to_contain_text("fed otherwise at 3:")
    expect(page.locator(".row-name")).to_contain_text("Query 17")
    page.keyboard.press("0")
    page.wait_for_function("!location.search.includes('fed')")
    expect(page.locator("#playground-verdicts")).not_to_contain_text("fed otherwise")
    page.get_by_title("Feed 1, a wrong token").click()
    expect(cell(page, 2, 3)).to_have_text("1")
    page.get_by_role("link", name="Feed the right copy").click()
    expect(cell(page, 2, 3)).to_have_text("0")
