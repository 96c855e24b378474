"""Front door of the dashboard: `python app.py [--store DIR] [--port N] [--open]`, or `gunicorn app:server`.

The store is a folder of runs: --store, else the folder in COPY_WORKBENCH_STORE, else ./runs.
"""

import argparse
import sys

from models.errors import WorkbenchError
from workbench.dashboard import create_app, serve
from workbench.ports import DEFAULT_PORT


def main() -> int:
    """Serve the dashboard until Ctrl-C; return the exit code."""
    parser = argparse.ArgumentParser(description="Open the dashboard of a folder of runs.")
    parser.add_argument("--store", help="folder of runs (default: $COPY_WORKBENCH_STORE, else ./runs)")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help=f"port on 127.0.0.1 (default: {DEFAULT_PORT})")
    parser.add_argument("--open", action="store_true", help="open it in the browser")
    chosen = parser.parse_args()
    try:
        serve(chosen.store, chosen.port, chosen.open)
    except WorkbenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())

server = create_app().server
