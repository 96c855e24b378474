"""Does a row need coordinates that training never showed: its own, its source's, or the offset between the two.

Compared with the shortest string there is and one of the longest trained length, layer by layer, in the coordinates
that the model itself uses (index, row and column, or learned ones). Offsets are what schemes that rotate see: from
source to query it is n + b - 1 positions in RoPE, and one row and b - a - 2 columns in 2D-RoPE, whatever the length n.

Shape letters: T tokens, C coordinates, R scored rows.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from transformer_lens.hook_points import HookPoint

from analyses.questions import Question
from models.transformer import CopyTransformer

EMBEDDING = -1  # layer of coordinates that are added to the embedding
_TOLERANCE = 1e-3  # of learned coordinates


@dataclass(frozen=True)
class CoordinateRange:
    """One coordinate in one layer.

    Attributes:
        layer: index, EMBEDDING where positions are added to the embedding.
        name: "index", "row" or "column".
        query, source: of the row and of its true source.
        trained: largest at any scored row or its source in trained strings.
        trained_offset: smallest and largest query minus source there.
    """

    layer: int
    name: str
    query: float
    source: float
    trained: float
    trained_offset: tuple[float, float]

    @property
    def outside(self) -> bool:
        """A coordinate, or their offset, is outside of what training showed."""
        low, high = self.trained_offset
        offset = self.query - self.source
        far = max(self.query, self.source) > self.trained + _TOLERANCE
        return far or not low - _TOLERANCE <= offset <= high + _TOLERANCE

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return vars(self) | {"trained_offset": list(self.trained_offset), "outside": self.outside}


class TrainedRanges:
    """Coordinates in trained strings, read once.

    Attributes:
        model: whose coordinates.
        trained: longest trained length.
    """

    def __init__(self, model: CopyTransformer, trained: int, seed: int = 0) -> None:
        self.model, self.trained = model, trained
        string = np.random.default_rng(seed).integers(model.vocabulary.alphabet, size=trained)
        whole = [Question(string[:n], n) for n in sorted({1, trained})]
        rows = [_scored_coordinates(model, question) for question in whole]
        self._rows = {layer: np.concatenate([read[layer] for read in rows]) for layer in rows[0]}

    def of(self, question: Question) -> tuple[CoordinateRange, ...]:
        """Every coordinate of every layer at one row."""
        found = []
        for layer, rows in _scored_coordinates(self.model, question).items():
            names = ("index",) if rows.shape[2] == 1 else ("row", "column")
            for axis, name in enumerate(names):
                trained = self._rows[layer][:, :, axis]
                offsets = trained[:, 0] - trained[:, 1]
                found.append(
                    CoordinateRange(
                        layer=layer,
                        name=name,
                        query=float(rows[-1, 0, axis]),
                        source=float(rows[-1, 1, axis]),
                        trained=float(trained.max()),
                        trained_offset=(float(offsets.min()), float(offsets.max())),
                    )
                )
        return tuple(found)


@torch.inference_mode()
def read_coordinates(model: CopyTransformer, question: Question) -> dict[int, Float[np.ndarray, "T C"]]:
    """Coordinates by layer, of a prompt up to its query; without the layers that know no positions."""
    kept: dict[int, Float[np.ndarray, "T C"]] = {}

    def keep(tensor: Tensor, hook: HookPoint, layer: int) -> None:
        kept[layer] = tensor[0].float().cpu().numpy()

    layers = {f"blocks.{layer}.attn.hook_coords": layer for layer in range(model.cfg.n_layers)}
    layers["hook_coords"] = EMBEDDING
    hooks = [(name, partial(keep, layer=layer)) for name, layer in layers.items() if name in model.hook_dict]
    if hooks:
        with model.hooks(fwd_hooks=hooks):
            model(torch.from_numpy(question.prompt(model.vocabulary)), return_type=None)
    return dict(sorted(kept.items()))


def _scored_coordinates(model: CopyTransformer, question: Question) -> dict[int, Float[np.ndarray, "R 2 C"]]:
    """By layer, coordinates of the queries up to the asked one, and of their true sources."""
    vocabulary, index = model.vocabulary, np.arange(question.index + 1)
    places = np.stack([vocabulary.a + question.length + vocabulary.b - 1 + index, vocabulary.a + index], axis=1)
    return {layer: coords[places] for layer, coords in read_coordinates(model, question).items()}
