"""`workbench heads` and `workbench schema` on the command line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from workbench.cli.heads import DEFAULTS, is_kept
from workbench.cli.output import Output
from workbench.content import ComparisonContent, HeadsContent
from workbench.runs import Store

Workbench = Callable[..., tuple[int, str, str]]
QUICK = ("--lengths", "16,24,32,40", "--distributions", "uniform", "--strings", "2")


def test_heads_writes_what_the_contract_says_and_nothing_else_on_stdout(workbench: Workbench, store: Store) -> None:
    code, out, err = workbench("heads", "built:sink", *QUICK, "--store", store.root, "--json", "-")
    found = json.loads(out)
    assert code == 0 and found["subject"] == "built:sink" and "| 0.0 | sink |" in err
    (head,) = found["heads"]
    assert head.keys() >= {"layer", "head", "label", "margin", "certain", "scores", "expected", "intervention"}
    assert head["label"] == head["expected"] == "sink"
    assert all(score.keys() >= {"value", "interval", "rows"} for score in head["scores"].values())
    assert HeadsContent.model_validate(found).heads[0].label == "sink"


def test_heads_writes_the_files_that_were_asked_for(workbench: Workbench, store: Store, tmp_path: Path) -> None:
    html, csv, both = tmp_path / "heads.html", tmp_path / "heads.csv", tmp_path / "both.json"
    code, out, _ = workbench(
        *("heads", "built:uniform", "built:self", *QUICK, "--store", store.root),
        *("--out", html, "--csv", csv, "--json", both),
    )
    assert code == 0 and "built:uniform" in out and html.read_text().startswith("<!DOCTYPE html>")
    assert {line.split(",")[0] for line in csv.read_text().splitlines()[1:]} == {"built:uniform", "built:self"}
    compared = ComparisonContent.model_validate_json(both.read_text())
    assert [report.heads[0].label for report in compared.reports] == ["diffuse", "self"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("built:nothing",), "unknown construction"),
        (("nothing",), "nothing"),
        (("built:sink", "--lengths", "10-20"), "single lengths"),
        (("built:sink", "--lengths", "x"), "no length"),
        (("built:sink", "--distributions", "unifrom"), "uniform"),
        (("built:sink", "--strings", "3"), "even number"),
        (("built:sink", "built:self", "--checkpoints"), "one run"),
        (("built:sink", "--out", "/nowhere/heads.html"), "no folder"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    workbench: Workbench, store: Store, tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    code, _, err = workbench("heads", *arguments, "--store", store.root, "--csv", tmp_path / "heads.csv")
    assert code == 2 and says in err and "Traceback" not in err
    assert list(tmp_path.glob("heads.csv")) == []


def test_schemas_are_published(workbench: Workbench) -> None:
    for report in ("heads", "heads-comparison", "heads-history"):
        code, out, _ = workbench("schema", report)
        assert code == 0 and json.loads(out)["properties"].keys() >= {"format", "about"}
    code, _, err = workbench("schema", "head")
    assert code == 2 and "heads" in err


def test_a_quick_look_does_not_take_the_place_of_a_kept_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert is_kept(Output(), dict(DEFAULTS))
    for name, value in (("strings", 2), ("lengths", [20]), ("distributions", ["uniform"]), ("seed", 1)):
        assert not is_kept(Output(), DEFAULTS | {name: value})
    assert "not kept" in capsys.readouterr().err
