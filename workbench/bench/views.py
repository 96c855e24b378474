"""Looking at long patterns: overviews, tiles, memory, and the Attention page's answers, on 2 heads of 64.

`python -m workbench.bench.views PART FOLDER` measures one part in a process of its own, for its memory.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import torch
import torch.nn.functional as F
from threadpoolctl import threadpool_limits

from models.attention import CapturedString, open_capture
from models.capture import capture_strings
from models.config import Recipe
from models.errors import WorkbenchError
from models.overview import build_overview, ensure_overview, view
from models.recipes import dump_recipe
from models.tasks import CopyBatch, CopyTask
from models.transformer import CopyTransformer
from workbench.bench import Measurement
from workbench.runs import Status, Store
from workbench.writer import Header, RunWriter

LENGTH, SHORTER = 9_997, 2_497  # of the source strings, which makes 20,000 and 5,000 tokens
HEADS, WIDTH = 2, 64
TILES = 20
CAPTURE = "long"
RECIPE = {"name": "bench", "model": {"heads": [HEADS], "d_head": WIDTH, "d_model": 128, "positions": "rope"}}


def measure_views() -> Iterator[Measurement]:
    """Times against one bare attention call, memory in processes of their own, and the page's callbacks."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        run = _captured_run(store)
        captures = run / "captures"
        yield from _patterns(open_capture(captures / CAPTURE).string(0))
        tiles = _apart("tiles", captures / CAPTURE)["seconds"] / TILES  # apart, since torch's idle threads spin
        yield Measurement("view.tile", tiles * 1e3, "ms for 512 x 512", better="lower", target=10.0)
        peak = _apart("view", captures / CAPTURE)["bytes"]
        yield Measurement(
            "view.memory", peak / 1e9, "GB", better="lower", target=1.5,
            against="peak of a process that computes the overviews of both heads at 20,000 tokens and views parts",
        )  # fmt: skip
        yield from _against_cache(captures)
        yield from _page(store, run.name)


def _patterns(string: CapturedString) -> Iterator[Measurement]:
    """Overview of both heads, beside one bare attention call of the same shape."""
    patterns = [string.head(0, head) for head in range(HEADS)]
    q, k = (torch.stack([torch.from_numpy(getattr(p, name)) for p in patterns])[None] for name in "qk")
    values = torch.randn_like(q)
    bare, overview = [], []
    with torch.inference_mode():
        for _ in range(3):
            bare.append(_seconds(lambda: F.scaled_dot_product_attention(q, k, values, is_causal=True)))
            overview.append(_seconds(lambda: [build_overview(pattern) for pattern in patterns]))
    yield Measurement(
        "view.overview", median(overview), "s", median(bare), median(overview) / median(bare), "lower", 4.0,
        "one scaled_dot_product_attention call, causal, 2 heads x 64, 20,000 tokens",
    )  # fmt: skip


def _against_cache(captures: Path) -> Iterator[Measurement]:
    """What it takes to see both patterns of 5,000 tokens: ours from tokens to views, TransformerLens' to its cache."""
    ours, theirs = (_apart(part, captures) for part in ("ours", "cache"))
    against = "TransformerLens boot_native, run_with_cache of hook_pattern, same shape, 5,000 tokens"
    for name, unit, scale, key in (
        ("time", "s", 1, "seconds"),
        ("memory", "GB over what is held before", 1e9, "grown"),
    ):
        value, baseline = ours[key] / scale, theirs[key] / scale
        ratio = value / baseline if baseline else None
        yield Measurement(f"view.cache.{name}", value, unit, baseline, ratio, "lower", 1.0, against)


def _page(store: Store, run: str) -> Iterator[Measurement]:
    """Server side of the Attention page: its first map, whose overview is kept, and steps of a zoom into it."""
    from workbench.dashboard import create_app

    app = create_app(store)
    client = app.server.test_client()
    client.get("/")
    ensure_overview(open_capture(store.root / run / "captures" / CAPTURE).string(0), 0, 0)

    def answer(query: str) -> float:
        values = {"url.search": query, "attention-pixels.data": 512}
        names = [name for name in app.callback_map if name.startswith("..attention-")]
        bodies = [_request(app.callback_map[name], name, values) for name in names]
        start = time.perf_counter()
        answers = [client.post("/_dash-update-component", json=body) for body in bodies]
        seconds = time.perf_counter() - start
        if not any(b'"heatmap"' in one.data for one in answers):
            raise WorkbenchError(f"the attention page drew no map for {query}")
        return seconds

    whole = f"?run={run}&capture={CAPTURE}"
    answer(f"{whole}&zoom=0-9.0-9")  # what Dash and Plotly import when they are first used
    yield Measurement("page.overview", answer(whole) * 1e3, "ms for 20,000 tokens", better="lower", target=1000.0)
    steps = []
    for size in (12_000, 7_000, 4_096, 2_000, 900, 256, 60):
        top, left = 15_000 - size // 2, 6_000 - size // 2
        steps.append(answer(f"{whole}&zoom={top}-{top + size}.{max(left, 0)}-{max(left, 0) + size}"))
    yield Measurement("page.zoom", max(steps) * 1e3, "ms, slowest of 7 steps", better="lower", target=300.0)


def _request(entry: dict[str, Any], name: str, values: dict[str, Any]) -> dict[str, Any]:
    """What a browser sends for a callback."""
    parts = [part.rpartition(".")[::2] for part in name.strip(".").split("...")]
    outputs = [{"id": component, "property": prop} for component, prop in parts]
    filled = {
        kind: [{**d, "value": values.get(f"{d['id']}.{d['property']}")} for d in entry[kind]]
        for kind in ("inputs", "state")
    }
    return {"output": name, "outputs": outputs, "changedPropIds": ["url.search"], **filled}


def _captured_run(store: Store) -> Path:
    """Write a run of an untrained model with a capture of 20,000 tokens; return its folder."""
    recipe, model, batch = _subject(LENGTH)
    with RunWriter.create(store, Header("bench", 0, 1, "cpu", {}), dump_recipe(recipe)) as writer:
        writer.set_state(Status.INTERRUPTED, step=0)
    capture_strings(model, batch, writer.path / "captures" / CAPTURE, {"id": CAPTURE})
    return writer.path


def _subject(length: int) -> tuple[Recipe, CopyTransformer, CopyBatch]:
    recipe = Recipe.model_validate(RECIPE)
    task = CopyTask(recipe.task)
    batch = task.sample(1, torch.Generator().manual_seed(0), lengths=length)
    return recipe, CopyTransformer(recipe.model, task.vocabulary, seed=0), batch


def _apart(part: str, folder: Path) -> dict[str, float]:
    """Run a part in a process of its own and return its seconds, peak bytes, and how much its memory grew."""
    command = [sys.executable, "-m", "workbench.bench.views", part, str(folder)]
    home = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=home)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def _view_all(folder: Path) -> Callable[[], Any]:
    string = open_capture(folder).string(0)

    def look() -> None:
        for head in range(HEADS):
            ensure_overview(string, 0, head)
            view(string, 0, head, slice(0, 10_000), slice(0, 10_000))
            view(string, 0, head, slice(12_000, 12_512), slice(2_000, 2_512))
            string.head(0, head).row(15_000)

    return look


def _tiles(folder: Path) -> Callable[[], Any]:
    pattern = open_capture(folder).string(0).head(0, 0)
    starts = range(0, 512 * TILES, 512)

    def look() -> None:
        with threadpool_limits(1, "blas"):  # as the dashboard does
            for start in starts:
                pattern.tile(slice(15_000, 15_512), slice(start, start + 512))

    return look


def _ours(folder: Path) -> Callable[[], Any]:
    _, model, batch = _subject(SHORTER)

    def look() -> None:
        name = f"shorter-{time.monotonic_ns()}"
        capture_strings(model, batch, folder / name, {"id": name})
        string = open_capture(folder / name).string(0)
        for head in range(HEADS):
            string.head(0, head).pooled()

    return look


def _cache(folder: Path) -> Callable[[], Any]:
    from transformer_lens.model_bridge.sources import boot_native

    _, model, batch = _subject(SHORTER)
    cfg = model.cfg
    bridge = boot_native(
        {
            "n_layers": 1,
            "n_heads": HEADS,
            "d_model": cfg.d_model,
            "d_head": WIDTH,
            "d_mlp": cfg.d_mlp,
            "d_vocab": cfg.d_vocab,
            "n_ctx": batch.tokens.shape[1],
            "act_fn": "gelu",
            "normalization_type": "RMS",
            "positional_embedding_type": "rotary",
            "rotary_dim": WIDTH,
            "seed": 0,
        }
    )

    def look() -> None:
        with torch.inference_mode():
            bridge.run_with_cache(batch.tokens, names_filter=lambda name: name.endswith("hook_pattern"))

    return look


_PARTS = {"tiles": _tiles, "view": _view_all, "ours": _ours, "cache": _cache}


def _main(part: str, folder: str) -> None:
    look = _PARTS[part](Path(folder))
    before = psutil.Process().memory_info().rss
    if part != "view":  # whose second time finds the overviews kept
        look()
    seconds = _seconds(look)
    print(json.dumps({"seconds": seconds, "bytes": _peak(), "grown": max(0, _peak() - before)}))


def _peak() -> int:
    """Most bytes of memory that this process has held at once."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _seconds(what: Callable[[], Any]) -> float:
    start = time.perf_counter()
    what()
    return time.perf_counter() - start


if __name__ == "__main__":
    _main(*sys.argv[1:])
