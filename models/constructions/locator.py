"""Two layers of RoPE that copy by position: locators, then retrieval (theorem 3.2 of [C2D], on its principle).

Layer 0. Source token k lies k + 1 after A_a and k + 2 after A_(a-1); the query of copied token k lies k + 1 after
B_(b-1) and k + 2 after B_(b-2). So A_j is paired with B_(b-a+j-1): either side sees its own anchors at the same
distances. A head scores anchor j with base + l_j(k), where the base is twice as high for B's: before the delimiter all
mass is on A's, after it on B's, and how it splits among them, in proportion to exp(l_j(k)), is the same function of k.
The base comes from a plane that is not turned, l_j(k) = sum_p C cos(f_p k - psi) from turned ones.
The RMS norm after attention makes the split a unit vector u(k), times sqrt(D).
Layer 1, without positions. The score gain <u(query), u(key)> is largest where query and key have the same index, by
gain |u(k) - u(k')|^2 / 2. B1 sees A's only, so it has the code of index n and answers for EOS.

How far. With one frequency and two anchors, l_2 = S sin(f (k - N/2)), u moves on an arc of .95 rad: at N = 200
neighbours lose 5e-6 of the score, of which float32 resolves 1e-7. With four anchors the other two hold C cos(f' k) and
C sin(f' k) of period 80: neighbours differ by the fast pair, indices a period apart by the slow one, and at N = 1,000
the nearest index still loses 1.2e-4. Measured, the first is exact to 340 tokens and the second to 2,800, since a little
beyond N the code still goes on; only N is claimed.
"""

from functools import partial

import numpy as np
from jaxtyping import Complex, Float

from models.config import TaskSettings
from models.constructions.base import (
    ANY,
    Construction,
    add,
    architecture,
    exact,
    fails,
    frequencies_of,
    planes,
    write_logits,
)
from models.layers import Attention
from models.tasks import CopyTask, Vocabulary
from models.transformer import CopyTransformer

NORMS = {"normalization": "RMS", "norm_placement": "post", "eps": 1e-12}


def waves(
    vocabulary: Vocabulary, frequencies: Float[np.ndarray, "P"], curves: Complex[np.ndarray, "A P"]
) -> np.ndarray:
    """Complex128[A, P] keys of the anchors for which l_j(k) = Re sum_p curves[j, p] exp(-i f_p k).

    Anchor j (0-based) lies k + a - j before the token of index k.
    """
    lead = vocabulary.a - np.arange(len(curves))
    return curves * np.exp(1j * frequencies * lead[:, None])


def wave(amplitude: float, phase: float) -> complex:
    """The curve amplitude * cos(f k - phase)."""
    return complex(amplitude * np.exp(1j * phase))


def slow(amplitude: float, speed: float, middle: float) -> complex:
    """The curve amplitude * sin(speed (k - middle))."""
    return wave(amplitude, speed * middle + np.pi / 2)


def locate(
    attn: Attention, head: int, vocabulary: Vocabulary, keys: Complex[np.ndarray, "A P"], slot: int, base: float = 50.0
) -> None:
    """Make a head split its mass among A's, or their B's once it sees them, and write the split at `slot`.

    Args:
        attn: RoPE whose first plane is not turned.
        head: which.
        vocabulary: of the task; b must be at least a + 2, so that B1 is no anchor.
        keys: of every A in the planes that follow the first.
        slot: of the A's weights in the stream, followed by those of their B's.
        base: score of A's; above the largest |l_j| by b, e^-b of the mass is off the anchors that are meant.
    """
    n_planes = attn.d_head // 2
    query, constant = np.zeros(n_planes, complex), np.eye(n_planes)[0]
    query[0], query[1 : 1 + keys.shape[1]] = base, 1
    attn.W_Q[head, : len(vocabulary)] = planes(query) / attn.scale
    partners = vocabulary.delimiter[vocabulary.b - vocabulary.a - 1 : -1]
    for j, pair in enumerate(zip(vocabulary.prefix, partners, strict=True)):
        for level, token in enumerate(pair, start=1):
            key = level * constant.astype(complex)
            key[1 : 1 + keys.shape[1]] = keys[j]
            attn.W_K[head, token] = planes(key)
            dimension = j + (level - 1) * vocabulary.a
            attn.W_V[head, token, dimension] = 1.0
            attn.W_O[head, dimension, slot + dimension] = 1.0


def retrieve(attn: Attention, head: int, n_anchors: int, slot: int, gain: float) -> None:
    """Let a head's score be gain * <u(query), u(key)>, u written by `locate` at `slot` and normed to sqrt(D)."""
    width = attn.W_Q.shape[1]
    for j in range(n_anchors):
        attn.W_Q[head, slot + n_anchors + j, j] = gain / width / attn.scale
        attn.W_K[head, slot + j, j] = 1.0


def _write(model: CopyTransformer, *, curves: Complex[np.ndarray, "A P"], gain: float) -> None:
    vocabulary, first, second = model.vocabulary, model.blocks[0].attn, model.blocks[1].attn
    frequencies = frequencies_of(first)[1 : 1 + curves.shape[1]]
    locate(first, 0, vocabulary, waves(vocabulary, frequencies, curves), len(vocabulary))
    retrieve(second, 0, vocabulary.a, len(vocabulary), gain)
    write_logits(model, 1, 0)


def _locator(
    name: str,
    description: str,
    task: TaskSettings,
    frequencies: list[float],
    curves: Complex[np.ndarray, "A P"],
    gain: float,
    longest: int,
) -> Construction:
    vocabulary = CopyTask(task).vocabulary
    width = 2 * max(1 + len(frequencies), task.a)
    listed = [0.0, *frequencies] + [0.0] * (width // 2 - 1 - len(frequencies))
    return Construction(
        name=name,
        description=description,
        task=task,
        model=architecture(
            vocabulary,
            between=2 * task.a,
            heads=(1, 1),
            d_head=width,
            positions=({"scheme": "rope", "frequencies": listed}, "nope"),
            **NORMS,
        ),
        write=partial(_write, curves=curves, gain=gain),
        roles=(("locator",), ("aligned",)),
        distributions=ANY,
        longest=longest,
        marks=exact((*(n for n in (20, 100, 500) if n < longest), longest), ANY)
        + fails((4 * longest,), ("uniform", "imbalanced")),
        claims=(
            f"copies every string of up to {longest:,} tokens, EOS included, whatever its content",
            f"fails on strings of {4 * longest:,} tokens",
        ),
    )


# One frequency, two anchors.
_SHORT = 200
_SHORT_SPEED = 0.4 / (_SHORT + 2)
# Two frequencies, four anchors.
_LONG, _PERIOD = 1000, 80
_LONG_SPEED = 0.2 / (_LONG + 2)


add(
    _locator(
        "rope-locator",
        "two layers of RoPE copy by position: a locator on two anchors and one frequency, then an aligned head",
        TaskSettings(),
        [_SHORT_SPEED],
        np.array([[0], [slow(5.75, _SHORT_SPEED, _SHORT / 2)]]),
        gain=4e6,
        longest=_SHORT,
    )
)
add(
    _locator(
        "rope-locator-4",
        "two layers of RoPE copy by position: a locator on four anchors and two frequencies, then an aligned head",
        TaskSettings(a=4, b=6),
        [_LONG_SPEED, 2 * np.pi / _PERIOD],
        np.array([[0, 0], [slow(6.0, _LONG_SPEED, _LONG / 2), 0], [0, wave(1, 0)], [0, wave(1, np.pi / 2)]]),
        gain=2.5e5,
        longest=_LONG,
    )
)
