"""`workbench export`: the pages of a run, whole and offline, or nothing."""

import html
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest

from models.attention import open_capture
from tests import fake_reports, fake_store
from workbench.reports import site as site_module
from workbench.reports.string_html import pattern_codes

Workbench = Callable[..., tuple[int, str, str]]
HOSTILE = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "\u202e\u200b\n"]


class _Parsed(HTMLParser):
    """Addresses and text of a page, and how often it closes what it opens."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.tags: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "srcset", "data", "action"):
                self.addresses.append(str(value))
            if name == "id":
                self.ids.add(str(value))


def parsed(page: Path) -> _Parsed:
    parser = _Parsed()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser


def parsed_text(page: Path) -> str:
    return html.unescape(page.read_text(encoding="utf-8")).lower()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    root = tmp_path_factory.mktemp("export") / "store"
    ids = fake_store.fill(root)
    fake_reports.keep_heads(root, ids["rope"], [["locator", "induction"], ["aligned"]])
    fake_reports.keep_failures(root, ids["rope"])
    return root, ids


@pytest.fixture
def exported(workbench: Workbench, store: tuple[Path, dict[str, str]], tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    root, ids = store
    code, out, err = workbench("export", ids["rope"], "--store", root, "--out", tmp_path / "site", "--json", "-")
    assert code == 0, err
    return tmp_path / "site", json.loads(out)


def test_all_pages_are_there_and_every_link_leads_to_one_of_them(exported: tuple[Path, dict[str, Any]]) -> None:
    folder, told = exported
    assert told["pages"][0] == "index.html"
    assert {file.name for file in folder.iterdir()} == {*told["pages"], "plotly.min.js"}
    assert {"heads.html", "failures.html"} < set(told["pages"]) and told["missing"] == []
    assert told["bytes"] == sum(file.stat().st_size for file in folder.iterdir())
    for name in told["pages"]:
        page = parsed(folder / name)
        for address in page.addresses:
            file, _, anchor = unquote(address).partition("#")
            assert address.startswith("data:") or (folder / (file or name)).is_file(), f"{name}: {address}"
            assert not anchor or anchor in parsed(folder / (file or name)).ids
        assert "plotly.min.js" not in page.addresses or page.tags.count("figure")


def test_failed_strings_come_first_and_their_number_is_bounded(
    workbench: Workbench, store: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    root, ids = store
    code, _, _ = workbench("export", ids["rope"], "--store", root, "--out", tmp_path / "few", "--strings", 1)
    assert code == 0
    strings = [file.name for file in (tmp_path / "few").iterdir() if file.name.startswith("string-")]
    captures = list((root / ids["rope"] / "captures").iterdir())
    assert len(strings) == len(captures)
    for name in strings:
        assert "first wrong token" in (tmp_path / "few" / name).read_text(encoding="utf-8")


def test_a_run_without_reports_and_captures_says_what_makes_them(
    workbench: Workbench, store: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    root, ids = store
    code, out, _ = workbench("export", ids["nope"], "--store", root, "--out", tmp_path / "bare", "--json", "-")
    told = json.loads(out)
    assert code == 0 and told["pages"] == ["index.html"]
    missing = " ".join(told["missing"])
    assert all(f"workbench {verb} {ids['nope']}" in missing for verb in ("heads", "failures", "capture"))
    assert all(said.lower() in parsed_text(tmp_path / "bare" / "index.html") for said in told["missing"])


def test_a_damaged_file_is_named_and_nothing_is_left(
    workbench: Workbench, store: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    root, ids = store
    code, _, err = workbench("export", ids["again"], "--store", root, "--out", tmp_path / "site")
    assert code == 1 and "string-0000.safetensors" in err and list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_something_is_left_alone(
    workbench: Workbench, store: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    root, ids = store
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years")
    code, _, err = workbench("export", ids["rope"], "--store", root, "--out", tmp_path / "mine")
    assert code == 2 and "is there already" in err
    assert [file.name for file in tmp_path.rglob("*")] == ["mine", "thesis.txt"]


def test_the_folder_one_stands_in_and_one_name_for_two_things_are_refused(
    workbench: Workbench, store: tuple[Path, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, ids = store
    monkeypatch.chdir(tmp_path)
    for words, said in ((("--out", "."), "name a new one"), (("--out", "site", "--json", "site"), "give another file")):
        code, _, err = workbench("export", ids["rope"], "--store", root, *words)
        assert code == 2 and said in err and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_failure_half_way_leaves_nothing(
    workbench: Workbench, store: tuple[Path, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, ids = store

    def break_off(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(site_module, "string_page", break_off)
    code, _, err = workbench("export", ids["rope"], "--store", root, "--out", tmp_path / "site")
    assert code == 1 and "free some space" in err
    assert list(tmp_path.iterdir()) == []


def test_text_from_a_run_is_never_markup(
    workbench: Workbench, store: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    root, ids = store
    folder = next((root / ids["rope"] / "captures").iterdir())
    about = json.loads((folder / "capture.json").read_text(encoding="utf-8"))
    about["vocabulary"]["names"][: len(HOSTILE)] = HOSTILE
    about["distribution"] = HOSTILE[0]
    (folder / "capture.json").write_text(json.dumps(about), encoding="utf-8")
    code, _, err = workbench("export", ids["rope"], "--store", root, "--out", tmp_path / "site")
    assert code == 0, err
    for page in (tmp_path / "site").glob("string-*.html"):
        text = page.read_text(encoding="utf-8")
        body = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
        assert "<script>alert" not in text and "<img src=x" not in body and "\u202e" not in body


def test_small_maps_are_the_pattern(store: tuple[Path, dict[str, str]]) -> None:
    root, ids = store
    string = open_capture(next((root / ids["rope"] / "captures").iterdir())).string(0)
    codes = pattern_codes(string, 0, 0)
    n = len(string.tokens)
    assert codes.shape == (n, n) if n <= 128 else max(codes.shape) <= 128
    exact = string.head(0, 0).tile(slice(0, n), slice(0, n))
    if n <= 128:
        seen = codes != 255
        np.testing.assert_array_equal(seen, np.tril(np.ones((n, n), bool)))
        np.testing.assert_allclose((codes[seen] / 254) ** 2, exact[seen], atol=0.01)
