"""Figures: plain functions from a result to a plotly Figure, shared by the dashboard and the reports.

style.py holds the one look (scheme table, token kinds, colour scales), tokens.py makes token names readable,
and each other file draws one subject.
"""

from workbench.figures.attention import MapView, Tokens, attention_map, row_distribution
from workbench.figures.coordinates import (
    TokenPath,
    both_paths,
    coordinate_path,
    coordinates_by_index,
    index_line,
    learned_steps,
    path_difference,
)
from workbench.figures.curves import LengthCurve, TrainingCurve, length_generalisation, training_curves
from workbench.figures.style import SCHEME_STYLES, empty_figure, scheme_style

__all__ = [
    "SCHEME_STYLES",
    "LengthCurve",
    "MapView",
    "TokenPath",
    "Tokens",
    "TrainingCurve",
    "attention_map",
    "both_paths",
    "coordinate_path",
    "coordinates_by_index",
    "empty_figure",
    "index_line",
    "learned_steps",
    "length_generalisation",
    "path_difference",
    "row_distribution",
    "scheme_style",
    "training_curves",
]
