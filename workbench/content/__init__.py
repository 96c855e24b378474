"""What scripted analyses find, as it is kept and published: pydantic models without torch, one module a report."""

from workbench.content.base import SCHEMAS, Content, schema
from workbench.content.failures import FailuresComparison, FailuresContent
from workbench.content.heads import ComparisonContent, HeadsContent, HistoryContent
from workbench.content.lengths import LengthsContent
from workbench.content.repetition import RepetitionContent

__all__ = [
    "SCHEMAS",
    "ComparisonContent",
    "Content",
    "FailuresComparison",
    "FailuresContent",
    "HeadsContent",
    "HistoryContent",
    "LengthsContent",
    "RepetitionContent",
    "schema",
]
