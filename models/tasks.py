"""The copy task: `A1..Aa  s  B1..Bb  s  EOS` ([C2D] section 3.4 and appendix B).

One example with a = 2, b = 4, s = 011, and what each query position is asked for:

    position   0   1   2 3 4   5  6  7  8   9 10 11
    token     A1  A2   0 1 1   ⏎ B2 B3 B4   0  1  1
    predicts                             0   1  1 EOS
    source                               2   3  4  5      (EOS is located by B1)

Shape letters: B batch, T tokens, N source string, A anchors.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from models.config import TaskSettings
from models.distributions import DISTRIBUTIONS
from models.errors import UsageError

NEWLINE_NAME = "⏎"
IGNORE = -100  # target of a position that is not scored, torch's own `ignore_index`


@dataclass(frozen=True)
class Vocabulary:
    """Token ids and their printable names, used wherever a person sees a token.

    Ids: source tokens `0 .. alphabet-1`, then A1..Aa, B1..Bb, EOS, PAD. B1 prints as ⏎, or as * where the
    separator is not a line break. `newline` is the id that starts a new row, None where no token does.
    """

    alphabet: int
    a: int
    b: int
    separator: str = "\n"

    @property
    def prefix(self) -> range:
        """Ids of A1..Aa."""
        return range(self.alphabet, self.alphabet + self.a)

    @property
    def delimiter(self) -> range:
        """Ids of B1..Bb."""
        return range(self.alphabet + self.a, self.alphabet + self.a + self.b)

    @property
    def eos(self) -> int:
        """Id of the end-of-string token."""
        return self.alphabet + self.a + self.b

    @property
    def pad(self) -> int:
        """Id of the padding token."""
        return self.eos + 1

    @property
    def newline(self) -> int | None:
        """Id of the line break, or None when the separator is `*`: rule-based 2D schemes then see one row."""
        return self.delimiter[0] if self.separator == "\n" else None

    def __len__(self) -> int:
        return self.pad + 1

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Printable name of every id, `names[id]`."""
        first = NEWLINE_NAME if self.separator == "\n" else self.separator
        return (
            *(str(i) for i in range(self.alphabet)),
            *(f"A{i + 1}" for i in range(self.a)),
            first,
            *(f"B{i + 1}" for i in range(1, self.b)),
            "EOS",
            "PAD",
        )


@dataclass(frozen=True)
class CopyBatch:
    """Copy strings of any lengths, right-padded to the longest. Analyses read positions here and never re-derive them.

    Attributes:
        tokens: Long[B, T] model input; T = a + b + 2 * longest string (EOS is only ever a target).
        targets: Long[B, T] id that position t must predict, IGNORE (-100) where nothing is scored.
        loss_mask: Bool[B, T] true at scored positions: those that predict a copied token or EOS.
        source_position: Long[B, T] where a scored position's answer stands in `tokens` (for EOS: B1), else -1.
        anchor_positions: Long[B, A] positions of A1..Aa then B1..Bb.
        pad_mask: Bool[B, T] true at padding.
        lengths: Long[B] tokens in each source string.
        strings: Long[B, N] the source strings, padded with the PAD id.
        vocabulary: ids and names.
    """

    tokens: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]
    loss_mask: Bool[Tensor, "B T"]
    source_position: Int[Tensor, "B T"]
    anchor_positions: Int[Tensor, "B A"]
    pad_mask: Bool[Tensor, "B T"]
    lengths: Int[Tensor, "B"]
    strings: Int[Tensor, "B N"]
    vocabulary: Vocabulary

    def __len__(self) -> int:
        return len(self.lengths)

    def to(self, device: torch.device | str) -> "CopyBatch":
        """Return the batch with every tensor on `device`."""
        moved: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            moved[f.name] = value.to(device) if isinstance(value, Tensor) else value
        return replace(self, **moved)

    def select(self, rows: Sequence[int] | Tensor) -> "CopyBatch":
        """Return the strings `rows`, in that order, padded only to the longest of them.

        Args:
            rows: indices (negative ones count from the end), or one boolean a string, true where it is kept.

        Raises:
            UsageError: nothing selected, an index outside the batch, or a mask of another length.
        """
        rows = torch.as_tensor(rows, device=self.lengths.device)
        if rows.dtype == torch.bool:
            if rows.shape != self.lengths.shape:
                raise UsageError(f"a mask of shape {list(rows.shape)} cannot select from {len(self)} strings")
            rows = rows.nonzero()[:, 0]
        if rows.numel() == 0:
            raise UsageError("an empty selection of a batch was asked for; name at least one string")
        if rows.is_floating_point():
            raise UsageError(f"{rows.tolist()} are no indices of strings; give whole numbers or a mask")
        rows = rows.long()
        if int(rows.min()) < -len(self) or int(rows.max()) >= len(self):
            raise UsageError(
                f"strings {rows.tolist()} were asked for in a batch of {len(self)}; the last is {len(self) - 1}"
            )
        longest = int(self.lengths[rows].max())
        kept = self.tokens.shape[1] - 2 * (self.strings.shape[1] - longest)
        widths = {"tokens": kept, "targets": kept, "loss_mask": kept, "source_position": kept, "pad_mask": kept}
        widths["strings"] = longest
        picked: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, Tensor):
                value = value[rows]
                picked[f.name] = value[:, : widths[f.name]] if f.name in widths else value
        return replace(self, **picked)

    def token_names(self, row: int) -> list[str]:
        """Return the printable tokens of string `row`, without its padding."""
        kept = self.tokens[row][~self.pad_mask[row]].tolist()
        return [self.vocabulary.names[i] for i in kept]

    @property
    def scored_rows(self) -> tuple[Int[Tensor, "B R"], Bool[Tensor, "B R"]]:
        """Positions of the scored queries, R = longest string + 1, and which of them exist in each string.

        Rows past a shorter string's end repeat its last scored position and are marked False.
        """
        vocabulary = self.vocabulary
        first = vocabulary.a + vocabulary.b - 1 + self.lengths
        step = torch.arange(self.strings.shape[1] + 1, device=self.lengths.device)
        exists = step[None] <= self.lengths[:, None]
        return first[:, None] + torch.minimum(step[None], self.lengths[:, None]), exists


class CopyTask:
    """Samples and encodes copy strings for one `TaskSettings`."""

    def __init__(self, settings: TaskSettings) -> None:
        self.settings = settings
        self.vocabulary = Vocabulary(settings.alphabet, settings.a, settings.b, settings.separator)
        DISTRIBUTIONS[settings.distribution]

    def sample(
        self,
        n_strings: int,
        generator: torch.Generator,
        *,
        lengths: int | tuple[int, int] | None = None,
        distribution: str | None = None,
    ) -> CopyBatch:
        """Draw `n_strings` strings; the same generator state gives the same batch.

        Args:
            n_strings: how many, at least 1.
            generator: a CPU generator; it is advanced.
            lengths: one length, or an inclusive range drawn from uniformly; the settings' range by default.
            distribution: a registered name; the settings' own by default.

        Raises:
            UsageError: an unknown distribution, an impossible length, or fewer than one string.
        """
        low, high = _length_range(self.settings.lengths if lengths is None else lengths)
        if n_strings < 1:
            raise UsageError(f"{n_strings} strings were asked for; give at least 1")
        draw = DISTRIBUTIONS[distribution or self.settings.distribution]
        drawn = torch.randint(low, high + 1, (n_strings,), generator=generator)
        strings = draw(self.settings, n_strings, int(drawn.max()), generator)
        return self._assemble(strings, drawn)

    def encode(self, strings: Sequence[str | Sequence[int]]) -> CopyBatch:
        """Build the batch that copies `strings`, each a text of digits ("0110") or a sequence of token ids.

        Raises:
            UsageError: no list of strings, an empty list or string, or a token outside the alphabet.
        """
        if isinstance(strings, str) or not len(strings):
            raise UsageError(f"strings = {strings!r}: give a list of at least one string")
        rows = [self._ids(string) for string in strings]
        lengths = torch.tensor([len(row) for row in rows])
        padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        return self._assemble(padded, lengths)

    def _ids(self, string: str | Sequence[int]) -> Tensor:
        alphabet = self.settings.alphabet
        try:
            ids = [int(token) if isinstance(token, str) else operator.index(token) for token in string]
        except (TypeError, ValueError):
            ids = [-1]
        if not ids or min(ids) < 0 or max(ids) >= alphabet:
            allowed = f"0 to {alphabet - 1}"
            raise UsageError(f"cannot copy {string!r}: a string needs at least one token, each a number from {allowed}")
        return torch.tensor(ids, dtype=torch.long)

    def _assemble(self, strings: Int[Tensor, "B N"], lengths: Int[Tensor, "B"]) -> CopyBatch:
        """Lay out prefix, source, delimiter and copy of every string and mark what is scored."""
        v = self.vocabulary
        longest = int(lengths.max())
        n = lengths[:, None]
        width = v.a + v.b + 2 * longest
        t = torch.arange(width)[None]
        k = torch.arange(longest)[None]
        strings = torch.where(k < n, strings[:, :longest], v.pad)

        start = v.a + n + v.b  # position of the first copied token
        source = torch.where(t < v.a + n, t - v.a, t - start)  # index into s, valid where a token of s stands
        in_delimiter = (t >= v.a + n) & (t < start)
        tokens = strings.gather(1, source.clamp(0, longest - 1))
        tokens = torch.where(in_delimiter, v.delimiter[0] + t - v.a - n, tokens)
        tokens = torch.where(t < v.a, v.prefix[0] + t, tokens)
        pad_mask = t >= start + n
        tokens = torch.where(pad_mask, v.pad, tokens)

        copied = t - (start - 1)  # which copied token position t predicts; n is EOS
        loss_mask = (copied >= 0) & (copied <= n)
        answer = strings.gather(1, copied.clamp(0, longest - 1))
        answer = torch.where(copied == n, v.eos, answer)
        anchors = torch.cat([torch.arange(v.a).expand(len(lengths), -1), v.a + n + torch.arange(v.b)], dim=1)
        return CopyBatch(
            tokens=tokens,
            targets=torch.where(loss_mask, answer, IGNORE),
            loss_mask=loss_mask,
            source_position=torch.where(loss_mask, v.a + copied, -1),
            anchor_positions=anchors,
            pad_mask=pad_mask,
            lengths=lengths,
            strings=strings,
            vocabulary=v,
        )


def _length_range(lengths: int | tuple[int, int]) -> tuple[int, int]:
    try:
        low, high = (operator.index(n) for n in (lengths if isinstance(lengths, tuple | list) else (lengths, lengths)))
    except (TypeError, ValueError):
        raise UsageError(f"string lengths {lengths!r} are impossible; give one length or (shortest, longest)") from None
    if not 1 <= low <= high:
        raise UsageError(f"string lengths {low} to {high} are impossible; give 1 <= shortest <= longest")
    return low, high
