"""`ViewState`: everything a person selected, carried by the address so that every view is a link.

    /attention?run=rope-2l-s0-1a2b&string=3&layer=1&row=71&scale=linear

Only what differs from the default is written. An unknown key is ignored with a note, a bad value is replaced by
its default with a note, and neither ever raises: an address is typed by anybody.
"""

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any
from urllib.parse import parse_qsl, quote

from models.errors import UsageError
from models.registry import unknown
from workbench.dashboard.beside import Beside, after, read_beside, write_beside
from workbench.files import NEW_NAME

MAX_QUERY = 8192
_MAX_RUNS = 50
_LONGEST_SCORE = 80
_LONGEST_TEXT = 6000  # characters of a typed string
_MAX_HEADS = 1024
_MAX_FED = 200  # copied tokens that are fed otherwise

# What a table of heads can be sorted by; with "-" before it, the other way round.
SORTS = ("head", "label", "margin", "certain", "scores", "intervention")
# The same of the table of failures; "found" is the order of the report, "second" what a compared one says.
ORDERS = ("found", "distribution", "length", "first", "place", "error", "cause", "after", "second")
# What is drawn of a report on failures.
DRAWN = ("law", "strings", "fixed", "causes", "lengths", "rows")

# What was called otherwise in older links.
_ALIASES = {"step": "checkpoint"}

# Choosing one thing forgets what only made sense for the thing before it.
_FORGETS = {
    "run": ("capture", "string", "row", "zoom", "heads", "failure", "checkpoint", "of", "fed"),
    "checkpoint": ("failure",),
    "failure": ("row", "text", "fed"),
    "cause": ("failure", "row", "text", "fed"),
    "confirmed": ("failure", "row", "text", "fed"),
    "failed_distribution": ("failure", "row", "text", "fed"),
    "failed_length": ("failure", "row", "text", "fed"),
    "capture": ("string", "row", "zoom", "text", "fed"),
    "string": ("row", "zoom", "text", "fed"),
    "input": ("row", "text", "fed"),
    "distribution": ("row", "text", "fed"),
    "length": ("row", "text", "fed"),
    "seed": ("row", "text", "fed"),
    "period": ("row", "text", "fed"),
    "flip": ("row", "text", "fed"),
    "text": ("fed",),
}


@dataclass(frozen=True)
class Zoom:
    """A rectangle of the map: query rows `top .. bottom-1` and key columns `left .. right-1`."""

    top: int
    bottom: int
    left: int
    right: int

    @property
    def rows(self) -> slice:
        """The query rows as a slice."""
        return slice(self.top, self.bottom)

    @property
    def cols(self) -> slice:
        """The key columns as a slice."""
        return slice(self.left, self.right)

    def within(self, length: int) -> "Zoom":
        """Return the rectangle cut to a map of `length` tokens a side, at least one cell in size."""
        top, left = min(self.top, length - 1), min(self.left, length - 1)
        return Zoom(top, min(max(self.bottom, top + 1), length), left, min(max(self.right, left + 1), length))


@dataclass(frozen=True)
class _Codec:
    """How a value is read from and written to the address; `read` raises ValueError that says what is allowed."""

    read: Callable[[str], Any]
    write: Callable[[Any], str] = str


def _read_id(text: str) -> str:
    if not NEW_NAME.fullmatch(text):
        raise ValueError("an id of letters, digits, dashes, dots and underscores")
    return text


def _read_ids(text: str) -> tuple[str, ...]:
    ids = tuple(dict.fromkeys(_read_id(part) for part in text.split(",")))
    if len(ids) > _MAX_RUNS:
        raise ValueError(f"at most {_MAX_RUNS} ids, separated by commas")
    return ids


def _read_count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII):
        raise ValueError("a whole number from 0")
    return int(text)


def read_zoom(text: str) -> Zoom:
    """Read a rectangle, "10-60.0-80"; ValueError says what is expected."""
    match = re.fullmatch(r"([0-9]{1,9})-([0-9]{1,9})\.([0-9]{1,9})-([0-9]{1,9})", text, re.ASCII)
    zoom = Zoom(*(int(part) for part in match.groups())) if match else None
    if zoom is None or zoom.top >= zoom.bottom or zoom.left >= zoom.right:
        raise ValueError("first-last query rows, then keys, as 10-60.0-80")
    return zoom


def write_zoom(zoom: Zoom) -> str:
    """Write a rectangle as `read_zoom` reads it."""
    return f"{zoom.top}-{zoom.bottom}.{zoom.left}-{zoom.right}"


def _one_of(*allowed: str) -> _Codec:
    def read(text: str) -> str:
        if text not in allowed:
            raise ValueError(" or ".join(allowed))
        return text

    return _Codec(read)


def _read_score(text: str) -> str:
    if not text.isprintable() or not 0 < len(text) <= _LONGEST_SCORE:
        raise ValueError("the name of a score, as locator.mass")
    return text


def _read_text(text: str) -> str:
    if len(text) > _LONGEST_TEXT or not re.fullmatch(r"[0-9]+([ .,]+[0-9]+)*", text.strip(), re.ASCII):
        raise ValueError(f"tokens as digits, 0110, or numbers with dots between, 12.7.3; {_LONGEST_TEXT:,} at most")
    return re.sub(r"[ .,]+", ".", text.strip())


def _read_share(text: str) -> float:
    if not re.fullmatch(r"(0|1|0?\.[0-9]{1,6}|1\.0{1,6})", text, re.ASCII):
        raise ValueError("a number from 0 to 1, as 0.1")
    return float(text)


def _read_heads(text: str) -> tuple[tuple[int, int], ...]:
    parts = text.split(",")
    if len(parts) > _MAX_HEADS or not all(re.fullmatch(r"[0-9]{1,4}\.[0-9]{1,4}", part, re.ASCII) for part in parts):
        raise ValueError(f"layer.head, separated by commas, as 0.1,1.0; at most {_MAX_HEADS}")
    pairs = (part.split(".") for part in parts)
    return tuple(sorted({(int(layer), int(head)) for layer, head in pairs}))


def _read_fed(text: str) -> tuple[tuple[int, int], ...]:
    parts = text.split(",")
    if len(parts) > _MAX_FED or not all(re.fullmatch(r"[0-9]{1,9}:[0-9]{1,9}", part, re.ASCII) for part in parts):
        raise ValueError(f"index:token of copied tokens, separated by commas, as 3:0,7:1; at most {_MAX_FED}")
    pairs = (part.split(":") for part in parts)
    return tuple(sorted({int(index): int(token) for index, token in pairs}.items()))


def _read_keys(text: str) -> str:
    if not re.fullmatch(r"[a-z][a-z-]{0,39}(\([1-9][0-9]?\))?", text, re.ASCII):
        raise ValueError("a class of keys, as anchors or wrong-candidates(2)")
    return text


def _read_switch(text: str) -> bool:
    if text not in ("on", "off"):
        raise ValueError("on or off")
    return text == "on"


_RUN_ID = _Codec(_read_id)
_IDS = _Codec(_read_ids, ",".join)
_COUNT = _Codec(_read_count)
_ZOOM = _Codec(read_zoom, write_zoom)
_SCORE = _Codec(_read_score)
_SWITCH = _Codec(_read_switch, lambda on: "on" if on else "off")
_TEXT = _Codec(_read_text)
_SHARE = _Codec(_read_share, lambda value: f"{value:.6f}".rstrip("0").rstrip("."))
_HEADS = _Codec(_read_heads, lambda heads: ",".join(f"{layer}.{head}" for layer, head in heads))
_FED = _Codec(_read_fed, lambda fed: ",".join(f"{index}:{token}" for index, token in fed))
_KEYS = _Codec(_read_keys)
_BESIDE = _Codec(read_beside, write_beside)


@dataclass(frozen=True)
class ViewState:
    """What is selected; None means "whatever comes first", which the pages resolve.

    Attributes:
        run: the run that single-run pages show.
        runs: the runs ticked for comparison.
        capture: the capture of `run`.
        of: the run whose captures are looked at under the weights of `run`; None for its own.
        checkpoint: the step of the weights: those a captured string is looked at under, a report is of, a model runs
            with. None for those of the capture, of the newest report, or the newest.
        failing: whether only strings that are copied wrongly are listed.
        beside: what is another at the second subject of a comparison; None for no comparison.
        string: index of the string in the capture.
        layer, head: the attention head.
        row: the pinned query position.
        zoom: the part of the map that is shown; None is all of it.
        scale: how a weight becomes a colour: its square root (shows faint stripes) or itself.
        palette: the colour scale.
        source: whether the true source is drawn over the map.
        tab: the pattern as a map, or token by token.
        score: the score that is drawn by layer and head.
        sort: what the table of heads is sorted by.
        pane: what is drawn of the heads: a score of each, the space of all scores, or how they formed.
        input: what a model is run on: a captured string, a generated one, or a batch of generated ones.
        text: a typed string, in place of the one that `input` stands for.
        distribution, length, seed, period, flip: of generated strings; None is what the run was trained on.
        count: strings of a batch.
        mode: the copy that is shown: teacher-forced, free-running, or both.
        fed: what the teacher-forced copy is fed in place of right copied tokens, (index, token); None for nothing.
        heads: those that are intervened on, (layer, head); None for none.
        way: how what they write is replaced; see `analyses.ablation.WAYS`.
        keys: the keys that they no longer attend to, see `analyses.knockout.CLASSES`; None to ablate instead.
        how: whether attention that is knocked out goes to the other keys (mask) or is lost (zero).
        failure: index of the failure in the run's report on failures.
        cause, confirmed, failed_distribution, failed_length: of the failures that are listed; None for any.
        order: what the table of failures is sorted by.
        drawn: what is drawn of a report on failures; None for the law, or for the difference of two reports.
        whole: whether all of a failed string is shown, not only the part around the error and its competitors.
    """

    run: str | None = field(default=None, metadata={"codec": _RUN_ID})
    runs: tuple[str, ...] = field(default=(), metadata={"codec": _IDS})
    capture: str | None = field(default=None, metadata={"codec": _RUN_ID})
    of: str | None = field(default=None, metadata={"codec": _RUN_ID})
    checkpoint: int | None = field(default=None, metadata={"codec": _COUNT})
    failing: bool = field(default=False, metadata={"codec": _SWITCH})
    beside: Beside | None = field(default=None, metadata={"codec": _BESIDE})
    string: int | None = field(default=None, metadata={"codec": _COUNT})
    layer: int = field(default=0, metadata={"codec": _COUNT})
    head: int = field(default=0, metadata={"codec": _COUNT})
    row: int | None = field(default=None, metadata={"codec": _COUNT})
    zoom: Zoom | None = field(default=None, metadata={"codec": _ZOOM})
    scale: str = field(default="sqrt", metadata={"codec": _one_of("sqrt", "linear")})
    palette: str = field(default="cividis", metadata={"codec": _one_of("cividis", "viridis")})
    source: bool = field(default=True, metadata={"codec": _SWITCH})
    tab: str = field(default="map", metadata={"codec": _one_of("map", "tokens")})
    score: str | None = field(default=None, metadata={"codec": _SCORE})
    sort: str = field(default="head", metadata={"codec": _one_of(*SORTS, *(f"-{name}" for name in SORTS))})
    pane: str = field(default="scores", metadata={"codec": _one_of("scores", "space", "history")})
    input: str = field(default="captured", metadata={"codec": _one_of("captured", "generated", "batch")})
    text: str | None = field(default=None, metadata={"codec": _TEXT})
    distribution: str | None = field(default=None, metadata={"codec": _RUN_ID})
    length: int | None = field(default=None, metadata={"codec": _COUNT})
    seed: int = field(default=0, metadata={"codec": _COUNT})
    period: int | None = field(default=None, metadata={"codec": _COUNT})
    flip: float | None = field(default=None, metadata={"codec": _SHARE})
    count: int = field(default=16, metadata={"codec": _COUNT})
    mode: str = field(default="both", metadata={"codec": _one_of("forced", "free", "both")})
    fed: tuple[tuple[int, int], ...] | None = field(default=None, metadata={"codec": _FED})
    heads: tuple[tuple[int, int], ...] | None = field(default=None, metadata={"codec": _HEADS})
    way: str = field(default="zero", metadata={"codec": _one_of("zero", "mean", "resample", "same-place")})
    keys: str | None = field(default=None, metadata={"codec": _KEYS})
    how: str = field(default="mask", metadata={"codec": _one_of("mask", "zero")})
    failure: int | None = field(default=None, metadata={"codec": _COUNT})
    cause: str | None = field(default=None, metadata={"codec": _one_of("repetition", "length", "stop", "other")})
    confirmed: bool | None = field(default=None, metadata={"codec": _SWITCH})
    failed_distribution: str | None = field(default=None, metadata={"codec": _RUN_ID})
    failed_length: int | None = field(default=None, metadata={"codec": _COUNT})
    order: str = field(default="found", metadata={"codec": _one_of(*ORDERS, *(f"-{name}" for name in ORDERS))})
    drawn: str | None = field(default=None, metadata={"codec": _one_of(*DRAWN)})
    whole: bool = field(default=False, metadata={"codec": _SWITCH})

    def change(self, **changes: Any) -> "ViewState":
        """Return the view with `changes`, forgetting what depended on a choice that changed.

        A value that is named explicitly is kept: `change(run="b", string=2)`.
        """
        forgotten: dict[str, Any] = {
            dependent: None
            for name, value in changes.items()
            if value != getattr(self, name)
            for dependent in _FORGETS.get(name, ())
        }
        if "beside" not in changes:
            changed = {name for name, value in changes.items() if value != getattr(self, name)}
            forgotten["beside"] = after(self.beside, changed)
        return replace(self, **{**forgotten, **changes})

    def toggle_run(self, run: str) -> "ViewState":
        """Return the view with `run` ticked, or not ticked any more."""
        kept = tuple(other for other in self.runs if other != run)
        return replace(self, runs=kept if run in self.runs else (*self.runs, run))

    def query(self, only: tuple[str, ...] | None = None) -> str:
        """Return the address part, `?run=a&layer=1`, or "" where all is default.

        Args:
            only: write these fields alone; all by default.
        """
        parts = [
            f"{f.name}={quote(f.metadata['codec'].write(getattr(self, f.name)), safe=',:')}"
            for f in fields(self)
            if getattr(self, f.name) != f.default and (only is None or f.name in only)
        ]
        return "?" + "&".join(parts) if parts else ""

    @classmethod
    def parse(cls, query: object) -> tuple["ViewState", list[str]]:
        """Read an address part and return the view and a note for everything that could not be used."""
        if query is None or query == "":
            return cls(), []
        if not isinstance(query, str) or len(query) > MAX_QUERY:
            return cls(), ["The address of this view could not be read; showing the default view."]
        known = {f.name: f for f in fields(cls)}
        values: dict[str, Any] = {}
        notes = []
        for name, text in parse_qsl(query.lstrip("?"), keep_blank_values=True):
            key = _ALIASES.get(name, name)
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"; did you mean {near[0]}" if near else ""
                notes.append(f"Ignored {_short(name)!r} in the address: no setting is called so{hint}.")
                continue
            try:
                values[key] = known[key].metadata["codec"].read(text)
            except ValueError as error:
                notes.append(f"Ignored {name}={_short(text)} in the address: expected {error}.")
        return cls(**values), notes[:8]


def require_known(names: tuple[str, ...]) -> None:
    """Raise UsageError for a name that is no field of a view."""
    known = [f.name for f in fields(ViewState)]
    for name in names:
        if name not in known:
            raise UsageError(unknown("view field", name, known))


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
