"""The captured string that shows best what a head is called: the one with most mass on the keys its label names."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Int

from models.attention import ABOUT_FILE, Capture, CapturedString, HeadPattern
from models.errors import WorkbenchError
from workbench.content.heads import HeadContent
from workbench.dashboard.caching import Cache
from workbench.dashboard.data import Data, stamp_of
from workbench.dashboard.pages.heads_reports import Chosen
from workbench.dashboard.pickers import visible_text
from workbench.dashboard.selection import captured_step, choose_capture, failed_first
from workbench.dashboard.state import ViewState

LOOKED_THROUGH = 60_000  # tokens times heads of a capture: what is read while a page waits
_BLOCK = 64

Pairs = tuple[Int[np.ndarray, "Q"], Int[np.ndarray, "Q K"]]  # queries, and for each the keys that its label names


@dataclass(frozen=True)
class Strongest:
    """Where a head is looked at.

    Attributes:
        view: the Attention page's view of it.
        capture: id of the capture, None where there is none that can be read.
        string: index of the string, None where the page chooses one.
        rule: how it was chosen, in a sentence.
    """

    view: ViewState
    capture: str | None
    string: int | None
    rule: str


def _scored(string: CapturedString) -> Int[np.ndarray, "Q"]:
    return np.flatnonzero(string.source_position >= 0)


def _anchors(string: CapturedString, number: int) -> Pairs:
    queries = _scored(string)
    return queries, np.broadcast_to(string.anchor_positions, (len(queries), len(string.anchor_positions)))


def _source(string: CapturedString, number: int) -> Pairs:
    queries = _scored(string)
    return queries, string.source_position[queries, None]


def _back(string: CapturedString, number: int) -> Pairs:
    queries = np.arange(number, len(string.tokens))
    return queries, queries[:, None] - number


def _first(string: CapturedString, number: int) -> Pairs:
    queries = np.arange(1, len(string.tokens))
    return queries, np.zeros((len(queries), 1), np.int64)


# Where the keys of a label follow from the string alone: what they are called, and which they are.
_KEYS: dict[str, tuple[str, Callable[[CapturedString, int], Pairs]]] = {
    "locator": ("the anchors", _anchors),
    "aligned": ("the true source", _source),
    "look-back": ("the token {} back", _back),
    "self": ("the query's own position", _back),
    "sink": ("the first token", _first),
    "modular": ("the first token", _first),
}


class Strings:
    """Chooses strings of captures for heads, and remembers them."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self._found: Cache[dict[tuple[int, int], tuple[int, float] | None]] = Cache(32)

    def of(self, chosen: Chosen, view: ViewState) -> dict[tuple[int, int], Strongest]:
        """For every head of a report, the string of the view's capture, else of the newest, that shows it best."""
        heads = {(head.layer, head.head): head for head in chosen.content.heads}
        own = view.capture if view.of in (None, chosen.run.id) else None
        view = replace(view, run=chosen.run.id, of=None, capture=own)
        try:
            capture_id = choose_capture(self.data, chosen.run, view)
            capture = self.data.capture(chosen.run.id, capture_id)
            order = failed_first(capture)
        except WorkbenchError:
            said = f"Run {chosen.run.id} has no capture that can be read yet; the Attention page says how to make one."
            return {at: Strongest(_at(view, at, None), None, None, said) for at in heads}
        if not order or capture.heads != chosen.counts:
            said = f"Capture {capture_id} holds no strings of these heads."
            return {at: Strongest(_at(view, at, None), None, None, said) for at in heads}
        labels = tuple((at, head.label) for at, head in heads.items())
        found = self._found.get(
            (capture.folder, stamp_of(capture.folder / ABOUT_FILE), labels),
            lambda: {at: _strongest(self.data, capture, order, head) for at, head in heads.items()},
        )
        made, step = {}, chosen.content.step
        captured_at = captured_step(capture)
        if captured_at not in (None, step):  # the report is of other weights than the picture
            view = replace(view, checkpoint=step)
        for at, head in heads.items():
            string, rule = _told(capture_id, capture, order, head.label, found[at])
            if captured_at not in (None, step):
                rule += f" Captured at step {captured_at:,}, as pictured; Attention shows it at step {step:,}."
            made[at] = Strongest(_at(view, at, string), capture_id, string, rule)
        return made


def kind_of(label: str) -> tuple[str, int]:
    """Kind and number of a label: "look-back(3)" is ("look-back", 3), "self" is ("self", 0)."""
    kind, _, rest = label.removesuffix(" ?").partition("(")
    number = rest.removesuffix(")")
    return kind, int(number) if number.isascii() and number.isdecimal() and len(number) < 10 else 0


def mean_mass(pattern: HeadPattern, queries: Int[np.ndarray, "Q"], keys: Int[np.ndarray, "Q K"]) -> float:
    """Mean over `queries`, which ascend, of a pattern's mass on the keys of each; NaN without queries."""
    if not len(queries):
        return float("nan")
    total = 0.0
    for column in keys.T:
        for first in range(0, len(queries), _BLOCK):
            rows, cols = queries[first : first + _BLOCK], column[first : first + _BLOCK]
            top, left = int(rows[0]), int(cols.min())
            tile = pattern.tile(slice(top, int(rows[-1]) + 1), slice(left, int(cols.max()) + 1))
            total += float(tile[rows - top, cols - left].sum())
    return total / len(queries)


def _strongest(data: Data, capture: Capture, order: tuple[int, ...], head: HeadContent) -> tuple[int, float] | None:
    """The string with most mass on the keys of the head's label, and that mass; None where there are no such keys."""
    kind, number = kind_of(head.label)
    if kind not in _KEYS:
        return None
    best: tuple[int, float] | None = None
    for index in _within_reach(capture, order):
        try:
            string = data.string(capture, index)
            pattern = string.head(head.layer, head.head)
            mass = mean_mass(pattern, *_KEYS[kind][1](string, number))
        except (WorkbenchError, ValueError, IndexError):
            continue
        if not np.isnan(mass) and (best is None or mass > best[1]):
            best = (index, mass)
    return best


def _within_reach(capture: Capture, order: tuple[int, ...]) -> list[int]:
    """The strings that are looked through: as many of the first in order as LOOKED_THROUGH allows."""
    strings, reach, left = capture.about["strings"], [], LOOKED_THROUGH // max(1, sum(capture.heads))
    for index in order:
        tokens = strings[index].get("tokens")
        left -= tokens if isinstance(tokens, int) else left + 1
        if left < 0:
            break
        reach.append(index)
    return reach


def _told(
    capture_id: str, capture: Capture, order: tuple[int, ...], label: str, found: tuple[int, float] | None
) -> tuple[int, str]:
    """The string, and how it was chosen, in a sentence."""
    kind, number = kind_of(label)
    if found is not None:
        looked, keys = len(_within_reach(capture, order)), _KEYS[kind][0].format(number)
        return found[0], (
            f"String #{found[0]} of capture {capture_id}: of the {looked} looked through, the one on which this "
            f"head's mass on {keys} is largest ({found[1]:.2f})."
        )
    which = "the first" if capture.about["strings"][order[0]].get("exact", True) else "the first that fails"
    unknown = f"alone do not tell which shows {visible_text(label)} best"
    why = "this long are not looked through here" if kind in _KEYS else unknown
    return order[0], f"String #{order[0]} of capture {capture_id}: {which}, as patterns {why}."


def _at(view: ViewState, at: tuple[int, int], string: int | None) -> ViewState:
    return view.change(string=string, layer=at[0], head=at[1])
