"""What browser tests share: a dashboard that is served, and a window on it whose console and requests are watched."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, expect
from werkzeug.serving import make_server

from workbench.dashboard import create_app

ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@dataclass
class Site:
    """A served store and a browser window on it.

    Attributes:
        page: the window.
        address: where the dashboard is served.
        ids: run ids by role.
        root: the store.
        said: what the console said, and errors of the page.
        left: requests that left the machine, and answers with an error.
    """

    page: Page
    address: str
    ids: dict[str, str]
    root: Path
    said: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def open(self, path: str) -> None:
        self.page.goto(self.address + path)
        expect(self.page.locator("#page h1, #page h2").first).to_be_visible()

    def query(self) -> str:
        return urlsplit(self.page.url).query


@contextmanager
def serving(root: Path) -> Iterator[str]:
    """Serve the dashboard over a store; yields its address."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, create_app(root).server, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()


@contextmanager
def watched(browser: Browser, served: tuple[str, dict[str, str], Path], patience: int) -> Iterator[Site]:
    """Open a window of 1280 x 800 in light; afterwards the console must be empty, and nothing have left or failed.

    Args:
        browser: to open it in.
        served: the address, ids of runs by role, and the store.
        patience: milliseconds that what is expected may take.
    """
    address, ids, root = served
    context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
    page = context.new_page()
    page.set_default_timeout(patience)
    expect.set_options(timeout=patience)
    site = Site(page, address, ids, root)
    page.on("console", lambda message: site.said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: site.said.append(f"error: {error}"))
    page.on("request", lambda request: site.left.append(request.url) if not is_local(request.url, address) else None)
    page.on("response", lambda answer: site.left.append(answer.url) if answer.status >= 400 else None)
    yield site
    context.close()
    assert site.said == [], "the console stays empty"
    assert site.left == [], "nothing leaves the machine, nothing fails"


def is_local(url: str, address: str) -> bool:
    return url.startswith((address, "data:", "blob:", "about:"))
