"""Tokens as a person can read them: nothing invisible, nothing that is markup, and axes that never merge labels."""

import html
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

_NAMED = {" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍"}
_LONGEST = 16
_RIGHT_TO_LEFT = {"R", "AL", "AN"}


def visible(name: str) -> str:
    r"""Return a token's name with whitespace and invisible characters spelled out; not escaped for HTML.

    A line break becomes ⏎, a zero-width space \u200b, and text that runs from right to left is isolated, so that
    it cannot reorder what stands beside it.
    """
    shown = "".join(_NAMED.get(c) or (c if _prints(c) else _spelled(c)) for c in str(name)) or "∅"
    if len(shown) > _LONGEST:
        shown = shown[: _LONGEST - 1] + "…"
    if any(unicodedata.bidirectional(c) in _RIGHT_TO_LEFT for c in shown):
        return f"\u2068{shown}\u2069"
    return shown


def markup(name: str) -> str:
    """Return `visible(name)` escaped for plotly's labels and hover texts, which read a subset of HTML."""
    return html.escape(visible(name), quote=True)


def axis_ticks(names: Sequence[str], first: int, last: int, room: int, *, always: Iterable[int] = ()) -> dict:
    """Return plotly tick settings for the tokens `first .. last-1` on a numeric axis.

    A categorical axis would merge tokens of the same name, and copy tasks are all repeated tokens.

    Args:
        names: printable name of every token of the string.
        first: where the part that is shown begins.
        last: where it ends, exclusive.
        room: how many labels fit.
        always: positions that get a label before the evenly spaced ones (the anchors).

    Returns:
        tickmode, tickvals and ticktext: `12 B2`, position and token, evenly spaced where not all fit.
    """
    span = max(1, last - first)
    step = next(s for s in _nice_steps() if span / s <= room)
    spaced = [p for p in range(first, last) if p % step == 0]
    clear = max(1, -(-span // room))
    shown: list[int] = []
    for position in (*(int(p) for p in always if first <= p < last), *spaced):
        if all(abs(position - other) >= clear for other in shown):
            shown.append(position)
    shown.sort()
    return {
        "tickmode": "array",
        "tickvals": shown,
        "ticktext": [f"{p} <b>{markup(names[p])}</b>" for p in shown],
    }


def _nice_steps() -> Iterator[int]:
    for power in range(12):
        for digit in (1, 2, 5):
            yield digit * 10**power


def _prints(character: str) -> bool:
    return unicodedata.category(character) not in {"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp", "Zs"}


def _spelled(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
