"""Two layers of RoPE that copy by position up to index 100 and by context beyond, so that the causes of failure differ.

Layer 0: the locator of `locator.py` with l_2 = -S sin(f (k - 50)), of slope .06, and the look-back heads of
`induction.py`. Past k = 100 nearly all of the locator's weight is on A1, and its code u(k) becomes that of position 0,
which sees nothing else.
Layer 1: an aligned head, which gives the key of A1 a bonus of gain (1 - <u(100.5), u(position 0)>). Up to index 100
the source beats A1, by hundreds even there; from 101 on A1 wins over all sources, and as it has no value the head
writes nothing. Beside it an induction head whose logits have half the weight: overruled up to index 100, alone beyond.

Two scales keep them apart. Look-back heads write 3e-3, or they would upset the norm that makes u a unit vector: that
shifts scores by 2 % of what neighbours lose. And the norm leaves a slot up to 1.41 times larger where the split is
even, so a key with 2 of 3 matches may come to 2.83 against 3: the gain of a match is 150.
"""

import numpy as np

from models.config import Mark, TaskSettings
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
from models.constructions.induction import copy_token, match_context
from models.constructions.locator import NORMS, locate, retrieve, slow, waves
from models.tasks import CopyTask
from models.transformer import CopyTransformer

# The hybrid: where the aligned head gives up, and how steep the split is there.
_LIMIT, _SLOPE, _SPEED = 100, 0.06, np.pi / 2500
_SMALL = 3e-3
_ALIGNED_GAIN, _MATCH_GAIN = 4e6, 150.0
_CONTEXT = 3
_LOOK_BACK_PLANES = 26
_MIXED = (*ANY, "unique-context")


def _hybrid(model: CopyTransformer) -> None:
    vocabulary, first, second = model.vocabulary, model.blocks[0].attn, model.blocks[1].attn
    size = code = len(vocabulary)
    slots = [0, *(size + 2 * vocabulary.a + size * back for back in range(_CONTEXT))]
    curves = np.array([[0], [slow(-_SLOPE / _SPEED, _SPEED, _LIMIT / 2)]])
    locate(first, 0, vocabulary, waves(vocabulary, np.array([_SPEED]), curves), code, base=100.0)
    turned = np.arange(first.d_head // 2) >= 2
    for back in range(1, _CONTEXT + 1):
        attend_back = turned * 4.0 * np.exp(-1j * frequencies_of(first) * back)
        first.W_Q[back, :size] = planes(attend_back) / first.scale
        first.W_K[back, :size] = planes(turned.astype(complex))
        copy_token(first, back, size, slots[back], _SMALL)

    retrieve(second, 0, vocabulary.a, code, _ALIGNED_GAIN)
    odds = np.exp(-_SLOPE / _SPEED * np.sin(_SPEED * (_LIMIT / 2 + 0.5)))
    second.W_Q[0, :size, vocabulary.a] = _ALIGNED_GAIN * (1 - 1 / np.hypot(1, odds)) / second.scale
    second.W_K[0, vocabulary.prefix[0], vocabulary.a] = 1.0
    write_logits(model, 1, 0, weight=2.0)
    # A slot holds _SMALL * sqrt(D), the query's own token holds 1.
    match_context(second.W_Q[1], second.W_K[1], vocabulary, slots, 1.0)
    unit = _SMALL * model.settings.d_model**0.5
    second.W_Q[1, :size] *= unit
    second.W_Q[1] *= _MATCH_GAIN / unit**2 / second.scale
    write_logits(model, 1, 1)


_TASK = TaskSettings(alphabet=16, context=_CONTEXT)
_SIZE = len(CopyTask(_TASK).vocabulary)
add(
    Construction(
        name="rope-hybrid",
        description=f"two layers of RoPE: a locator and an aligned head up to index {_LIMIT}, induction beyond",
        task=_TASK,
        model=architecture(
            CopyTask(_TASK).vocabulary,
            between=2 * _TASK.a + _CONTEXT * _SIZE,
            heads=(1 + _CONTEXT, 2),
            d_head=2 * (2 + _LOOK_BACK_PLANES),
            positions=(
                {
                    "scheme": "rope",
                    "frequencies": [0.0, _SPEED, *np.random.default_rng(0).uniform(0, 2 * np.pi, _LOOK_BACK_PLANES)],
                },
                "nope",
            ),
            **NORMS,
        ),
        write=_hybrid,
        roles=(("locator", *(f"look-back({back})" for back in range(1, _CONTEXT + 1))), ("aligned", "induction")),
        distributions=_MIXED,
        longest=_LIMIT,
        marks=exact((20, _LIMIT), _MIXED)
        + exact((500, 1000), ("unique-context",))
        + fails((500,), ("recursive-flip", "repeat-structure"))
        + (Mark(length=500, distributions=("uniform",), strings=10, at_most=0.5),),
        claims=(
            f"copies every string over 16 tokens of up to {_LIMIT} tokens, EOS included, whatever its content",
            f"copies longer ones, up to 2,000 tokens, where no context of {_CONTEXT} occurs twice",
            f"beyond index {_LIMIT} it fails only on tokens whose context occurs elsewhere too",
        ),
    )
)
