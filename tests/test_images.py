"""Pictures of figures: right size and format, no request leaves the browser, failures are one line."""

import socket
import struct
import sys
import threading
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator

import plotly.graph_objects as go
import pytest

from models.errors import WorkbenchError
from workbench import images

FIGURE = go.Figure(go.Heatmap(z=[[0, 1], [1, 0]])).update_layout(title="Crosses &amp; noughts")


@pytest.fixture(autouse=True)
def browser(chromium_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROWSER_PATH", chromium_path)


@pytest.fixture
def visitors(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """First lines of whatever is sent to a listening proxy, in place of one that cannot exist."""
    seen: list[bytes] = []
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def listen() -> None:
            while True:
                try:
                    visitor, _ = listener.accept()
                except OSError:
                    return
                with visitor:
                    seen.append(visitor.recv(4096).split(b"\r\n")[0])

        threading.Thread(target=listen, daemon=True).start()
        proxy = f"http://127.0.0.1:{listener.getsockname()[1]}"
        monkeypatch.setattr(images, "_OFFLINE", images._OFFLINE | {"proxy_server": proxy})
        yield seen
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.browser
def test_a_png_has_the_size_asked_for() -> None:
    image = images.render(FIGURE, "png", width=300, height=200, scale=1.5)
    assert image[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", image[16:24]) == (450, 300)


@pytest.mark.browser
def test_an_svg_has_vector_text_and_asks_for_nothing() -> None:
    image = images.render(FIGURE, "svg", width=300, height=200)
    root = ElementTree.fromstring(image)
    assert root.tag.endswith("svg") and "Crosses & noughts" in "".join(root.itertext())
    links = [value for e in root.iter() for name, value in e.attrib.items() if name.endswith("href")]
    assert all(link.startswith(("data:", "#")) for link in links)


@pytest.mark.browser
def test_the_page_itself_loads_nothing(visitors: list[bytes]) -> None:
    """What the browser asks for by itself is stopped by the proxy that this test replaces."""
    images.render(FIGURE, "png", width=300, height=200)
    assert not [line for line in visitors if b"cdn" in line or b"mathjax" in line.lower()]


@pytest.mark.browser
def test_nobody_can_listen_where_the_browser_is_sent() -> None:
    address = images._OFFLINE["proxy_server"].removeprefix("http://").split(":")
    with socket.socket() as client, pytest.raises((OSError, AssertionError)):
        client.connect((address[0], int(address[1])))


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROWSER_PATH", "/nowhere/chromium")
    with pytest.raises(WorkbenchError, match=r"pictures need Chrome or Chromium|browser that draws") as error:
        images.render(FIGURE, "png")
    assert "\n" not in str(error.value)
    monkeypatch.setitem(sys.modules, "kaleido", None)
    with pytest.raises(WorkbenchError, match=r"copy-workbench\[images\]"):
        images.render(FIGURE, "png")
