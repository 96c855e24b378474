"""How a model copies one string, token by token: fed the right copy (teacher-forced), or its own (free-running).

The teacher-forced copy may be fed other tokens at some places: what a model does after an error that it did not make.

Free-running greedy decoding feeds the model what it predicted. Here the whole copy is guessed and read in one pass: a
prediction counts once everything before it is what the model itself predicted, so each pass settles all tokens up to
the first wrong guess, and the predictions behind it are the next guess. The result is that of decoding token by token
(`models.evaluation.greedy_copy`), in about as many passes as there are errors.

Shape letters: T tokens, R scored rows (n + 1), K copied tokens, L layers, C coordinates.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Float32, Int64
from torch import Tensor

from analyses.passes import ReadString, read_string
from models.errors import UsageError
from models.tasks import CopyBatch
from models.transformer import CopyTransformer

MOST_WORK = 200_000  # tokens that all passes of a free-running copy read together


@dataclass(frozen=True)
class Decoded:
    """One copy of one string.

    Attributes:
        free: the model was fed its own predictions, not a given copy.
        string: the patterns; tokens behind the end of a free-running copy are guesses.
        rows: int64[R] the query that predicts each token of the copy, EOS last.
        targets: int64[R] the right answers.
        predicted: int64[K] the answers; K = R, or less where a free-running copy ended early.
        confidence: float32[K] probability of the answer.
        right_probability: float32[K] probability of the right answer.
        coords: by layer, float32[T, C] coordinates, None where its attention has no positions.
        steps: by layer, float32[T, 2] learned steps (u, v), None for other schemes.
        cut: a free-running copy was ended, since it took too many passes.
    """

    free: bool
    string: ReadString
    rows: Int64[np.ndarray, "R"]
    targets: Int64[np.ndarray, "R"]
    predicted: Int64[np.ndarray, "K"]
    confidence: Float32[np.ndarray, "K"]
    right_probability: Float32[np.ndarray, "K"]
    coords: tuple[Float32[np.ndarray, "T C"] | None, ...]
    steps: tuple[Float32[np.ndarray, "T 2"] | None, ...]
    cut: bool = False

    @property
    def first_error(self) -> int | None:
        """Index of the first wrong token of the copy (n for EOS), None where there is none."""
        wrong = np.flatnonzero(self.predicted != self.targets[: len(self.predicted)])
        return int(wrong[0]) if len(wrong) else None

    @property
    def exact(self) -> bool:
        """Every token and EOS right."""
        return len(self.predicted) == len(self.targets) and self.first_error is None

    @property
    def last_row(self) -> int:
        """The last query that was really read: the one that predicts the copy's last token."""
        return int(self.rows[len(self.predicted) - 1])

    @property
    def nbytes(self) -> int:
        """Memory of its arrays."""
        patterns = sum(p.q.nbytes + p.k.nbytes + p.lse.nbytes for layer in self.string.patterns for p in layer)
        return patterns + sum(part.nbytes for part in (*self.coords, *self.steps) if part is not None)


def teacher_forced(model: CopyTransformer, batch: CopyBatch, fed: Mapping[int, int] | None = None) -> Decoded:
    """Read a batch of one string, fed the right copy.

    Args:
        model: not changed.
        batch: one string.
        fed: by index in the copy, the id of the token that is fed there in place of the right one. The right answers
            stay those of the string.

    Raises:
        UsageError: there is no such place in the copy, or no such source token.
    """
    batch = _single(batch)
    if not fed:
        return _decoded(model, batch)
    n, alphabet, tokens = int(batch.lengths[0]), batch.vocabulary.alphabet, batch.tokens.clone()
    first = int(batch.scored_rows[0][0, 0]) + 1
    for index, token in fed.items():
        if not (0 <= index < n and 0 <= token < alphabet):
            raise UsageError(
                f"token {token} cannot be fed as copied token {index}: give an index from 0 to {n - 1} and a token "
                f"from 0 to {alphabet - 1}"
            )
        tokens[0, first + index] = token
    return _decoded(model, replace(batch, tokens=tokens))


def free_running(model: CopyTransformer, batch: CopyBatch, *, most_work: int = MOST_WORK) -> Decoded:
    """Let a model copy a batch of one string, fed its own predictions, until EOS or one token more than the string has.

    Args:
        model: not changed.
        batch: one string.
        most_work: tokens that all passes may read together; a copy that needs more is cut.
    """
    fed, answers, cut = _decode(model, _single(batch), most_work)
    return _decoded(model, fed, answers, cut)


def _single(batch: CopyBatch) -> CopyBatch:
    if len(batch) != 1:
        raise UsageError(f"a batch of {len(batch)} strings cannot be decoded at once; give one string")
    return batch.to("cpu")


@torch.inference_mode()
def _decode(model: CopyTransformer, batch: CopyBatch, most_work: int) -> tuple[CopyBatch, Tensor, bool]:
    """The batch fed the model's own copy, the ids of that copy, and whether it was cut."""
    rows = batch.scored_rows[0][0]
    first, end = int(rows[0]), int(rows[-1]) + 1
    tokens, settled, work = batch.tokens.clone(), 0, 0
    answers = torch.zeros(len(rows), dtype=torch.long)
    while settled < len(rows):
        if settled and work + tokens.shape[1] > most_work:
            return replace(batch, tokens=tokens), answers[:settled], True
        answers[settled:] = model(tokens, rows=range(first + settled, end))[0].argmax(-1).cpu()
        work += tokens.shape[1]
        guessed = tokens[0, first + 1 + settled :]
        agrees = torch.cat([guessed == answers[settled:-1], torch.tensor([False])])
        ends = answers[settled:] == batch.vocabulary.eos
        settled += int((~agrees | ends).int().argmax()) + 1
        if bool(answers[settled - 1] == batch.vocabulary.eos):
            break
        tokens[0, first + settled :] = answers[settled - 1 : -1]
    return replace(batch, tokens=tokens), answers[:settled], False


@torch.inference_mode()
def _read(model: CopyTransformer, batch: CopyBatch) -> tuple[Tensor, dict[str, np.ndarray]]:
    """Probabilities float32[R, V] at the scored rows, and coordinates and steps by hook name."""
    places: dict[str, np.ndarray] = {}

    def keep(tensor: Tensor, hook: object, name: str) -> None:
        places[name] = tensor[0].float().cpu().numpy()

    names = [
        name
        for layer in range(model.cfg.n_layers)
        for point in ("coords", "step")
        if (name := f"blocks.{layer}.attn.hook_{point}") in model.hook_dict
    ]
    rows = batch.scored_rows[0].to(model.device)
    with model.hooks(fwd_hooks=[(name, partial(keep, name=name)) for name in names]):
        logits = model(batch.tokens, rows=rows)
    return logits[0].float().softmax(-1).cpu(), places


def _decoded(model: CopyTransformer, batch: CopyBatch, answers: Tensor | None = None, cut: bool = False) -> Decoded:
    """What a model says to a batch as it is fed; `answers` are those of a free-running copy."""
    probabilities, places = _read(model, batch)
    free = answers is not None
    answers = probabilities.argmax(-1) if answers is None else answers
    rows = batch.scored_rows[0][0]
    targets, at = batch.targets[0, rows], torch.arange(len(answers))
    layers = range(model.cfg.n_layers)
    return Decoded(
        free,
        read_string(model, batch, 0),
        rows.numpy(),
        targets.numpy(),
        answers.numpy(),
        probabilities[at, answers].numpy(),
        probabilities[at, targets[: len(answers)]].numpy(),
        tuple(places.get(f"blocks.{layer}.attn.hook_coords") for layer in layers),
        tuple(places.get(f"blocks.{layer}.attn.hook_step") for layer in layers),
        cut,
    )
