"""What Playground and Intervene run a model on: the weights and the string, or batch of strings, that a view names."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dash import Dash, Input, Output
from dash.exceptions import PreventUpdate

from models.attention import Capture
from models.errors import UsageError, WorkbenchError
from workbench.dashboard.data import RunRow
from workbench.dashboard.live_models import Live, LiveModels, require_size
from workbench.dashboard.regions import Told, follow
from workbench.dashboard.selection import choose_capture, choose_run, failed_first
from workbench.dashboard.state import ViewState

if TYPE_CHECKING:
    from analyses.samples import Sample
    from models.config import TaskSettings

OF_STRINGS = (
    "run", "step", "capture", "string", "input", "text", "distribution", "length", "seed", "period", "flip",
)  # fmt: skip


@dataclass(frozen=True)
class Chosen:
    """A view whose open choices are made.

    Attributes:
        view: the view with run, layer and head filled in.
        run: the run.
        live: its model.
        origin: "typed", "captured" or "generated".
        tokens: ids of the source string.
        words: what string it is.
        notes: what was replaced.
        fed: what the teacher-forced copy is fed in place of right copied tokens, (index, token).
    """

    view: ViewState
    run: RunRow
    live: Live
    origin: str
    tokens: tuple[int, ...]
    words: str
    notes: tuple[str, ...] = field(default=())
    fed: tuple[tuple[int, int], ...] = field(default=())

    @property
    def names(self) -> tuple[str, ...]:
        """Printable name of every token id."""
        return self.live.vocabulary.names

    @property
    def length(self) -> int:
        """Tokens in the source string."""
        return len(self.tokens)


def choose(models: LiveModels, view: ViewState) -> Chosen:
    """Make the open choices of a view.

    Raises:
        Loading: the model is not ready yet.
        Nothing: there is no run, or it has no weights; says which command changes that.
        UsageError, WorkbenchError: what is named is not there, damaged, or larger than the pages take.
    """
    run = choose_run(models.data, view)
    live = models.get(run.id, view.step)
    notes: list[str] = []
    layer = min(view.layer, len(live.heads) - 1)
    head = min(view.head, live.heads[layer] - 1)
    if (layer, head) != (view.layer, view.head):
        notes.append(f"The model has no head {view.layer}.{view.head}; showing {layer}.{head}.")
    view = replace(view, run=run.id, layer=layer, head=head)
    origin, tokens, words = _string(models, run, live, view)
    require_size(live, len(tokens))
    if max(tokens) >= live.task.alphabet:
        raise UsageError(
            f"token {max(tokens)} is not in the alphabet of run {run.id}: give tokens from 0 to "
            f"{live.task.alphabet - 1}"
        )
    fed, left_out = _fed(view, tokens, live.task.alphabet)
    return Chosen(view, run, live, origin, tokens, words, (*notes, *left_out), fed)


def _fed(
    view: ViewState, tokens: tuple[int, ...], alphabet: int
) -> tuple[tuple[tuple[int, int], ...], tuple[str, ...]]:
    """What a view feeds in place of right tokens, and a note where the string has no such place or token."""
    asked = view.fed or ()
    there = tuple((index, token) for index, token in asked if index < len(tokens) and token < alphabet)
    fed = tuple((index, token) for index, token in there if token != tokens[index])
    if len(there) == len(asked):
        return fed, ()
    return fed, ("What is to be fed at places, or with tokens, that this string does not have is left out.",)


def _string(models: LiveModels, run: RunRow, live: Live, view: ViewState) -> tuple[str, tuple[int, ...], str]:
    """Origin, tokens and words of the string that a view stands for."""
    if view.text is not None:
        tokens = read_tokens(view.text, live.task.alphabet)
        return "typed", tokens, f"a typed string of {len(tokens):,} tokens"
    if view.input == "captured" and run.captures:
        capture_id, capture, index = captured(models, run, view)
        string = models.data.string(capture, index)
        source = string.tokens[live.task.a : live.task.a + string.length].tolist()
        return "captured", tuple(source), f"string #{index} of capture {capture_id}"
    sample = generate(live, view, 1)
    length = sample.length
    tokens = tuple(sample.batch.strings[0].tolist())
    return "generated", tokens, f"{sample.distribution}, n = {length:,}, seed {view.seed}"


def captured(models: LiveModels, run: RunRow, view: ViewState) -> tuple[str, Capture, int]:
    """Id, capture and index of the captured string that a view stands for; UsageError where there is none."""
    capture_id = choose_capture(models.data, run, view)
    capture = models.data.capture(run.id, capture_id)
    order = failed_first(capture)
    if not order:
        raise UsageError(f"capture {capture_id} of run {run.id} holds no strings; generate one instead")
    index = order[0] if view.string is None or view.of not in (None, run.id) else view.string
    if index >= len(capture):
        raise UsageError(f"capture {capture_id} has no string {index}; it has strings 0 to {len(capture) - 1}")
    return capture_id, capture, index


def settings_of(live: Live, view: ViewState) -> "TaskSettings":
    """Return the task that generated strings are drawn from: the run's own, with what the view says instead."""
    from models.config import TaskSettings
    from models.settings import parse

    changes = {
        name: value
        for name, value in (("distribution", view.distribution), ("period", view.period), ("flip", view.flip))
        if value is not None
    }
    if not changes:
        return live.task
    return parse(TaskSettings, {**live.task.model_dump(), **changes}, "the string to generate")


def length_of(live: Live, view: ViewState) -> int:
    """Return the length of generated strings: the view's, else the longest that the run was trained on."""
    return min(live.task.lengths[1], live.longest) if view.length is None else view.length


def generate(live: Live, view: ViewState, strings: int) -> "Sample":
    """Return generated strings; UsageError where there can be none like that, or they are too many or too long."""
    from analyses.samples import draw_samples
    from models.tasks import CopyTask

    settings, length = settings_of(live, view), length_of(live, view)
    require_size(live, length, strings)
    (sample,) = draw_samples(
        CopyTask(settings),
        lengths=(length,),
        distributions=(settings.distribution,),
        strings=strings,
        seed=view.seed,
        kinds=("plain",),
    )
    return sample


def read_tokens(text: str, alphabet: int) -> tuple[int, ...]:
    """Return the ids of a typed string: digits of a small alphabet may stand without anything between."""
    parts = text.split(".")
    if len(parts) == 1 and alphabet <= 10:
        return tuple(int(digit) for digit in text)
    if max(map(len, parts)) > 9:
        raise UsageError("a typed string holds a number of more than 9 digits; put dots between tokens, as 12.7.3")
    return tuple(int(part) for part in parts)


def write_tokens(tokens: Sequence[int], alphabet: int) -> str:
    """Return a string as `read_tokens` reads it."""
    return ("" if alphabet <= 10 else ".").join(map(str, tokens))


def follow_live(
    app: Dash,
    models: LiveModels,
    page: str,
    region: str,
    outputs: Sequence[Output],
    fields: tuple[str, ...],
    render: Callable[..., Sequence[Any]],
    *,
    also: Input | None = None,
) -> None:
    """Keep a region equal to `render(chosen, view)`, as `regions.follow`; it stays empty until the model is there.

    Nothing is loaded before the page's layout is in a browser: its components then have values.
    """

    def draw(view: ViewState, measured: int | None) -> Sequence[Any]:
        if measured is None:
            raise PreventUpdate
        try:
            chosen = choose(models, view)
        except WorkbenchError as error:  # the page's state says what is wrong
            raise Told from error
        return render(chosen, view, measured) if also else render(chosen, view)

    follow(
        app,
        f"{page}-{region}",
        outputs,
        fields,
        draw,
        stamp=lambda view: stamp(models, view),
        tick=f"{page}-tick",
        also=also or Input(f"{page}-open", "data"),
    )


def stamp(models: LiveModels, view: ViewState) -> str:
    """What changes when the model of a view becomes ready or its weights change; starts nothing."""
    try:
        return models.stamp(choose_run(models.data, view).id, view.step)
    except WorkbenchError as error:
        return str(error)
