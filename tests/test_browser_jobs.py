"""Trainings in Chromium: started, stopped and resumed from the Runs page, with an empty console."""

import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Page, expect
from werkzeug.serving import make_server

from tests import fake_store
from tests.test_browser import Site, browser, site  # noqa: F401 (fixtures)
from workbench.dashboard import create_app
from workbench.dashboard.jobs import Jobs
from workbench.runs import Store

pytestmark = pytest.mark.browser

# What `workbench train` does as far as a dashboard can tell: a run that grows until it is stopped or its process ends.
PROGRAM = """
import json, os, signal, sys, time
from pathlib import Path
sys.path.insert(0, os.getcwd())
from tests import fake_store
root = Path(sys.argv[-1])
if any("stepz" in word for word in sys.argv):
    sys.exit("error: recipe demo-rope.toml: unknown field 'train.stepz'. Did you mean 'train.steps'?")
resumed = next((word.partition("=")[2] for word in sys.argv if word.startswith("--resume=")), None)
def state(folder, name):
    info = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**info, "state": name, "step": 40}))
def stop(number, frame):
    state(root / "demo-rope-s0-beef", "interrupted")
    os._exit(130)
signal.signal(signal.SIGTERM, stop)
if resumed:
    print(f"resuming {resumed} on cpu, in {root}", file=sys.stderr, flush=True)
    state(root / resumed, "training")
    print("demo-rope: 41/500  loss 0.1", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
training = fake_store.Training(root, "demo-rope-s0-beef")
print(f"training demo-rope-s0-beef on cpu, in {root}", file=sys.stderr, flush=True)
training.advance(40)
time.sleep(60)
"""


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, dict[str, str], Path]]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    root, program = tmp_path / "store", tmp_path / "program.py"
    ids = fake_store.fill(root)
    program.write_text(PROGRAM)
    jobs = Jobs(Store(root), program=(sys.executable, str(program)))
    monkeypatch.setattr("workbench.dashboard.pages.runs.jobs_of", lambda app, data: jobs)
    server = make_server("127.0.0.1", 0, create_app(root).server, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", ids, root
    server.shutdown()
    thread.join()
    server.server_close()
    for job in jobs.working():
        psutil.Process(job.pid).kill()


@pytest.fixture(autouse=True)
def patient() -> Iterator[None]:
    """Processes start slowly where others are at work."""
    expect.set_options(timeout=30_000)
    yield
    expect.set_options(timeout=5_000)


def top_of(page: Page, selector: str) -> float:
    box = page.locator(selector).first.bounding_box()
    assert box
    return box["y"]


def test_a_training_is_started_stopped_and_resumed_and_a_killed_one_says_its_last_words(site: Site) -> None:  # noqa: F811
    page = site.page
    site.open("/runs")
    expect(page.locator("#train-about")).to_contain_text("about 18 s")
    before = top_of(page, "#runs-table")
    page.locator("#train-settings").fill("train.steps")
    expect(page.locator("#train-about")).to_contain_text("Line 1, 'train.steps', is not of the form field=value")
    page.locator("#train-settings").fill("train.steps=500")
    expect(page.locator("#train-about")).to_contain_text("about 1 min")
    page.locator("#train-start").press("Enter")
    expect(page.locator("#train-said")).to_have_text("Starting: training demo-rope2d train.steps=500.")
    row = page.locator(".runs tr", has_text="demo-rope-s0-beef")
    expect(row).to_contain_text("training")
    expect(row).to_contain_text("40 / 500")
    page.reload()
    expect(page.locator("#runs-work")).to_contain_text("demo-rope-s0-beef")
    stop = row.get_by_role("button", name="Stop: training demo-rope2d train.steps=500")
    stop.focus()
    page.wait_for_timeout(3500)
    expect(stop).to_be_focused()
    assert top_of(page, "#runs-table") == before, "nothing has moved"
    stop.press("Enter")
    expect(row).to_contain_text("interrupted")
    row.get_by_role("button", name="Resume").click()
    expect(row).to_contain_text("killed")
    expect(row).to_contain_text("before that: demo-rope: 41/500 loss 0.1")
    expect(page.locator("#runs-work li").first).to_contain_text("killed · ended by SIGKILL")
    listed = page.locator("#runs-work li")
    expect(listed).to_have_count(2)
    page.get_by_role("button", name="Take off the list: resuming").click()
    expect(listed).to_have_count(1)


def test_what_cannot_be_trained_says_why_and_all_fits_a_narrow_window(site: Site) -> None:  # noqa: F811
    page = site.page
    page.set_viewport_size({"width": 768, "height": 900})
    site.open("/runs")
    page.locator("#train-settings").fill("train.stepz=3")
    page.locator("#train-start").click()
    expect(page.locator("#runs-work li").first).to_contain_text("Did you mean 'train.steps'?")
    expect(page.locator(".runs").get_by_role("button", name="Resume").first).to_be_in_viewport()
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
