"""`workbench repetition`: how repetitive a string is. Needs no model, and no torch."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from models.errors import UsageError
from workbench.cli.options import JsonOption
from workbench.cli.output import Output, share
from workbench.files import reporting

if TYPE_CHECKING:
    from workbench.content.repetition import StringRepetition

_MOST = 1_000_000  # characters: about ten seconds and a gigabyte
_LARGEST_ALPHABET = 2**31 - 1
_NAMED = 24
_PER_TABLE = 6


def repetition(
    text: Annotated[
        list[str] | None,
        typer.Option("--text", metavar="STRING", help="Its characters are the tokens; may be given again."),
    ] = None,
    file: Annotated[
        list[str] | None,
        typer.Option(
            "--file",
            metavar="PATH",
            help="A text file (UTF-8), or - for stdin; one line break at its end is left out. May be given again.",
        ),
    ] = None,
    alphabet: Annotated[
        int | None,
        typer.Option(
            help="Different tokens there are.  [default: those that occur, at least 2]", min=1, max=_LARGEST_ALPHABET
        ),
    ] = None,
    period: Annotated[
        int | None, typer.Option(help="Tokens in the block that the string repeats, for survival.", min=1, max=_MOST)
    ] = None,
    flip: Annotated[
        float | None, typer.Option(help="Probability with which each token was changed.", min=0, max=1)
    ] = None,
    positions: Annotated[
        bool, typer.Option("--positions", help="Also write what is known of every position into the JSON.")
    ] = False,
    json: JsonOption = None,
) -> None:
    """Measure how repetitive a string is; every character is a token, line breaks and spaces too."""
    output = Output(json)
    if (period is None) != (flip is None):
        raise UsageError("--period and --flip say together how a string was made; give both or neither")
    if positions and json is None:
        raise UsageError("--positions goes into the JSON; give --json PATH too, or - for stdout")
    if (file or []).count("-") > 1:
        raise UsageError("--file - was given twice, and stdin can be read once")
    strings = [(_short(value), value, f"--text {value!r}") for value in text or []]
    strings += [("stdin" if path == "-" else _named(path), _read(path), f"--file {path}") for path in file or []]
    if not strings:
        raise UsageError("no string was given; give --text STRING, or --file PATH (- for stdin)")
    for _, value, option in strings:
        if not value:
            raise UsageError(f"{option}: the string is empty; give at least one character")
        if len(value) > _MOST:
            raise UsageError(f"{option[:60]}: {len(value):,} characters; at most {_MOST:,} are measured at once")
    from analyses.repetition import repetition as measure
    from workbench.content.repetition import RepetitionContent, StringRepetition

    found = []
    for name, value, _ in strings:
        measured = measure(value, alphabet=alphabet, period=period, flip=flip)
        found.append(StringRepetition.model_validate({"name": name, **measured.as_dict(positions)}))
    output.line("Every character is a token. A string of n tokens has n + 1 positions, the last one before EOS.")
    output.table(
        "Repetition",
        [
            *("string", ">tokens", ">alphabet", ">longest repeat", ">at", ">complexity"),
            *([">survival"] if period is not None else []),
        ],
        [
            [
                string.name,
                f"{string.length:,}",
                string.alphabet,
                f"{string.longest_repeat:,}",
                "-" if string.repeat_starts is None else " and ".join(f"{start:,}" for start in string.repeat_starts),
                f"{string.lz_complexity:.3f}",
                *([share(string.survival)] if period is not None else []),
            ]
            for string in found
        ],
    )
    output.line(
        "complexity: Lempel-Ziv phrases over those of random strings like it; about 1 random, near 0 repetitive"
    )
    output.line("")
    for first in range(0, len(found), _PER_TABLE):
        _by_order(output, found[first : first + _PER_TABLE])
    output.json(RepetitionContent(strings=tuple(found)).model_dump(mode="json"))


def _by_order(output: Output, strings: "Sequence[StringRepetition]") -> None:
    """Print a row for contexts of 1, 2, ... tokens, up to the first at which every context is unique."""
    columns = [name for string in strings for name in (f">{string.name}", ">competitors")]
    rows = []
    for m in strings[0].repeated_share:
        cells = [(share(string.repeated_share[m]), f"{string.mean_competitors[m]:,.2f}") for string in strings]
        rows.append([m, *(cell for pair in cells for cell in pair)])
        if not any(string.repeated_share[m] for string in strings):
            break
    output.line("Contexts of m tokens: share of positions whose context occurs elsewhere too, mean number of others.")
    output.table("", [">m", *columns], rows)


def _read(path: str) -> str:
    """Return the text of a file or of stdin, without one line break at its end."""
    with reporting(f"read {path}"):
        raw = sys.stdin.buffer.read(4 * _MOST + 2) if path == "-" else _beginning(Path(path))
    try:
        value = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"--file {path}: not a text in UTF-8 ({error.reason} at byte {error.start})") from None
    return value.removesuffix("\n").removesuffix("\r")


def _beginning(path: Path) -> bytes:
    """Return as much of a file as a text of the largest size can have, and a little more, so that it is refused."""
    if path.is_dir():
        raise UsageError(f"--file {path}: that is a folder; give a text file, or - for stdin")
    with open(path, "rb") as opened:
        return opened.read(4 * _MOST + 2)


def _named(path: str) -> str:
    """Return a path as text that any encoding of Unicode can write: bytes that are no UTF-8 are escaped."""
    return path.encode("utf-8", "backslashreplace").decode("utf-8")


def _short(text: str) -> str:
    shown = text.encode("unicode_escape").decode("ascii") if not text.isprintable() else text
    return shown if len(shown) <= _NAMED else f"{shown[: _NAMED - 1]}…"
