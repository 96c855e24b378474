"""`workbench repetition` on the command line: any text, its measures, its contract."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from workbench.content import RepetitionContent

Workbench = Callable[..., tuple[int, str, str]]


class Stdin:
    """Bytes as a process gets them."""

    def __init__(self, raw: bytes) -> None:
        self.buffer = io.BytesIO(raw)


def test_the_json_is_the_contract_and_nothing_else_is_on_stdout(workbench: Workbench) -> None:
    code, out, err = workbench("repetition", "--text", "0101", "--text", "ab\n", "--json", "-")
    found = RepetitionContent.model_validate(json.loads(out))
    assert code == 0 and "longest repeat" in err
    first, second = found.strings
    assert (first.name, first.length, first.alphabet, first.longest_repeat) == ("0101", 4, 2, 2)
    assert first.repeat_starts == (0, 2)
    # Positions |0101: before them stand -, 0, 01, 010, 0101; the last token is 0 twice and 1 twice.
    assert first.repeated_share["1"] == pytest.approx(4 / 5) and first.mean_competitors["1"] == pytest.approx(4 / 5)
    assert first.repeated_share["2"] == pytest.approx(2 / 5) and first.repeated_share["3"] == 0
    assert list(first.repeated_share) == [str(m) for m in range(1, 17)]
    assert (second.name, second.length, second.alphabet, second.repeat_starts) == ("ab\\n", 3, 3, None)
    assert first.longest_match is None and first.survival is None


def test_positions_and_survival_where_asked_for(workbench: Workbench, tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    code, out, _ = workbench(
        *("repetition", "--text", "0011", "--alphabet", 4, "--period", 4, "--flip", 0.5),
        *("--positions", "--json", path),
    )
    [string] = json.loads(path.read_text())["strings"]
    assert code == 0 and "0.062" in out
    assert (string["survival"], string["alphabet"]) == (0.5**4, 4)
    assert string["longest_match"] == [0, 1, 1, 1, 1] and len(string["competitors"]) == 16


def test_files_and_stdin_lose_one_line_break(
    workbench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, raw in (("unix", b"0101\n"), ("windows", b"0101\r\n"), ("two", b"0101\n\n")):
        (tmp_path / name).write_bytes(raw)
    monkeypatch.setattr(sys, "stdin", Stdin("äöäö\n".encode()))
    files = [word for name in ("unix", "windows", "two") for word in ("--file", tmp_path / name)]
    _, out, _ = workbench("repetition", *files, "--file", "-", "--json", "-")
    strings = json.loads(out)["strings"]
    assert [string["length"] for string in strings] == [4, 4, 5, 4]
    assert strings[3]["name"] == "stdin" and strings[3]["longest_repeat"] == 2


def test_one_token_is_never_repeated(workbench: Workbench) -> None:
    code, out, _ = workbench("repetition", "--text", "x")
    assert code == 0 and "0.000" in out and "nan" not in out.lower()


def test_markup_and_invisible_text_are_shown_as_text(workbench: Workbench) -> None:
    code, out, _ = workbench("repetition", "--text", "[red]a\x1b[31m\u202e", "--text", "</script>")
    assert code == 0 and "[red]a" in out and "</script>" in out
    assert "\x1b" not in out and "\u202e" not in out


def test_what_cannot_be_measured_is_said(workbench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "empty").write_bytes(b"\n")
    (tmp_path / "large").write_bytes(b"01" * 2_500_000)
    for words, said in (
        ((), "no string was given; give --text STRING"),
        (("--text", ""), "the string is empty"),
        (("--file", tmp_path / "empty"), "the string is empty"),
        (("--file", tmp_path / "binary"), "not a text in UTF-8"),
        (("--file", tmp_path), "that is a folder"),
        (("--file", tmp_path / "large"), "at most 1,000,000"),
        (("--text", "012", "--alphabet", 2), "3 different tokens"),
        (("--text", "01", "--alphabet", 10**20), "--alphabet"),
        (("--text", "01", "--period", 10**400, "--flip", 0.5), "--period"),
        (("--text", "01", "--period", 4), "give both or neither"),
        (("--text", "01", "--flip", "nan", "--period", 4), "--flip"),
        (("--text", "01", "--positions"), "give --json PATH"),
        (("--file", "-", "--file", "-"), "stdin can be read once"),
    ):
        code, out, err = workbench("repetition", *words)
        assert code == 2 and out == "" and said in err and err.count("\n") == 1, words
    code, _, err = workbench("repetition", "--file", tmp_path / "nowhere")
    assert code == 1 and "nowhere" in err


def test_a_file_whose_name_is_no_text_is_measured(workbench: Workbench, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"name\xff")
    path.write_text("0101")
    assert workbench("repetition", "--file", path, "--json", tmp_path / "out.json")[0] == 0
    (string,) = json.loads((tmp_path / "out.json").read_text())["strings"]
    assert string["name"].endswith("name\\udcff")


def test_the_schema_is_published(workbench: Workbench) -> None:
    code, out, _ = workbench("schema", "repetition")
    assert code == 0 and "strings" in json.loads(out)["properties"]


def test_a_string_of_100_000_takes_a_second_and_no_torch(tmp_path: Path) -> None:
    path = tmp_path / "long"
    path.write_text("".join(np.random.default_rng(0).choice(["0", "1"], 100_000)))
    code = (
        "import sys, time; from workbench.cli import main; from analyses.repetition import repetition\n"
        "repetition('0110'); text = open(sys.argv[1]).read(); start = time.process_time(); repetition(text)\n"
        "seconds = time.process_time() - start\n"
        "assert main(['repetition', '--file', sys.argv[1]]) == 0 and 'torch' not in sys.modules\n"
        "print(seconds)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, path], cwd=Path(__file__).parent.parent, capture_output=True, text=True, check=True
    )
    assert float(done.stdout.splitlines()[-1]) < 1
