"""The Failures page in Chromium: from the list to one failure, its tokens changed and run again, and to Attention."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests import fake_reports
from tests.browsing import ARGUMENTS, Site, serving, watched
from workbench.runs import Store

pytestmark = pytest.mark.browser

SERIOUS = ("serious", "critical")
# Shifts of what was there already; one that follows a key or a click within half a second does not count.
SHIFTS = """
window.shifted = 0;
new PerformanceObserver(list => list.getEntries().forEach(entry => {
    if (!entry.hadRecentInput) { window.shifted += entry.value; }
})).observe({ type: "layout-shift", buffered: true });
"""


@pytest.fixture(scope="module")
def chromium(chromium_path: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def served(trained_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str], Path]]:
    """A run that was really trained, so that a string can be run again, with failures written by hand."""
    root = Path(shutil.copytree(trained_store, tmp_path_factory.mktemp("browser-failures") / "store"))
    run = Store(root).open("latest")
    capture = Store(root).open("latest").captures[0]
    from models.attention import open_capture

    held = open_capture(run.capture_path(capture)).string(0)
    text = "".join(map(str, held.tokens[2 : 2 + held.length]))
    first = held.length if held.first_error is None else held.first_error
    failures = [
        fake_reports.failure("01101001", 4, competitors=[7, 2]),
        fake_reports.failure(text, first, "length"),
        fake_reports.failure("0011", 4, "stop", confirmed=False),
    ]
    fake_reports.keep_failures(root, run.id, failures, step=run.step)
    earlier = [fake_reports.failure("01101001", 2, "length"), fake_reports.failure("1111", 1)]
    fake_reports.keep_failures(root, run.id, earlier, step=run.checkpoints[0])
    with serving(root) as address:
        yield address, {"run": run.id}, root


@pytest.fixture
def site(chromium: Browser, served: tuple[str, dict[str, str], Path]) -> Iterator[Site]:
    with watched(chromium, served, 30_000) as site:
        yield site


def selected(page: Page, failure: int, cause: str) -> None:
    """Expect a failure to be selected in the list and beside it."""
    expect(page.locator("#failures-case .case-name")).to_have_text(f"Failure {failure}")
    expect(page.locator(".failures-list tr.current")).to_contain_text(cause)


def serious(page: Page, theme: str) -> list[tuple[str, list[str]]]:
    """What axe-core finds that keeps somebody from using the page, in a theme."""
    page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
    found = Axe().run(page).response["violations"]
    return [(rule["id"], [n["target"] for n in rule["nodes"]]) for rule in found if rule["impact"] in SERIOUS]


def test_from_the_list_to_an_edit_and_its_outcome(site: Site) -> None:
    page = site.page
    site.open(f"/failures?run={site.ids['run']}")
    selected(page, 0, "repetition")
    expect(page.locator("#failures-about")).to_contain_text("3 of 6 strings fail")
    for key, failure, cause in (("]", 1, "length"), ("]", 2, "stop"), ("[", 1, "length"), ("[", 0, "repetition")):
        page.keyboard.press(key)
        selected(page, failure, cause)
    assert not page.locator(".col-label", has_text="new copy").count(), "no model is loaded before it is asked for"

    page.locator(".cell[data-flip='1']").click()
    expect(page.locator(".col-label", has_text="new copy")).to_be_visible()
    expect(page.locator(".rerun")).to_contain_text("1 token changed")
    expect(page.locator("#failures-text")).to_have_value("00101001")
    assert "text=00101001" in page.url and "failure=0" in page.url
    expect(page.locator(".cell[data-flip='1']")).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("0")
    expect(page.locator("#failures-text")).to_have_value("00001001")
    page.go_back()
    expect(page.locator("#failures-text")).to_have_value("00101001")
    page.locator("#failures-text").fill("1111")
    page.locator("#failures-text").press("Enter")
    expect(page.locator(".rerun")).to_contain_text("4 tokens in place of 8")
    page.get_by_role("link", name="Reset").click()
    expect(page.locator("#failures-text")).to_have_value("01101001")

    page.get_by_role("button", name="Break the repeat").click()
    expect(page.locator("#failures-text")).not_to_have_value("01101001")
    edited = page.locator("#failures-text").input_value()
    page.locator(f"a[href^='/playground'][href*='text={edited}']").first.click()  # drawn once the edit has been run
    page.wait_for_url(re.compile("/playground"))
    expect(page.locator("#playground-text")).to_have_value(edited)


def test_filters_sort_and_figures_are_in_the_address(site: Site) -> None:
    page = site.page
    site.open(f"/failures?run={site.ids['run']}")
    selected(page, 0, "repetition")
    page.get_by_role("link", name="1", exact=True).nth(1).click()
    expect(page.locator(".failures-list tbody tr")).to_have_count(1)
    assert "cause=length" in page.url
    selected(page, 1, "length")
    page.reload()
    selected(page, 1, "length")
    page.go_back()
    page.get_by_role("columnheader", name="Error at").get_by_role("link").click()
    expect(page.get_by_role("columnheader", name="Error at")).to_have_attribute("aria-sort", "ascending")
    for name, said in (("Each failure", "first errors"), ("Causes", "fail"), ("Repetition", "exact match falls")):
        page.get_by_role("link", name=name, exact=True).click()
        expect(page.locator("#failures-said")).to_contain_text(said)
    page.locator(".figure-numbers summary").click()
    expect(page.locator(".figure-numbers table")).to_be_visible()


def test_a_captured_failure_opens_in_attention_at_its_row(site: Site) -> None:
    page = site.page
    site.open(f"/failures?run={site.ids['run']}&failure=1")
    selected(page, 1, "length")
    page.locator(".cell[data-line='1'].first").click()
    page.wait_for_url(re.compile("/attention.*row="))
    row = re.search(r"row=(\d+)", page.url)
    assert row is not None
    expect(page.locator(".row-name")).to_contain_text(row[1])
    page.go_back()
    selected(page, 1, "length")


def test_two_reports_and_two_failures_are_compared_swapped_and_left(site: Site) -> None:
    page = site.page
    site.open(f"/failures?run={site.ids['run']}")
    selected(page, 0, "repetition")
    expect(page.locator("#failures-said")).to_contain_text("exact match falls")
    page.keyboard.press("c")
    bar = page.locator("#failures-compare")
    expect(bar).to_contain_text("second: step")
    expect(page.locator(".failures-causes.of-both")).to_be_visible()
    expect(page.locator("#failures-said")).to_contain_text("groups of both reports")
    expect(page.locator("#failures-graph .heatmaplayer .hm")).to_have_count(3)
    expect(page.get_by_role("link", name="Difference", exact=True)).to_have_attribute("aria-current", "true")
    expect(page.locator(".failures-list tbody tr").first).to_contain_text("fails at 2, length")

    page.keyboard.press("]")
    selected(page, 1, "length")
    page.keyboard.press("[")
    selected(page, 0, "repetition")
    expect(page.locator(".rerun")).to_contain_text("in the second", timeout=60_000)  # once both models are loaded
    labels = page.locator("#failures-case .col-label")
    expect(labels).to_have_text(["string", "copy", "second", "edit"])
    first, second = page.locator(".col.at-error .cell").nth(1), page.locator(".col.at-error .cell").nth(2)
    tops = [box["y"] for cell in (first, second) if (box := cell.bounding_box())]
    assert len(tops) == 2 and tops[0] < tops[1], "the second's copy stands below the first's"
    assert re.search("beside=checkpoint:", page.locator("a[href^='/playground']").first.get_attribute("href") or "")
    for theme in ("light", "dark"):
        assert serious(page, theme) == [], theme

    before = page.url
    page.get_by_role("link", name="Swap").click()
    expect(page.locator(".case-name")).to_have_text("Failure 0")
    expect(page.locator("#failures-about")).to_contain_text("2 of 4 strings fail")
    page.go_back()
    expect(page.locator("#failures-about")).to_contain_text("3 of 6 strings fail")
    assert page.url == before

    page.locator("#beside-checkpoint").select_option("")
    page.locator("#beside-failure").select_option("2")
    expect(page.locator("#failures-second .case-name")).to_have_text("Second: failure 2")
    boxes = [page.locator(part).bounding_box() for part in (".first-case", "#failures-second")]
    assert boxes[0] and boxes[1] and boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]
    expect(page.locator(".cases-table")).to_contain_text("First − second")
    page.set_viewport_size({"width": 1000, "height": 800})
    boxes = [page.locator(part).bounding_box() for part in (".first-case", "#failures-second")]
    assert boxes[0] and boxes[1] and boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"]
    assert serious(page, "light") == []
    page.get_by_role("link", name="Close").click()
    expect(page.locator("#failures-compare .panel")).to_have_count(0)
    assert "beside" not in page.url
    expect(page.locator("#failures-said")).to_contain_text("exact match falls")


@pytest.mark.parametrize("beside", ["checkpoint:5", "failure:2"])
def test_a_page_that_opens_with_a_comparison_does_not_jump(site: Site, beside: str) -> None:
    page = site.page
    page.add_init_script(SHIFTS)
    site.open(f"/failures?run={site.ids['run']}&beside={beside}")
    selected(page, 0, "repetition")
    expect(page.locator("#failures-both h2")).to_be_visible()
    expect(page.locator("#failures-graph .main-svg").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert page.evaluate("window.shifted") < 0.1
    page.keyboard.press("c")
    expect(page.locator("#failures-compare .panel")).to_have_count(0)
    expect(page.locator(".failures-grid")).to_be_visible()


@pytest.mark.parametrize(
    "width", [768, pytest.param(1280, marks=pytest.mark.slow), pytest.param(1920, marks=pytest.mark.slow)]
)
def test_it_fits_does_not_jump_and_axe_finds_nothing_serious(site: Site, width: int) -> None:
    page = site.page
    page.set_viewport_size({"width": width, "height": 900})
    page.add_init_script(SHIFTS)
    site.open(f"/failures?run={site.ids['run']}")
    selected(page, 0, "repetition")
    expect(page.locator("#failures-graph .main-svg").first).to_be_visible()
    expect(page.locator("#failures-said")).to_contain_text("exact match falls")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("window.shifted") < 0.1
    for theme in ("light", "dark"):
        assert serious(page, theme) == [], theme
