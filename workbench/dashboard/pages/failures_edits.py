"""Edits of a failed string: single tokens by hand, and the counterfactuals and controls of the report, drawn anew."""

from typing import TYPE_CHECKING

import numpy as np

from analyses.repetition import context_lengths
from models.errors import UsageError
from workbench.dashboard.live_models import MOST_TOKENS
from workbench.dashboard.pages.failures_grid import changed_places
from workbench.dashboard.pages.failures_reports import Chosen
from workbench.dashboard.pages.playground_strings import read_tokens, write_tokens

if TYPE_CHECKING:
    from analyses.counterfactual import Rivals

# What a button does: its label, its title.
DRAWN_EDITS = {
    "break": ("Break the repeat", "Flip tokens until no attended competitor shares the context: the counterfactual"),
    "elsewhere": ("Flip elsewhere", "As many flips outside the competitors' contexts: the control"),
    "cut": ("Cut to trained length", "Remove tokens, competitors kept: the counterfactual of length"),
    "exchange": ("Exchange instead", "Draw those tokens anew at the same length: the control of length"),
}


def offered(chosen: Chosen) -> list[str]:
    """Return the drawn edits that make sense of the selected failure."""
    failure = chosen.failure
    assert failure is not None
    names = ["break", "elsewhere"] if failure.competitors else []
    return names + (["cut", "exchange"] if failure.length > chosen.content.trained[1] else [])


def longest(chosen: Chosen) -> int:
    """Tokens of the longest string that is run here."""
    return (MOST_TOKENS - chosen.layout.a - chosen.layout.b) // 2


def edited_tokens(chosen: Chosen) -> tuple[int, ...]:
    """The string that the address holds, else the failed one itself; UsageError where it is none of the run's."""
    text = chosen.view.text
    if text is None:
        return chosen.tokens
    tokens = read_tokens(text, chosen.layout.alphabet)
    if max(tokens) >= chosen.layout.alphabet:
        raise UsageError(
            f"token {max(tokens)} is not in the alphabet of run {chosen.run.id}: give tokens from 0 to "
            f"{chosen.layout.alphabet - 1}"
        )
    if len(tokens) > longest(chosen):
        raise UsageError(
            f"a string of {len(tokens):,} tokens is longer than this page runs: give at most {longest(chosen):,}"
        )
    return tokens


def with_token(chosen: Chosen, index: int, token: int | None) -> str | None:
    """The edited string with one token changed, as `ViewState.text`; None where it is the failed string again.

    Args:
        chosen: whose failure is edited.
        index: of the token.
        token: its new id; None for the next one.

    Raises:
        UsageError: there is no such place or token.
    """
    tokens, alphabet = list(edited_tokens(chosen)), chosen.layout.alphabet
    if not 0 <= index < len(tokens):
        raise UsageError(f"the string has no token {index}; it has tokens 0 to {len(tokens) - 1}")
    if token is not None and not 0 <= token < alphabet:
        raise UsageError(
            f"token {token} is not in the alphabet of run {chosen.run.id}: give one from 0 to {alphabet - 1}"
        )
    tokens[index] = (tokens[index] + 1) % alphabet if token is None else token
    return text_of(chosen, tuple(tokens))


def text_of(chosen: Chosen, tokens: tuple[int, ...]) -> str | None:
    """A string as `ViewState.text`; None where it is the failed string itself."""
    return None if tokens == chosen.tokens else write_tokens(tokens, chosen.layout.alphabet)


def drawn_edit(name: str, chosen: Chosen, seed: int) -> str | None:
    """Edit the failed string as a counterfactual or its control does, as `ViewState.text`.

    Imports torch: to be called once a model is there.

    Args:
        name: a key of DRAWN_EDITS.
        chosen: whose failure is edited.
        seed: of the draw.

    Raises:
        UsageError: this failure has no such edit.
    """
    from analyses import counterfactual
    from analyses.questions import Question

    failure = chosen.failure
    if failure is None or name not in offered(chosen):
        raise UsageError("this failure has no such edit")
    alphabet, rng = chosen.layout.alphabet, np.random.default_rng(seed)
    asked = Question(np.array(chosen.tokens, np.int64), failure.first_error)
    rivals = _rivals(chosen)
    if name in ("cut", "exchange"):
        kept = counterfactual.kept_when_shortened(asked, rivals, chosen.content.trained[1], rng)
        cut = name == "cut"
        made = counterfactual.shorten(asked, kept) if cut else counterfactual.exchange_rest(asked, kept, rng)
    else:
        all_alike = _count(chosen, "competitors") > len(failure.competitors)
        made = counterfactual.break_repeats(asked, rivals, alphabet, rng, all_alike=all_alike)
        if name == "elsewhere":
            flips = len(changed_places(chosen.tokens, made.string.tolist()))
            made, _ = counterfactual.flip_elsewhere(asked, rivals, flips, alphabet, rng)
    return text_of(chosen, tuple(made.string.tolist()))


def _rivals(chosen: Chosen) -> "Rivals":
    """The competitors that a report lists, as the analyses take them."""
    from analyses.counterfactual import Rivals

    failure = chosen.failure
    assert failure is not None
    strong, mass = np.zeros(failure.length + 1, bool), np.zeros(failure.length + 1)
    for rival in failure.competitors:
        strong[rival.index], mass[rival.index] = rival.index != failure.first_error, rival.mass
    match = context_lengths(np.array(chosen.tokens, np.int64), failure.first_error)
    return Rivals(strong, match, mass, max(1, min(_count(chosen, "context"), failure.first_error)))


def _count(chosen: Chosen, name: str) -> int:
    attended = chosen.failure.evidence.get("attended") if chosen.failure else None
    value = attended.get(name) if isinstance(attended, dict) else None
    return value if type(value) is int and value >= 0 else 0
