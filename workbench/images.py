"""Figures as PNG and SVG, drawn by a Chrome or Chromium of this machine that is kept from the network."""

from typing import TYPE_CHECKING, Any

from models.errors import WorkbenchError

if TYPE_CHECKING:
    import plotly.graph_objects as go

FORMATS = ("png", "svg")
# Kaleido's page loads MathJax from a CDN and the browser asks its maker for news; a proxy that cannot exist stops both.
_OFFLINE: dict[str, Any] = {"mathjax": False, "proxy_server": "http://0.0.0.0:0"}
_SECONDS = 60.0


def render(figure: "go.Figure", kind: str, *, width: int = 960, height: int = 880, scale: float = 2.0) -> bytes:
    """Return `figure` as an image, exactly as a browser shows it.

    Args:
        figure: to draw.
        kind: one of FORMATS; an SVG has vector axes and text, and the map's cells as an image inside.
        width: pixels of the layout.
        height: pixels of the layout.
        scale: pixels of a PNG for each of the layout's.

    Raises:
        WorkbenchError: kaleido or a browser is missing, or fails; the message says what to install.
    """
    try:
        import kaleido
        from kaleido.errors import BrowserClosedError, BrowserFailedError, ChromeNotFoundError, KaleidoError
    except ImportError:
        raise WorkbenchError(
            "pictures need kaleido; install it with: pip install 'copy-workbench[images]' (csv and npz go without)"
        ) from None
    options = {"format": kind, "width": width, "height": height, "scale": scale if kind == "png" else 1}
    try:
        image = kaleido.calc_fig_sync(figure, opts=options, kopts={**_OFFLINE, "timeout": _SECONDS})
    except ChromeNotFoundError:
        raise WorkbenchError(
            "pictures need Chrome or Chromium; install one (sudo apt-get install chromium, or brew install --cask "
            "chromium) or set BROWSER_PATH to it (csv and npz go without)"
        ) from None
    except (BrowserClosedError, BrowserFailedError, KaleidoError, TimeoutError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise WorkbenchError(f"the browser that draws pictures failed: {reason}") from None
    return bytes(image)
