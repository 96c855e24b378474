"""`workbench check-labels`: hand-built heads against their labels, as a table, a page and a picture."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from analyses.estimates import Estimate
from analyses.noise import NoiseCurve
from workbench.figures.noise import label_noise

Workbench = Callable[..., tuple[int, str, str]]


def test_labels_are_compared_with_roles(workbench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analyses.ground_truth.LENGTHS", (20,))
    code, out, err = workbench("check-labels", "sink", "--json", "-")
    found = json.loads(out)
    assert code == 0 and found["right"] == len(found["labels"]) == 4
    assert {label["label"] for label in found["labels"]} == {label["expected"] for label in found["labels"]} == {"sink"}
    assert "4 of 4 labels are right" in err


def test_a_wrong_label_is_told_by_the_exit_code(workbench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from analyses import ground_truth

    right = ground_truth.check_construction

    def wrong(*args: object) -> tuple[ground_truth.Check, ...]:
        return tuple(replace(check, expected="self") for check in right(*args))  # type: ignore[arg-type]

    monkeypatch.setattr(ground_truth, "LENGTHS", (20,))
    monkeypatch.setattr(ground_truth, "check_construction", wrong)
    code, out, _ = workbench("check-labels", "sink")
    assert code == 1 and "~~sink~~" in out and "0 of 4" in out


def test_bad_input_is_refused_before_any_work(workbench: Workbench, tmp_path: Path) -> None:
    assert workbench("check-labels", "sonk")[0] == 2
    code, _, err = workbench("check-labels", "sink", "--plot", tmp_path / "noise.pdf")
    assert code == 2 and "png" in err


def test_the_picture_has_a_panel_a_construction() -> None:
    levels = np.array([1e-3, 1.0])
    accuracy = (Estimate(1.0, (1.0, 1.0), 3, 3), Estimate(0.5, (0.0, 1.0), 3, 3))
    curve = NoiseCurve(levels, accuracy, np.array([1.0, 0.2]), np.array([0.0, 0.1]))
    figure = label_noise({"sink": curve, "self": curve})
    assert [trace.name for trace in figure.data].count("right labels") == 2
    assert list(figure.data[0].y) == [1.0, 0.5] and list(figure.data[1].y) == [0.0, 0.1]
    assert {note.text for note in figure.layout.annotations} >= {"sink", "self"}
