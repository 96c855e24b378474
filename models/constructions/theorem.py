"""Theorem 3.1 of [C2D] as a check that runs: no one-layer shift-invariant attention copies every short binary string.

Scope: one head whose output is the logits, without residual connection, MLP, or a norm after attention, and a score
that depends on positions only through query minus key (RoPE, NoPE, ALiBi, a local window).

There the difference of the logits of 0 and 1, times the softmax's denominator, is a sum over the tokens read: c at
distance d from the query token q adds X_d(c) = exp(score) times c's own difference. Call it D(s, k) for the query of
copied token k (1-based) of s. D must be positive where that token is 0 and negative where it is 1. But

    D(000, 3) - D(0101, 2) - D(00101, 3) + D(001111, 2) = 0

term by term, whatever X is, while right answers make all four terms positive. That is a proof for lengths up to 6.

For lengths up to 5 the paper's own proof compares (00010, 2) with (01000, 2) and (100, 3) with (001, 3). The last two
also differ in their first copied token, which the proof leaves out; what it shows is only X_1(0) < X_1(1), q = 0. A
model with X_1(0) >= X_1(1) does fail on a string of at most 5 tokens, by one of

    D(00, 2) - D(01, 2) = X_{b+1}(0) - X_{b+1}(1)
    D(100, 3) - D(001, 3) + D(00011, 3) - D(00110, 3) = X_1(1) - X_1(0)

where the right-hand side is not positive. In general length 6 is needed: `tests/test_theorem.py` builds a single RoPE
head in this scope that copies all 62 strings of up to 5 tokens.
"""

import math
from dataclasses import dataclass

import torch

from models.config import TaskSettings
from models.errors import UsageError
from models.positions import SCHEMES
from models.tasks import CopyTask
from models.transformer import CopyTransformer

Query = tuple[str, int]
# Strings and the 1-based index of the copied token that is asked for; the first two hold for some models only.
IDENTITIES: tuple[tuple[Query, ...], ...] = (
    (("00", 2), ("01", 2)),
    (("100", 3), ("001", 3), ("00011", 3), ("00110", 3)),
    (("000", 3), ("0101", 2), ("00101", 3), ("001111", 2)),
)


@dataclass(frozen=True)
class Case:
    """One query of the contradiction.

    Attributes:
        string: what is to be copied.
        index: 1-based index of the copied token that is asked for.
        target: the right answer, 0 or 1.
        margin: logit of the right minus that of the wrong answer; right answers have it positive.
        weight: the softmax's denominator, relative to the largest among the cases.
    """

    string: str
    index: int
    target: int
    margin: float
    weight: float

    @property
    def term(self) -> float:
        """Margin times weight: what adds up to at most zero over the cases."""
        return self.margin * self.weight


@dataclass(frozen=True)
class Contradiction:
    """Queries that cannot all be answered rightly.

    Attributes:
        cases: the queries; if all were right, every term would be positive.
        total: sum of their terms: zero up to rounding, or negative.
        longest: tokens in the longest string among them, at most 6.
    """

    cases: tuple[Case, ...]
    total: float
    longest: int

    @property
    def wrong(self) -> tuple[Case, ...]:
        """The cases that the model gets wrong."""
        return tuple(case for case in self.cases if case.margin <= 0)


def contradict(model: CopyTransformer) -> Contradiction:
    """Return strings of at most 6 tokens, of at most 5 where the model allows it, that `model` cannot all copy.

    Raises UsageError for a model outside the theorem's scope, and names what is outside.
    """
    outside = _outside(model)
    if outside:
        raise UsageError(
            "theorem 3.1 is about one head without residual connection, MLP or norm after it, and a shift-invariant "
            f"positional scheme; this model has {outside}"
        )
    found = [_measure(model, queries) for queries in IDENTITIES]
    return next((contradiction for contradiction in found[:-1] if contradiction.total <= 0), found[-1])


def _outside(model: CopyTransformer) -> str:
    """What puts the model outside the theorem's scope, or nothing."""
    settings = model.settings
    named = settings.scheme_of(0)
    scheme = SCHEMES[named.scheme]
    problems = {
        f"{settings.n_layers} layers": settings.n_layers != 1,
        f"{settings.heads[0]} heads": settings.heads[0] != 1,
        "a residual connection": settings.residual,
        "an MLP": settings.mlp_width > 0,
        "a norm after attention": settings.normalization != "none"
        and (settings.final_norm or settings.norm_placement == "post"),
        f"the scheme {named.scheme}": scheme.at_embedding or scheme.n_coords > 1,
    }
    return " and ".join(problem for problem, present in problems.items() if present)


@torch.inference_mode()
def _measure(model: CopyTransformer, queries: tuple[Query, ...]) -> Contradiction:
    vocabulary = model.vocabulary
    task = CopyTask(TaskSettings(a=vocabulary.a, b=vocabulary.b, separator=vocabulary.separator))
    task.vocabulary = vocabulary
    margins, log_weights = [], []
    for string, index in queries:
        batch = task.encode([string])
        row = int(batch.scored_rows[0][0, index - 1])
        target = int(string[index - 1])
        logits, cache = model.run_with_cache(batch.tokens, names_filter="blocks.0.attn.hook_attn_scores")
        margins.append(float(logits[0, row, target] - logits[0, row, 1 - target]))
        scores = cache["blocks.0.attn.hook_attn_scores"][0, 0, row].double()
        log_weights.append(float(scores.logsumexp(0)))
    heaviest = max(log_weights)
    cases = tuple(
        Case(string, index, int(string[index - 1]), margin, math.exp(log_weight - heaviest))
        for (string, index), margin, log_weight in zip(queries, margins, log_weights, strict=True)
    )
    return Contradiction(cases, sum(case.term for case in cases), max(len(string) for string, _ in queries))
