import csv
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest
from pydantic import ValidationError

from models.constructions import CONSTRUCTIONS
from models.errors import UsageError, WorkbenchError
from workbench.content import SCHEMAS, ComparisonContent, HeadsContent, schema
from workbench.content.base import finite
from workbench.reports import comparison, comparison_html, heads_html, heads_text, keep
from workbench.reports.heads import Examined, examine
from workbench.reports.html import Document, Mark, Picture
from workbench.runs import Store
from workbench.subjects import load_subject

OPTIONS = {"lengths": [16, 24, 32, 40], "distributions": ["uniform"], "strings": 2}


@pytest.fixture(scope="module")
def examined(tmp_path_factory: pytest.TempPathFactory) -> Examined:
    store = Store(tmp_path_factory.mktemp("store"))
    return examine(load_subject(store, "built:rope-locator", "cpu"), **OPTIONS)


class _Outside(HTMLParser):
    """Collects every address that a browser would follow by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [str(value) for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]


def test_every_head_of_a_hand_built_model_is_called_what_it_was_built_for(examined: Examined) -> None:
    content = examined.content
    assert [(head.layer, head.head, head.label) for head in content.heads] == [(0, 0, "locator"), (1, 0, "aligned")]
    assert all(head.expected == head.label and head.certain for head in content.heads)
    assert {head.intervention["state"] for head in content.heads} == {"confirmed"}
    assert content.finding == "layer 0: locator; layer 1: aligned"


def test_the_report_says_which_path_matters_and_where_the_index_can_be_read(examined: Examined) -> None:
    strongest = examined.content.paths[0]
    assert (strongest.sender, strongest.receiver, strongest.input in "qk") == ((0, 0), (1, 0), True)
    probes = {found["kind"]: found for found in examined.content.probes}
    assert probes.keys() == {"linear", "neighbours"}


def test_the_json_is_what_the_published_schema_says(examined: Examined) -> None:
    text = examined.content.model_dump_json()
    assert HeadsContent.model_validate_json(text) == examined.content
    known = schema("heads")["properties"]
    assert {"subject", "heads", "rules", "about"} <= known.keys()
    head = examined.content.heads[0]
    assert {"value", "interval", "rows"} <= head.scores["locator.decoding"].model_dump().keys()
    with pytest.raises(UsageError, match="heads-history"):
        schema("headz")
    assert set(SCHEMAS) >= {"heads", "heads-comparison", "heads-history"}


def test_the_same_seed_gives_the_same_bytes_but_for_the_date(examined: Examined, tmp_path: Path) -> None:
    again = examine(load_subject(Store(tmp_path), "built:rope-locator", "cpu"), **OPTIONS)
    created = re.compile(re.escape(again.content.about.created))
    first = re.sub(re.escape(examined.content.about.created), "DATE", heads_html.render(examined))
    assert created.sub("DATE", heads_html.render(again)) == first


def test_the_file_follows_no_outside_address(examined: Examined) -> None:
    page = heads_html.render(examined)
    parser = _Outside()
    parser.feed(re.sub(r"<script.*?</script>", "", page, flags=re.S))
    assert parser.addresses
    assert [a for a in parser.addresses if not a.startswith(("#", "data:"))] == []
    assert '<link rel="stylesheet"' not in page and "@import" not in page


def test_every_score_has_its_formula_beside_it(examined: Examined) -> None:
    page = heads_html.render(examined)
    names = {name for head in examined.content.heads for name in head.scores}
    listed = page[page.index("Formulas") :]
    missing = [name for name in names if f">{name}<" not in listed and not name.startswith("locator.mass.")]
    assert missing == []


def test_markdown_and_csv_hold_every_head(examined: Examined) -> None:
    markdown = heads_text.markdown(examined.content)
    assert "| 0.0 | locator |" in markdown and "| 1.0 | aligned |" in markdown
    rows = list(csv.DictReader(io.StringIO(heads_text.comma_separated([examined.content]))))
    assert len(rows) == sum(len(head.scores) for head in examined.content.heads)
    one = next(row for row in rows if row["score"] == "locator.decoding" and row["layer"] == "0")
    assert float(one["low"]) <= float(one["value"]) <= float(one["high"])
    assert one["label"] == "locator"


def test_a_comparison_counts_labels_and_agreement(examined: Examined) -> None:
    other = examined.content.model_copy(update={"subject": "built:other"})
    content, space = comparison.compare([examined.content, other])
    assert ComparisonContent.model_validate_json(content.model_dump_json()) == content
    assert [pair.agreement for pair in content.agreement] == [1.0]
    assert {(count.layer, count.label, count.heads) for count in content.counts} == {
        (0, "locator", 1),
        (1, "aligned", 1),
    }
    page = comparison_html.render(content, space, [examined])
    assert "built:other" in page


def test_agreement_does_not_mind_the_order_of_heads(examined: Examined) -> None:
    heads = examined.content.heads
    two = examined.content.model_copy(
        update={"heads": (*heads, heads[0].model_copy(update={"head": 1, "label": "sink"}))}
    )
    turned = two.model_copy(
        update={
            "heads": (
                heads[0].model_copy(update={"label": "sink"}),
                heads[1],
                heads[0].model_copy(update={"head": 1, "label": "locator"}),
            )
        }
    )
    assert comparison.agree(two, turned) == 1.0


def test_agreement_of_certain_labels_leaves_the_others_out(examined: Examined) -> None:
    sure, unsure = (
        examined.content.model_copy(
            update={"heads": tuple(head.model_copy(update={"certain": certain}) for head in examined.content.heads)}
        )
        for certain in (True, False)
    )
    assert comparison.agree(sure, unsure) == 1.0
    assert comparison.agree_certainly(sure, sure) == 1.0
    assert comparison.agree_certainly(sure, unsure) == 0.0
    assert comparison.agree_certainly(unsure, unsure) is None
    content, _ = comparison.compare([unsure, unsure.model_copy(update={"subject": "built:other"})])
    assert content.finding.endswith("no label is certain")


def test_text_from_data_is_never_markup() -> None:
    page = Document("<b>", '"><script>alert(1)</script>')
    page.section("</h2><script>", "<img src=x>")
    page.table(["<i>", ">x"], [["<script>", Mark("</td>", '"bad')], [Picture(b"png", '"><script>'), 1]])
    page.figure(go.Figure(go.Scatter(y=[1], name="</script><script>")), "<b>")
    text = page.render()
    outside = re.sub(r"<script.*?</script>", "", text, flags=re.S)
    assert "<script" not in outside and "<img src=x" not in outside and "<i>" not in outside
    assert "&lt;script&gt;" in outside


def test_numbers_that_json_does_not_have_become_null() -> None:
    assert finite({"a": [float("nan"), 1.0, (float("inf"), None)]}) == {"a": [None, 1.0, [None, None]]}
    with pytest.raises(ValidationError):
        HeadsContent.model_validate({"subject": "x"})


def test_kept_reports_are_found_by_step_and_damaged_ones_named(examined: Examined, tmp_path: Path) -> None:
    class Run:
        id, path = "rope-2l-s0-0000", tmp_path

    keep.keep(Run, examined.content.model_copy(update={"step": 40}))  # type: ignore[arg-type]
    keep.keep(Run, examined.content.model_copy(update={"step": 7}))  # type: ignore[arg-type]
    (tmp_path / "reports" / "heads-x.json").write_text("{}")
    assert keep.kept_steps(Run) == [7, 40]  # type: ignore[arg-type]
    assert keep.kept_heads(Run, 40).heads == examined.content.heads  # type: ignore[arg-type]
    (tmp_path / "reports" / "heads-00000007.json").write_text('{"subject": 1')
    with pytest.raises(WorkbenchError, match="workbench heads rope-2l-s0-0000"):
        keep.kept_heads(Run, 7)  # type: ignore[arg-type]
    assert keep.kept_history(Run) is None  # type: ignore[arg-type]


def test_pictures_have_every_head_on_both_kinds_of_strings(examined: Examined) -> None:
    assert examined.pictures.keys() == {(0, 0), (1, 0)}
    for kinds in examined.pictures.values():
        assert kinds.keys() == {"plain", "corrupted"}
        assert all(codes.dtype == np.uint8 and max(codes.shape) <= 128 for codes in kinds.values())


def test_constructions_are_all_reachable_as_subjects(tmp_path: Path) -> None:
    for name in CONSTRUCTIONS:
        assert load_subject(Store(tmp_path), f"built:{name}", "cpu").name == f"built:{name}"
