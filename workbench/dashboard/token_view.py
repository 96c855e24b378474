"""The heads of a layer on a short string, token by token, in CircuitsVis: a sandboxed document for an iframe.

/tokens/<run>/<capture>/<string>/<layer>/<head>    the document
/tokens/circuitsvis-<version>.js                   its script, which a browser keeps

CircuitsVis writes tokens as HTML and takes whitespace away, so it is given names that are escaped and visible. The
document may run scripts and nothing else: it has no origin, no storage, no network and no way out of its frame.
"""

import html
import importlib.util
import json
from base64 import b64encode
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from dash import Dash
from flask import make_response, request, send_file

from models.errors import UsageError, WorkbenchError
from workbench.dashboard.data import Data
from workbench.dashboard.guard import refuse, sentence
from workbench.figures.tokens import visible

LIMIT = 200  # tokens; CircuitsVis' time grows with their square
HEADS = 16  # at once
_CODES = 65_535
_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ margin: 12px; background: #fff; color: #1c2024; }}
body {{ font: 13px/1.4 system-ui, "Liberation Sans", Arial, sans-serif; }}
h4 {{ margin: 0 0 8px; }}
figure {{ cursor: pointer; }}
.tokens {{ margin-top: 14px; }}
.tokens button {{ font: 12px/1.5 ui-monospace, "DejaVu Sans Mono", Consolas, monospace; cursor: pointer; }}
select {{ font: inherit; }}
</style>
</head>
<body>
<div id="heads"></div>
<script id="props" type="application/json">{props}</script>
<script>
// Without WebGL: its shaders take twenty seconds where they are emulated, the processor half a second anywhere.
console.log = console.warn = function () {{}};
self.OffscreenCanvas = undefined;
(function (context) {{
  HTMLCanvasElement.prototype.getContext = function (kind) {{
    return /webgl/.test(kind) ? null : context.apply(this, arguments);
  }};
}})(HTMLCanvasElement.prototype.getContext);
</script>
<script src="{script}"></script>
<script>
(function () {{
  var props = JSON.parse(document.getElementById("props").textContent), count = props.tokens.length;
  var bytes = Uint8Array.from(atob(props.weights), function (c) {{ return c.charCodeAt(0); }});
  var codes = new Uint16Array(bytes.buffer), at = 0;
  var attention = props.heads.map(function () {{
    return props.tokens.map(function (_, query) {{
      return props.tokens.map(function (_, key) {{ return key > query ? 0 : codes[at++] / {codes}; }});
    }});
  }});
  CircuitsVis.render("heads", CircuitsVis.AttentionPatterns,
    {{ tokens: props.tokens, attention: attention, headLabels: props.heads }});
}})();
</script>
</body>
</html>
"""


def address(run: str, capture: str, string: int, layer: int, head: int) -> str:
    """Return where the document of a layer is served; of many heads it shows those around `head`."""
    return f"/tokens/{run}/{capture}/{string}/{layer}/{head}"


def heads_shown(count: int, head: int) -> range:
    """Return the heads of a layer that are shown together: at most 16, `head` among them."""
    first = head // HEADS * HEADS
    return range(first, min(first + HEADS, count))


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
    opened = data.capture(run, capture)
    captured = data.string(opened, string)
    count = len(captured.tokens)
    if count > LIMIT:
        raise UsageError(f"the string has {count} tokens, and CircuitsVis is given at most {LIMIT}")
    captured.head(layer, head)
    shown = heads_shown(opened.heads[layer], head)
    whole = slice(0, count)
    visible_part = np.tril_indices(count)
    weights = [captured.head(layer, index).tile(whole, whole)[visible_part] for index in shown]
    codes = np.round(np.clip(np.nan_to_num(np.concatenate(weights)), 0, 1) * _CODES).astype("<u2")
    props = {
        "tokens": [html.escape(visible(name)) for name in captured.token_names],
        "heads": [f"Head {index}" for index in shown],
        "weights": b64encode(codes.tobytes()).decode(),
    }
    # No character of the JSON may end the script element it stands in.
    text = json.dumps(props).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return _PAGE.format(title=f"Layer {layer} in CircuitsVis", props=text, script=script, codes=_CODES)


@cache
def bundle() -> Path:
    """Return the script of the installed CircuitsVis, found without importing it, which would import torch."""
    found = importlib.util.find_spec("circuitsvis")
    folders = found.submodule_search_locations if found else None
    path = Path(next(iter(folders))) / "dist" / "cdn" / "iife.js" if folders else None
    if path is None or not path.is_file():
        raise WorkbenchError("CircuitsVis is not installed, or without its script; pip install circuitsvis")
    return path
