"""The heads of a layer on a short string, token by token, in CircuitsVis: one HTML document that asks for nothing else.

CircuitsVis writes tokens as HTML and takes whitespace away, so it is given names that are escaped and visible.
"""

import html
import importlib.util
import json
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from models.attention import CapturedString
from models.errors import UsageError, WorkbenchError
from workbench.figures.tokens import visible

LIMIT = 200  # tokens; CircuitsVis' time grows with their square
HEADS = 16  # at once
_CODES = 65_535
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
{script}
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


def document(captured: CapturedString, layer: int, heads: Sequence[int], script: str) -> str:
    """Return the document of some heads of a layer.

    Args:
        captured: the string.
        layer: index.
        heads: of the layer.
        script: the element that brings CircuitsVis, see `inline_script`.

    Raises:
        UsageError: there is no such head, or the string has more than LIMIT tokens.
    """
    count = len(captured.tokens)
    if count > LIMIT:
        raise UsageError(f"the string has {count} tokens, and CircuitsVis is given at most {LIMIT}")
    whole = slice(0, count)
    visible_part = np.tril_indices(count)
    weights = [captured.head(layer, index).tile(whole, whole)[visible_part] for index in heads]
    codes = np.round(np.clip(np.nan_to_num(np.concatenate(weights)), 0, 1) * _CODES).astype("<u2")
    props = {
        "tokens": [html.escape(visible(name)) for name in captured.token_names],
        "heads": [f"Head {index}" for index in heads],
        "weights": b64encode(codes.tobytes()).decode(),
    }
    # No character of the JSON may end the script element it stands in.
    text = json.dumps(props).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return _PAGE.format(title=f"Layer {layer} in CircuitsVis", props=text, script=script, codes=_CODES)


def heads_shown(count: int, head: int) -> range:
    """Return the heads of a layer that are shown together: at most 16, `head` among them."""
    first = head // HEADS * HEADS
    return range(first, min(first + HEADS, count))


@cache
def bundle() -> Path:
    """Return the script of the installed CircuitsVis, found without importing it, which would import torch."""
    found = importlib.util.find_spec("circuitsvis")
    folders = found.submodule_search_locations if found else None
    path = Path(next(iter(folders))) / "dist" / "cdn" / "iife.js" if folders else None
    if path is None or not path.is_file():
        raise WorkbenchError("CircuitsVis is not installed, or without its script; pip install circuitsvis")
    return path


@cache
def inline_script() -> str:
    """Return CircuitsVis as a script element, for a document that stands alone."""
    content = bundle().read_text(encoding="utf-8").replace("</script", "<\\/script")  # which would end the element
    return f"<script>{content}</script>"
