"""Single heads with a role that is no copying: look-back, modular, previous token under ALiBi, sink, uniform and more.

Each is one layer of one head that writes the token it attends to, so the model predicts that token again.
"""

import math
from functools import partial
from typing import Any

import numpy as np

from models.config import TaskSettings
from models.constructions.base import ANY, Construction, Write, add, architecture, attend_at, planes
from models.constructions.induction import copy_token
from models.tasks import CopyTask
from models.transformer import CopyTransformer

# exp(-x) rounds to zero in float32 from here on: [EXR]'s f_large.
F_LARGE = 104.0
# Gains are above what exact arithmetic needs by this factor, for the rounding of scores.
_ROUNDING = 1.1
_TASK = TaskSettings()
_PLANES = 5  # a head as wide as the ten tokens that it may have to write
_BACK, _SPEED, _CERTIFIED = 3, 1.0, 709
_PERIOD, _REMAINDER = 4, 1


def certified_gain(speed: float, longest: int) -> float:
    """Smallest C for which C (1 - cos(speed n)) >= F_LARGE at every distance n of 1..longest ([EXR], Y^k).

    A staircase in `longest`, with steps where n comes closer to a multiple of 2 pi / speed than any n before.
    """
    nearest = max(math.cos(speed * n) for n in range(1, longest + 1))
    return F_LARGE / (1 - nearest)


def _look_back(model: CopyTransformer) -> None:
    """[EXR]'s Y^k: score C cos(i - j - k), C certified, so that every other weight is exactly zero in float32."""
    gains = np.zeros(_PLANES)
    gains[0] = _ROUNDING * certified_gain(_SPEED, _CERTIFIED)
    attend_at(model.blocks[0].attn, 0, np.full(_PLANES, float(_BACK)), gains, len(model.vocabulary))


def _modular(model: CopyTransformer) -> None:
    """[EXR]'s MOD: the first token scores C cos(2 pi (i - r) / m), all others the constant C (1 + cos(2 pi / m)) / 2.

    The periodic plane compares the query's phase with the first token's, the unturned one holds the constant. It lies
    halfway between the cosine's two largest values, so either side wins by at least C (1 - cos(2 pi / m)) / 2.
    """
    attn, size, first = model.blocks[0].attn, len(model.vocabulary), model.vocabulary.prefix[0]
    cosine = math.cos(2 * math.pi / _PERIOD)
    gain = 2 * _ROUNDING * F_LARGE / (1 - cosine)
    turned, constant = np.eye(_PLANES)[:2]
    phase = np.exp(-2j * np.pi * _REMAINDER / _PERIOD)
    attn.W_Q[0, :size] = planes(gain * (phase * turned + constant)) / attn.scale
    attn.W_K[0, :size] = planes(constant * (1 + cosine) / 2)
    attn.W_K[0, first] = planes(turned)


def _sink(model: CopyTransformer) -> None:
    """Every query scores 30 on the first token A1 and 0 on all others: at most e^-30 a key is lost."""
    attn, size = model.blocks[0].attn, len(model.vocabulary)
    attn.W_Q[0, :size, 0] = 30.0 / attn.scale
    attn.W_K[0, model.vocabulary.prefix[0], 0] = 1.0


def _same_token(model: CopyTransformer) -> None:
    """Score 30 where query and key are the same token, else 0."""
    attn, size = model.blocks[0].attn, len(model.vocabulary)
    for token in range(size):
        attn.W_Q[0, token, token] = 30.0 / attn.scale
        attn.W_K[0, token, token] = 1.0


def _self(model: CopyTransformer) -> None:
    """RoPE's score gain * sum_p cos(f_p distance) is largest at distance 0."""
    attn = model.blocks[0].attn
    attend_at(attn, 0, np.zeros(attn.d_head // 2), 60.0, len(model.vocabulary))


def _nothing(model: CopyTransformer) -> None:
    """Zero queries and keys: equal scores, from positions alone where the scheme adds some."""


def _with_output(model: CopyTransformer, *, write: Write) -> None:
    write(model)
    size = len(model.vocabulary)
    copy_token(model.blocks[0].attn, 0, size, model.settings.d_model - size)


def _add(
    name: str,
    role: str,
    description: str,
    write: Write,
    *claims: str,
    longest: int = 1000,
    task: TaskSettings = _TASK,
    distributions: tuple[str, ...] = ANY,
    **values: Any,
) -> None:
    vocabulary = CopyTask(task).vocabulary
    add(
        Construction(
            name=name,
            description=description,
            task=task,
            model=architecture(vocabulary, heads=(1,), **values),
            write=partial(_with_output, write=write),
            roles=((role,),),
            distributions=distributions,
            longest=longest,
            claims=claims,
        )
    )


_add(
    "look-back",
    f"look-back({_BACK})",
    f"a look-back head: all mass on the token {_BACK} back, by a single plane of frequency {_SPEED:g}",
    _look_back,
    f"every other weight is exactly zero up to distance {_CERTIFIED} from that token: strings of up to 350 tokens",
    longest=350,
    d_head=2 * _PLANES,
    positions={"scheme": "rope", "frequencies": (_SPEED,) + (0.0,) * (_PLANES - 1)},
)
_add(
    "modular",
    f"modular({_PERIOD})",
    f"a modular head: all mass on the first token where the position is {_REMAINDER} modulo {_PERIOD}, none elsewhere",
    _modular,
    f"at any length, weights are exactly one at positions that are {_REMAINDER} modulo {_PERIOD}, and exactly zero at "
    "the others, which see all tokens but the first alike",
    d_head=2 * _PLANES,
    positions={"scheme": "periodic-rope", "periods": (_PERIOD,) + (1,) * (_PLANES - 1)},
)
_add(
    "alibi-previous",
    "look-back(1)",
    "a previous-token head under ALiBi: slope 30 and a strict mask, queries and keys are zero",
    _nothing,
    "at any length, all but e^-30 of the mass is on the token before",
    d_head=2 * _PLANES,
    strict_mask=True,
    positions={"scheme": "alibi", "slopes": (30.0,)},
)
_add(
    "sink",
    "sink",
    "a sink: every query attends to the first token, by its content",
    _sink,
    "at any length, at most e^-30 a key of the mass is not on the first token",
    d_head=2 * _PLANES,
    positions="nope",
)
_add(
    "uniform",
    "diffuse",
    "a uniform head: zero queries and keys without positions",
    _nothing,
    "at any length, a query attends to all it sees alike",
    d_head=2 * _PLANES,
    positions="nope",
)
_add(
    "self",
    "self",
    "a head that attends to its own position, by RoPE with theta 10 000",
    _self,
    "at any length up to 1,000, more than .99 of the mass is on the query's own position",
    d_head=32,
    positions="rope",
)
_add(
    "duplicate",
    "duplicate",
    "a duplicate-token head: attends to earlier occurrences of the query's own token (strict mask, no positions)",
    _same_token,
    "at any length, all but e^-30 a key of the mass is on earlier occurrences of the same token, where there is one",
    longest=128,
    task=TaskSettings(alphabet=128, context=1, distribution="unique-context"),
    distributions=("unique-context", "uniform"),
    d_head=136,
    strict_mask=True,
    positions="nope",
)
