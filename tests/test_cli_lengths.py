"""`workbench lengths` on the command line, and SUBJECT@STEP wherever a subject is named."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from workbench.content import LengthsContent
from workbench.reports import lengths as report
from workbench.runs import Store

Workbench = Callable[..., tuple[int, str, str]]
QUICK = ("--lengths", "4,8", "--distributions", "uniform", "--strings", "2")


def test_everything_is_written_and_nothing_else_on_stdout(
    workbench: Workbench, trained_store: Path, tmp_path: Path
) -> None:
    html, csv = tmp_path / "lengths.html", tmp_path / "lengths.csv"
    code, out, err = workbench(
        *("lengths", "latest", "latest@10", *QUICK, "--store", trained_store),
        *("--out", html, "--csv", csv, "--json", "-"),
    )
    found = LengthsContent.model_validate(json.loads(out))
    assert code == 0 and "| uniform | 2D-RoPE, step 20 | 2D-RoPE, step 10 |" in err
    assert [(score.step, score.length) for score in found.scores] == [(20, 4), (20, 8), (10, 4), (10, 8)]
    assert html.read_text().startswith("<!DOCTYPE html>") and len(csv.read_text().splitlines()) == 5


def test_an_interruption_writes_what_is_done(
    workbench: Workbench, trained_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate = report.evaluate

    def interrupted(*args: object, **named: object) -> object:
        if named["intervals"] == [(8, 8)]:
            raise KeyboardInterrupt
        return evaluate(*args, **named)

    monkeypatch.setattr(report, "evaluate", interrupted)
    file = tmp_path / "lengths.json"
    code, out, _ = workbench("lengths", "latest", *QUICK, "--store", trained_store, "--json", file)
    found = LengthsContent.model_validate_json(file.read_text())
    assert code == 130 and "Interrupted after 1 of 2 scores" in out
    assert found.interrupted and [score.length for score in found.scores] == [4]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nothing",), "nothing"),
        (("latest", "latest"), None),
        (("latest", "latest@20", "latest@10", "latest@20"), "the same model"),
        (("latest", "built:induction"), "task.alphabet is 2 and 128"),
        (("latest@7",), "no checkpoint at step 7. Kept: 5, 10, 15, 20"),
        (("latest@x",), "'x' is no step"),
        (("latest@",), "'' is no step"),
        (("latest@10", "--checkpoint", "5"), "leave out @10 or --checkpoint 5"),
        (("built:induction@3",), "no checkpoint 3; leave out @3"),
        (("latest", "--lengths", "0"), "'0' is no length"),
        (("latest", "--distributions", "unifrom"), "uniform"),
        (("latest", "--strings", "0"), "strings"),
        (("latest", "--plot", "lengths.pdf"), "give one of png, svg"),
        (("latest", "--plot", "/nowhere/lengths.svg"), "no folder"),
        (("latest", "--plot", "one.svg", "--out", "one.svg"), "given for two files"),
        (("latest", "--out", "/nowhere/lengths.html"), "no folder"),
        (("latest", "--device", "quantum"), "unknown device"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    workbench: Workbench, trained_store: Path, tmp_path: Path, arguments: tuple[str, ...], says: str | None
) -> None:
    quick = () if "--lengths" in arguments or "--distributions" in arguments or "--strings" in arguments else QUICK
    code, _, err = workbench("lengths", *arguments, *quick, "--store", trained_store, "--csv", tmp_path / "x.csv")
    if says is None:  # the same words twice are one subject
        assert code == 0
        return
    assert code == 2 and says in err and "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_the_curves_are_drawn(
    workbench: Workbench, trained_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chromium_path: str
) -> None:
    monkeypatch.setenv("BROWSER_PATH", chromium_path)
    file = tmp_path / "lengths.svg"
    code, _, err = workbench("lengths", "latest", *QUICK, "--store", trained_store, "--plot", file)
    assert code == 0, err
    assert file.read_text().startswith("<svg") and "exact match" in file.read_text()


@pytest.mark.parametrize("verb", ["evaluate", "failures"])
def test_a_step_can_be_named_with_the_subject(workbench: Workbench, own_store: Path, verb: str) -> None:
    ask = (*QUICK, "--store", own_store, "--json", "-")
    more = ("--most", "0") if verb == "failures" else ()
    at_step = json.loads(workbench(verb, "latest@10", *ask, *more)[1])
    by_option = json.loads(workbench(verb, "latest", "--checkpoint", 10, *ask, *more)[1])
    assert at_step["step"] == by_option["step"] == 10
    key = "results" if verb == "evaluate" else "groups"
    assert at_step[key] == by_option[key]
    both = workbench("failures", "latest@5", "latest@10", *ask, "--most", "0")
    assert [one["step"] for one in json.loads(both[1])["reports"]] == [5, 10]


def test_the_schema_is_published(workbench: Workbench) -> None:
    code, out, _ = workbench("schema", "lengths")
    assert code == 0 and {"spread", "scores", "finding"} <= json.loads(out)["properties"].keys()


def test_a_store_without_runs_says_so(workbench: Workbench, store: Store) -> None:
    code, _, err = workbench("lengths", "latest", "--store", store.root)
    assert code == 2 and "there is no run" in err
