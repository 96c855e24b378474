"""Trainings started from a page: what is started, stopped and remembered, and what a page shows of it."""

import builtins
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from dash import Dash
from flask.testing import FlaskClient

from models.errors import UsageError, WorkbenchError
from tests import fake_reports, fake_store
from tests.test_dashboard import call, request_for, server_callbacks
from workbench.dashboard import create_app, job_files
from workbench.dashboard.data import FRESH_SECONDS, Data
from workbench.dashboard.job_files import Job, Kind, Outcome
from workbench.dashboard.jobs import Jobs, farewell
from workbench.dashboard.pages.runs_table import Facts, facts_of, runs_table
from workbench.dashboard.pages.runs_train import about, work_list
from workbench.dashboard.recipes import estimate, known_recipes, read_settings
from workbench.dashboard.state import ViewState
from workbench.runs import Store

# What the command line does as far as a dashboard can tell, in a tenth of a second: `fail`, `die` and `talk` are
# subjects that make it end or speak in their own way.
PROGRAM = """
import os, signal, sys, time
heard = 0
def hear(number, frame):
    global heard
    heard += 1
    print("stopping after this step", file=sys.stderr, flush=True)
    if heard > 1 or "name=stubborn" not in " ".join(sys.argv):
        print("error: interrupted", file=sys.stderr, flush=True)
        sys.exit(130)
signal.signal(signal.SIGTERM, hear)
words = " ".join(sys.argv[1:])
if "name=fail" in words:
    sys.exit("error: d_model = 0: must be at least 1")
if "name=die" in words:
    print("half way", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
if "name=talk" in words:
    for number in range(20000):
        print(f"line {number} of a long talk", file=sys.stderr)
print("training " + os.environ["SAID_RUN"] + " on cpu, in " + sys.argv[-1], file=sys.stderr, flush=True)
for _ in range(600):
    time.sleep(0.1)
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    monkeypatch.setenv("SAID_RUN", "demo-rope-s0-beef")
    return (sys.executable, str(path))


@pytest.fixture
def jobs(tmp_path: Path, program: tuple[str, ...]) -> Iterator[Jobs]:
    made = Jobs(Store(tmp_path / "store"), at_once=3, program=program)
    yield made
    for job in job_files.listed(made.store):
        if job.outcome is None:
            end(job)


def end(job: Job) -> None:
    try:
        process = psutil.Process(job.pid)
        if abs(process.create_time() - job.birth) < 2:
            process.kill()
    except psutil.Error:
        pass


def wait(jobs: Jobs, job_id: str, until: Callable[[Job], Any], seconds: float = 20) -> Job:
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        job = next(job for job in jobs.all() if job.id == job_id)
        if until(job):
            return job
        time.sleep(0.05)
    raise AssertionError(f"waited in vain: {job}")


def ended(job: Job) -> bool:
    return job.outcome is not None


# ---- recipes and overrides -------------------------------------------------------------------------------------------


def test_the_recipes_are_those_of_the_command_line() -> None:
    from models.recipes import load_recipe, recipe_names

    assert sorted(known_recipes()) == recipe_names()
    for name, known in known_recipes().items():
        recipe = load_recipe(name)
        assert (known.description, known.minutes, known.device) == (
            recipe.description, recipe.minutes, recipe.device_hint,
        )  # fmt: skip
        assert (known.steps, known.lengths) == (recipe.train.steps, recipe.task.lengths)


def test_overrides_are_lines_and_errors_name_the_line() -> None:
    assert read_settings(" train.steps = 30 \n\nmodel.heads=[2, 1]\n") == ("train.steps=30", "model.heads=[2, 1]")
    for text, said in (
        ("train.steps=3\nmodel.heads", "line 2"), ("--store=/etc", "line 1"), ("=3", "line 1"), ("a.b=", "line 1"),
        ("a=" + "x" * 999, "longer than"), ("a=\x07", "does not print"), ("seed=3", "field of its own"),
        ("\n".join(["a=1"] * 99), "at most"), ("A.B=1", "line 1"), ("a..b=1", "line 1"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=said):
            read_settings(text)


def test_estimates_scale_with_the_steps() -> None:
    recipe = known_recipes()["demo-rope"]
    assert estimate(recipe, ()).startswith("about 48 s on 2 cores, then")
    assert estimate(recipe, ("train.steps=8000",)).startswith("about 8 min on 2 cores, then")
    assert "as it is" in estimate(recipe, ("model.heads=[8]",))
    assert estimate(recipe, ("train.steps=many",)).startswith("about 48 s")
    assert "GPU" in estimate(known_recipes()["paper-12l-rope"], ())


# ---- processes -------------------------------------------------------------------------------------------------------


def test_a_job_is_the_command_line_given_word_by_word(jobs: Jobs) -> None:
    job = jobs.train("demo-rope", 3, ("train.steps=30", "model.act_fn=$(touch x); `y` --store /"))
    words = psutil.Process(job.pid).cmdline()[2:]
    assert words == [
        "train", "demo-rope", "--set=train.steps=30", "--set=model.act_fn=$(touch x); `y` --store /", "--set=seed=3",
        "--store", str(jobs.store.root),
    ]  # fmt: skip
    assert os.getsid(job.pid) == job.pid, "Ctrl-C in the server's terminal does not reach it"
    resumed = jobs.measure(fake_store.add_run(jobs.store.root, "rope-s0-1", "rope", ["rope"], [1]), Kind.HISTORY)
    assert psutil.Process(resumed.pid).cmdline()[2:5] == ["heads", "rope-s0-1", "--checkpoints"]


@pytest.mark.parametrize("recipe", ["/etc/passwd.toml", "../demo-rope", "demo-rope.toml", "", "--help", "x" * 9999])
def test_only_recipes_that_come_with_the_workbench_are_trained(jobs: Jobs, recipe: str) -> None:
    with pytest.raises(UsageError, match="unknown recipe"):
        jobs.train(recipe)
    assert jobs.all() == []


def test_a_run_is_known_by_what_its_process_says_also_to_another_server(jobs: Jobs) -> None:
    job = jobs.train("demo-rope", 0)
    assert wait(jobs, job.id, lambda job: job.run).run == "demo-rope-s0-beef"
    other = Jobs(jobs.store, program=jobs._program)
    assert [(j.id, j.run, j.outcome) for j in other.all()] == [(job.id, "demo-rope-s0-beef", None)]
    other.stop(job.id)
    assert wait(jobs, job.id, ended).outcome is Outcome.STOPPED
    assert wait(other, job.id, ended).outcome is Outcome.STOPPED


def test_stopping_grows_harder_and_a_double_click_is_one(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    job = jobs.train("demo-rope", 0, ("name=stubborn",))
    wait(jobs, job.id, lambda job: job.run)
    assert jobs.stop(job.id).asked == 1
    assert jobs.stop(job.id).asked == 1, "a double click"
    assert "stopping after this step" in wait(jobs, job.id, lambda job: "stopping" in job.message).message
    assert jobs.working(), "it goes on until its step is done"
    monkeypatch.setattr("workbench.dashboard.jobs._SAME_CLICK", 0)
    assert jobs.stop(job.id).asked == 2
    stopped = wait(jobs, job.id, ended)
    assert (stopped.outcome, stopped.message) == (Outcome.STOPPED, "stopping after this step")
    with pytest.raises(UsageError, match="has ended"):
        jobs.stop(job.id)
    jobs.forget(job.id)
    assert jobs.all() == []


def test_the_third_time_is_by_force(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    job = jobs.train("demo-rope", 0)
    sent: list[int] = []
    with monkeypatch.context() as patched:
        patched.setattr("workbench.dashboard.jobs._SAME_CLICK", 0)
        patched.setattr("workbench.dashboard.jobs.os.kill", lambda _, number: sent.append(number))
        for _ in range(4):
            jobs.stop(job.id)
    assert sent == [signal.SIGTERM, signal.SIGTERM, signal.SIGKILL, signal.SIGKILL]


def test_what_failed_or_was_killed_says_so_with_its_last_words(jobs: Jobs) -> None:
    failed = jobs.train("demo-rope", 0, ("name=fail",))
    killed = jobs.train("demo-rope", 0, ("name=die",))
    job = wait(jobs, failed.id, ended)
    assert (job.outcome, job.message) == (Outcome.FAILED, "d_model = 0: must be at least 1")
    job = wait(jobs, killed.id, ended)
    assert job.outcome is Outcome.KILLED
    assert "SIGKILL" in job.message and "half way" in job.message
    again = Jobs(jobs.store, program=jobs._program).all()
    assert {job.id: job.outcome for job in again} == {failed.id: Outcome.FAILED, killed.id: Outcome.KILLED}


def test_a_job_that_ends_while_no_dashboard_is_open_is_judged_by_its_run(jobs: Jobs) -> None:
    jobs.store.root.mkdir()
    fake_store.add_run(jobs.store.root, "demo-rope-s0-beef", "demo-rope", ["rope"], [1], state="training")
    job = jobs.train("demo-rope", 0)
    wait(jobs, job.id, lambda job: job.run)
    end(job)
    assert wait(Jobs(jobs.store, program=jobs._program), job.id, ended).outcome is Outcome.KILLED


def test_a_process_that_only_has_the_same_number_is_left_alone(jobs: Jobs) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        birth = psutil.Process(bystander.pid).create_time()
        (jobs.store.root / ".jobs").mkdir(parents=True)
        forged = Job(
            id="00000000", kind=Kind.TRAIN, subject="demo-rope", settings=(), pid=bystander.pid, birth=birth,
            started=time.time(),
        )  # fmt: skip
        job_files.write(jobs.store, forged)
        with pytest.raises(UsageError, match="has ended"):
            jobs.stop("00000000")
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_what_it_says_is_kept_bounded(jobs: Jobs) -> None:
    job = jobs.train("demo-rope", 0, ("name=talk",))
    wait(jobs, job.id, lambda job: job.run)
    path = jobs.store.root / ".jobs" / f"{job.id}.log"
    job_files.said(jobs.store, job)
    assert path.stat().st_size <= 4 * job_files.KEPT_BYTES
    assert path.read_text().endswith(f"in {jobs.store.root}\n"), "the end is what is kept"


def test_the_same_job_and_too_many_are_refused(jobs: Jobs) -> None:
    jobs.train("demo-rope", 0)
    with pytest.raises(WorkbenchError, match="at work already"):
        jobs.train("demo-rope", 0)
    jobs.train("demo-rope", 1)
    jobs.train("demo-rope", 2)
    with pytest.raises(WorkbenchError, match="at most 3"):
        jobs.train("demo-rope", 4)
    assert len(jobs.working()) == 3


def test_only_what_is_unfinished_is_resumed(jobs: Jobs) -> None:
    root = jobs.store.root
    ids = fake_store.fill(root)
    with pytest.raises(UsageError, match="nothing to resume"):
        jobs.resume(ids["rope"])
    for name in ("nothing", "../store", "", "old notes"):
        with pytest.raises(UsageError):
            jobs.resume(name)
    jobs.resume(ids["killed"])
    with pytest.raises(WorkbenchError, match="at work already"):
        jobs.resume(ids["killed"])
    (root / ids["rope2d"] / "evaluation.json").unlink()
    assert jobs.resume(ids["rope2d"]).kind is Kind.RESUME, "its evaluation is made up for"


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"id": "11111111"}', '{"id": "x", "pid": "y"}', "\x00", '{"pid": 1e400}']
)
def test_damaged_records_are_passed_over(jobs: Jobs, content: str) -> None:
    folder = jobs.store.root / ".jobs"
    folder.mkdir(parents=True)
    (folder / "11111111.json").write_text(content)
    (folder / "../../x.json").write_text(content)
    assert jobs.all() == []
    for job_id in ("11111111", "../x", "", "1" * 9999):
        with pytest.raises(UsageError, match="no such job"):
            jobs.stop(job_id)


def test_the_oldest_of_many_ended_jobs_are_dropped(jobs: Jobs) -> None:
    (jobs.store.root / ".jobs").mkdir(parents=True)
    for number in range(job_files.MOST_KEPT + 5):
        job_files.write(
            jobs.store,
            Job(
                id=f"{number:08x}", kind=Kind.TRAIN, subject="demo-rope", settings=(), pid=2, birth=0.0,
                started=float(number), outcome=Outcome.DONE,
            ),
        )  # fmt: skip
    assert [job.started for job in jobs.all()] == [float(n) for n in range(job_files.MOST_KEPT + 4, 4, -1)]
    assert len(list((jobs.store.root / ".jobs").iterdir())) == job_files.MOST_KEPT


# ---- the page --------------------------------------------------------------------------------------------------------


@pytest.fixture
def app(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> Dash:
    fake_store.fill(jobs.store.root)
    monkeypatch.setattr("workbench.dashboard.pages.runs.jobs_of", lambda app, data: jobs)
    return create_app(jobs.store)


@pytest.fixture
def client(app: Dash) -> FlaskClient:
    client = app.server.test_client()
    assert client.get("/").status_code == 200
    return client


def press(app: Dash, client: FlaskClient, trigger: str, headers: dict[str, str] | None = None, **values: Any) -> Any:
    """Send what the browser sends when `trigger` is used; returns the answer."""
    output = next(n for n in server_callbacks(app) if any(d["id"] == trigger for d in app.callback_map[n]["inputs"]))
    given = {name.replace("__", "."): value for name, value in values.items()}
    given = {name.replace("_", "-", 1): value for name, value in given.items()}
    return client.post("/_dash-update-component", json=request_for(app, output, given), headers=headers or {})


START = {
    "train_start__n_clicks": 1, "train_recipe__value": "demo-rope", "train_seed__value": 5,
    "train_settings__value": "train.steps=30",
}  # fmt: skip


def test_train_starts_a_job_and_the_page_lists_it(app: Dash, client: FlaskClient, jobs: Jobs) -> None:
    answer = press(app, client, "train-start", **START)
    assert "Starting: training demo-rope train.steps=30 seed=5." in answer.text
    (job,) = jobs.working()
    assert job.settings == ("train.steps=30", "seed=5")
    listed = json.dumps(call(app, client, "runs-work.children", ""))
    assert job.id in listed and "stop" in listed
    press(app, client, "runs-ask", runs_ask__data={"do": "stop", "on": job.id})
    assert wait(jobs, job.id, ended).outcome is Outcome.STOPPED


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"}, {"Host": "evil.example"}, {"Host": "localhost:8050", "Origin": "http://localhost:1"},
    ],
)  # fmt: skip
def test_a_foreign_page_starts_and_stops_nothing(
    app: Dash, client: FlaskClient, jobs: Jobs, headers: dict[str, str]
) -> None:
    assert press(app, client, "train-start", headers, **START).status_code == 403
    assert jobs.all() == []
    job = jobs.train("demo-rope", 0)
    for do in ("stop", "forget"):
        assert press(app, client, "runs-ask", headers, runs_ask__data={"do": do, "on": job.id}).status_code == 403
    assert jobs.working()[0].asked == 0


def test_nothing_is_started_by_an_address_or_by_opening_the_page(app: Dash, client: FlaskClient, jobs: Jobs) -> None:
    for output in server_callbacks(app):
        body = request_for(app, output, {"url.search": "?do=train", "url.pathname": "/runs"})
        assert client.post("/_dash-update-component", json=body).status_code in (200, 204)
    assert jobs.all() == []


@pytest.mark.parametrize(
    "values",
    [
        {"train_start__n_clicks": True}, {"train_start__n_clicks": -1}, {"train_start__n_clicks": "1"},
        {"train_start__n_clicks": [1]}, {"train_recipe__value": None}, {"train_recipe__value": ["demo-rope"]},
        {"train_recipe__value": "../../etc/passwd.toml"}, {"train_seed__value": 2**40}, {"train_seed__value": 1.5},
        {"train_seed__value": "5"}, {"train_seed__value": -1}, {"train_settings__value": "--store=/"},
        {"train_settings__value": "x" * 500_000}, {"train_settings__value": "a=\u202e\x00"},
    ],
)  # fmt: skip
def test_hostile_arguments_start_nothing(app: Dash, client: FlaskClient, jobs: Jobs, values: dict[str, Any]) -> None:
    answer = press(app, client, "train-start", **{**START, **values})
    assert answer.status_code in (200, 204)
    assert "Traceback" not in answer.text
    assert jobs.all() == []


@pytest.mark.parametrize(
    "asked",
    [None, 3, "stop", [], {}, {"do": "stop"}, {"do": "stop", "on": 3}, {"do": ["stop"], "on": "x"},
     {"do": "__class__", "on": "x"}, {"do": "resume", "on": "../../etc"}, {"do": "heads", "on": "\x00"},
     {"do": "resume", "on": "x" * 100_000}, {"do": "forget", "on": "../run"}, {"do": "history", "on": "built:aligned"}],
)  # fmt: skip
def test_hostile_requests_do_nothing(app: Dash, client: FlaskClient, jobs: Jobs, asked: Any) -> None:
    answer = press(app, client, "runs-ask", runs_ask__data=asked)
    assert answer.status_code in (200, 204)
    assert "Traceback" not in answer.text and "ERROR" not in answer.text
    assert jobs.all() == []


def test_buttons_are_what_can_be_done(jobs: Jobs) -> None:
    ids = fake_store.fill(jobs.store.root)
    training = fake_store.Training(jobs.store.root)
    training.advance(5)
    data = Data(jobs.store)
    rows = {row.id: row for row in data.runs()}

    def offered(run_id: str, facts: Facts, *working: Job) -> list[str]:
        shown = json.dumps(runs_table([rows[run_id]], ViewState(), 0.0, {run_id: facts}, working).to_plotly_json(), default=lambda c: c.to_plotly_json())  # fmt: skip  # noqa: E501
        return [do for do in ("stop", "resume", "heads", "history", "failures") if f'"data-do": "{do}"' in shown]

    assert offered(ids["rope"], Facts(checkpoints=3)) == ["heads", "history", "failures"]
    assert offered(ids["rope"], Facts(evaluated=False)) == ["resume", "heads", "failures"]
    for role in ("killed", "failed"):
        assert offered(ids[role], Facts()) == ["resume"]
    assert offered(training.folder.name, Facts(checkpoints=2)) == ["heads", "history", "failures"], "elsewhere: no Stop"
    job = Job(
        id="00000000", kind=Kind.TRAIN, subject="auto2d-1l", settings=(), pid=2, birth=0.0, started=0.0,
        run=training.folder.name,
    )  # fmt: skip
    assert offered(training.folder.name, Facts(), job) == ["stop"]
    training.close()


def test_markup_in_what_a_process_says_is_text(jobs: Jobs) -> None:
    job = Job(
        id="00000000", kind=Kind.TRAIN, subject="demo-rope", settings=("name=<script>alert(1)</script>",), pid=2,
        birth=0.0, started=0.0, outcome=Outcome.FAILED, message="<img src=x onerror=alert(2)>",
    )  # fmt: skip
    shown = json.dumps(work_list([job], ViewState()).to_plotly_json(), default=lambda c: c.to_plotly_json())
    assert "dangerously" not in shown and '"Markdown"' not in shown
    assert job.message in shown
    assert "is not of the form" in str(about("demo-rope", "<b>"))
    (jobs.store.root / ".jobs").mkdir(parents=True)
    (jobs.store.root / ".jobs" / "00000000.log").write_bytes(b"error: \x1b[31mred\x07\xff" + b"x" * 999)
    said = job_files.said(jobs.store, job)["message"]
    assert said.isprintable() and len(said) <= 400


def test_heads_as_they_formed_are_shown_where_a_report_is_kept(app: Dash, client: FlaskClient, jobs: Jobs) -> None:
    assert call(app, client, "runs-heads.children", "")["runs-heads"]["children"] == []
    run_id = next(run.id for run in jobs.store.runs() if run.id.startswith("rope-2l-s0"))
    fake_reports.keep_history(jobs.store.root, run_id, [["look-back(1)", "sink"], ["aligned"]])
    shown = json.dumps(call(app, client, "runs-heads.children", f"?runs={run_id}"))
    assert "Heads as they formed" in shown and "pane=history" in shown and "look-back(1)" in shown
    assert facts_of(Data(jobs.store), Data(jobs.store).run(run_id)).history


def test_leaving_says_what_goes_on(app: Dash, jobs: Jobs) -> None:
    assert list(farewell(app)) == []
    job = jobs.train("demo-rope", 0)
    app.server.extensions["workbench-jobs"] = jobs
    (line,) = farewell(app)
    assert f"process {job.pid}" in line and "goes on without the dashboard" in line
    end(job)


def test_polling_many_long_runs_reads_and_sends_only_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, records = 50, 10_000
    lines = "".join(f'{{"step": {step}, "loss": {1 / step:.6f}}}\n' for step in range(1, records + 1))
    evaluation = {**json.loads(lines.splitlines()[-1]), "evaluation": []}
    root, locks = tmp_path / "store", []
    root.mkdir()
    for number in range(runs):
        run_id = f"rope-2l-s{number}-{number:04x}"
        fake_store.add_run(root, run_id, "rope-2l", ["rope"], [2, 1], state="training", steps=10)
        (root / run_id / "metrics.jsonl").write_text(lines + json.dumps(evaluation) + "\n")
        locks.append(open(root / run_id / "lock", "r+"))  # noqa: SIM115 (held until the end)
        fcntl.flock(locks[-1], fcntl.LOCK_EX)
    app = create_app(root)
    client = app.server.test_client()
    client.get("/")
    read = 0

    def counting(path: Any, *more: Any, **options: Any) -> Any:
        file = builtins.open(path, *more, **options)  # noqa: SIM115 (closed by the caller)
        if str(path).endswith("metrics.jsonl"):
            take = file.read

            def reading(*size: int) -> Any:
                nonlocal read
                data = take(*size)
                read += len(data)
                return data

            return _Wrapped(file, reading)
        return file

    monkeypatch.setattr("workbench.records.open", counting, raising=False)
    regions = ("runs-table.children", "runs-training.figure", "runs-lengths.figure", "runs-heads.children")
    first = {region: call(app, client, region, "") for region in regions}
    assert all(len(json.dumps(answer)) < 1_500_000 for answer in first.values())
    assert read <= runs * (len(lines) + 70_000) * 3, "each file once, and its end where its last step is looked up"

    def again() -> dict[str, int]:
        nonlocal read
        read = 0
        time.sleep(FRESH_SECONDS)
        return {region: _poll(app, client, region, first[region]) for region in regions}

    assert set(again().values()) == {204}, "nothing new is told in no bytes"
    tails = runs * 65_536
    assert read <= tails + 1000, "the ends of files, to look up the last step; no history"
    with open(root / "rope-2l-s7-0007" / "metrics.jsonl", "a") as file:
        file.write('{"step": 10001, "loss": 0.5}\n')
    answers = again()
    assert answers["runs-table.children"] == 200
    assert read <= 2 * tails + 1000
    for lock in locks:
        lock.close()


class _Wrapped:
    """A file whose reads are counted."""

    def __init__(self, file: Any, read: Callable[..., Any]) -> None:
        self._file, self.read = file, read

    def __enter__(self) -> "_Wrapped":
        return self

    def __exit__(self, *_: Any) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _poll(app: Dash, client: FlaskClient, region: str, shown: dict[str, Any]) -> int:
    output = next(name for name in server_callbacks(app) if region in name)
    memory = f"{region.split('.')[0]}-shows"
    body = request_for(app, output, {"url.search": "", f"{memory}.data": shown[memory]["data"]})
    return client.post("/_dash-update-component", json=body).status_code


# ---- the command line ------------------------------------------------------------------------------------------------

TINY = ("model.heads=[1]", "model.d_model=16", "model.d_head=16", "train.batch_size=4", "train.checkpoint_every=50",
        "train.evaluate_every=0", "evaluation.intervals=[[1,4]]", "evaluation.strings=1", "task.lengths=[1,4]",
        "train.warmup=1")  # fmt: skip


def test_a_real_training_is_started_stopped_at_a_checkpoint_and_resumed(tmp_path: Path) -> None:
    jobs = Jobs(Store(tmp_path / "store"))
    wrong = jobs.train("demo-rope2d", 1, ("train.stepz=3",))
    job = jobs.train("demo-rope2d", 1, (*TINY, "train.steps=100000"))
    failed = wait(jobs, wrong.id, ended, 90)
    assert failed.outcome is Outcome.FAILED
    assert "train.steps" in failed.message and failed.run is None
    run_id = wait(jobs, job.id, lambda job: job.run, 90).run
    assert run_id
    give_up = time.monotonic() + 60
    while jobs.store.open(run_id).last_record.get("step", 0) < 2 and time.monotonic() < give_up:
        time.sleep(0.1)
    jobs.stop(job.id)
    assert wait(jobs, job.id, ended, 60).outcome is Outcome.STOPPED
    run = jobs.store.open(run_id)
    assert (run.status, run.step > 0) == ("interrupted", True)
    resumed = jobs.resume(run_id)
    give_up = time.monotonic() + 90
    while jobs.store.open(run_id).last_record.get("step", 0) <= run.step and time.monotonic() < give_up:
        time.sleep(0.1)
    assert jobs.store.open(run_id).last_record["step"] > run.step
    end(next(job for job in jobs.all() if job.id == resumed.id))
    assert wait(jobs, resumed.id, ended).outcome is Outcome.KILLED
    assert jobs.store.open(run_id).status == "killed"
