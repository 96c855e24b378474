"""Playground and Intervene in Chromium: type, point, edit, tick, copy the code; an empty console and nothing leaves."""

import logging
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright
from werkzeug.serving import make_server

from tests.browsing import ARGUMENTS, Site, watched
from tests.test_browser import drawn
from workbench.dashboard import create_app, live_models
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
    with watched(browser, (address, {"run": run}, trained_store), 30_000) as site:
        site.page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=address)
        yield site


def loaded(page: Page) -> None:
    page.wait_for_function("() => document.querySelector('.columns.live')?.className === 'columns live'")


def cell(page: Page, line: int, k: int) -> Locator:
    return page.locator(f'.token-grid .cell[data-line="{line}"][data-k="{k}"]')


def test_a_typed_string_is_copied_looked_into_and_changed(site: Site) -> None:
    page = site.page
    site.open("/playground")
    loaded(page)
    drawn(page, "playground-row")
    expect(page.locator("#playground-text")).to_have_value(re.compile("[01]+"))  # until then it is filled
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


def test_what_an_intervention_does_is_compared_read_swapped_and_left(site: Site) -> None:
    page = site.page
    site.open("/intervene?text=01101001")
    loaded(page)
    page.get_by_role("checkbox", name="head 0.0").press(" ")
    page.wait_for_url(re.compile("heads=0.0"))
    drawn(page, "intervene-graph")
    assert page.locator(".beside-panel").is_hidden()
    page.locator("h1").click()
    page.keyboard.press("c")
    page.wait_for_url(re.compile("beside=checkpoint:10"))
    page.get_by_label("Weights", exact=True).and_(page.locator("select")).select_option("5")
    page.wait_for_url(re.compile("beside=checkpoint:5"))
    bar, effect = page.locator("#intervene-beside"), page.locator("#intervene-effect")
    expect(bar).to_contain_text("First: step 20 · second: step 5")
    expect(effect.locator("th").last).to_have_text("First − second")
    changes = effect.get_by_role("row", name="Logit difference").locator("td").all_inner_texts()
    first, second, apart = (float(changes[at].replace("−", "-")) for at in (3, 6, 7))
    assert apart == pytest.approx(first - second, abs=0.011)
    expect(page.locator("#intervene-finding")).to_contain_text("Predicted tokens that change:")
    plot = "document.querySelector('#intervene-graph .js-plotly-plot')"
    page.wait_for_function(f"() => {plot}._fullLayout.yaxis3 !== undefined")
    box = page.locator("#intervene-graph .nsewdrag").first.bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.5, steps=4)
    read = page.locator("#intervene-graph .hoverlayer")
    for said in ("first, without", "second, without", "difference of the changes"):
        expect(read).to_contain_text(said)
    page.locator('[data-numbers="intervene-margins-opened"] summary').click()
    expect(page.locator("#intervene-margins-numbers tbody tr")).to_have_count(9)
    expect(page.locator("#intervene-tokens h2")).to_have_text(
        [re.compile("^First: step 20"), re.compile("^Second: step 5")]
    )
    expect(page.locator("#intervene-code")).to_contain_text("contrast(first, second)")
    page.get_by_role("link", name="Swap").click()
    page.wait_for_url(re.compile("checkpoint=5"))
    expect(bar).to_contain_text("First: step 5 · second: step 20")
    expect(effect.get_by_role("row", name="Logit difference").locator("td").nth(3)).to_have_text(changes[6])
    page.go_back()
    expect(bar).to_contain_text("First: step 20 · second: step 5")
    page.locator("h1").click()
    page.keyboard.press("c")
    page.wait_for_url(lambda address: "beside" not in address)
    expect(bar).to_be_hidden()
    expect(effect.locator("th").last).to_have_text("Change")
    expect(page.locator("#intervene-tokens h2")).to_have_text(re.compile("^Tokens"))
    page.go_back()
    expect(bar).to_contain_text("First: step 20 · second: step 5")


def test_a_closed_comparison_leaves_other_pages_in_sight(site: Site) -> None:
    page = site.page
    site.open("/intervene?text=01101001&heads=0.0&beside=checkpoint:5")
    expect(page.locator("#intervene-beside")).to_contain_text("second: step 5")
    page.get_by_role("link", name="Close").click()
    page.wait_for_url(lambda address: "beside" not in address)
    page.get_by_role("link", name="Attention", exact=True).click()
    drawn(page, "attention-map")


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


def test_two_steps_are_compared_line_by_line_swapped_and_left(site: Site) -> None:
    page = site.page
    site.open("/playground?text=0110100")
    loaded(page)
    drawn(page, "playground-row")
    expect(page.locator("#playground-beside")).to_be_hidden()
    page.keyboard.press("c")
    page.wait_for_url(re.compile("beside=checkpoint:10"))
    page.get_by_label("Weights", exact=True).last.select_option("5")
    page.wait_for_url(re.compile("beside=checkpoint:5"))
    expect(page.locator("#playground-beside")).to_contain_text("First: step 20 · second: step 5")
    verdicts = page.locator("#playground-verdicts")
    expect(verdicts).to_contain_text("Teacher-forced, first: step 20")
    expect(verdicts).to_contain_text("Free-running, second: step 5")
    labels = page.locator(".token-grid .col-label")
    expect(labels).to_have_text(
        ["string", "forced, first", "forced, second", "difference", "free, first", "free, second", "difference"]
    )
    expect(cell(page, 3, 0)).to_have_text(re.compile("[+−·]"))
    expect(cell(page, 3, 0)).to_have_attribute("title", re.compile("right token .: 0.* and 0"))
    cell(page, 2, 3).hover()
    expect(page.locator(".row-name")).to_contain_text("Query 15")
    for line in (1, 2, 3):
        expect(cell(page, line, 3)).to_have_attribute("data-shown", "true")
    expect(page.locator(".row-said")).to_have_text([re.compile("First, step 20: .*"), re.compile("Second, step 5: .*")])
    strips = "() => document.querySelector('#playground-row .js-plotly-plot').data.length"
    page.wait_for_function(f"() => ({strips})() === 3")
    cell(page, 3, 4).click()
    page.wait_for_url(re.compile("row=16"))
    cell(page, 0, 2).press("1")
    expect(cell(page, 0, 2)).to_have_text("1")
    cell(page, 0, 2).press("0")
    page.wait_for_url(re.compile("text=0100100"))
    assert "beside=checkpoint:5" in page.url.replace("%3A", ":")
    page.get_by_role("link", name="Swap").click()
    page.wait_for_url(re.compile("checkpoint=5"))
    expect(page.locator("#playground-beside")).to_contain_text("First: step 5 · second: step 20")
    expect(verdicts).to_contain_text("Teacher-forced, first: step 5")
    page.go_back()
    expect(verdicts).to_contain_text("Teacher-forced, first: step 20")
    page.go_forward()
    expect(verdicts).to_contain_text("Teacher-forced, first: step 5")
    page.get_by_role("link", name="Close").click()
    page.wait_for_url(lambda address: "beside" not in address)
    expect(page.locator("#playground-beside")).to_be_hidden()
    expect(labels).to_have_text(["string", "forced", "free"])


def test_two_strings_and_the_keys_in_sight(site: Site) -> None:
    page = site.page
    site.open("/playground?text=0110100&row=12&beside=same")
    loaded(page)
    drawn(page, "playground-row")
    page.get_by_label("Typed").fill("011101001")
    page.get_by_label("Typed").press("Enter")
    page.wait_for_url(re.compile("text:011101001"))
    expect(page.locator(".token-grid .cell.source")).to_have_count(7)
    expect(page.locator(".token-grid .cell.of-second:not(.legend-cell)")).to_have_count(9)
    expect(page.locator("#playground-finding")).to_contain_text("keys are compared by position")
    box = page.locator("#playground-row .nsewdrag").first.bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + 22, steps=5)
    page.mouse.up()
    page.wait_for_url(re.compile(r"zoom=0-\d+\.\d+-\d+"))
    expect(page.locator("#playground-row-bar")).to_contain_text("are in sight")
    left = re.search(r"zoom=0-\d+\.(\d+)-", page.url)
    assert left
    ranges = "() => document.querySelector('#playground-row .js-plotly-plot').layout.xaxis.range[0]"
    page.wait_for_function(f"left => ({ranges})() === left - 0.6", arg=int(left[1]))
    page.get_by_role("link", name="All keys").click()
    page.wait_for_url(lambda address: "zoom" not in address)
    page.wait_for_function(f"() => ({ranges})() === -0.6")


def test_a_second_model_that_takes_its_time_is_waited_for(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    page, go, load = site.page, threading.Event(), live_models._loaded
    monkeypatch.setattr(
        live_models, "_loaded", lambda key, run, step: load(key, run, step) if step != 15 or go.wait(60) else None
    )
    site.open("/playground?text=0110&beside=checkpoint:15")
    loaded(page)
    expect(page.locator("#playground-beside")).to_contain_text("is being loaded")
    expect(page.locator("#playground-verdicts")).to_contain_text("Teacher-forced ·")
    expect(page.locator(".token-grid .col-label")).to_have_text(["string", "forced", "free"])
    go.set()
    expect(page.locator("#playground-beside")).to_contain_text("second: step 15")
    expect(page.locator("#playground-verdicts")).to_contain_text("Teacher-forced, second: step 15")
    expect(page.locator(".row-said")).to_have_count(2)


def test_the_playground_stands_at_its_place_from_the_start(site: Site) -> None:
    page = site.page
    page.add_init_script(
        "window.shifts = []; new PerformanceObserver(list => list.getEntries().forEach(entry =>"
        "entry.sources.forEach(source => source.node && window.shifts.push(source.node))))"
        ".observe({type: 'layout-shift', buffered: true})"
    )
    site.open("/playground?input=generated&length=300&beside=checkpoint:5")
    loaded(page)
    drawn(page, "playground-row")
    drawn(page, "playground-places")
    page.wait_for_load_state("networkidle")
    moved = page.evaluate(
        "() => window.shifts.filter(node => (node.closest ? node : node.parentElement).closest('.live-main'))"
        ".map(node => node.id || node.className)"
    )
    assert moved == []


def test_lines_are_named_again_where_the_columns_go_on_below(site: Site) -> None:
    page = site.page
    site.open("/playground?text=" + "01" * 30 + "&beside=checkpoint:5")
    loaded(page)
    named = page.locator(".cols > .col[data-named]")
    expect(named.first).to_have_attribute(
        "data-named", re.compile("^string\nforced, first\nforced, second\ndifference")
    )
    lefts = page.evaluate(
        "() => Array.from(document.querySelectorAll('.cols > .col'), c => [c.offsetLeft, c.dataset.named])"
    )
    assert {left for left, name in lefts if name} == {min(left for left, _ in lefts)}, "those that begin a line, alone"
    before = named.count()
    page.set_viewport_size({"width": 1920, "height": 1000})
    page.wait_for_function(
        "count => document.querySelectorAll('.cols > .col[data-named]').length !== count", arg=before
    )


def test_the_focus_stays_in_a_comparison_that_is_drawn_anew(site: Site) -> None:
    page = site.page
    site.open("/playground?text=0110&beside=checkpoint:5")
    loaded(page)
    swap, typed = page.get_by_role("link", name="Swap"), page.get_by_label("Typed")
    swap.focus()
    for first in ("First: step 5 ·", "First: step 20 ·"):
        page.keyboard.press("Enter")
        expect(page.locator("#playground-beside")).to_contain_text(first)
        expect(swap).to_be_focused()
    typed.fill("01a")
    page.keyboard.press("Enter")
    assert "Give tokens as digits" in typed.evaluate("field => field.validationMessage")
    typed.fill("0111")
    page.keyboard.press("Enter")
    expect(page.locator("#playground-beside")).to_contain_text("typed 0111")
    expect(typed).to_be_focused()
    page.get_by_role("link", name="Close").focus()
    page.keyboard.press("Enter")
    page.wait_for_url(lambda address: "beside" not in address)
    expect(page.get_by_role("link", name="Compare")).to_be_focused()


def test_what_is_not_there_is_said_and_stays_in_the_address(site: Site) -> None:
    page = site.page
    for path in ("/playground", "/intervene"):
        for named, said in (("run=nope", "Unknown run"), ("checkpoint=7", "kept no checkpoint at step 7")):
            site.open(f"{path}?{named}&beside=same")
            expect(page.locator(".live > .state")).to_contain_text(said)
            expect(page.locator(".live > .side .dash-dropdown").first).to_be_visible()
            assert named in site.query(), "not replaced by what comes first"


def test_an_older_link_is_renewed_before_anything_changes_the_address(site: Site) -> None:
    page = site.page
    site.open("/attention?step=5")
    page.wait_for_url(re.compile("checkpoint=5"))
    assert "step=" not in site.query()
    page.locator(".steps-slider").press("End")
    page.wait_for_url(lambda address: "checkpoint" not in address)
