"""The heads of a layer on a short string, token by token, in CircuitsVis: a sandboxed document for an iframe.

/tokens/<run>/<capture>/<string>/<layer>/<head>    the document
/tokens/circuitsvis-<version>.js                   its script, which a browser keeps

The document (`figures/token_heads.py`) may run scripts and nothing else: it has no origin, no storage, no network and
no way out of its frame.
"""

from importlib.metadata import version
from typing import Any

from dash import Dash
from flask import make_response, request, send_file

from models.errors import WorkbenchError
from workbench.dashboard.data import Data
from workbench.dashboard.guard import refuse, sentence
from workbench.figures import token_heads
from workbench.figures.token_heads import LIMIT, bundle, heads_shown

_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)


def address(run: str, capture: str, string: int, layer: int, head: int) -> str:
    """Return where the document of a layer is served; of many heads it shows those around `head`."""
    return f"/tokens/{run}/{capture}/{string}/{layer}/{head}"


def register(app: Dash, data: Data) -> None:
    """Serve the documents and their script from `app`."""
    script = f"/tokens/circuitsvis-{version('circuitsvis')}.js"

    @app.server.route(script)
    def circuitsvis() -> Any:
        try:
            response = send_file(bundle(), "text/javascript", max_age=31_536_000)
        except WorkbenchError as error:
            refuse(404, sentence(str(error)))
        # The document has no origin of its own, so that even its own server is another one to it.
        response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
        return response

    @app.server.route("/tokens/<run>/<capture>/<int:string>/<int:layer>/<int:head>")
    def tokens(run: str, capture: str, string: int, layer: int, head: int) -> Any:
        try:
            bundle()
            page = document(data, run, capture, string, layer, head, script)
        except WorkbenchError as error:
            refuse(404, sentence(str(error)))
        response = make_response(page, {"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": _POLICY})
        response.add_etag()
        response.cache_control.no_cache = True
        return response.make_conditional(request)


def document(data: Data, run: str, capture: str, string: int, layer: int, head: int, script: str) -> str:
    """Return the document of a layer; UsageError where there is none, or the string is too long."""
    opened, string = data.located(run, capture, string)
    captured = data.string(opened, string)
    if len(captured.tokens) <= LIMIT:  # what is too long is said first
        captured.head(layer, head)
    shown = heads_shown(opened.heads[layer], head)
    return token_heads.document(captured, layer, shown, f'<script src="{script}"></script>')
