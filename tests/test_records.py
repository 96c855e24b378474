"""metrics.jsonl, read while it is written."""

import json
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workbench.records import merge_records, read_records
from workbench.runs import Run, Store, read_metrics

MakeRun = Callable[..., Run]

many = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@many
@given(st.lists(st.integers(1, 60), max_size=30), st.integers(0, 25))
def test_reading_in_pieces_equals_reading_at_once(tmp_path: Path, cuts: list[int], n: int) -> None:
    whole = b"".join(json.dumps({"step": s, "name": "⏎é"}, ensure_ascii=False).encode() + b"\n" for s in range(n))
    path, seen, offset, end = tmp_path / "metrics.jsonl", [], 0, 0
    for cut in [*cuts, len(whole)]:
        end = min(end + cut, len(whole))
        path.write_bytes(whole[:end])
        new, offset = read_records(tmp_path, offset)
        seen += new
        assert offset == whole[:end].rfind(b"\n") + 1
    assert [record["step"] for record in seen] == list(range(n))


@many
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 6), st.booleans()), max_size=12))
def test_a_reader_follows_a_run_that_is_resumed_again_and_again(
    tmp_path: Path, sessions: list[tuple[int, int, bool]]
) -> None:
    """Each session takes back some records, then adds some of other sizes; the reader may sleep through it."""
    path, written, kept, offset = tmp_path / "metrics.jsonl", [], [], 0
    path.write_bytes(b"")
    for number, (back, more, awake) in enumerate([*sessions, (0, 1, True)]):
        written = written[: max(0, len(written) - back)]
        for step in range(len(written) + 1, len(written) + more + 1):
            written.append({"step": step, "session": "x" * (number * 7 % 5)})
        path.write_text("".join(json.dumps(record) + "\n" for record in written))
        if awake:
            new, offset = read_records(tmp_path, offset)
            kept = merge_records(kept, new)
    assert [record["step"] for record in kept] == [record["step"] for record in written]


def test_damaged_lines_are_passed_over(store: Store, make_run: MakeRun) -> None:
    run = make_run(store, records=2)
    with open(run.path / "metrics.jsonl", "ab") as file:
        file.write(b'garbage\n[1]\n{"no": "step"}\n\xff\xfe\n{"step": 9}\n{"step": 1')
    records, offset = read_metrics(run)
    assert [record["step"] for record in records] == [1, 2, 9]
    assert read_metrics(run, offset) == ([], offset)
    assert read_records(run.path / "nowhere", 500) == ([], 0)
