"""What probes read: activations of the residual stream and of heads at the rows of many strings, and where they stand.

Shape letters: R rows, S sites, F features, G groups of lengths.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int
from torch import Tensor
from transformer_lens.hook_points import HookPoint

from analyses.relations import Relations, relations_of
from analyses.samples import Sample
from models.errors import UsageError
from models.evaluation import TOKENS_AT_ONCE, in_parts
from models.positions import Places
from models.transformer import CopyTransformer

ROWS = ("copy", "source", "both")
LEAST_LENGTHS, MOST_GROUPS = 4, 6


@dataclass(frozen=True)
class Site:
    """Where activations are read.

    Attributes:
        hook: full name of the hook.
        layer: index.
        head: of `hook_z`, None in the residual stream.
    """

    hook: str
    layer: int
    head: int | None = None

    @property
    def name(self) -> str:
        """Short and unique: "resid_pre 0", "head 0.1", "resid_post 1"."""
        if self.head is not None:
            return f"head {self.layer}.{self.head}"
        return f"{self.hook.rsplit('.hook_', 1)[-1]} {self.layer}"


@dataclass(frozen=True)
class Target:
    """What is read.

    Attributes:
        name: "index" (k of a scored row, i of a source row), "row", "column", or "distance to A1" and so on.
        rows: from "copy" rows (scored ones), "source" rows, or "both" at once, which takes a code the two share.
        also: targets that differ from it by a constant on these rows, so that they are read equally well.
    """

    name: str
    rows: str
    also: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All that it stands for."""
        return (self.name, *self.also)


@dataclass(frozen=True)
class Readings:
    """Activations and where their rows stand.

    Attributes:
        sites: S of them.
        features: of each site, float32[R, F].
        values: of each target, Float[R]; NaN where a row cannot know it (the distance to a B ahead).
        in_copy: the row is a scored one, else a source row.
        string, group: Int[R] the row's string, and the group its length is in.
        groups: lengths of every group.
    """

    sites: tuple[Site, ...]
    features: tuple[Float32[np.ndarray, "R F"], ...]
    values: dict[str, Float[np.ndarray, "R"]]
    in_copy: Bool[np.ndarray, "R"]
    string: Int[np.ndarray, "R"]
    group: Int[np.ndarray, "R"]
    groups: tuple[tuple[int, ...], ...]

    def picked(self, rows: str) -> Bool[np.ndarray, "R"]:
        """The rows of a kind."""
        return {"copy": self.in_copy, "source": ~self.in_copy, "both": np.ones_like(self.in_copy)}[rows]


def sites_of(model: CopyTransformer) -> tuple[Site, ...]:
    """The stream before every layer, followed by its heads, and the stream after the last layer."""
    sites = []
    for layer, heads in enumerate(model.cfg.heads):
        sites.append(Site(f"blocks.{layer}.hook_resid_pre", layer))
        sites += [Site(f"blocks.{layer}.attn.hook_z", layer, head) for head in range(heads)]
    last = model.cfg.n_layers - 1
    return (*sites, Site(f"blocks.{last}.hook_resid_post", last))


@torch.inference_mode()
def read_activations(model: CopyTransformer, samples: Sequence[Sample], rows_per_string: int) -> Readings:
    """Run the model on the plain samples and keep the rows that are probed.

    Copy rows are those between copied tokens, k = 1..n-1: at k = 0 and n the token itself or its answer (EOS) gives the
    index away. Rows and columns are those of the separator, whatever the model's scheme.

    Args:
        model: in any mode; it is not changed.
        samples: plain ones are used, of at least LEAST_LENGTHS lengths; neighbouring ones share a group.
        rows_per_string: at most so many copy rows and source rows of each string, evenly spaced.

    Raises:
        UsageError: too few lengths.
    """
    plain = [sample.batch for sample in samples if sample.kind == "plain"]
    lengths = sorted({int(n) for batch in plain for n in batch.lengths if n > 1})
    if len(lengths) < LEAST_LENGTHS:
        raise UsageError(
            f"probes are tested across lengths, and plain strings of {len(lengths)} lengths above 1 were given; "
            f"give at least {LEAST_LENGTHS}"
        )
    groups = tuple(tuple(part.tolist()) for part in np.array_split(lengths, min(MOST_GROUPS, len(lengths))))
    of_length = {n: group for group, members in enumerate(groups) for n in members}
    sites = sites_of(model)
    kept: dict[str, list[np.ndarray]] = {site.hook: [] for site in sites}
    places: list[tuple[int, dict[str, np.ndarray]]] = []

    def keep(tensor: Tensor, hook: HookPoint, strings: Tensor, rows: Tensor) -> None:
        kept[str(hook.name)].append(tensor[strings, rows].float().cpu().numpy())

    for batch in (part for whole in plain for part in in_parts(whole, TOKENS_AT_ONCE)):
        rule = Places(batch.tokens, batch.pad_mask, batch.vocabulary.delimiter[0]).row_column.cpu().numpy()
        which, rows = [], []
        for string, n in enumerate(batch.lengths.tolist()):
            if n > 1:
                at, where = _where(relations_of(batch, string), rule[string], rows_per_string)
                places.append((of_length[n], where))
                which.append(np.full(len(at), string))
                rows.append(at)
        if rows:
            strings, at_rows = (torch.from_numpy(np.concatenate(part)).to(model.device) for part in (which, rows))
            reader = partial(keep, strings=strings, rows=at_rows)
            with model.hooks(fwd_hooks=[(name, reader) for name in kept]):
                model(batch.tokens, return_type=None, pad_mask=batch.pad_mask)
    found = {name: np.concatenate(parts) for name, parts in kept.items()}
    sizes = [len(where["index"]) for _, where in places]
    values = {name: np.concatenate([where[name] for _, where in places]) for name in places[0][1]}
    return Readings(
        sites=sites,
        features=tuple(found[site.hook] if site.head is None else found[site.hook][:, site.head] for site in sites),
        in_copy=values.pop("in copy") > 0,
        values=values,
        string=np.repeat(np.arange(len(places)), sizes),
        group=np.repeat([group for group, _ in places], sizes),
        groups=groups,
    )


def _where(relations: Relations, rule: np.ndarray, most: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Rows of a string that are probed, and where they stand."""
    parts = [relations.source_rows, relations.copy_rows[1:-1]]
    rows = np.concatenate([part[np.unique(np.linspace(0, len(part) - 1, most).round().astype(int))] for part in parts])
    where = {"in copy": rows >= relations.copy_rows[0], "index": relations.index_of(rows).astype(float)}
    where |= {"row": rule[rows, 0].astype(float), "column": rule[rows, 1].astype(float)}
    for at, anchor in enumerate(relations.anchors.tolist()):
        name = f"A{at + 1}" if at < relations.a else f"B{at + 1 - relations.a}"
        where[f"distance to {name}"] = np.where(rows > anchor, rows - anchor, np.nan)
    return rows, where


def targets_of(read: Readings) -> tuple[tuple[Target, ...], dict[tuple[str, str], str]]:
    """What can be asked for, those that differ by a constant together; and why (target, rows) cannot be."""
    targets, excluded = [], {}
    for rows in ROWS:
        picked = read.picked(rows)
        found: dict[str, list[str]] = {}
        for name, everywhere in read.values.items():
            values = everywhere[picked]
            if np.isnan(values).any():
                excluded[name, rows] = "not all of these rows stand behind it"
            elif not np.ptp(values):
                excluded[name, rows] = "it is the same in all of these rows"
            else:
                same = (first for first in found if not np.ptp(read.values[first][picked] - values))
                found.setdefault(next(same, name), []).append(name)
        targets += [Target(first, rows, tuple(names[1:])) for first, names in found.items()]
    return tuple(targets), excluded
