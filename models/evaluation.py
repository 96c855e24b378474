"""Exact match and token accuracy from one teacher-forced pass ([C2D] appendix B).

Greedy decoding copies a string exactly if and only if the teacher-forced argmax is right at every copied position
and at EOS: up to the first error both see the same tokens. So one pass scores a string, in memory linear in its length.

Shape letters: B batch, T tokens, R scored rows, V vocabulary.
"""

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from models.errors import UsageError
from models.tasks import CopyBatch, CopyTask
from models.transformer import CopyTransformer

# Tokens of one forward pass; a longer string goes alone.
TOKENS_AT_ONCE = 1 << 14
# Scored rows of one long string that go through the last layer at once.
ROWS_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class Score:
    """How well strings of one distribution and length interval were copied.

    Attributes:
        distribution: registered name.
        length, shortest: longest and shortest length that was drawn from (equal for a single length).
        strings: how many were scored.
        exact_match: share copied exactly, EOS included, 0 to 1.
        token_accuracy: share of right tokens among all scored ones, 0 to 1.
        interval: 95 % Wilson interval of exact_match.
        first_errors: index of the first wrong token of every failed string (its length where only EOS is wrong).
    """

    distribution: str
    length: int
    shortest: int
    strings: int
    exact_match: float
    token_accuracy: float
    interval: tuple[float, float]
    first_errors: tuple[int, ...]

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self) | {"interval": list(self.interval), "first_errors": list(self.first_errors)}


@dataclass(frozen=True)
class Outcome:
    """What a model answered at the scored rows of a batch, teacher-forced.

    Attributes:
        predicted: Long[B, R] argmax at the scored rows, in the order of `CopyBatch.scored_rows`.
        right: Bool[B, R] it is the target; true where a shorter string has no such row.
        exists: Bool[B, R] the row exists.
    """

    predicted: Int[Tensor, "B R"]
    right: Bool[Tensor, "B R"]
    exists: Bool[Tensor, "B R"]

    @property
    def exact(self) -> Bool[Tensor, "B"]:
        """Bool[B]: every token and EOS right."""
        return self.right.all(1)

    @property
    def first_error(self) -> Int[Tensor, "B"]:
        """Long[B]: index of the first wrong token, -1 where there is none."""
        return torch.where(self.exact, -1, (~self.right).int().argmax(1))


@torch.inference_mode()
def answer(model: CopyTransformer, batch: CopyBatch, progress: Callable[[float], None] | None = None) -> Outcome:
    """Score a batch in one teacher-forced pass; only the scored rows go through the last layer's query side.

    A long string's rows go through it in chunks; `progress` is then called with each chunk's share of the work, else
    once with 1.
    """
    rows, exists = batch.scored_rows
    if len(batch) == 1 and rows.shape[1] > ROWS_AT_ONCE:
        predicted = _predict_in_chunks(model, batch, rows[0], progress)
    else:
        predicted = model(batch.tokens, rows=rows.to(model.device), pad_mask=batch.pad_mask).argmax(-1).cpu()
        if progress is not None:
            progress(1.0)
    targets = batch.targets.gather(1, rows).cpu()
    return Outcome(predicted, (predicted == targets) | ~exists.cpu(), exists.cpu())


def _predict_in_chunks(
    model: CopyTransformer, batch: CopyBatch, rows: Int[Tensor, "R"], progress: Callable[[float], None] | None
) -> Int[Tensor, "1 R"]:
    """Predictions at consecutive rows of one string, the layers below the last computed once."""
    last = model.cfg.n_layers - 1
    tokens = batch.tokens.to(model.device)
    resid = model(tokens, stop_at_layer=last)
    first, end = int(rows[0]), int(rows[-1]) + 1
    area = (end - first) * (first + end)
    parts = []
    for start in range(first, end, ROWS_AT_ONCE):
        stop = min(start + ROWS_AT_ONCE, end)
        logits = model(tokens, rows=range(start, stop), start_at_layer=last, resid=resid)
        parts.append(logits.argmax(-1).cpu())
        if progress is not None:
            progress((stop - start) * (start + stop) / area)
    return torch.cat(parts, dim=1)


def evaluate(
    model: CopyTransformer,
    task: CopyTask,
    *,
    intervals: Sequence[tuple[int, int]],
    distributions: Sequence[str],
    strings: int = 10,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Iterator[Score]:
    """Yield a Score for every distribution and length interval, as each is finished.

    The strings of an interval depend on `seed`, the distribution and the interval alone, not on what else is evaluated.

    Args:
        model: in any mode; it is not changed.
        task: says prefix, delimiter and alphabet.
        intervals: inclusive (shortest, longest); (200, 200) is one length.
        distributions: registered names.
        strings: strings an interval.
        seed: of the strings.
        progress: called with the number of strings just finished, in fractions where a string is long.

    Raises:
        UsageError: nothing to evaluate, or an impossible length or name.
    """
    if not intervals or not distributions or strings < 1:
        raise UsageError("nothing to evaluate: give at least one length, one distribution and one string")
    for distribution in distributions:
        for shortest, longest in intervals:
            name = f"{seed}/{distribution}/{shortest}-{longest}"
            generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            batch = task.sample(strings, generator, lengths=(shortest, longest), distribution=distribution)
            yield _score(model, batch, distribution, shortest, longest, progress)


def _score(
    model: CopyTransformer,
    batch: CopyBatch,
    distribution: str,
    shortest: int,
    longest: int,
    progress: Callable[[float], None] | None,
) -> Score:
    right = scored = exact = 0
    first_errors: list[int] = []
    for part in in_parts(batch, TOKENS_AT_ONCE):
        outcome = answer(model, part, None if progress is None else partial(_scaled, progress, len(part)))
        right += int((outcome.right & outcome.exists).sum())
        scored += int(outcome.exists.sum())
        exact += int(outcome.exact.sum())
        first_errors += [int(k) for k in outcome.first_error if k >= 0]
    return Score(
        distribution=distribution,
        length=longest,
        shortest=shortest,
        strings=len(batch),
        exact_match=exact / len(batch),
        token_accuracy=right / scored,
        interval=wilson(exact, len(batch)),
        first_errors=tuple(sorted(first_errors)),
    )


def _scaled(progress: Callable[[float], None], factor: int, share: float) -> None:
    progress(share * factor)


def in_parts(batch: CopyBatch, tokens: int) -> Iterator[CopyBatch]:
    """Cut a batch into parts of similar lengths, each at most `tokens` tokens with its padding, at least one string."""
    order = batch.lengths.argsort(descending=True, stable=True).tolist()
    extra = batch.tokens.shape[1] - 2 * int(batch.lengths.max())
    while order:
        width = 2 * int(batch.lengths[order[0]]) + extra
        fits = max(1, tokens // width)
        yield batch.select(order[:fits])
        order = order[fits:]


def wilson(hits: int, n: int, z: float = 1.959964) -> tuple[float, float]:
    """95 % Wilson score interval of a proportion (0 to 1); the whole range for n = 0."""
    if n == 0:
        return 0.0, 1.0
    p = hits / n
    centre = p + z * z / (2 * n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    low = 0.0 if hits == 0 else (centre - half) / scale
    return low, 1.0 if hits == n else (centre + half) / scale


@torch.inference_mode()
def greedy_copy(model: CopyTransformer, batch: CopyBatch) -> list[list[int]]:
    """Free-running greedy decoding, token by token: the ids copied for each string, EOS included if it came.

    Stops at EOS or after the string's length + 1 tokens. Slow; `answer` decides exactness in one pass.
    """
    copies = []
    for row in range(len(batch)):
        n = int(batch.lengths[row])
        start = int(batch.scored_rows[0][row, 0]) + 1
        tokens = batch.tokens[row, :start].tolist()
        for _ in range(n + 1):
            at_end = torch.tensor([[len(tokens) - 1]], device=model.device)
            tokens.append(int(model(torch.tensor([tokens]), rows=at_end)[0, 0].argmax()))
            if tokens[-1] == batch.vocabulary.eos:
                break
        copies.append(tokens[start:])
    return copies
