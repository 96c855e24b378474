"""`workbench failures` on the command line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from workbench.content import FailuresComparison, FailuresContent
from workbench.reports import keep
from workbench.runs import Store

Workbench = Callable[..., tuple[int, str, str]]
QUICK = ("--lengths", "20", "--distributions", "repeat-structure", "--strings", "2", "--law-length", "20")


def test_failures_writes_what_the_contract_says_and_nothing_else_on_stdout(workbench: Workbench, store: Store) -> None:
    code, out, err = workbench("failures", "built:induction-3", *QUICK, "--store", store.root, "--json", "-")
    found = json.loads(out)
    assert code == 0 and found["subject"] == "built:induction-3" and "| repetition | 2 | 2 |" in err
    assert (found["strings"], found["failed"], len(found["failures"])) == (2, 2, 2)
    for failure in found["failures"]:
        assert {"string", "length", "first_error", "cause", "confirmed", "evidence"} <= failure.keys()
        assert (failure["cause"], failure["confirmed"]) == ("repetition", True)
    assert {"period", "flip", "survival", "strings", "exact_match", "interval"} <= found["law"][0].keys()
    assert {"failure", "margin", "fixed_length"} <= found["regression"].keys()
    assert found["causes"]["repetition"]["confirmed"] == 2
    assert FailuresContent.model_validate(found).failed == 2


def test_a_run_keeps_its_report_and_several_checkpoints_are_compared(
    workbench: Workbench, own_store: Path, tmp_path: Path
) -> None:
    html, csv, both = tmp_path / "failures.html", tmp_path / "failures.csv", tmp_path / "both.json"
    code, out, _ = workbench(
        *("failures", "latest", "--checkpoint", 10, "--checkpoint", 20, "--store", own_store),
        *("--lengths", "4,12", "--strings", "2", "--most", "1", "--distributions", "uniform"),
        *("--out", html, "--csv", csv, "--json", both),
    )
    assert code == 0 and "at step 10" in out and html.read_text().startswith("<!DOCTYPE html>")
    compared = FailuresComparison.model_validate_json(both.read_text())
    assert [report.step for report in compared.reports] == [10, 20]
    assert csv.read_text().startswith("subject,step,distribution,length,string,")
    run = Store(own_store).open("latest")
    assert keep.kept_failures_steps(run) == [10, 20]
    assert keep.kept_failures(run, 20) == compared.reports[1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("built:nothing",), "unknown construction"),
        (("nothing",), "nothing"),
        (("built:induction", "--lengths", "10-20"), "single lengths"),
        (("built:induction", "--lengths", "x"), "no length"),
        (("built:induction", "--distributions", "unifrom"), "uniform"),
        (("built:induction", "--checkpoint", "3"), "no checkpoint 3"),
        (("built:induction", "--strings", "0"), "strings"),
        (("built:induction", "--law-length", "5", "--lengths", "8", "--strings", "1"), "at least 8"),
        (("built:induction", "--out", "/nowhere/failures.html"), "no folder"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    workbench: Workbench, store: Store, tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    code, _, err = workbench("failures", *arguments, "--store", store.root, "--csv", tmp_path / "failures.csv")
    assert code == 2 and says in err and "Traceback" not in err
    assert list(tmp_path.glob("failures.csv")) == []


def test_schemas_are_published(workbench: Workbench) -> None:
    for report in ("failures", "failures-comparison"):
        code, out, _ = workbench("schema", report)
        assert code == 0 and json.loads(out)["properties"].keys() >= {"format", "about"}


def test_a_quick_look_does_not_take_the_place_of_a_fuller_report(workbench: Workbench, own_store: Path) -> None:
    run = Store(own_store).open("latest")
    quick = ("failures", run.id, "--store", own_store, "--lengths", "8", "--distributions", "uniform", "--most", 0)
    assert workbench(*quick, "--strings", 4)[0] == 0
    assert keep.kept_failures(run, run.step).strings == 4
    code, _, err = workbench(*quick, "--strings", 2)
    assert code == 0 and "has a report of 4 strings" in err
    assert keep.kept_failures(run, run.step).strings == 4


def test_an_absurd_length_of_the_law_is_refused(workbench: Workbench, own_store: Path) -> None:
    code, _, err = workbench("failures", "latest", "--store", own_store, "--law-length", 99_999_999_999)
    assert code == 2 and "--law-length" in err
