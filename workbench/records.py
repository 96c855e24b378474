"""Reading metrics.jsonl, one JSON record a line, while another process may be appending to it."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def read_records(folder: Path, offset: int = 0) -> tuple[list[dict[str, Any]], int]:
    """Return the metric records of the run in `folder` from byte `offset` on, and the offset to go on from.

    A last line that is still being written is left for the next call. A resumed run has its file rewritten up to
    its checkpoint: where `offset` no longer is the start of a line, everything is read again. So a caller keeps
    its records up to date with `merge_records`, which also drops what a resumed run has taken back.
    """
    try:
        with open(folder / "metrics.jsonl", "rb") as file:
            if offset > 0:
                file.seek(offset - 1)
                if file.read(1) != b"\n":
                    file.seek(offset := 0)
            data = file.read()
    except OSError:
        return [], 0
    complete = data.rfind(b"\n") + 1
    return _records(data[:complete].splitlines()), max(offset, 0) + complete


def merge_records(kept: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return `kept` followed by `new`, without those of `kept` that `new` repeats (steps only ever grow)."""
    if not new:
        return kept
    return [record for record in kept if record["step"] < new[0]["step"]] + new


def mean_exact_match(results: Iterable[dict[str, Any]], lengths: tuple[int, int] | None) -> float | None:
    """Return the mean exact match of the score dicts whose strings are no longer than `lengths[1]`; None for none."""
    try:
        inside = [float(score["exact_match"]) for score in results if lengths and score["length"] <= lengths[1]]
    except (KeyError, TypeError, ValueError):
        return None
    return sum(inside) / len(inside) if inside else None


def is_score(value: object) -> bool:
    """Return whether `value` has what every score dict has, see `models.evaluation.Score`."""
    numbers = ("length", "shortest", "strings", "exact_match", "token_accuracy")
    return (
        isinstance(value, dict)
        and isinstance(value.get("distribution"), str)
        and all(isinstance(value.get(name), int | float) for name in numbers)
        and isinstance(value.get("interval"), list)
        and len(value["interval"]) == 2
    )


def _records(lines: Iterable[bytes]) -> list[dict[str, Any]]:
    """Parse JSON lines; one that is damaged or is no record is passed over."""
    records = []
    for line in lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and isinstance(record.get("step"), int):
            records.append(record)
    return records


def last_record(path: Path, tail: int = 65_536) -> dict[str, Any]:
    """Return the last record in `path`, reading only its last `tail` bytes; empty for none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - tail))
            lines = file.read().splitlines()
    except OSError:
        return {}
    return next((records[0] for line in reversed(lines) if (records := _records([line]))), {})


def last_evaluation(path: Path) -> list[dict[str, Any]]:
    """Return the score dicts of the last record in `path` that has any."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return []
    for line in reversed(lines):
        if b'"evaluation"' in line:
            for record in _records([line]):
                scores = record.get("evaluation")
                if isinstance(scores, list) and all(map(is_score, scores)):
                    return scores
    return []
