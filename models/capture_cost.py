"""What a capture will take on disk and in memory, known before anything is allocated.

Shape letters: T tokens, H heads (E wide), D model width, M MLP width, V vocabulary, C coordinates.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from models.caching import token_width
from models.capture import NORM_BLOCK, SEARCH_BATCH
from models.evaluation import TOKENS_AT_ONCE
from models.layers import BLOCK_ELEMENTS
from models.overview import overview_bytes
from models.transformer import CopyTransformer

INTEGERS = 6  # a token: its id, target, prediction, source, row and column
_BATCH_BYTES = 96  # a token of the strings while they are drawn and laid out
_TENSOR_HEADER = 110  # bytes that a tensor adds to its file, and its share of capture.json
_BLOCKS = 5  # of BLOCK_ELEMENTS floats: scores, mask and temporaries of a block of rows
_BIAS_BLOCKS = 2  # more where a scheme adds to the scores: the bias, and the distances it is made from


@dataclass(frozen=True)
class CaptureSize:
    """What is to be captured, as far as it decides the cost.

    Attributes:
        strings: how many.
        length: of the longest source string.
        extra: hook names, see `models.capture.hooks_named`.
        overviews: whether pyramids of long strings are built.
    """

    strings: int
    length: int
    extra: tuple[str, ...] = ()
    overviews: bool = True


@dataclass(frozen=True)
class Cost:
    """Bytes, at most.

    Attributes:
        disk: all files of the capture, the pyramids of long strings included.
        memory: the largest amount held at once, beside the model.
    """

    disk: int
    memory: int

    def within(self, limits: "Cost") -> bool:
        """Whether neither is over its limit."""
        return self.disk <= limits.disk and self.memory <= limits.memory


def capture_cost(model: CopyTransformer, size: CaptureSize) -> Cost:
    """Return what capturing strings of `size` takes, all of the longest length.

    The memory is counted as if the model ran on the CPU: on a GPU what the layers hold lies there instead.
    """
    vocabulary = model.vocabulary
    tokens = vocabulary.a + vocabulary.b + 2 * size.length
    stored = _stored_bytes(model, tokens, size.extra)
    pyramids = overview_bytes(tokens) * sum(model.cfg.heads) if size.overviews else 0
    cfg = model.cfg
    # Kept by the hooks until the string is written: padded heads, then the real ones once more, then the file's bytes.
    kept = 4 * tokens * (3 * cfg.n_layers * cfg.n_heads * cfg.d_head) + 2 * stored
    layer = 4 * tokens * (5 * cfg.d_model + 6 * cfg.n_heads * cfg.d_head + 3 * (cfg.d_mlp or 0))
    logits = 12 * tokens * cfg.d_vocab
    biased = any(block.attn.scheme.has_bias for block in model.blocks)
    blocks = 4 * (_BLOCKS + _BIAS_BLOCKS * biased) * min(BLOCK_ELEMENTS, cfg.n_heads * tokens * tokens)
    norms = 4 * cfg.n_heads * min(NORM_BLOCK, tokens) * cfg.d_model
    together = max(1, min(SEARCH_BATCH, TOKENS_AT_ONCE // tokens))  # strings of one pass of a search
    drawn = _BATCH_BYTES * tokens * max(size.strings, together)
    pass_ = max(kept + layer + logits, together * (layer + logits)) + blocks + norms
    return Cost(disk=size.strings * (stored + pyramids) + 4096, memory=drawn + max(pass_, 3 * pyramids))


def _stored_bytes(model: CopyTransformer, tokens: int, extra: Sequence[str]) -> int:
    """Bytes of one string's file."""
    vocabulary = model.vocabulary
    per_token, tensors = INTEGERS + sum(token_width(model, name) for name in extra), 6 + len(extra)
    for block in model.blocks:
        scheme = block.attn.scheme
        per_token += block.attn.n_real * (2 * model.cfg.d_head + 2)
        per_token += 0 if scheme.at_embedding else scheme.n_coords
        per_token += 2 if scheme.learns_steps else 0
        tensors += 6
    return 4 * (tokens * per_token + vocabulary.a + vocabulary.b) + _TENSOR_HEADER * tensors


def largest_that_fits(model: CopyTransformer, size: CaptureSize, limits: Cost) -> dict[str, CaptureSize]:
    """Return what could be asked for instead, each keeping the rest: the longest strings, the most of them, no extras.

    Returns:
        Sizes by what was changed: "length", "strings", "extra"; those that cannot help are left out.
    """

    def fits(changed: CaptureSize) -> bool:
        return capture_cost(model, changed).within(limits)

    shorter = _last_true(size.length - 1, lambda n: fits(replace(size, length=n)))
    fewer = _last_true(size.strings - 1, lambda n: fits(replace(size, strings=n)))
    found = {"length": replace(size, length=shorter)} if shorter else {}
    found |= {"strings": replace(size, strings=fewer)} if fewer else {}
    bare = replace(size, extra=())
    return found | ({"extra": bare} if size.extra and fits(bare) else {})


def _last_true(top: int, holds: Callable[[int], bool]) -> int:
    """Return the largest of 1..top for which `holds`, which is false from some number on; 0 where there is none."""
    low, high = 0, top
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low
