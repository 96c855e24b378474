"""One layer of 2D-RoPE that copies by position alone (theorem 4.1 of [C2D]).

Queries and keys are the same for every token. The query of copied token k stands in row 1, column b - 2 + k, its source
in row 0, column a + k: the offset (1, b - a - 2) is the same for every k and every length. The query turned back by it
gives the score

    gain * (sum over row planes of cos(f (rows - 1)) + sum over column planes of cos(f (columns - (b - a - 2))))

of the rows and columns from key to query, which is gain * P at the source alone. Keys of the query's own row lose in
the row planes, other columns of row 0 in the column planes. B1 ends row 0, so EOS, whose source is B1, has the same
offset and needs no head of its own. Only the values depend on the token.

Margin, for P = 128. With random frequencies every column plane is an independent cosine at a wrong column, so their sum
over P/2 planes stays within a few times sqrt(P)/2 of zero: no column up to 20,000 comes closer than 35 (gain 1), and
lengths grow exponentially in P. With theta = 100 the frequencies fall from 1 to 1/100 and the next column is the
closest: it loses .056 gain P/2 = 43 (gain 12) at every length, until the frequencies come round again. Float32 resolves
a score of gain * P to 1e-7 of it, far below either margin. Measured: exact at 10,000 tokens; 2,000 are claimed.
"""

from functools import partial

import numpy as np

from models.config import TaskSettings
from models.constructions.base import ANY, Construction, add, architecture, attend_at, exact, write_logits
from models.tasks import CopyTask
from models.transformer import CopyTransformer

_TASK = TaskSettings()
_WIDTH = 256


def _write(model: CopyTransformer, *, gain: float) -> None:
    """Write the one head; `gain` is the score that a plane adds at the source."""
    vocabulary = model.vocabulary
    offset = (1.0, vocabulary.b - vocabulary.a - 2.0)
    attend_at(model.blocks[0].attn, 0, np.repeat(offset, _WIDTH // 4), gain, len(vocabulary))
    write_logits(model, 0, 0)


for _name, _scheme, _gain, _frequencies in (
    ("rope2d-aligned", "random-rope2d", 1.0, "random frequencies"),
    ("rope2d-aligned-100", "rope2d", 12.0, "frequencies 100^(-4j/d_head)"),
):
    add(
        Construction(
            name=_name,
            description=f"one layer of 2D-RoPE copies by position: an aligned head, {_frequencies} (theorem 4.1)",
            task=_TASK,
            model=architecture(CopyTask(_TASK).vocabulary, heads=(1,), d_head=_WIDTH, positions=_scheme),
            write=partial(_write, gain=_gain),
            roles=(("aligned",),),
            distributions=ANY,
            longest=2000,
            marks=exact((20, 100, 500, 1000, 2000), ANY),
            claims=("copies every string of up to 2,000 tokens, EOS included, whatever its content",),
        )
    )
