"""`workbench app` and `workbench demo`."""

from contextlib import nullcontext
from dataclasses import asdict
from typing import Annotated

import typer

from workbench.cli.options import JsonOption, StoreOption
from workbench.cli.output import Output, share
from workbench.ports import DEFAULT_PORT, is_free, next_free, require_free
from workbench.runs import Store


def app(
    store: StoreOption = None,
    port: Annotated[int, typer.Option(help="On 127.0.0.1.", min=1, max=65_535)] = DEFAULT_PORT,
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open a browser window.")] = False,
) -> None:
    """Serve the dashboard on this machine until Ctrl-C."""
    from workbench import dashboard

    folder = Store(store)
    folder.require()
    dashboard.serve(folder.root, port, open_browser)


def demo(
    store: StoreOption = None,
    port: Annotated[
        int | None,
        typer.Option(
            help=f"Of the dashboard.  [default: the first free one from {DEFAULT_PORT} on]", min=1, max=65_535
        ),
    ] = None,
    with_app: Annotated[bool, typer.Option("--app/--no-app", help="Serve the dashboard meanwhile, and after.")] = True,
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open it in a browser window.")] = True,
    json: JsonOption = None,
) -> None:
    """Train three small models (2D-RoPE, RoPE, Auto-2D-RoPE), evaluate them and look inside. A rerun reuses them."""
    output = Output(json)
    if port is None:
        port = DEFAULT_PORT if is_free(DEFAULT_PORT) else next_free(DEFAULT_PORT) or DEFAULT_PORT
    if with_app:
        require_free(port)
    folder = Store(store)
    folder.require()
    from workbench import demo as demonstration

    serving = demonstration.dashboard(folder, port, open_browser and demonstration.has_display())
    with serving if with_app else nullcontext() as process:
        if process is not None:
            output.remark(f"Dashboard, growing while they train: {demonstration.url(port)}")
        rows = demonstration.run_recipes(output.progress, folder)
        output.table(
            "Exact match, by length of the string (training range, and multiples of its end)",
            ["recipe", "run", ">steps", ">seconds", ">in range", ">2x", ">4x", ""],
            [
                [
                    row.recipe,
                    row.run,
                    row.steps,
                    f"{row.seconds:.0f}",
                    *(share(row.exact_match[multiple]) for multiple in (1, 2, 4)),
                    "reused" if row.reused else "",
                ]
                for row in rows
            ],
        )
        output.json({"store": str(folder.root), "runs": [asdict(row) for row in rows]})
        if process is not None:
            still_up = f"Dashboard: {demonstration.url(port)}  (Ctrl-C ends it)"
            demonstration.wait_for_ctrl_c(process, lambda: output.remark(still_up))
