"""The command `workbench`: one verb a job. `main` turns whatever goes wrong into one line and an exit code."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType

import typer
from typer.exceptions import TyperException

from models.errors import WorkbenchError
from workbench.cli import (
    captures,
    constructions,
    dashboard,
    evaluation,
    export,
    failures,
    heads,
    lengths,
    recipes,
    repetition,
    reproduce,
    store,
    training,
    views,
)
from workbench.files import as_workbench_error
from workbench.interrupts import handle_stopping, restore

TRACEBACK_VARIABLE = "COPY_WORKBENCH_TRACEBACK"
INTERRUPTED = 130

app = typer.Typer(
    name="workbench",
    help="A workbench for failing copies in language models: train copy models, measure them, look inside.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for verb in (
    recipes.recipes,
    constructions.constructions,
    training.train,
    evaluation.evaluate,
    store.runs,
    store.show,
    store.rm,
    captures.capture,
    captures.captures,
    captures.rm_capture,
    views.export_view,
    export.export,
    heads.heads,
    failures.failures,
    lengths.lengths,
    repetition.repetition,
    reproduce.reproduce,
    dashboard.demo,
    dashboard.app,
    recipes.bench,
):
    app.command()(verb)
app.command("schema")(heads.schema_of)
app.command("check-labels")(constructions.check_labels)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (the process's own by default) and return its exit code.

    0 is success, 1 a failure, 2 a wrong use, 130 an interruption by Ctrl-C or SIGTERM. An error is one line on
    stderr; a traceback is shown only where COPY_WORKBENCH_TRACEBACK is set.
    """
    before = handle_stopping(_interrupt)
    try:
        code = app(args=argv, prog_name="workbench", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BrokenPipeError:
        _close_stdout()
        return 1
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except typer.Abort:
        return _fail("aborted; nothing was changed", 1)
    except Exception as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        return _fail(*_explain(error))
    finally:
        restore(before)


def _explain(error: Exception) -> tuple[str, int]:
    """Return the one line for `error`, and the exit code."""
    if isinstance(error, WorkbenchError):
        return str(error), error.exit_code
    if isinstance(error, TyperException):
        context = getattr(error, "ctx", None)
        hint = f" (see: {context.command_path} --help)" if context else ""
        return error.format_message() + hint, error.exit_code
    if isinstance(error, OSError):
        return str(as_workbench_error(error, f"use {error.filename}" if error.filename else "go on")), 1
    if isinstance(error, MemoryError) or "out of memory" in str(error).lower() or "allocate memory" in str(error):
        return "out of memory; use shorter strings, fewer at once, or a smaller model", 1
    return f"unexpected {type(error).__name__}: {error} (set {TRACEBACK_VARIABLE}=1 to see where)", 1


def _fail(message: str, code: int) -> int:
    """Print `message` as one line on stderr and return `code`."""
    with suppress(OSError):
        print("error: " + " ".join(message.split()), file=sys.stderr, flush=True)
    with suppress(OSError):
        sys.stdout.flush()
    return code


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Treat SIGTERM and a closed terminal as Ctrl-C."""
    raise KeyboardInterrupt


def _close_stdout() -> None:
    """Send what is still buffered nowhere: the reader of the pipe has gone."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
