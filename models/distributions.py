"""Distributions of the source string: one function each, drawn for many strings at once.

A distribution is a function `(settings, n_strings, length, generator) -> Long[N, length]` with values in
`0 .. alphabet-1`. A shorter string is a prefix of a longer one, so a batch of unequal lengths is drawn at
its longest and cut. Adding one is one function and one `@DISTRIBUTIONS.register` line.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from models.errors import UsageError
from models.registry import Registry

if TYPE_CHECKING:
    from models.config import TaskSettings

Draw = Callable[["TaskSettings", int, int, torch.Generator], Tensor]
DISTRIBUTIONS: Registry[Draw] = Registry("distribution")

# Up to this many possible contexts a table of used contexts is kept, see `unique_context`.
_TABLE_LIMIT = 1 << 16
# Redrawing repeats ends soon only where contexts outnumber a string's tokens by this factor times m.
_SPARSE = 4
_WALK_TRIES = 8


@DISTRIBUTIONS.register("uniform")
def uniform(settings: TaskSettings, n_strings: int, length: int, generator: torch.Generator) -> Int[Tensor, "N n"]:
    """Every token independent and fair ([C2D] section 3.1)."""
    return torch.randint(settings.alphabet, (n_strings, length), generator=generator)


@DISTRIBUTIONS.register("imbalanced")
def imbalanced(settings: TaskSettings, n_strings: int, length: int, generator: torch.Generator) -> Int[Tensor, "N n"]:
    """Per string a p from `settings.probabilities`: token 0 with probability p, the others share 1 - p ([C2D] 3.1)."""
    choices = torch.tensor(settings.probabilities, dtype=torch.float64)
    p = choices[torch.randint(len(choices), (n_strings, 1), generator=generator)]
    first = torch.rand(n_strings, length, generator=generator, dtype=torch.float64) < p
    others = torch.randint(1, settings.alphabet, (n_strings, length), generator=generator)
    return torch.where(first, torch.zeros_like(others), others)


@DISTRIBUTIONS.register("recursive-flip")
def recursive_flip(
    settings: TaskSettings, n_strings: int, length: int, generator: torch.Generator
) -> Int[Tensor, "N n"]:
    """Start with one random token and repeat `s <- s + c + s` with a fresh random c, cut to `length` ([C2D] 3.1).

    The c of round r stands at every index (from 1) that 2^r divides and 2^(r+1) does not, so the whole
    string is a look-up of the r-th draw, r the number of trailing zero bits of the index.
    """
    index = torch.arange(1, length + 1)
    trailing_zeros = torch.log2((index & -index).double()).long()
    rounds = torch.randint(settings.alphabet, (n_strings, length.bit_length()), generator=generator)
    return rounds[:, trailing_zeros]


@DISTRIBUTIONS.register("repeat-structure")
def repeat_structure(
    settings: TaskSettings, n_strings: int, length: int, generator: torch.Generator
) -> Int[Tensor, "N n"]:
    """A random block of `settings.period` tokens tiled to `length`, then each token flipped independently.

    A token is flipped with probability `settings.flip`, to another one, uniformly ([C2D] appendix A.2). A block
    survives with probability `(1 - flip) ** period`, the x axis of figure 2.
    """
    block = torch.randint(settings.alphabet, (n_strings, settings.period), generator=generator)
    tiled = block[:, torch.arange(length) % settings.period]
    flip = torch.rand(n_strings, length, generator=generator) < settings.flip
    shift = torch.randint(1, settings.alphabet, (n_strings, length), generator=generator)
    return torch.where(flip, (tiled + shift) % settings.alphabet, tiled)


@DISTRIBUTIONS.register("unique-context")
def unique_context(
    settings: TaskSettings, n_strings: int, length: int, generator: torch.Generator
) -> Int[Tensor, "N n"]:
    """Strings in which no window of m = `settings.context` tokens occurs twice, so context alone finds the source.

    Raises UsageError when `length` is over `alphabet ** m + m - 1`, the longest such string there is. Where windows
    are few the strings are random walks over unused windows, and one that walks into a dead end too often is a
    random Eulerian circuit; where windows far outnumber the string's, repeats are rare and are redrawn.
    """
    m, alphabet = settings.context, settings.alphabet
    limit = alphabet**m + m - 1
    if length > limit:
        raise UsageError(
            f"length {length} is impossible for unique-context: over {alphabet} tokens a string whose {m}-token "
            f"contexts are all different has at most {limit} tokens; raise task.context or task.alphabet, or shorten"
        )
    seed = int(torch.randint(2**62, (1,), generator=generator))
    rng = np.random.default_rng(seed)
    if m == 1:
        return torch.from_numpy(rng.permuted(np.tile(np.arange(alphabet), (n_strings, 1)), axis=1)[:, :length].copy())
    if alphabet**m <= max(_TABLE_LIMIT, _SPARSE * m * length):
        return torch.from_numpy(_walk_unused(rng, n_strings, length, m, alphabet))
    return torch.from_numpy(_redraw_repeats(rng, n_strings, length, m, alphabet))


def _walk_unused(rng: np.random.Generator, n: int, length: int, m: int, alphabet: int) -> np.ndarray:
    """Random walks that step to an unused window, all strings in lock step; dead ends are walked again."""
    strings = np.empty((n, length), dtype=np.int64)
    todo = np.arange(n)
    for _ in range(_WALK_TRIES):
        walked, alive = _walk(rng, len(todo), length, m, alphabet)
        strings[todo[alive]] = walked[alive]
        todo = todo[~alive]
        if not len(todo):
            return strings
    for row in todo:
        strings[row] = _eulerian(rng, length, m, alphabet)
    return strings


def _walk(rng: np.random.Generator, n: int, length: int, m: int, alphabet: int) -> tuple[np.ndarray, np.ndarray]:
    """One walk a string; returns the strings and which of them found an unused window at every step."""
    n_windows = alphabet**m
    strings = rng.integers(alphabet, size=(n, length))
    if length < m:
        return strings, np.ones(n, dtype=bool)
    window = strings[:, :m] @ (alphabet ** np.arange(m - 1, -1, -1))
    used = np.zeros(n * n_windows, dtype=bool)
    base = np.arange(n) * n_windows
    used[base + window] = True
    alive = np.ones(n, dtype=bool)
    for t in range(m, length):
        token = strings[:, t]
        stem = base + window % (alphabet ** (m - 1)) * alphabet
        taken = np.flatnonzero(used[stem + token])
        if len(taken):
            free = ~used[stem[taken, None] + np.arange(alphabet)]
            token[taken] = (rng.random(free.shape) * free).argmax(axis=1)
            alive[taken] &= free.any(axis=1)
        used[stem + token] = True
        window = stem - base + token
    return strings, alive


def _eulerian(rng: np.random.Generator, length: int, m: int, alphabet: int) -> np.ndarray:
    """A random circuit through every edge of the de Bruijn graph of (m-1)-token nodes, cut to `length`.

    A random spanning tree towards the root (Wilson's loop-erased walks) is left last at every node, the
    other edges are taken in random order: every Eulerian circuit can come out (the BEST theorem).
    """
    n_nodes = alphabet ** (m - 1)
    draw = random.Random(int(rng.integers(2**62)))
    root = draw.randrange(n_nodes)
    last = [0] * n_nodes
    in_tree = [node == root for node in range(n_nodes)]
    for start in range(n_nodes):
        node = start
        while not in_tree[node]:
            last[node] = draw.randrange(alphabet)
            node = (node * alphabet + last[node]) % n_nodes
        node = start
        while not in_tree[node]:
            in_tree[node] = True
            node = (node * alphabet + last[node]) % n_nodes
    exits = rng.permuted(np.tile(np.arange(alphabet), (n_nodes, 1)), axis=1).tolist()
    for node, order in enumerate(exits):
        order.reverse()  # popped from the end
        if node != root:  # the tree edge goes last
            order.remove(last[node])
            order.insert(0, last[node])
    tokens = [root // alphabet ** (m - 2 - i) % alphabet for i in range(m - 1)]
    node = root
    while len(tokens) < length:
        tokens.append(exits[node].pop())
        node = (node * alphabet + tokens[-1]) % n_nodes
    return np.array(tokens[:length])


def _redraw_repeats(rng: np.random.Generator, n: int, length: int, m: int, alphabet: int) -> np.ndarray:
    """Uniform strings; where a window repeats an earlier one its last token is drawn again until none does."""
    strings = rng.integers(alphabet, size=(n, length))
    todo = np.arange(n)
    while len(todo):
        rows, windows = np.nonzero(_repeated(strings[todo], m, alphabet))
        strings[todo[rows], windows + m - 1] = rng.integers(alphabet, size=len(rows))
        todo = todo[np.unique(rows)]
    return strings


def _repeated(strings: np.ndarray, m: int, alphabet: int) -> np.ndarray:
    """Bool[N, n - m + 1]: which windows of m tokens occurred before in their string.

    Windows are compared as base-`alphabet` numbers modulo 2^64, so beyond that a new one may be taken for a repeat
    (and needlessly redrawn), never a repeat for a new one.
    """
    n_windows = max(strings.shape[1] - m + 1, 0)
    codes = np.zeros((len(strings), n_windows), dtype=np.int64)
    for i in range(m):
        codes = codes * alphabet + strings[:, i : i + n_windows]
    order = np.argsort(codes, axis=1, kind="stable")
    ranked = np.take_along_axis(codes, order, axis=1)
    repeated = np.zeros(codes.shape, dtype=bool)
    np.put_along_axis(repeated, order[:, 1:], ranked[:, 1:] == ranked[:, :-1], axis=1)
    return repeated
