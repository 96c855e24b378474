"""Copies as rows of a table: how repetitive and how long each string is, whether it is copied, and by which margin.

The margin of a string is the smallest, over its rows, of logit(right) - largest other logit. It is negative exactly
where the copy fails, and it shrinks before it is: what will go wrong next can be seen while everything is still right.

Shape letters: N strings, R scored rows, V vocabulary.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from analyses.repetition import repetition
from models.errors import UsageError
from models.evaluation import TOKENS_AT_ONCE, wilson
from models.tasks import CopyBatch, CopyTask
from models.transformer import CopyTransformer


@dataclass(frozen=True, eq=False)
class Copies:
    """Strings and their copies, one row a string.

    Attributes:
        distribution: str[N] registered names.
        length: int64[N] tokens.
        shared: float64[N] mean over a string's positions of the longest context that another position shares, tokens.
        exact: bool[N] copied exactly.
        margin: float64[N] smallest over the string's rows of logit(right) - largest other logit.
    """

    distribution: np.ndarray
    length: Int[np.ndarray, "N"]
    shared: Float[np.ndarray, "N"]
    exact: Bool[np.ndarray, "N"]
    margin: Float[np.ndarray, "N"]

    def __len__(self) -> int:
        return len(self.length)

    @property
    def repetition(self) -> Float[np.ndarray, "N"]:
        """log2(1 + shared): periodic strings share contexts of nearly their whole length."""
        return np.log2(1 + self.shared)

    def curve(self, distribution: str) -> list[tuple[int, int, int, tuple[float, float]]]:
        """(length, strings, exact, 95 % Wilson interval) of every length of one distribution, ascending."""
        mine = self.distribution == distribution
        found = []
        for length in np.unique(self.length[mine]).tolist():
            exact = self.exact[mine & (self.length == length)]
            found.append((length, len(exact), int(exact.sum()), wilson(int(exact.sum()), len(exact))))
        return found


def read_copies(
    model: CopyTransformer,
    task: CopyTask,
    *,
    lengths: Sequence[int],
    distributions: Sequence[str],
    strings: int,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Copies:
    """Draw strings, copy them, and measure both.

    The strings are those of `models.evaluation.evaluate` with the same seed and intervals (length, length).

    Args:
        model: that copies.
        task: prefix, delimiter and alphabet.
        lengths: of the strings.
        distributions: registered names.
        strings: of each distribution and length.
        seed: of the strings.
        progress: called with the share that is done.

    Raises:
        UsageError: nothing to draw, or an impossible length or name.
    """
    if not lengths or not distributions or strings < 1:
        raise UsageError("no copies to read: give at least one length, one distribution and one string")
    pairs = [(distribution, length) for distribution in distributions for length in lengths]
    work = np.cumsum([float(length) for _, length in pairs])
    shared, exact, margin = [], [], []
    for at, (distribution, length) in enumerate(pairs):
        generator = torch.Generator().manual_seed(zlib.crc32(f"{seed}/{distribution}/{length}-{length}".encode()))
        batch = task.sample(strings, generator, lengths=length, distribution=distribution)
        right, margins = read_margins(model, batch)
        exact.append(right)
        margin.append(margins)
        shared.append([shared_context(row, task.vocabulary.alphabet) for row in batch.strings.numpy()])
        if progress is not None:
            progress(work[at] / work[-1])
    return Copies(
        distribution=np.repeat([distribution for distribution, _ in pairs], strings),
        length=np.repeat(np.array([length for _, length in pairs], np.int64), strings),
        shared=np.concatenate(shared),
        exact=np.concatenate(exact),
        margin=np.concatenate(margin),
    )


def shared_context(string: Int[np.ndarray, "n"], alphabet: int) -> float:
    """Mean over positions of the longest context that another position shares, in tokens."""
    return float(repetition(string, alphabet=alphabet, orders=1).longest_match.mean())


@torch.inference_mode()
def read_margins(model: CopyTransformer, batch: CopyBatch) -> tuple[Bool[np.ndarray, "N"], Float[np.ndarray, "N"]]:
    """Which strings are copied exactly, and each one's smallest margin."""
    exact, margin = [], []
    at_once = max(1, TOKENS_AT_ONCE // batch.tokens.shape[1])
    for start in range(0, len(batch), at_once):
        part = batch.select(list(range(start, min(start + at_once, len(batch)))))
        rows, exists = part.scored_rows
        logits = model(part.tokens, rows=rows.to(model.device), pad_mask=part.pad_mask).float().cpu()
        target = part.targets.gather(1, rows).cpu()[..., None]
        exact.append(((logits.argmax(-1, keepdim=True) == target)[..., 0] | ~exists).all(1))
        others = logits.scatter(-1, target, -torch.inf).amax(-1)
        by_row = logits.gather(-1, target)[..., 0] - others
        margin.append(torch.where(exists, by_row, torch.inf).amin(1))
    return torch.cat(exact).numpy(), torch.cat(margin).double().numpy()
