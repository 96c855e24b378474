"""What the local server refuses, and what it says when something goes wrong.

A web page from elsewhere can make a browser send requests to 127.0.0.1. It cannot choose the Host header's name
once that is checked (DNS rebinding), cannot forge Origin, and cannot read or frame our answers.
"""

import logging
from typing import Any, NoReturn
from urllib.parse import urlsplit

from dash import Dash, html, set_props
from flask import Request, Response, abort, make_response, request
from werkzeug.exceptions import HTTPException

from models.errors import WorkbenchError

LOG = logging.getLogger("workbench.dashboard")
LOCAL_NAMES = {"127.0.0.1", "localhost"}
MAX_BODY = 1 << 20
# Dash starts with inline scripts and plotly draws with inline styles; nothing may come from or go to another place.
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; frame-src 'self'; object-src 'none'; "
    "base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def guard(app: Dash) -> None:
    """Check every request to `app`, and turn what goes wrong into a readable answer."""
    server = app.server
    server.config["MAX_CONTENT_LENGTH"] = MAX_BODY

    @server.before_request
    def refuse_foreign() -> Response | None:
        reason = foreign(request)
        return make_response(reason, 403, {"Content-Type": "text/plain; charset=utf-8"}) if reason else None

    @server.after_request
    def add_headers(response: Response) -> Response:
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    @server.errorhandler(Exception)
    def explain(error: Exception) -> Any:
        if isinstance(error, HTTPException):
            return error.get_response()
        if (
            request.method == "POST"
        ):  # callbacks answer for themselves (see `tell`): what is left is a malformed request
            LOG.info("refused a malformed request: %r", error)
            return "this request was not made by the dashboard's own pages", 400
        LOG.exception("could not answer %s", request.path)
        return "the dashboard failed at this; the terminal it was started from says more", 500


def foreign(checked: Request) -> str | None:
    """Return why a request must be refused, or None: another host name, or a page from another place."""
    host = urlsplit(f"//{checked.headers.get('Host', '')}")
    if _hostname(host.netloc) not in LOCAL_NAMES:
        return "this dashboard answers only to 127.0.0.1 and localhost"
    if checked.method in ("GET", "HEAD"):
        return None
    origin = checked.headers.get("Origin")
    if origin is not None and origin not in (f"http://{host.netloc}", f"https://{host.netloc}"):
        return "this dashboard takes requests only from its own pages"
    if checked.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        return "this dashboard takes requests only from its own pages"
    return None


def tell(error: Exception) -> None:
    """Show what went wrong in a callback in the page's message line, and leave its outputs as they are."""
    set_props("problem", {"children": html.P(message_of(error), role="alert")})


def message_of(error: Exception) -> str:
    """Return what a person should read: our own errors say it, any other is logged in full."""
    if isinstance(error, WorkbenchError):
        return sentence(str(error))
    LOG.error("a callback failed", exc_info=error)
    return f"This could not be shown ({type(error).__name__}); the terminal the dashboard was started from says more."


def sentence(text: str) -> str:
    """Return `text` with a capital letter and a full stop."""
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def refuse(status: int, why: str) -> NoReturn:
    """Answer with a status and a readable line."""
    abort(make_response(why, status, {"Content-Type": "text/plain; charset=utf-8"}))


def _hostname(netloc: str) -> str:
    name, _, port = netloc.rpartition(":") if ":" in netloc else (netloc, "", "")
    return name.lower() if not port or (port.isascii() and port.isdigit()) else ""
