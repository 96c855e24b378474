"""A failed string run again after an edit: what comes of it, beside what came of the string as it was."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dash import html
from dash.development.base_component import Component

from models.errors import WorkbenchError
from workbench.dashboard.guard import message_of
from workbench.dashboard.live_models import Live, LiveModels, Loading
from workbench.dashboard.pages.failures_captured import without_failure
from workbench.dashboard.pages.failures_edits import DRAWN_EDITS, edited_tokens, longest, offered
from workbench.dashboard.pages.failures_grid import Edited, changed_places
from workbench.dashboard.pages.failures_reports import PATH, Chosen
from workbench.dashboard.pages.playground_copy import instead, verdict
from workbench.dashboard.pages.playground_strings import write_tokens
from workbench.dashboard.parts import link, token
from workbench.dashboard.state import ViewState

if TYPE_CHECKING:
    from analyses.decoding import Decoded

_LISTED = 8  # changed tokens that are named one by one


@dataclass(frozen=True)
class Outcome:
    """What the model makes of a string.

    Attributes:
        forced: fed the right copy.
        free: left to itself.
    """

    forced: "Decoded"
    free: "Decoded"


@dataclass(frozen=True)
class Rerun:
    """An edited string and what came of it, as far as it is known.

    Attributes:
        edited: the string; the failed one where there is no edit, or none that can be run.
        was, now: outcomes of the failed string and the edited one; None before an edit and while the model is loaded.
        loading: the model is being loaded.
        problem: why nothing can be run.
    """

    edited: tuple[int, ...]
    was: Outcome | None = None
    now: Outcome | None = None
    loading: bool = False
    problem: str = ""

    @property
    def shown(self) -> Edited:
        """The lines that it adds to the grid."""
        return Edited(self.edited, None if self.now is None else self.now.free)


def rerun(models: LiveModels, chosen: Chosen) -> Rerun:
    """Run the failed string and the edited one, where there is an edit; without one no model is loaded."""
    try:
        tokens = edited_tokens(chosen)
        if chosen.view.text is None:
            return Rerun(tokens)
        try:
            live = models.get(chosen.run.id, chosen.content.step)
        except Loading:
            return Rerun(tokens, loading=True)
        was = outcome_of(models, live, chosen.tokens) if len(chosen.tokens) <= longest(chosen) else None
        return Rerun(tokens, was, outcome_of(models, live, tokens))
    except WorkbenchError as error:
        return Rerun(chosen.tokens, problem=message_of(error))


def outcome(
    chosen: Chosen,
    run: Rerun,
    beside: Sequence[Component] = (),
    edited_beside: Sequence[Component] = (),
) -> Component:
    """Return how both strings were copied, what was changed, and the edits that can be made.

    Args:
        chosen: the failure.
        run: of the edited string.
        beside: what a second model makes of the failed string.
        edited_beside: what a second model makes of the edited string.
    """
    failure = chosen.failure
    assert failure is not None
    n, k = failure.length, failure.first_error
    lines: list[Component] = []
    was = [": ", token(failure.predicted), " instead of ", token(failure.right)]
    was += probability(run.was, k)
    lines += [verdict("Failed string", k, n, *was), *beside]
    if run.problem:
        lines.append(html.P(run.problem, className="note", role="alert"))
    elif run.loading:
        lines.append(
            html.P(
                [html.Progress(**{"aria-label": "loading the model"}), " loading the model …"], className="rerun-wait"
            )
        )
    elif run.now is not None:
        lines += [_now(chosen, run), *edited_beside]
        lines.append(html.P(changes(chosen, run.edited), className="quiet"))
        if run.was is not None and run.was.forced.first_error != k:
            said = "The weights answer the failed string otherwise than this report says: make the report again."
            lines.append(html.P(said, className="note"))
    else:
        hint = "Click a token of “edit”, or type over it, to run the string with it changed."
        lines.append(html.P(hint, className="quiet rerun-hint"))
    return html.Div(lines, className="rerun")


def changes(chosen: Chosen, edited: tuple[int, ...]) -> list[Any]:
    """Return which tokens an edit has changed."""
    name, was = chosen.layout.name, chosen.tokens
    if len(edited) != len(was):
        return [f"{len(edited):,} tokens in place of {len(was):,}."]
    places = changed_places(was, edited)
    if not places:
        return ["No token is changed."]
    said: list[Any] = [f"{len(places):,} {'token' if len(places) == 1 else 'tokens'} changed"]
    for at, i in enumerate(places[:_LISTED]):
        said += [": " if at == 0 else ", ", f"{i} ", token(name(was[i])), " → ", token(name(edited[i]))]
    return [*said, "." if len(places) <= _LISTED else ", and more."]


def _now(chosen: Chosen, run: Rerun) -> Component:
    """How the edited string was copied; at the failed row, how sure the model is of the right token now."""
    assert run.now is not None and chosen.failure is not None
    forced, first = run.now.forced, run.now.forced.first_error
    names = [chosen.layout.name(i) for i in range(max(int(forced.predicted.max()), int(forced.targets.max())) + 1)]
    more: list[Any] = []
    if first is not None:
        more = [": ", *instead(names, int(forced.predicted[first]), int(forced.targets[first]))]
    if len(run.edited) == len(chosen.tokens):
        more += probability(run.now, chosen.failure.first_error)
    return verdict("Edited string", first, len(run.edited), *more)


def probability(found: Outcome | None, index: int) -> list[Any]:
    """Return how probable the right token `index` is, in words; nothing where that is not known."""
    if found is None or index >= len(found.forced.right_probability):
        return []
    which = "EOS" if index == len(found.forced.right_probability) - 1 else f"token {index:,}"
    title = f"probability of the right {which}, with all before it copied rightly"
    return [html.Span(f" · right {which} at {found.forced.right_probability[index]:.3f}", title=title)]


def edits(chosen: Chosen) -> Component:
    """Return the buttons that edit the string as the counterfactuals and controls do, and the way back."""
    made: list[Component] = [
        html.Button(label, type="button", title=title, **asks(name, chosen.key))
        for name, (label, title) in DRAWN_EDITS.items()
        if name in offered(chosen)
    ]
    if chosen.view.text is not None:
        back = PATH + chosen.view.change(text=None).query()
        made.append(link("Reset", back, className="button", title="The failed string again"))
    return html.Div(made, className="case-buttons")


def ways(chosen: Chosen, run: Rerun) -> list[Component]:
    """Return the ways to the pages that run a model on the edited string."""
    if len(run.edited) > longest(chosen):
        return []
    there = typed_view(chosen, run.edited)
    at_row = replace(there, row=chosen.row if len(run.edited) == len(chosen.tokens) else None)
    which = "the edited string" if chosen.view.text is not None else "this string"
    return [
        link("Playground", "/playground" + at_row.query(), className="button", title=f"Look at {which} token by token"),
        link("Intervene", "/intervene" + there.query(), className="button", title=f"Run {which} without some heads"),
    ]


def typed_view(chosen: Chosen, tokens: tuple[int, ...]) -> ViewState:
    """The view of Playground and Intervene on a string."""
    text, beside = write_tokens(tokens, chosen.layout.alphabet), without_failure(chosen.view.beside)
    return replace(chosen.view, text=text, row=None, input="generated", beside=beside)


def asks(what: str, on: str) -> dict[str, str]:
    """Return the properties of a button that asks the page for something, see assets/failures.js."""
    return {"data-asks": what, "data-on": on}


def outcome_of(models: LiveModels, live: Live, tokens: tuple[int, ...]) -> Outcome:
    """Run a model on a string, fed the right copy and left to itself."""
    return Outcome(models.decoded(live, tokens, free=False), models.decoded(live, tokens, free=True))
