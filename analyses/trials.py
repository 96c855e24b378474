"""Counterfactual trials of what made a copy fail, each beside its control.

*Repetition*: break the contexts of all competitors that the row attends to, and, where it then attends to others, those
too (`counterfactual.break_repeats`); the copy is right again, and attention has left the competitors, so that it was
the context which had drawn it there. Control: as many flips elsewhere, right again.
*Length*: cut the string into the trained range, competitors kept (`counterfactual.shorten`); right again. Control:
exchange the tokens that were cut, at the same length; right again.
*Stop*: answer fresh strings of trained length; EOS comes early, or late, again. Control: share of their tokens that are
wrong with EOS left out of the answers, over what guessing gets wrong, since a model that copies nothing stops nowhere.

Right again means that the copy follows its source: it is right with the asked token as it is, and with another one in
its place. A bit that happens to be right, because attention fell on another place that holds it, is right with one of
the two only; so a share is the smaller of two, and chance is about 0 on any alphabet.
"""

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool

from analyses.attention_at import Attended, attended_at
from analyses.counterfactual import (
    break_repeats,
    exchange_rest,
    flip_elsewhere,
    kept_when_shortened,
    shorten,
    with_other_answer,
)
from analyses.questions import Question, is_right
from models.tasks import CopyTask
from models.transformer import CopyTransformer

CONFIRMED, REFUTED = 0.5, 0.25  # least excess over the control to confirm, largest to refute
DRAWS = 6  # edited strings of every kind
FRESH = 16  # strings on which stopping is tried
LEFT = 0.5  # attention has left the competitors where no more than this share of their mass is left
_ROUNDS = 5  # of breaking the competitors that are attended to


@dataclass(frozen=True)
class Trial:
    """One counterfactual.

    Attributes:
        cause: that it tests.
        share: of its strings on which the copy is right again; for stop, on which EOS is wrong again. 0 to 1.
        control: the same of the control.
        draws: strings of each.
        changed: mean number of tokens flipped or removed.
        left: repetition alone: share on which, besides, attention has left the competitors.
        outside: likewise: share of the control's flips that are in no competitor's context, None without flips.
    """

    cause: str
    share: float
    control: float
    draws: int
    changed: float = 0.0
    left: float | None = None
    outside: float | None = None

    @property
    def verdict(self) -> str:
        """Confirmed, unconfirmed or refuted: by how much `share` (`left`, where there is one) exceeds `control`."""
        excess = (self.share if self.left is None else self.left) - self.control
        return "confirmed" if excess >= CONFIRMED else "refuted" if excess < REFUTED else "unconfirmed"

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**vars(self), "verdict": self.verdict}


def random_for(question: Question, seed: int) -> np.random.Generator:
    """Random numbers that depend on the question and the seed alone."""
    return np.random.default_rng([seed, zlib.crc32(question.string.tobytes()), question.index])


def variants(question: Question, alphabet: int, rng: np.random.Generator, draws: int) -> list[Question]:
    """The question `draws` times, and as often with another token to be copied; EOS has no other."""
    same = [question] * draws
    return same if question.asks_eos else same + [with_other_answer(question, alphabet, rng) for _ in same]


def try_repetition(
    model: CopyTransformer, question: Question, attended: Attended, rng: np.random.Generator, draws: int = DRAWS
) -> Trial | None:
    """Break all attended competitors; None where the row attends to none."""
    rivals, alphabet = attended.rivals, model.vocabulary.alphabet
    if not rivals.strong.any():
        return None
    asked = variants(question, alphabet, rng, draws)
    edited = [break_repeats(variant, rivals, alphabet, rng, all_alike=False) for variant in asked]
    now = attended_at(model, edited)
    for _ in range(_ROUNDS - 1):
        wrong = [i for i, row in enumerate(now) if not row.is_right and row.rivals.strong.any()]
        if not wrong:
            break
        for i in wrong:
            edited[i] = break_repeats(edited[i], now[i].rivals, alphabet, rng, all_alike=True)
        for i, row in zip(wrong, attended_at(model, [edited[i] for i in wrong]), strict=True):
            now[i] = row
    most = LEFT * attended.competitors
    again = np.array([row.is_right for row in now])
    left = np.array([row.rivals.mass[rivals.strong].sum() <= most for row in now])
    flips = [int((old.string != new.string).sum()) for old, new in zip(asked, edited, strict=True)]
    elsewhere = [flip_elsewhere(q, rivals, n, alphabet, rng) for q, n in zip(asked, flips, strict=True)]
    control = is_right(model, [edited for edited, _ in elsewhere])
    outside = [share for _, share in elsewhere if not np.isnan(share)]
    return Trial(
        "repetition",
        _smallest_share(again, draws),
        _smallest_share(control, draws),
        draws,
        float(np.mean(flips)),
        _smallest_share(again & left, draws),
        float(np.mean(outside)) if outside else None,
    )


def try_length(
    model: CopyTransformer,
    question: Question,
    attended: Attended,
    trained: int,
    rng: np.random.Generator,
    draws: int = DRAWS,
) -> Trial | None:
    """Cut the string into the trained range; None where it is there already."""
    if question.length <= trained:
        return None
    asked = variants(question, model.vocabulary.alphabet, rng, draws)
    kept = [kept_when_shortened(variant, attended.rivals, trained, rng) for variant in asked]
    short = [shorten(variant, keep) for variant, keep in zip(asked, kept, strict=True)]
    same = [exchange_rest(variant, keep, rng) for variant, keep in zip(asked, kept, strict=True)]
    right = is_right(model, short + same)
    return Trial(
        "length",
        _smallest_share(right[: len(short)], draws),
        _smallest_share(right[len(short) :], draws),
        draws,
        float(np.mean([(~keep).sum() for keep in kept])),
    )


@torch.inference_mode()
def try_stopping(model: CopyTransformer, task: CopyTask, length: int, seed: int) -> dict[str, Trial]:
    """How often EOS is late, and early, on fresh uniform strings of one length, by symptom."""
    vocabulary, generator = model.vocabulary, torch.Generator().manual_seed(seed)
    batch = task.sample(FRESH, generator, lengths=length, distribution="uniform")
    rows, _ = batch.scored_rows
    logits = model(batch.tokens, rows=rows.to(model.device)).cpu()
    stops = logits.argmax(-1) == vocabulary.eos
    logits[..., vocabulary.eos] = -torch.inf
    wrong = logits[:, :-1].argmax(-1) != batch.strings
    control = min(1.0, float(wrong.float().mean()) / (1 - 1 / vocabulary.alphabet))
    shares = {"late EOS": ~stops[:, -1], "early EOS": stops[:, :-1].any(1)}
    return {name: Trial("stop", float(share.float().mean()), control, FRESH) for name, share in shares.items()}


def _smallest_share(right: Bool[np.ndarray, "A"], draws: int) -> float:
    """The smaller of the shares with either asked token."""
    return float(np.reshape(right, (-1, draws)).mean(1).min())
