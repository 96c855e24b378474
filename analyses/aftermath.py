"""What a model does after its first error, left to itself: which part of the string it goes on with, and where it ends.

Shape letters: n tokens of the string, G tokens of the continuation.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Int

from analyses.questions import Question
from models.transformer import CopyTransformer

STEPS = 32  # tokens of the continuation
# Tokens in a row that follow the string beyond those that some place or other of it would match by chance, log n to the
# base of the alphabet; at most alphabet^-6 of continuations that follow nothing are taken for a slip.
BEYOND_CHANCE = 6


@dataclass(frozen=True)
class Aftermath:
    """A greedy continuation from the first error on.

    Attributes:
        continuation: ids, the first is the error; EOS, if it came, is the last.
        slip: by how many positions the continuation is ahead of the string (negative: it has jumped back); 0 where the
            error is the only one, None where it follows no part of the string for longer than by chance.
        follows: tokens from the error on that agree with the string at the best offset, EOS as the string's last token.
        recovers_at: index from which every token is right again, more of them than by chance or up to EOS; None
            otherwise.
        stops_at: index at which EOS came, None where it did not within the continuation.
    """

    continuation: tuple[int, ...]
    slip: int | None
    follows: int
    recovers_at: int | None
    stops_at: int | None

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return vars(self) | {"continuation": list(self.continuation)}


def aftermath(model: CopyTransformer, failure: Question, steps: int = STEPS) -> Aftermath:
    """Let the model go on from its first wrong row, `steps` tokens or up to EOS."""
    vocabulary = model.vocabulary
    tokens = continue_greedily(model, failure.prompt(vocabulary), steps)
    string = np.append(failure.string, vocabulary.eos)
    offset, follows = best_offset(string, failure.index, tokens)
    least = int(np.ceil(np.log(len(string)) / np.log(vocabulary.alphabet))) + BEYOND_CHANCE
    recovers_at = _recovery(string, failure.index, tokens, least)
    slipped = follows >= least or follows == len(tokens)
    stopped = int(tokens[-1]) == vocabulary.eos
    return Aftermath(
        continuation=tuple(int(token) for token in tokens),
        slip=offset if slipped else 0 if recovers_at == failure.index + 1 else None,
        follows=follows,
        recovers_at=recovers_at,
        stops_at=failure.index + len(tokens) - 1 if stopped else None,
    )


@torch.inference_mode()
def continue_greedily(model: CopyTransformer, prompt: Int[np.ndarray, "T"], steps: int) -> Int[np.ndarray, "G"]:
    """Greedy tokens after a prompt, up to EOS, at most `steps`."""
    tokens = torch.from_numpy(prompt).to(model.device)
    for _ in range(steps):
        last = range(len(tokens) - 1, len(tokens))
        token = model(tokens, rows=last)[0, 0].argmax()
        tokens = torch.cat([tokens, token[None]])
        if int(token) == model.vocabulary.eos:
            break
    return tokens[len(prompt) :].cpu().numpy()


def best_offset(string: Int[np.ndarray, "n"], index: int, tokens: Int[np.ndarray, "G"]) -> tuple[int, int]:
    """The offset at which `tokens`, put at `index`, follow `string` longest, the smallest of equals, and how long."""
    padded = np.concatenate([string, np.full(len(tokens), -1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, len(tokens))[: len(string)]
    runs = np.cumprod(windows == tokens, axis=1).sum(1)
    offsets = np.arange(len(string)) - index
    best = np.lexsort((offsets, np.abs(offsets), -runs))[0]
    return int(offsets[best]), int(runs[best])


def _recovery(string: Int[np.ndarray, "n"], index: int, tokens: Int[np.ndarray, "G"], least: int) -> int | None:
    expected = string[index : index + len(tokens)]
    if len(expected) < len(tokens):
        return None
    wrong = np.flatnonzero(tokens != expected)
    begin = int(wrong[-1]) + 1 if len(wrong) else 0
    to_the_end = index + len(tokens) == len(string) and begin < len(tokens)
    return index + begin if to_the_end or len(tokens) - begin >= least else None
