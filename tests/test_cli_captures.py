"""`workbench capture`, `captures` and `rm-capture`."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.attention import open_capture
from models.errors import UsageError
from models.overview import load_overview
from workbench.cli.captures import parse_size
from workbench.runs import Run, Store

Workbench = Callable[..., tuple[int, str, str]]
REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def own(own_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every command find a store it may change."""
    monkeypatch.setenv("COPY_WORKBENCH_STORE", str(own_store))


def newest() -> Run:
    return Store().open("latest")


def test_capture_list_inspect_remove(workbench: Workbench) -> None:
    code, out, err = workbench(
        "capture", "latest", "--strings", 3, "--length", "10-20", "--distribution", "uniform", "--failed",
        "--names", "resid_post,blocks.0.attn.hook_z", "--name", "mine", "--json", "-",
    )  # fmt: skip
    made = json.loads(out)
    assert code == 0 and "on disk" in err and "3 strings that are copied wrongly found among the" in err
    assert (made["id"], made["strings"], made["failed"], made["distribution"]) == ("mine", 3, 3, "uniform")
    assert 3 <= made["tried"] <= 1000 and not made["interrupted"] and made["step"] == 20
    capture = open_capture(newest().capture_path("mine"))
    assert capture.string(0).extra("blocks.0.hook_resid_post").shape == (len(capture.string(0).tokens), 16)

    code, out, _ = workbench("captures", "latest", "--json", "-")
    listed = json.loads(out)["captures"]
    assert code == 0 and listed[0]["id"] == "mine" and len(listed) == 2
    assert {key: made[key] for key in listed[0]} == listed[0]
    table = workbench("captures", "latest")[1]
    assert all(text in table for text in ("mine", "uniform", "complete", "size", "age"))

    code, out, _ = workbench("captures", "latest", "mi", "--json", "-")
    shown = json.loads(out)
    assert code == 0 and shown["extra"] == ["blocks.0.attn.hook_z", "blocks.0.hook_resid_post"]
    assert [string["exact"] for string in shown["contents"]] == [False] * 3
    for index, described in enumerate(shown["contents"]):
        string = capture.string(index)
        assert (described["length"], described["first_error"]) == (string.length, string.first_error)
        source = string.token_names[2 : 2 + string.length]
        assert described["tokens"] == len(string.tokens) and described["begins"].split()[:10] == source[:10]
    assert shown["tensors"]["q.0"] == {"shape": [1, len(capture.string(0).tokens), 8], "dtype": "F32"}
    assert "extra.blocks.0.hook_resid_post" in workbench("captures", "latest", "mine")[1]

    code, out, _ = workbench("rm-capture", "latest", "mine", "--yes")
    assert code == 0 and "removed mine" in out and "mine" not in os.listdir(newest().path / "captures")


def test_a_given_string_is_captured_as_it_is(workbench: Workbench) -> None:
    for text in ("0110100", "0.1 1,0.1.0.0"):
        code, out, _ = workbench("capture", "latest", "--text", text, "--checkpoint", 10, "--json", "-")
        made = json.loads(out)
        assert code == 0
        assert (made["strings"], made["length"], made["distribution"], made["step"]) == (1, 7, "given", 10)
        string = open_capture(newest().capture_path(made["id"])).string(0)
        assert string.token_names[2:9] == list("0110100")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--text", "0121"], "token 2 is not in the alphabet"),
        (["--text", "0.99999999999999999999"], "is not in the alphabet"),
        (["--text", ""], "is no string"),
        (["--text", "01a"], "is no string"),
        (["--text", "01", "--failed"], "--failed chooses others"),
        (["--text", "01", "--length", "5"], "--length chooses others"),
        (["--text", "01", "--distribution", "uniform"], "--distribution chooses others"),
    ],
)
def test_what_is_no_string_of_the_run_is_refused_in_a_line(workbench: Workbench, words: list[str], said: str) -> None:
    code, out, err = workbench("capture", "latest", *words)
    assert (code, out) == (2, "") and said in err and len(err.splitlines()) == 1


def test_a_capture_of_a_checkpoint_is_of_its_weights(workbench: Workbench) -> None:
    for step in (5, 20):
        code, out, _ = workbench(
            "capture",
            "latest",
            "--checkpoint",
            step,
            "--strings",
            1,
            "--length",
            8,
            "--name",
            f"at{step}",
            "--json",
            "-",
        )
        assert code == 0 and json.loads(out)["step"] == step
    early, late = (open_capture(newest().capture_path(name)).string(0) for name in ("at5", "at20"))
    assert (early.tokens == late.tokens).all() and abs(early.head(0, 0).q - late.head(0, 0).q).max() > 1e-3


def test_long_strings_get_their_overviews_unless_told_otherwise(workbench: Workbench) -> None:
    long = ("capture", "latest", "--strings", 1, "--length", 1100)
    code, out, err = workbench(*long, "--name", "with", "--json", "-")
    assert code == 0 and json.loads(out)["overviews"] > 0 and "overviews of long maps: 1/1" in err
    assert workbench(*long, "--name", "without", "--no-overview")[0] == 0
    held = {name: open_capture(newest().capture_path(name)).string(0) for name in ("with", "without")}
    assert load_overview(held["with"], 0, 0) is not None and load_overview(held["without"], 0, 0) is None


def test_ctrl_c_among_the_overviews_keeps_the_capture(workbench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("workbench.captures.ensure_overview", stop)
    code, out, err = workbench("capture", "latest", "--strings", 1, "--length", 1100, "--name", "cut", "--json", "-")
    assert code == 130 and json.loads(out)["interrupted"] and "the capture is complete" in err
    assert workbench("captures", "latest", "cut")[0] == 0


def test_ctrl_c_leaves_nothing(own_store: Path, in_foreground: Callable[[], None]) -> None:
    folder = newest().path / "captures"
    before = set(os.listdir(folder))
    argv = ["capture", "latest", "--strings", "5000", "--length", "40", "--name", "big", "--store", str(own_store)]
    child = subprocess.Popen(
        [sys.executable, "-m", "workbench", *argv],
        cwd=REPOSITORY, stderr=subprocess.PIPE, text=True, preexec_fn=in_foreground,
    )  # fmt: skip
    begun = time.monotonic()
    while not list(folder.glob(".partial-big/string-0*")) and time.monotonic() - begun < 60:
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130 and err.splitlines()[-1] == "interrupted: nothing was captured"
    assert set(os.listdir(folder)) == before


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--length", "5,6"], 2, "give one length"),
        (["--length", "0"], 2, "--length: '0' is no length"),
        (["--length", "9-3"], 2, "is no length"),
        (["--distribution", "unifrom"], 2, "Did you mean 'uniform'"),
        (["--names", "resid_pots"], 2, "Did you mean 'resid_post'"),
        (["--names", "pattern"], 2, "recomputed exactly"),
        (["--names", " , "], 2, "no activation"),
        (["--budget", "4 gigs"], 2, "is no size"),
        (["--budget", "1kB"], 2, "the budget is 1 kB; this would fit: --budget"),
        (["--strings", "9", "--length", "1900000", "--budget", "1GB"], 2, "this would fit: --length"),
        (["--length", "3000000"], 2, "takes 6000006 positions, model.n_ctx is 4000000"),
        (["--name", "../x"], 2, "not a capture name"),
        (["--name", "a b"], 2, "not a name for a new capture"),
        (["--name", "latest"], 2, "stands for the newest"),
        (["--strings", "0"], 2, "--strings"),
        (["--checkpoint", "7"], 2, "Kept: 5, 10, 15, 20"),
        (["--device", "quantum"], 2, "unknown device"),
        (["--json", "/tmp"], 2, "that is a folder"),
        (["--json", "no/such/folder/x.json"], 2, "there is no folder"),
    ],
)
def test_what_cannot_be_captured_is_one_line(
    workbench: Workbench, own_store: Path, options: list[str], code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("models.capture.capture_strings", pytest.fail)
    before = sorted(own_store.rglob("*"))
    got, out, err = workbench("capture", "latest", *options)
    lines = err.splitlines()
    assert (got, out) == (code, "") and len(lines) == 1 and lines[0].startswith("error: ") and said in lines[0], err
    assert sorted(own_store.rglob("*")) == before


def test_strings_over_the_models_positions_are_refused_first(
    workbench: Workbench, own_store: Path, tiny_recipe: Path
) -> None:
    learned = 'model.positions={scheme="learned", max_positions=100}'
    assert workbench("train", tiny_recipe, "--set", learned, "--no-evaluate", "--steps", 1)[0] == 0
    code, out, err = workbench("capture", "latest", "--length", "100000")
    assert code == 2 and out == "" and len(err.splitlines()) == 1
    assert "takes 200006 positions, max_positions is 100; the longest that fits has 47" in err
    assert workbench("capture", "latest", "--length", 47, "--strings", 1)[0] == 0


def test_an_attention_only_model_is_said_to_have_no_mlp(workbench: Workbench, tiny_recipe: Path) -> None:
    assert workbench("train", tiny_recipe, "--set", "model.d_mlp=0", "--no-evaluate", "--steps", 1)[0] == 0
    code, _, err = workbench("capture", "latest", "--names", "resid_post,mlp_out")
    assert code == 2 and "is attention-only, it has no MLP and so no mlp_out" in err and len(err.splitlines()) == 1
    assert "mlp_out" not in workbench("capture", "--help")[1]


def test_captured_files_have_the_mode_of_any_new_file(workbench: Workbench) -> None:
    code, out, _ = workbench("capture", "latest", "--strings", 1, "--length", 1100, "--name", "long")
    assert code == 0 and "captured long: 1 string of 1100 source tokens, " in out
    files = list((newest().path / "captures" / "long").iterdir())
    assert len(files) == 3 and len({path.stat().st_mode for path in files}) == 1


def test_no_failure_is_exit_code_one_and_leaves_nothing(
    workbench: Workbench, own_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from models import capture
    from models.evaluation import Outcome

    def perfect(model: object, batch: object) -> Outcome:
        rows, exists = batch.scored_rows  # type: ignore[attr-defined]
        return Outcome(rows, exists | True, exists)

    monkeypatch.setattr(capture, "answer", perfect)
    before = sorted(own_store.rglob("*"))
    code, out, err = workbench("capture", "latest", "--failed", "--tries", 77, "--json", "-")
    assert code == 1 and out == "" and "all 77 imbalanced strings" in err.splitlines()[-1]
    assert sorted(own_store.rglob("*")) == before


def test_fewer_failures_than_asked_for_are_kept_and_said(workbench: Workbench) -> None:
    code, out, err = workbench(
        "capture", "latest", "--failed", "--strings", 50, "--tries", 9, "--length", 30, "--json", "-"
    )
    made = json.loads(out)
    assert code == 0 and made["tried"] == 9 and 0 < made["strings"] == made["failed"] <= 9
    assert f"{made['strings']} strings that are copied wrongly found among the 9 tried" in err


def test_odd_folders_are_listed_and_break_nothing(workbench: Workbench) -> None:
    folder = newest().path / "captures"
    (good,) = os.listdir(folder)
    (folder / "[bold]photos").mkdir()
    (folder / "broken").mkdir()
    (folder / "broken" / "capture.json").write_text("{")
    code, out, _ = workbench("captures", "latest")
    assert code == 0 and "[bold]photos" in out and "foreign" in out and "unreadable" in out and good in out
    listed = {entry["id"]: entry for entry in json.loads(workbench("captures", "latest", "--json", "-")[1])["captures"]}
    assert listed["broken"]["strings"] is None and "not a readable capture" in listed["broken"]["message"]
    code, _, err = workbench("captures", "latest", "broken")
    assert code == 1 and "unreadable" in err
    code, _, err = workbench("rm-capture", "latest", "[bold]photos", "--yes")
    assert code == 2 and "left alone" in err
    assert workbench("rm-capture", "latest", "broken", good, "--yes")[0] == 0
    assert os.listdir(folder) == ["[bold]photos"]
    assert "has no capture yet" in workbench("captures", "latest")[1] or "photos" in workbench("captures", "latest")[1]


@pytest.mark.parametrize(("answer", "removed"), [("y\n", True), ("n\n", False), ("", False)])
def test_rm_capture_asks_first(own_store: Path, answer: str, removed: bool) -> None:
    argv = [sys.executable, "-m", "workbench", "rm-capture", "latest", "latest", "--store", str(own_store)]
    asked = subprocess.run(argv, cwd=REPOSITORY, input=answer, capture_output=True, text=True)
    assert asked.returncode == (0 if removed else 1)
    assert removed or "nothing was changed" in asked.stderr
    assert re.search(r"Remove imbalanced-\S+ \(\d.*B\) from run tiny", asked.stderr)
    assert bool(newest().captures) is not removed


@pytest.mark.parametrize(
    "argv", [["captures", "latest"], ["captures", "latest", "latest"], ["rm-capture", "latest", "latest", "-y"]]
)
def test_looking_and_removing_do_without_torch(argv: list[str]) -> None:
    check = f"import sys; from workbench.cli import main; c = main({argv!r}); sys.exit(c or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], cwd=REPOSITORY).returncode == 0


@pytest.mark.parametrize(
    ("text", "size"),
    [("4GB", 4 * 10**9), ("500 MB", 5 * 10**8), ("2GiB", 2**31), ("1.5k", 1500), ("1000", 1000), (" 3 tb", None),
     ("4 gigs", None), ("-1GB", None), ("0", None), ("1iB", None), ("", None), ("nan", None)],
)  # fmt: skip
def test_sizes(text: str, size: int | None) -> None:
    if size is None:
        with pytest.raises(UsageError, match="--budget"):
            parse_size(text)
    else:
        assert parse_size(text) == size


@given(st.text(max_size=8))
def test_sizes_are_positive_or_refused(text: str) -> None:
    with suppress(UsageError):
        assert parse_size(text) > 0
