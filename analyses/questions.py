"""One row of one copy: a string, copied rightly up to an index, and the question what comes there.

Whatever stands after the asked row is invisible to it, so questions about strings of any lengths go through the model
in one batch, filled up behind with any token; no padding is needed and none is seen.

Shape letters: N questions, T tokens, V vocabulary.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from models.evaluation import TOKENS_AT_ONCE
from models.tasks import Vocabulary
from models.transformer import CopyTransformer


@dataclass(frozen=True, eq=False)
class Question:
    """What comes at `index` of the copy of `string`.

    Attributes:
        string: int64[n] source tokens.
        index: 0..n, n asks for EOS.
    """

    string: Int[np.ndarray, "n"]
    index: int

    @property
    def length(self) -> int:
        """Tokens of the string."""
        return len(self.string)

    @property
    def asks_eos(self) -> bool:
        """The string is over: EOS is due."""
        return self.index == len(self.string)

    def target(self, vocabulary: Vocabulary) -> int:
        """Id of the right answer."""
        return vocabulary.eos if self.asks_eos else int(self.string[self.index])

    def prompt(self, vocabulary: Vocabulary) -> Int[np.ndarray, "T"]:
        """Tokens up to the query: prefix, string, delimiter, the copy so far."""
        return np.concatenate([vocabulary.prefix, self.string, vocabulary.delimiter, self.string[: self.index]])

    def key_positions(self, vocabulary: Vocabulary) -> tuple[Int[np.ndarray, "P"], Int[np.ndarray, "C"]]:
        """Where each index stands: in the source (B1 for n, P = n + 1), and in the copy so far (C = index)."""
        n, a = self.length, vocabulary.a
        return a + np.arange(n + 1), a + n + vocabulary.b + np.arange(self.index)


def encode(vocabulary: Vocabulary, questions: Sequence[Question]) -> tuple[Int[Tensor, "N T"], Int[Tensor, "N"]]:
    """Prompts filled up to the longest with token 0, and the position of each query."""
    prompts = [question.prompt(vocabulary) for question in questions]
    tokens = torch.zeros(len(prompts), max(map(len, prompts)), dtype=torch.long)
    for row, prompt in enumerate(prompts):
        tokens[row, : len(prompt)] = torch.from_numpy(prompt)
    return tokens, torch.tensor([len(prompt) - 1 for prompt in prompts])


def in_batches(vocabulary: Vocabulary, questions: Sequence[Question]) -> Iterator[list[int]]:
    """Indices of questions of similar lengths that go through a model together."""
    fixed = vocabulary.a + vocabulary.b
    width = [fixed + question.length + question.index for question in questions]
    order = sorted(range(len(questions)), key=lambda i: -width[i])
    while order:
        fits = max(1, TOKENS_AT_ONCE // width[order[0]])
        yield order[:fits]
        order = order[fits:]


@torch.inference_mode()
def ask(model: CopyTransformer, questions: Sequence[Question]) -> Float[np.ndarray, "N V"]:
    """Logits of the answers, float32."""
    logits = np.zeros((len(questions), len(model.vocabulary)), np.float32)
    for part in in_batches(model.vocabulary, questions):
        tokens, at = encode(model.vocabulary, [questions[i] for i in part])
        logits[part] = model(tokens, rows=at[:, None].to(model.device))[:, 0].float().cpu().numpy()
    return logits


def targets(vocabulary: Vocabulary, questions: Sequence[Question]) -> Int[np.ndarray, "N"]:
    """Ids of the right answers."""
    return np.array([question.target(vocabulary) for question in questions], np.int64)


def is_right(model: CopyTransformer, questions: Sequence[Question]) -> np.ndarray:
    """Bool[N]: the largest logit is the target's."""
    if not questions:
        return np.zeros(0, bool)
    return ask(model, questions).argmax(-1) == targets(model.vocabulary, questions)
