"""Mean and spread of exact match over subjects of one kind, and names that tell the kinds apart."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from models.evaluation import wilson
from workbench.content.lengths import SpreadContent


@dataclass(frozen=True)
class Measured:
    """Exact match of one subject on one distribution and length.

    Attributes:
        group: its subjects differ in their seeds alone.
        scheme, trained: of the group: positional schemes, longest trained string.
        distribution, shortest, length: of the strings.
        strings: how many.
        exact_match: share copied exactly, 0 to 1.
    """

    group: str
    scheme: str
    trained: int
    distribution: str
    shortest: int
    length: int
    strings: int
    exact_match: float


def spread(measured: Iterable[Measured]) -> list[SpreadContent]:
    """Mean, lowest and highest over the subjects of every group, distribution and length, in the order they come."""
    points: dict[tuple[str, str, int, int], list[Measured]] = {}
    for one in measured:
        points.setdefault((one.group, one.distribution, one.shortest, one.length), []).append(one)
    found = []
    for (group, distribution, shortest, length), same in points.items():
        values, strings = [one.exact_match for one in same], sum(one.strings for one in same)
        found.append(
            SpreadContent(
                group=group,
                scheme=same[0].scheme,
                trained=same[0].trained,
                distribution=distribution,
                length=length,
                shortest=shortest,
                subjects=len(same),
                strings=strings,
                mean=sum(values) / len(values),
                lowest=min(values),
                highest=max(values),
                interval=wilson(round(values[0] * strings), strings) if len(same) == 1 else None,
            )
        )
    return found


def distinct_names(kinds: Sequence[tuple[str, ...]]) -> list[str]:
    """Name every kind by its first word, and by further ones only where kinds would have the same name.

    Args:
        kinds: of every subject, words from the most telling to the finest; equal for subjects of one kind.
    """
    names = [kind[0] for kind in kinds]
    for level in range(1, max(map(len, kinds), default=0)):
        for name in dict.fromkeys(names):
            same = [i for i, other in enumerate(names) if other == name]
            if len({kinds[i] for i in same}) > 1 and len({kinds[i][level] for i in same}) > 1:
                for i in same:
                    names[i] = f"{name}, {kinds[i][level]}" if kinds[i][level] else name
    return names
