"""Notebooks: nothing but their cells is kept, and each runs from a clean state, by itself, without the network.

`make test-slow` runs them; one alone: .venv/bin/python -m pytest tests/test_notebooks.py -k auto2d_coordinates
"""

import ast
import json
import os
import re
import time
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

REPOSITORY = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((REPOSITORY / "analyses" / "notebooks").glob("*.ipynb"))
SECONDS = 120  # of one processor; a machine that does other things too takes longer by the clock
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
# What a kernel imports before anything else: connections that leave the machine are refused and written down, also
# where a library swallows the error; the processor time of each finished kernel is written down too.
GUARD = """
import atexit, os, resource, socket

_connect, _lookup = socket.socket.connect, socket.getaddrinfo
_here = ("127.0.0.1", "localhost", "::1", "", None)


def _refuse(host):
    with open(os.environ["NOTEBOOK_REACHED"], "a") as file:
        file.write(f"{host}\\n")
    raise OSError(f"a notebook tried to reach {host}")


def connect(self, address):
    if self.family != getattr(socket, "AF_UNIX", None) and address[0] not in _here:
        _refuse(address[0])
    return _connect(self, address)


def getaddrinfo(host, *more, **named):
    if host not in _here:
        _refuse(host)
    return _lookup(host, *more, **named)


socket.socket.connect, socket.getaddrinfo = connect, getaddrinfo


@atexit.register
def spent():
    used = resource.getrusage(resource.RUSAGE_SELF)
    with open(os.environ["NOTEBOOK_SPENT"], "a") as file:
        file.write(f"{used.ru_utime + used.ru_stime}\\n")
"""
LOADED = re.compile(
    r"""(?:src|href)\s*=\s*["']?\s*(?:https?:)?//|@import|\bimport\s*\(?\s*["']https?://""", re.IGNORECASE
)

by_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def test_the_three_questions_have_a_notebook() -> None:
    stems = {path.stem for path in NOTEBOOKS}
    assert stems >= {"auto2d_coordinates", "compare_schemes", "probe_failed_samples"}


@by_notebook
def test_nothing_but_cells_is_kept(path: Path) -> None:
    """Outputs stripped: `jupyter nbconvert --clear-output --inplace`, and no metadata of an editor."""
    text = path.read_text(encoding="utf-8")
    notebook = json.loads(text)
    nbformat.validate(notebook)
    assert notebook["metadata"] == {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    assert text == json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "written as Jupyter writes it"
    for cell in notebook["cells"]:
        assert cell["metadata"] == {}, cell["id"]
        assert "attachments" not in cell
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None, cell["id"]
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)


@by_notebook
def test_a_notebook_teaches(path: Path) -> None:
    """It begins with a title, says something before and after what it does, and every cell parses."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert "".join(cells[0]["source"]).startswith("# ") and cells[-1]["cell_type"] == "markdown"
    said = sum(len("".join(cell["source"]).split()) for cell in cells if cell["cell_type"] == "markdown")
    assert said > 300
    for cell in cells:
        source = "".join(cell["source"])
        assert source.strip() and not source.endswith("\n"), cell["id"]
        if cell["cell_type"] == "code":
            ast.parse(source)
            assert "http" not in source and not source.lstrip().startswith(("!", "%")), cell["id"]


@pytest.mark.slow
@pytest.mark.timeout(900)
@by_notebook
def test_a_notebook_runs_from_a_clean_state(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guard, folder, reached, spent = (tmp_path / name for name in ("guard", "cwd", "reached", "spent"))
    for made in (guard, folder, tmp_path / "tmp"):
        made.mkdir()
    (guard / "sitecustomize.py").write_text(GUARD)
    # The kernel is this Python whatever kernels a user has installed, alone with the repository.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(guard), str(REPOSITORY)]))
    for name in ("JUPYTER_PATH", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    for name in ("PLOTLY_RENDERER", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setenv("NOTEBOOK_REACHED", str(reached))
    monkeypatch.setenv("NOTEBOOK_SPENT", str(spent))
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    started = time.monotonic()
    client.execute()
    taken = time.monotonic() - started

    assert not reached.exists(), f"reached for {reached.read_text()}"
    used = max((float(line) for line in spent.read_text().split()), default=taken) if spent.exists() else taken
    assert min(used, taken) < SECONDS
    assert list(folder.iterdir()) == [], "nothing is left beside the notebook"
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    pages = [output["data"]["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    for page in pages:
        # Plotly's script and CircuitsVis' hold addresses in their code; what is looked at is what a page loads.
        outside = re.sub(r"<script[^>]*>.*?</script>|srcdoc=\"[^\"]*\"", "", page, flags=re.DOTALL)
        assert not LOADED.search(outside) and not re.search(r"<script[^>]+src=", page)
    assert any("Plotly.newPlot" in page for page in pages), "figures"
    assert any("CircuitsVis" in page for page in pages), "heads token by token"
    assert not any(output.output_type == "error" for output in outputs)
