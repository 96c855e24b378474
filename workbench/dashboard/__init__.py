"""The dashboard: pages over a run store, in a browser on the same machine.

state.py      ViewState: what is selected, carried by the address
data.py       what is read from disk, cached
selection.py  ViewState + data -> the run, capture, string, head and row that are shown
regions.py    parts of a page that follow the address
overviews.py  overviews of long strings, computed in the background
recaptures.py captured strings under the weights of another checkpoint or run; weights_bar.py the slider over them
beside.py, comparison.py  the second subject of a comparison, and the difference of both
live_models.py  models that Playground and Intervene run, loaded in the background; gate.py keeps requests out meanwhile
thumbnails.py, token_view.py, exports.py  what is served beside the pages: small maps, CircuitsVis, files to keep
shell.py      the frame around every page; pages/ the pages; assets/ style and keys
jobs.py       trainings and measurements that a page starts, as processes of their own
guard.py      what a local server must refuse
"""

import logging
import webbrowser
from pathlib import Path

from dash import Dash
from threadpoolctl import threadpool_limits
from werkzeug.serving import make_server

from models.errors import UsageError
from workbench.dashboard import exports, guard, live_models, shell, thumbnails, token_view, wire
from workbench.dashboard.data import Data
from workbench.dashboard.jobs import farewell
from workbench.dashboard.pages import PAGES
from workbench.ports import DEFAULT_PORT, HOST, require_free
from workbench.runs import Store


def create_app(store: Store | str | Path | None = None) -> Dash:
    """Return the dashboard over `store` (default: COPY_WORKBENCH_STORE, else ./runs); `.server` is a WSGI application.

    Nothing is loaded from outside and debug is off; torch is imported when Playground or Intervene is first opened.
    numpy's matrix products use one thread from now on.
    """
    # A page's matrix products are small: a second thread costs more than it brings as soon as the cores are shared,
    # and pooled views spread over the cores by themselves.
    threadpool_limits(1, "blas")
    data = Data(store if isinstance(store, Store) else Store(store))
    app = Dash(
        "workbench.dashboard",
        assets_folder=str(Path(__file__).parent / "assets"),
        serve_locally=True,
        title=shell.NAME,
        update_title="",
        suppress_callback_exceptions=True,  # a page's components exist only while it is open
        on_error=guard.tell,
        enable_mcp=False,
    )
    app.index_string = shell.index_page()
    app.layout = shell.layout(data)
    app.server.extensions["workbench"] = data
    guard.guard(app)
    wire.shorten(app.server)
    data.recaptures.models = live_models.live_models(app, data)
    for served in (thumbnails, token_view, exports):
        served.register(app, data)
    pages = [PAGES[path] for path in PAGES]
    shell.register(app, data, pages)
    for page in pages:
        page.register(app, data)
    return app


def serve(store: Store | str | Path | None = None, port: int = DEFAULT_PORT, open_browser: bool = False) -> None:
    """Serve the dashboard on 127.0.0.1 until Ctrl-C.

    Args:
        store: see `create_app`.
        port: 1 to 65535.
        open_browser: open the first page in the system's browser.

    Raises:
        UsageError: an impossible port.
        WorkbenchError: the port is taken; the message offers the next free one.
    """
    if not 1 <= port <= 65_535:
        raise UsageError(f"port {port} is impossible; give one from 1 to 65535")
    require_free(port)
    app = create_app(store)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    listening = make_server(HOST, port, app.server, threaded=True)
    address = f"http://{HOST}:{port}/"
    print(f"Dashboard: {address}  (Ctrl-C stops it)", flush=True)
    if open_browser:
        webbrowser.open(address)
    try:
        listening.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        listening.server_close()
        app.server.extensions["workbench"].close()
        for line in farewell(app):
            print(line, flush=True)
