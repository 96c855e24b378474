"""Two layers that copy by context alone: previous-token heads, then an induction head.

Layer 0 (RoPE): head j - 1 attends j tokens back, j = 1..m, and writes that token's one-hot vector to slot j. Its score
is gain * sum_p cos(f_p (distance - j)); with theta = 10 000 the nearest wrong key loses .03 gain P.
Layer 1 (no positions): the query holds its own token and the m - 1 before it, the key the m tokens before it, so the
score is gain times the number of matching tokens and is largest, by one gain, after an earlier occurrence of the
query's last m tokens. B_b, B_(b-1), .. pass for A_a, A_(a-1), .. in queries, so the first copied token follows the
prefix. B1 follows the whole source, as EOS follows the copy, and has EOS for its value.

Exact wherever no context of m tokens occurs twice. Where one does, the head cannot tell its c occurrences apart: each
gets 1/c of the mass, and the answer is right only where most of their successors agree. gain 20 leaves e^-20 a key.
"""

from functools import partial
from itertools import pairwise

import numpy as np
from torch import Tensor

from models.config import TaskSettings
from models.constructions.base import Construction, add, architecture, attend_at, exact, fails, write_logits
from models.layers import Attention
from models.tasks import CopyTask, Vocabulary
from models.transformer import CopyTransformer

_GAIN = 20.0
_UNIQUE = ("unique-context",)


def look_back(attn: Attention, head: int, distance: int, size: int, slot: int, gain: float) -> None:
    """Make a head attend `distance` tokens back and copy what stands there to the stream at `slot`."""
    attend_at(attn, head, np.full(attn.d_head // 2, float(distance)), gain, size)
    copy_token(attn, head, size, slot)


def copy_token(attn: Attention, head: int, size: int, slot: int, weight: float = 1.0) -> None:
    """Make a head write the one-hot vector of the token it attends to, times `weight`, at `slot`."""
    for token in range(size):
        attn.W_V[head, token, token] = 1.0
        attn.W_O[head, token, slot + token] = weight


def match_context(queries: Tensor, keys: Tensor, vocabulary: Vocabulary, slots: list[int], gain: float) -> None:
    """Let a head's score count, `gain` each, how many of the query's last tokens precede the key.

    Args:
        queries: [D, E] weights to be written.
        keys: likewise.
        vocabulary: of the task.
        slots: where the stream holds the token itself, the one before it, and so on: m + 1 places.
        gain: of one match.
    """
    size = vocabulary.alphabet + vocabulary.a
    for back, (own, before) in enumerate(pairwise(slots)):
        for token in range(size):
            keys[before + token, back * size + token] = 1.0
        for token in range(vocabulary.alphabet):
            queries[own + token, back * size + token] = gain
        for anchor, delimiter in zip(reversed(vocabulary.prefix), reversed(vocabulary.delimiter), strict=False):
            queries[own + delimiter, back * size + anchor] = gain


def _write(model: CopyTransformer, *, m: int, gain: float) -> None:
    vocabulary, size = model.vocabulary, len(model.vocabulary)
    first, second = model.blocks[0].attn, model.blocks[1].attn
    slots = [size * back for back in range(m + 1)]
    for back in range(1, m + 1):
        look_back(first, back - 1, back, size, slots[back], gain)
    match_context(second.W_Q[0], second.W_K[0], vocabulary, slots, _GAIN / second.scale)
    write_logits(model, 1, 0)


def _construction(name: str, m: int, alphabet: int, d_head: int, longest: int) -> Construction:
    task = TaskSettings(alphabet=alphabet, context=m, distribution="unique-context", lengths=(1, 100))
    vocabulary = CopyTask(task).vocabulary
    lengths = (*(n for n in (20, 100, 500, 1000) if n < longest), longest)
    heads = "a previous-token head" if m == 1 else f"{m} look-back heads"
    return Construction(
        name=name,
        description=f"two layers copy by the context of {m} token{'s' * (m > 1)}: {heads}, then an induction head",
        task=task,
        model=architecture(
            vocabulary, between=m * len(vocabulary), heads=(m, 1), d_head=d_head, positions=("rope", "nope")
        ),
        write=partial(_write, m=m, gain=2000.0 / d_head),
        roles=(tuple(f"look-back({back})" for back in range(1, m + 1)), ("induction",)),
        distributions=_UNIQUE,
        longest=longest,
        marks=exact(lengths, _UNIQUE) + fails((100,), ("recursive-flip", "repeat-structure")),
        claims=(
            f"copies every string over {alphabet} tokens in which no context of {m} occurs twice, up to {longest:,} "
            "tokens, EOS included",
            f"fails where a context of {m} is followed by different tokens in the same string",
        ),
    )


add(_construction("induction", m=1, alphabet=128, d_head=136, longest=128))
add(_construction("induction-3", m=3, alphabet=16, d_head=56, longest=2000))
