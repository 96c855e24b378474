"""Failed strings that a capture of their run holds: the way from a failure to its attention."""

from dataclasses import replace
from typing import Any

import numpy as np

from models.attention import ABOUT_FILE, Capture
from models.errors import WorkbenchError
from workbench.dashboard.beside import Beside
from workbench.dashboard.caching import Cache
from workbench.dashboard.data import Data, stamp_of
from workbench.dashboard.pages.failures_reports import Chosen
from workbench.dashboard.state import ViewState

_CAPTURES, _STRINGS = 24, 512  # newest captures that are looked through, and strings of one length in each


class Captured:
    """Finds strings in captures by their tokens, and remembers what each capture holds."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self._held: Cache[dict[bytes, int]] = Cache(256)

    def find(self, chosen: Chosen) -> tuple[str, int] | None:
        """Capture and index of the selected string with the weights of the report; None where it is not captured."""
        failure = chosen.failure
        if failure is None:
            return None
        wanted = np.array(chosen.tokens, np.int64).tobytes()
        for capture_id in chosen.run.captures[:_CAPTURES]:
            try:
                capture = self.data.capture(chosen.run.id, capture_id)
                if capture.about.get("step") != chosen.content.step:
                    continue
                index = self._strings(capture, failure.length, chosen.layout.a).get(wanted)
            except (WorkbenchError, KeyError, TypeError):  # the Attention page says what is wrong with a capture
                continue
            if index is not None:
                return capture_id, index
        return None

    def _strings(self, capture: Capture, length: int, first: int) -> dict[bytes, int]:
        """Index by tokens of the strings of one length."""

        def read() -> dict[bytes, int]:
            entries: list[dict[str, Any]] = capture.about["strings"]
            fitting = [i for i, entry in enumerate(entries) if entry.get("length") == length][:_STRINGS]
            found: dict[bytes, int] = {}
            for i in fitting:
                source = capture.string(i).tokens[first : first + length]
                found.setdefault(np.ascontiguousarray(source, np.int64).tobytes(), i)
            return found

        return self._held.get((capture.folder, stamp_of(capture.folder / ABOUT_FILE), length, first), read)


def attention_view(chosen: Chosen, found: tuple[str, int], **changes: Any) -> ViewState:
    """The view of a captured string at the head of the last layer that decides most, where that is known."""
    layer, head = deciding_head(chosen)
    view = replace(
        chosen.view, capture=found[0], string=found[1], layer=layer, head=head, row=None, zoom=None, text=None,
        beside=without_failure(chosen.view.beside),
    )  # fmt: skip
    return replace(view, **changes)


def without_failure(beside: Beside | None) -> Beside | None:
    """What a page that knows no failures has beside its subject; None where only another failure is."""
    if beside is None or beside.failure is None:
        return beside
    left = replace(beside, failure=None)
    return None if left == Beside() else left


def deciding_head(chosen: Chosen) -> tuple[int, int]:
    """The head that speaks most for the wrong token against the right one, else the first of the last layer."""
    anatomy = chosen.failure.anatomy if chosen.failure else None
    heads = anatomy.get("heads") if anatomy else None
    try:
        best = max(heads or [], key=lambda head: float(head["to_predicted"]) - float(head["to_right"]), default=None)
        if best is not None:
            return abs(int(best["layer"])), abs(int(best["head"]))
    except (KeyError, TypeError, ValueError):
        pass
    return max(0, len(chosen.run.heads) - 1), 0
