"""The repository as a package: what is installed, what shadows it, and the two commands of the Makefile."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
OURS = ("models", "analyses", "workbench")
Make = Callable[..., subprocess.CompletedProcess[str]]


def run(*argv: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, argv)), cwd=cwd, env=os.environ | environment, capture_output=True, text=True, timeout=120
    )


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository without anything that is built or private."""
    left_out = shutil.ignore_patterns(
        ".git", ".venv", "runs", "build", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis"
    )
    return Path(shutil.copytree(REPOSITORY, tmp_path_factory.mktemp("source") / "copy", ignore=left_out))


@pytest.fixture(scope="module")
def wheel(source: Path) -> zipfile.ZipFile:
    built = run(
        sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", "dist", ".", cwd=source
    )
    assert built.returncode == 0, built.stderr
    (path,) = (source / "dist").glob("copy_workbench-*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_holds_every_source_file_and_nothing_else(source: Path, wheel: zipfile.ZipFile) -> None:
    kinds = {".py", ".toml", ".css", ".js", ".svg", ".ipynb"}
    files = [path.relative_to(source) for name in OURS for path in (source / name).rglob("*") if path.suffix in kinds]
    expected = {str(path) for path in files} | {"app.py"}
    held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert held == expected


def test_the_readme_points_at_files_that_exist_and_names_recipes_that_do() -> None:
    from models.recipes import recipe_names

    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (REPOSITORY / target).exists(), target
    assert not re.findall(r"\b[A-Z0-9]+_[A-Z0-9_]+\b", text.replace("COPY_WORKBENCH_STORE", "").replace("W_", ""))
    tree = re.findall(r"^ {4,8}([a-z_0-9/]+\.py|[a-z_0-9]+/)", text, flags=re.MULTILINE)
    folders = ("", "models", "models/positions", "workbench", "analyses", "tests")
    assert tree and all(any((REPOSITORY / folder / name).exists() for folder in folders) for name in tree), tree
    named = set(re.findall(r"`([a-z0-9]+-[12]l(?:-[a-z]+)?)`", text))
    assert named and named <= set(recipe_names())


def test_the_command_is_installed_under_its_name(wheel: zipfile.ZipFile) -> None:
    (entry_points,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert "workbench = workbench.cli:main" in wheel.read(entry_points).decode()
    assert PROJECT["name"] == "copy-workbench" and PROJECT["requires-python"] == ">=3.11"


def test_everything_required_is_pinned() -> None:
    lines = [line for line in (REPOSITORY / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    pinned = {line.split("==")[0].lower().replace("_", "-"): line.split("==")[1] for line in lines}
    required = [
        *PROJECT["dependencies"],
        *(name for extra in PROJECT["optional-dependencies"].values() for name in extra),
    ]
    names = {requirement.split(">")[0].split("=")[0].split("<")[0].strip().lower() for requirement in required}
    assert names <= pinned.keys() and pinned["torch"] == "2.13.0"


@pytest.mark.parametrize("package", ["models", "analyses"])
@pytest.mark.parametrize("content", ["__init__.py", "mine.txt"])
def test_a_shadowing_folder_is_named(tmp_path: Path, package: str, content: str) -> None:
    """A user's own `models/` beside a notebook: with an `__init__.py` it wins, without it ours does."""
    (tmp_path / package).mkdir()
    (tmp_path / package / content).write_text("")
    done = run(sys.executable, "-c", "import workbench; print('fine')", cwd=tmp_path, PYTHONPATH=str(REPOSITORY))
    if content == "mine.txt":
        assert done.stdout.strip() == "fine", done.stderr
    else:
        last = done.stderr.strip().splitlines()[-1]
        assert done.returncode != 0 and last.startswith("ImportError: ")
        assert str(tmp_path / package) in last and str(REPOSITORY / package) in last


def test_a_module_already_imported_is_found_out(tmp_path: Path) -> None:
    check = "import sys, types; sys.modules['models'] = types.ModuleType('models'); import workbench"
    done = run(sys.executable, "-c", check, cwd=REPOSITORY)
    assert "ImportError: copy-workbench needs its own package 'models'" in done.stderr


# The Makefile


@pytest.fixture
def make(tmp_path: Path) -> Make:
    if not shutil.which("make"):
        pytest.fail("these tests need make", pytrace=False)
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(REPOSITORY / name, tmp_path)
    return lambda *argv, **environment: run("make", *argv, cwd=tmp_path, **environment)


def test_clean_keeps_runs_and_the_environment(make: Make, tmp_path: Path) -> None:
    kept = ("runs/a/run.json", "runs/a/__pycache__/x", ".venv/lib/__pycache__/x.pyc", "models/x.py")
    gone = (
        "build/x",
        "dist/x",
        ".mypy_cache/x",
        "models/__pycache__/x.pyc",
        "copy_workbench.egg-info/x",
        ".hypothesis/x",
    )
    for name in kept + gone:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert make("clean").returncode == 0
    assert all((tmp_path / name).exists() for name in kept)
    assert not any((tmp_path / name).parent.exists() for name in gone)


def test_no_suitable_python_is_one_clear_line(make: Make) -> None:
    done = make("demo", "PYTHON=")
    assert done.returncode != 0 and "error: no Python 3.11 or newer" in done.stderr


def test_a_missing_browser_is_reported_with_its_command(make: Make) -> None:
    done = make("chromium", "CHROMIUM_NAMES=no-such-browser", CHROMIUM="")
    assert done.returncode != 0 and "install it with: " in done.stderr
    assert make("chromium", "CHROMIUM_NAMES=sh").returncode == 0


def test_an_up_to_date_environment_is_left_alone(make: Make, tmp_path: Path) -> None:
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "installed").write_text("")
    assert "up to date" in make(".venv/installed").stdout
    os.utime(tmp_path / "constraints.txt", (2**31, 2**31))
    assert "pip install" in make("-n", ".venv/installed").stdout


def test_ci_runs_all_three(tmp_path: Path) -> None:
    """With stand-ins for make and the browser."""
    calls = tmp_path / "calls"
    for name in ("make", "chromium"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@" >> {calls}\n')
        (tmp_path / name).chmod(0o755)
    done = run("bash", REPOSITORY / ".ci" / "run", cwd=tmp_path, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == 0, done.stderr
    assert calls.read_text().splitlines() == ["make check", "make test", "make test-slow"]
    (tmp_path / "make").write_text("#!/bin/sh\nexit 3\n")
    assert (
        run("bash", REPOSITORY / ".ci" / "run", cwd=tmp_path, PATH=f"{tmp_path}:{os.environ['PATH']}").returncode == 3
    )
