"""What is said of a failed string under comparison: by a second report, which lists failures alone, and a model."""

import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from dash import Dash
from flask.testing import FlaskClient

from models.evaluation import answer
from models.tasks import CopyTask
from tests import fake_reports, fake_store
from tests.test_dashboard import call
from tests.test_dashboard_failures import as_text
from tests.test_dashboard_failures_compare import FAILURES, groups_of, keep_content, pair
from workbench.content.failures import FailureContent, FailuresContent
from workbench.dashboard import create_app
from workbench.dashboard.beside import Beside
from workbench.dashboard.data import Data
from workbench.dashboard.live_models import Loading
from workbench.dashboard.pages import failures_compare_case as compare_case
from workbench.dashboard.pages.failures_compare_strings import SecondSays
from workbench.dashboard.pages.failures_reports import Reports, tokens_of
from workbench.reports import keep
from workbench.runs import Store

# ---- what a second report says of a string ---------------------------------------------------------------------------


def test_a_string_is_said_to_be_copied_only_where_the_second_report_shows_it(
    tmp_path: Path,
) -> None:
    root = tmp_path / "store"
    ids = fake_store.fill(root)
    first = fake_reports.failures_content(ids["rope"], FAILURES[:1])
    other = fake_reports.failure("1" * FAILURES[0].length, 3, distribution=FAILURES[0].distribution)
    second = fake_reports.failures_content(ids["rope"], [other], step=300)
    keep_content(root, ids["rope"], first)
    data = Data(Store(root))

    def says(content: FailuresContent) -> Any:
        keep_content(root, ids["rope"], content)
        found = Reports(data)
        return SecondSays(data, pair(found, run=ids["rope"], beside=Beside(checkpoint=300))).of(FAILURES[0])

    assert says(second).copied and says(second).words == "copied"
    for content, why in (
        (groups_of(second, length=99), "has no uniform strings of"),
        (groups_of(second, strings=7), "drew 7 uniform strings"),
        (groups_of(second, failed=2), "lists 1 of 2 failed"),
        (second.model_copy(update={"about": second.about.model_copy(update={"seed": 1})}), "seed 1 in place of 0"),
        (
            second.model_copy(update={"about": second.about.model_copy(update={"versions": {"torch": "9"}})}),
            "another version of torch",
        ),
    ):
        said = says(content)
        assert not said.copied and said.words == "not listed" and why in said.why
    fails = fake_reports.failure(FAILURES[0].string, 4, "length", confirmed=False, distribution="imbalanced")
    said = says(fake_reports.failures_content(ids["rope"], [other, fails], step=300))
    assert said.index == 1 and said.words == "fails at 4, length" and "unconfirmed" in said.why


def test_another_task_draws_other_strings(tmp_path: Path) -> None:
    root = tmp_path / "store"
    ids = fake_store.fill(root)
    config = root / ids["rope2d"] / "config.toml"
    config.write_text(config.read_text().replace("[task]", "[task]\nflip = 0.3"))
    made = fake_reports.failure("0101", 1, distribution="repeat-structure")
    plain = fake_reports.failure("0110", 1, distribution="uniform")
    fake_reports.keep_failures(root, ids["rope"], [made, plain])
    others = [fake_reports.failure("1111", 1, distribution=name) for name in ("repeat-structure", "uniform")]
    fake_reports.keep_failures(root, ids["rope2d"], others)
    data = Data(Store(root))
    says = SecondSays(data, pair(Reports(data), run=ids["rope"], beside=Beside(run=ids["rope2d"])))
    assert not says.of(made).copied and "another flip of the task" in says.of(made).why
    assert says.of(plain).copied, "uniform strings do not depend on it"


# ---- the second model on the same string -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def live(
    checkpointed_store: tuple[Path, dict[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Dash, FlaskClient, str]:
    """A dashboard over a trained run with two reports as the analysis makes them, its models loaded."""
    from workbench.reports.failures import explain
    from workbench.subjects import load_run

    root = Path(shutil.copytree(checkpointed_store[0], tmp_path_factory.mktemp("live-compare") / "store"))
    run = Store(root).open(checkpointed_store[1]["rope"])
    for step in (5, 20):
        subject = load_run(run, checkpoint=step)
        made = explain(subject, lengths=[2, 4], distributions=["uniform"], strings=8, law_length=8)
        keep.keep_failures(run, made)
    app = create_app(root)
    client = app.server.test_client()
    client.get("/")
    models = app.server.extensions["workbench-models"]
    until = time.monotonic() + 60
    for step in (5, 20):
        while time.monotonic() < until:
            try:
                models.get(run.id, step)
                break
            except Loading:
                time.sleep(0.05)
    return app, client, run.id


def test_what_is_said_of_a_string_is_what_the_second_model_does(live: tuple[Dash, FlaskClient, str]) -> None:
    from workbench.subjects import load_run

    app, _, run_id = live
    data = app.server.extensions["workbench"]
    found = pair(Reports(data), run=run_id, checkpoint=20, beside=Beside(checkpoint=5))
    turned = pair(Reports(data), run=run_id, checkpoint=5, beside=Beside(checkpoint=20))
    checked = 0
    for one in (found, turned):
        subject = load_run(data.opened(run_id), checkpoint=one.second.content.step)
        says = SecondSays(data, one)
        for failure in one.first.content.failures:
            batch = CopyTask(subject.recipe.task).encode([list(tokens_of(failure))])
            first = int(answer(subject.model, batch).first_error[0])
            said = says.of(failure)
            assert said.copied == (first < 0), "the same strings were drawn, and every failure is listed"
            assert said.failure is None or said.failure.first_error == first
            checked += 1
    assert checked > 4


def test_the_second_models_copy_stands_below_the_firsts(live: tuple[Dash, FlaskClient, str]) -> None:
    app, client, run_id = live
    data, models = app.server.extensions["workbench"], app.server.extensions["workbench-models"]
    found = pair(Reports(data), run=run_id, checkpoint=20, beside=Beside(checkpoint=5))
    failure: FailureContent = found.first.content.failures[0]
    both = compare_case.rerun_both(models, found, found.first.tokens)
    assert both is not None and both.second is not None and both.own is not None
    assert both.own.forced.first_error == failure.first_error, "the first's model says what its report does"
    query = f"?run={run_id}&checkpoint=20&beside=checkpoint:5"
    shown = call(app, client, "failures-case.children", query)["failures-case"]
    said = as_text(shown)
    labels = [part for part in ("string", "copy", "second", "edit") if f'"{part}"' in said]
    assert labels == ["string", "copy", "second", "edit"]
    assert said.index('"copy"') < said.index('"second"') < said.index('"edit"')
    sure = both.second.forced.right_probability[failure.first_error]
    assert "Second, step 5" in said and f"{sure:.3f} in the second" in said
    assert "/playground?" in said and "beside=checkpoint:5" in said
    edited = "".join(str(1 - t) for t in found.first.tokens)
    again = as_text(call(app, client, "failures-case.children", f"{query}&text={edited}")["failures-case"])
    assert again.index('"Edited string"') < again.index('"Edited string, second"') and "new copy" in again
    n, k = failure.length, failure.first_error
    assert ("right EOS at" if k == n else f"right token {k} at") in again, "which token it is stands in the line"
    assert "bar: probability of the answer" in said and "that of the second" in said


def test_no_model_is_run_beside_another_failure(live: tuple[Dash, FlaskClient, str]) -> None:
    app, _, run_id = live
    reports = Reports(app.server.extensions["workbench"])
    models = app.server.extensions["workbench-models"]
    for beside in (Beside(failure=1), Beside(checkpoint=5, failure=0), Beside()):
        found = pair(reports, run=run_id, checkpoint=20, beside=beside)
        assert compare_case.rerun_both(models, found, found.first.tokens) is None
    assert compare_case.rerun_both(models, None, (0, 1)) is None
