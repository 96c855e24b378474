"""The second subject of a comparison: what of a view is another beside it, as `beside=layer:1,head:0` in the address.

What it does not name is as in the view, so both follow it: walking through strings shows each under both subjects.
"""

import re
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from workbench.files import NEW_NAME

if TYPE_CHECKING:
    from workbench.dashboard.state import ViewState

_EXPECTED = "what is another beside this view, as layer:1,head:0 or run:ID or checkpoint:300 or capture:ID,string:2"


@dataclass(frozen=True)
class Beside:
    """What the second subject has instead; None where it is as in the view.

    Attributes:
        run: whose weights are looked at.
        of: the run whose capture the string is from.
        capture: a capture of that run.
        checkpoint: the step of the weights.
        string: index in the capture.
        layer, head: the attention head.
        text: a typed string; in place of the one that the view stands for.
        failure: index in the report on failures.
    """

    run: str | None = None
    of: str | None = None
    capture: str | None = None
    checkpoint: int | None = None
    string: int | None = None
    layer: int | None = None
    head: int | None = None
    text: str | None = None
    failure: int | None = None


NAMES = tuple(f.name for f in fields(Beside))
_IDS = ("run", "of", "capture")
_LONGEST_TEXT = 6000
_FORMS = {name: NEW_NAME for name in _IDS} | {"text": re.compile(r"[0-9]+(\.[0-9]+)*", re.ASCII)}
_COUNT = re.compile(r"[0-9]{1,9}", re.ASCII)


def read_beside(text: str) -> Beside:
    """Read "layer:1,head:0"; ValueError says what is expected. Nothing different is "same"."""
    if text == "same":
        return Beside()
    values: dict[str, str | int] = {}
    for part in text.split(","):
        name, _, value = part.partition(":")
        fits = _FORMS.get(name, _COUNT).fullmatch(value) and len(value) <= _LONGEST_TEXT
        if name not in NAMES or name in values or not fits:
            raise ValueError(_EXPECTED)
        values[name] = value if name in _FORMS else int(value)
    return Beside(**values)  # type: ignore[arg-type]


def write_beside(beside: Beside) -> str:
    """Write the second subject as `read_beside` reads it."""
    named = {name: getattr(beside, name) for name in NAMES}
    return ",".join(f"{name}:{value}" for name, value in named.items() if value is not None) or "same"


def second_view(view: "ViewState") -> "ViewState":
    """Return the view of the second subject: the same rows and zoom.

    Another run is looked at on the same string, unless a capture of its own is named with it.
    """
    beside = view.beside or Beside()
    run = beside.run or view.run
    changed = replace(view, beside=None, run=run)
    if run != view.run:
        changed = replace(changed, checkpoint=None, of=view.of or view.run)
    if beside.capture is not None:
        own = view.of if run == view.run else None
        changed = replace(changed, capture=beside.capture, string=None, of=beside.of or own)
    if beside.text is not None:
        changed = replace(changed, text=beside.text)
    elif beside.capture is not None or beside.string is not None:
        changed = replace(changed, text=None, input="captured")
    if changed.text != view.text or changed.input != view.input or beside.string is not None:
        changed = replace(changed, fed=None)
    named = {name: getattr(beside, name) for name in ("checkpoint", "string", "layer", "head", "failure")}
    changed = replace(changed, **{name: value for name, value in named.items() if value is not None})
    return replace(changed, of=None if changed.of == run else changed.of)


def difference(one: "ViewState", other: "ViewState", step: int) -> Beside:
    """Return what to put beside view `one` so that the second subject is `other`.

    Args:
        one: with run, capture, string, layer and head filled in.
        other: the same.
        step: of the weights of `other`, by which they are named where those of `one` are of a step.
    """
    run = other.run if other.run != one.run else None
    of, capture, string = None, None, other.string if other.string != one.string else None
    of_one, of_other = one.of or one.run, other.of or other.run
    if (of_one, one.capture) != (of_other, other.capture):
        capture, string = other.capture, other.string
        of = of_other if of_other != (of_one if run is None else run) else None
    before = one.checkpoint if run is None else None
    checkpoint = None if other.checkpoint == before else step if other.checkpoint is None else other.checkpoint
    if other.text is None and one.text is not None:  # which is left by naming what is looked at instead
        string = other.string
    layer, head, text, failure = (
        getattr(other, name) if getattr(other, name) != getattr(one, name) else None
        for name in ("layer", "head", "text", "failure")
    )
    return Beside(run, of, capture, checkpoint, string, layer, head, text, failure)


def after(beside: Beside | None, changed: set[str]) -> Beside | None:
    """Return the second subject once the fields `changed` of the view are others: what the old run had is dropped."""
    if beside is None or beside.run is not None or "run" not in changed:
        return beside
    return replace(beside, of=None, capture=None, string=None, checkpoint=None, failure=None)
