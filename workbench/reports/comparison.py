"""Several subjects beside each other: label counts by layer, agreement between seeds, and all heads in one space."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

from analyses.space import HeadPoint, ScoreSpace, score_space
from workbench.content.heads import (
    AgreementContent,
    ComparisonContent,
    HeadsContent,
    LabelCount,
    PointContent,
    SpaceContent,
)


def compare(contents: Sequence[HeadsContent]) -> tuple[ComparisonContent, ScoreSpace]:
    """Put reports beside each other; of subjects with different names."""
    space = score_space([point for content in contents for point in points(content)])
    agreement = tuple(
        AgreementContent(first=a.subject, second=b.subject, agreement=agree(a, b), certain=agree_certainly(a, b))
        for a, b in combinations(contents, 2)
        if _shape(a) == _shape(b)
    )
    content = ComparisonContent(
        finding=_finding(contents, agreement),
        reports=tuple(contents),
        counts=tuple(count for content in contents for count in _counts(content)),
        agreement=agreement,
        space=_space(space),
        about=contents[0].about,
    )
    return content, space


def points(content: HeadsContent) -> list[HeadPoint]:
    """Heads of a report as points; scores with a known chance count beyond it."""
    found = []
    for head in content.heads:
        scores = {}
        for name, estimate in head.scores.items():
            value, chance = estimate.value, estimate.chance
            if value is not None:
                scores[name] = value if chance is None or chance >= 1 else (value - chance) / (1 - chance)
        found.append(HeadPoint(content.subject, head.layer, head.head, scores, head.label))
    return found


def agree(first: HeadsContent, second: HeadsContent) -> float:
    """Share of heads that find one of the same label in the same layer, each used once."""
    shared = Counter(_labels(first)) & Counter(_labels(second))
    return sum(shared.values()) / len(first.heads)


def agree_certainly(first: HeadsContent, second: HeadsContent) -> float | None:
    """The same of certain labels, as a share of those of the report that has more; None where neither has one."""
    labels = [_labels(content, certain=True) for content in (first, second)]
    most = max(map(len, labels))
    return (Counter(labels[0]) & Counter(labels[1])).total() / most if most else None


def _labels(content: HeadsContent, certain: bool = False) -> list[tuple[int, str]]:
    return [(head.layer, head.label) for head in content.heads if head.certain or not certain]


def _shape(content: HeadsContent) -> list[int]:
    return sorted(head.layer for head in content.heads)


def _counts(content: HeadsContent) -> list[LabelCount]:
    counted = sorted(Counter(_labels(content)).items())
    return [LabelCount(subject=content.subject, layer=at, label=label, heads=n) for (at, label), n in counted]


def _finding(contents: Sequence[HeadsContent], agreement: Sequence[AgreementContent]) -> str:
    said = "; ".join(f"{content.subject}: {content.finding}" for content in contents)
    if not agreement:
        return said
    mean = sum(pair.agreement for pair in agreement) / len(agreement)
    said += f". Subjects of one shape agree on {mean:.0%} of their heads"
    sure = [pair.certain for pair in agreement if pair.certain is not None]
    return f"{said}, on {sum(sure) / len(sure):.0%} of certain labels" if sure else f"{said}; no label is certain"


def _space(space: ScoreSpace) -> SpaceContent:
    return SpaceContent(
        scores=space.scores,
        explained=tuple(space.explained.tolist()),
        loadings=tuple(tuple(row) for row in space.loadings.tolist()),
        points=tuple(
            PointContent(
                subject=point.run,
                layer=point.layer,
                head=point.head,
                label=point.label or "",
                coordinates=tuple(space.coordinates[index].tolist()),
                cluster=None if space.cluster is None else int(space.cluster[index]),
            )
            for index, point in enumerate(space.points)
        ),
        silhouette=space.silhouette,
        agreement=space.agreement,
        reason=space.reason,
    )
