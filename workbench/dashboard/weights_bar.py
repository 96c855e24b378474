"""The slider over the checkpoints of a run: a captured string under the weights of that step, a head as it forms."""

from typing import Any

from dash import html
from dash.development.base_component import Component

from models.errors import WorkbenchError
from workbench.dashboard.data import Data, RunRow
from workbench.dashboard.parts import link
from workbench.dashboard.recaptures import Recapturing
from workbench.dashboard.selection import (
    Selection,
    choose_capture,
    choose_owner,
    choose_run,
    resting_step,
    select,
    steps_of,
)
from workbench.dashboard.state import ViewState

_TICKS = 120  # steps that get a tick of their own


def weights_bar(data: Data, view: ViewState, path: str) -> tuple[Component | list[Component], bool]:
    """Return the slider with what is known of its step, and whether there is nothing to wait for.

    Args:
        data: what is read.
        view: the view that its links change.
        path: address of the page.
    """
    try:
        run = choose_run(data, view)
        owner = choose_owner(data, run, view)
        rests = resting_step(data, run, owner, data.capture(owner.id, choose_capture(data, owner, view)))
        steps = steps_of(data, run, rests)
    except WorkbenchError:  # the page's state says what is wrong
        return [], True
    chosen: Selection | None = None
    waits, said = False, ""
    try:
        chosen = select(data, view)
    except Recapturing as recapturing:
        waits, said = True, f"{recapturing} …"
    except Exception:
        return [], True
    asked = rests if view.checkpoint is None else view.checkpoint
    now = chosen.step if chosen else min(steps, key=lambda step: abs(step - asked), default=asked)
    if now not in steps:
        steps = tuple(sorted({*steps, now}))
    at = steps.index(now)
    told = [html.Span(said, role="status")] if chosen is None else _told(data, run, chosen)
    foreign = [] if owner.id == run.id else [_foreign(chosen, run, owner, view, path)]
    own = now == rests and owner.id == run.id
    head = html.Div([html.Span("Weights", className="switch-label"), _name(now, own)], className="weights-head")
    if len(steps) < 2:
        return html.Div([head, *foreign], className="weights"), not waits

    def to(index: int) -> str:
        step = steps[index]
        return path + view.change(checkpoint=None if step == rests else step).query()

    line = [
        _step("‹", ",", to(at - 1) if at else None, "Checkpoint before"),
        _slider(steps, at, rests, said or _words(chosen)),
        _step("›", ".", to(at + 1) if at + 1 < len(steps) else None, "Checkpoint after"),
    ]
    parts = [head, html.Div(line, className="weights-line"), html.Div(told, className="weights-told"), *foreign]
    return html.Div(parts, className="weights", role="group", **{"aria-label": "Weights of a checkpoint"}), not waits


def _slider(steps: tuple[int, ...], at: int, rests: int, said: str) -> Component:
    """A slider that assets/compare.js moves; steps stand at equal distances."""
    shown = range(len(steps)) if len(steps) <= _TICKS else ()
    ticks = [html.I(style={"left": f"{100 * i / (len(steps) - 1):.3f}%"}) for i in shown]
    thumb = html.B(style={"left": f"{100 * at / (len(steps) - 1):.3f}%"})
    aria = {
        "aria-label": "Checkpoint",
        "aria-valuemin": "0",
        "aria-valuemax": str(len(steps) - 1),
        "aria-valuenow": str(at),
        "aria-valuetext": f"step {steps[at]:,}, {said}",
        "aria-orientation": "horizontal",
    }
    told = {"data-steps": ",".join(map(str, steps)), "data-rests": str(rests)}
    return html.Div([*ticks, thumb], className="steps-slider", role="slider", tabIndex=0, **aria, **told)


def _step(label: str, key: str, there: str | None, name: str) -> Component:
    if there is None:
        return html.Span(label, className="button off", **{"aria-hidden": "true"})
    keyed = {"aria-label": name, "aria-keyshortcuts": key}
    return link(label, there, className="button", title=f"{name}: {key}", **keyed)


def _name(step: int, captured: bool) -> Component:
    return html.Span(["Step ", html.B(f"{step:,}"), " as captured" if captured else ""], className="weights-step")


def _told(data: Data, run: RunRow, chosen: Selection) -> list[Component]:
    """Whether the string is copied at this step, and what training reported there."""
    right = _first_error(chosen) is None
    mark = html.Span("✓" if right else "✕", className=f"icon {'good' if right else 'bad'}", **{"aria-hidden": "true"})
    loss, match = data.reported(run, chosen.step)
    reported = [
        *([f"loss {loss:.3f}"] if loss is not None else []),
        *([f"exact match {match:.2f}"] if match is not None else []),
    ]
    about = {"title": "As training reported it at this step; exact match within the training range"}
    return [
        html.Span([mark, _words(chosen)]),
        *([html.Span(" · ".join(reported), className="quiet", **about)] if reported else []),
    ]


def _first_error(chosen: Selection) -> int | None:
    string = chosen.string
    return None if string.exact else 0 if string.first_error is None else string.first_error


def _words(chosen: Selection | None) -> str:
    """Whether the chosen string is copied, in a few words."""
    if chosen is None:
        return ""
    first = _first_error(chosen)
    if first is None:
        return "string copied"
    return "EOS wrong" if first == chosen.string.length else f"wrong from token {first}"


def _foreign(chosen: Selection | None, run: RunRow, owner: RunRow, view: ViewState, path: str) -> Component:
    """Whose string it is, where it is not of the run that is looked at, and the way to the run's own captures."""
    said: list[Any] = ["the string is of ", html.Span(owner.id, className="id"), ", the weights of this run"]
    if run.captures:
        said += ["; ", link("its own captures", path + view.change(of=None, capture=None).query())]
    return html.P(said, className="quiet")
