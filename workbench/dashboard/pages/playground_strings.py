"""What Playground and Intervene run a model on: the weights and the string, or batch of strings, that a view names."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dash import Dash, Input, Output
from dash.exceptions import PreventUpdate

from models.attention import Capture
from models.errors import UsageError, WorkbenchError
from workbench.dashboard.beside import second_view
from workbench.dashboard.data import RunRow
from workbench.dashboard.live_models import Live, LiveModels, require_size
from workbench.dashboard.regions import Told, follow
from workbench.dashboard.selection import choose_capture, choose_owner, choose_run, failed_first
from workbench.dashboard.state import ViewState

if TYPE_CHECKING:
    from analyses.samples import Sample
    from models.config import TaskSettings

OF_STRINGS = (
    "run", "checkpoint", "of", "capture", "string", "input", "text", "distribution", "length", "seed", "period", "flip",
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
    live = models.get(run.id, view.checkpoint)
    notes: list[str] = []
    asked = view.layer, view.head
    layer = min(view.layer, len(live.heads) - 1)
    head = min(view.head, live.heads[layer] - 1)
    if (layer, head) != asked:
        notes.append(f"The model has no head {asked[0]}.{asked[1]}; showing {layer}.{head}.")
    view = replace(view, run=run.id, of=None if view.of == run.id else view.of, layer=layer, head=head)
    origin, tokens, words = _string(models, run, live, view)
    if origin == "captured":
        capture_id, _, index = captured(models, run, view)
        view = replace(view, capture=capture_id, string=index)
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
    if view.input == "captured" and choose_owner(models.data, run, view).captures:
        capture_id, capture, index = captured(models, run, view)
        string = models.data.string(capture, index)
        first = int(string.source_position.max()) - string.length  # of the source, which EOS is copied from the end of
        source = string.tokens[first : first + string.length].tolist()
        return "captured", tuple(source), f"string #{index} of capture {capture_id}"
    sample = generate(live, view, 1)
    length = sample.length
    tokens = tuple(sample.batch.strings[0].tolist())
    return "generated", tokens, f"{sample.distribution}, n = {length:,}, seed {view.seed}"


def captured(models: LiveModels, run: RunRow, view: ViewState) -> tuple[str, Capture, int]:
    """Id, capture and index of the captured string that a view stands for; UsageError where there is none."""
    owner = choose_owner(models.data, run, view)
    capture_id = choose_capture(models.data, owner, view)
    capture = models.data.capture(owner.id, capture_id)
    order = failed_first(capture)
    if not order:
        raise UsageError(f"capture {capture_id} of run {owner.id} holds no strings; generate one instead")
    index = order[0] if view.string is None else view.string
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
    """What changes when a model of a view becomes ready or its weights change; starts nothing."""
    views = [view] if view.beside is None else [view, second_view(view)]
    return " ".join(_stamp(models, each) for each in views)


def _stamp(models: LiveModels, view: ViewState) -> str:
    try:
        return models.stamp(choose_run(models.data, view).id, view.checkpoint)
    except WorkbenchError as error:
        return str(error)
