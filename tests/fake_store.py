"""A run store written by hand, with runs in every state, so that the dashboard is tested without training anything."""

import fcntl
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

A, B, E = 2, 4, 64
NAMES = ["0", "1", "A1", "A2", "⏎", "B2", "B3", "B4", "EOS", "PAD"]
DISTRIBUTIONS = ("uniform", "imbalanced", "recursive-flip")


def fill(root: Path) -> dict[str, str]:
    """Write a store with finished, killed, failed, damaged and foreign folders; return the ids by role."""
    root.mkdir(parents=True, exist_ok=True)
    ids = {
        "rope": add_run(root, "rope-2l-s0-3f1a", "rope-2l", ["rope"], [2, 1], reach=1.0, hours=3),
        "rope2d": add_run(root, "rope2d-1l-s0-9c2e", "rope2d-1l", ["rope2d"], [2], reach=30, hours=2),
        "auto2d": add_run(root, "auto2d-1l-s0-77b0", "auto2d-1l", ["auto2d"], [2], reach=4, hours=1),
        "again": add_run(root, "rope2d-1l-s1-0d41", "rope2d-1l", ["rope2d"], [2], reach=12, hours=1.5),
        "nope": add_run(root, "nope-2l-s0-51cc", "nope-2l", ["nope"], [4, 4], reach=0.7, hours=30),
        "failed": add_run(root, "alibi-2l-s0-aa10", "alibi-2l", ["alibi"], [2, 2], state="failed", hours=5),
        "killed": add_run(root, "rope-2l-s1-b7d2", "rope-2l", ["rope"], [2, 1], state="training", hours=0.4),
    }
    broken = root / "rope-2l-s9-dead"
    broken.mkdir()
    (broken / "run.json").write_text('{"format": 1, "id": "rope-')
    (root / "old notes").mkdir()
    add_capture(root / ids["rope"], ["rope", "rope"], [2, 1], n=60, strings=6)
    add_capture(root / ids["rope2d"], ["rope2d"], [2], n=40, strings=4)
    add_capture(root / ids["auto2d"], ["auto2d"], [2], n=50, strings=4)
    damaged = add_capture(root / ids["again"], ["rope2d"], [2], n=8, strings=1)
    (damaged / "string-0000.safetensors").write_bytes(b"not safetensors")
    return ids


def add_run(
    root: Path,
    run_id: str,
    recipe: str,
    schemes: list[str],
    heads: list[int],
    *,
    state: str = "finished",
    reach: float = 1.0,
    hours: float = 1.0,
    steps: int = 500,
) -> str:
    """Write a run whose exact match falls off at `reach` times its training length."""
    folder = root / run_id
    folder.mkdir()
    rng = np.random.default_rng(sum(map(ord, run_id)))
    done = steps if state == "finished" else steps * 3 // 5
    created = datetime.now(UTC) - timedelta(hours=hours)
    info = {
        "format": 1, "id": run_id, "recipe": recipe, "seed": 0, "created": created.isoformat(timespec="seconds"),
        "device": "cpu", "versions": {"python": "3.11.2", "torch": "2.13.0"}, "state": state,
        "message": "loss is not a number at step 300, first seen in layer 1" if state == "failed" else None,
        "step": done, "steps": steps,
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(info))
    positions = ", ".join(f'{{scheme = "{scheme}"}}' for scheme in schemes)
    (folder / "config.toml").write_text(
        f'name = "{recipe}"\n[task]\nlengths = [1, 50]\n[model]\nheads = {heads}\npositions = [{positions}]\n'
    )
    (folder / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records(rng, done, steps)))
    (folder / "lock").touch()
    if state == "finished":
        save_file({"w": np.zeros(1, np.float32)}, folder / "weights.safetensors")
        results = [score(rng, d, n, reach) for d in DISTRIBUTIONS for n in (25, 50, 100, 200, 400, 800, 1600)]
        (folder / "evaluation.json").write_text(json.dumps({"results": results, "seed": 0, "seconds": 12.0}))
    return run_id


def records(rng: np.random.Generator, done: int, steps: int, first: int = 1) -> list[dict]:
    """Return metric records of a loss that falls like a logistic curve."""
    made = []
    for step in range(first, done + 1):
        progress = 1 / (1 + np.exp(-(step / steps - 0.35) * 14))
        record = {
            "step": step, "loss": float(0.72 * (1 - progress) + 0.004 + rng.normal(0, 0.012) ** 2),
            "tokens_per_second": 21000.0, "learning_rate": 2e-3, "grad_norm": 0.4, "seconds": step * 0.2,
        }  # fmt: skip
        if step % 50 == 0 or step == steps:
            record["evaluation"] = [score(rng, "imbalanced", 50, 1.2, float(progress) ** 3)]
        made.append(record)
    return made


def score(rng: np.random.Generator, distribution: str, length: int, reach: float, best: float = 1.0) -> dict:
    """Return one score dict: exact match falls off around `reach` times 50 tokens."""
    n = 20
    falls = {"uniform": 1.0, "imbalanced": 1.3, "recursive-flip": 0.8}[distribution]
    p = best / (1 + (length / (50 * reach * falls * 1.6)) ** 5)
    right = int(rng.binomial(n, p))
    share, z = right / n, 1.96
    center, spread = (share + z**2 / (2 * n)) / (1 + z**2 / n), z / (1 + z**2 / n)
    half = spread * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return {
        "distribution": distribution, "length": length, "shortest": length // 2 + 1, "strings": n, "exact_match": share,
        "token_accuracy": min(1.0, share + 0.05), "interval": [max(0.0, center - half), min(1.0, center + half)],
        "first_errors": [3] * (n - right),
    }  # fmt: skip


def add_capture(
    run: Path,
    schemes: list[str],
    heads: list[int],
    *,
    n: int,
    strings: int = 2,
    name: str | None = None,
    names: list[str] | None = None,
) -> Path:
    """Write a capture of `strings` strings of length `n`, every second one failed; return its folder."""
    capture_id = name or f"imbalanced-{n}-{sum(map(ord, run.name)):04x}"
    folder = run / "captures" / capture_id
    folder.mkdir(parents=True)
    entries = []
    for index in range(strings):
        fails = index % 2 == 1 or strings == 1
        first_error = None if not fails else n if index == 3 else n // 3 + index
        tensors = string_tensors(np.random.default_rng(index + n), schemes, heads, n, first_error)
        save_file(tensors, folder / f"string-{index:04d}.safetensors")
        entries.append({"length": n, "exact": not fails, "first_error": first_error, "tokens": A + B + 2 * n})
    about = {
        "format": 1, "id": capture_id, "created": datetime.now(UTC).isoformat(), "run": run.name, "step": 500,
        "distribution": "imbalanced", "length": n, "seed": 0, "tried": 64, "failed_only": False, "heads": heads,
        "d_head": E, "embedding_scheme": None, "schemes": [schemes[i % len(schemes)] for i in range(len(heads))],
        "layers": [
            {
                "scheme": schemes[i % len(schemes)], "scale": 1.0, "strict": False, "window": None, "slopes": None,
                "frequencies": [100 ** (-j / (E // 4)) for _ in range(2) for j in range(E // 4)],
            }
            for i in range(len(heads))
        ],
        "separator": "\n", "vocabulary": {"names": names or NAMES}, "strings": entries,
    }  # fmt: skip
    (folder / "capture.json").write_text(json.dumps(about))
    return folder


def string_tensors(
    rng: np.random.Generator, schemes: list[str], heads: list[int], n: int, first_error: int | None
) -> dict[str, np.ndarray]:
    """Return the tensors of one captured string: heads that look back, and one in the last layer that copies."""
    string = (rng.random(n) < 0.3).astype(np.int64)
    tokens = np.concatenate([[2, 3], string, [4, 5, 6, 7], string])
    t = len(tokens)
    first = A + n + B - 1
    copied = np.arange(n + 1)
    targets, source, predicted = (np.full(t, fill, np.int64) for fill in (-100, -1, -100))
    targets[first:] = np.append(string, 8)
    source[first:] = A + copied
    predicted[first:] = targets[first:]
    if first_error is not None:
        wrong = [k for k in range(first_error, n + 1) if k == first_error or rng.random() < 0.3]
        predicted[[first + k for k in wrong]] = [1 - targets[first + k] if k < n else 0 for k in wrong]
    breaks = np.cumsum(tokens == 4) - (tokens == 4)
    rule = np.stack([breaks, np.where(breaks == 0, np.arange(t), np.arange(t) - A - n - 1)], axis=1)
    anchors = np.concatenate([np.arange(A), A + n + np.arange(B)])
    made = {
        "tokens": tokens, "targets": targets, "predicted": predicted, "source_position": source,
        "anchor_positions": anchors, "rule_coords": rule,
    }  # fmt: skip
    made = {name: value.astype(np.int32) for name, value in made.items()}
    frequencies = rng.uniform(0.02, np.pi, E // 2)

    def place(at: np.ndarray) -> np.ndarray:
        angle = at[:, None] * frequencies
        return np.concatenate([np.cos(angle), np.sin(angle)], axis=1) / np.sqrt(E / 2)

    for layer, count in enumerate(heads):
        q, k, lse = (np.zeros((count, t, E if part < 2 else 1), np.float32) for part in range(3))
        for head in range(count):
            copies = layer == len(heads) - 1 and head == 0
            looked_at = np.where(source >= 0, source, np.arange(t) - 1) if copies else np.arange(t) - 1 - 3 * head
            if copies and first_error is not None:
                lost = np.flatnonzero((predicted >= 0) & (predicted != targets))
                looked_at[lost] = looked_at[lost] - rng.integers(2, 5, len(lost))
            keys = place(np.arange(t).astype(float))
            keys[anchors] *= 1.1 if copies else 1.5
            q[head], k[head] = (5.5 - 1.5 * head) * place(np.maximum(looked_at, 0).astype(float)), keys
            q[head] += rng.normal(0, 0.15, (t, E))
            lse[head, :, 0] = _log_sum_exp(q[head], k[head])
        made |= {f"q.{layer}": q, f"k.{layer}": k, f"lse.{layer}": lse[..., 0]}
        scheme = schemes[layer % len(schemes)]
        if scheme == "auto2d":
            steps = np.stack([np.full(t, 0.995), np.full(t, 0.97)], axis=1) + rng.normal(0, 0.002, (t, 2))
            steps[tokens == 4] = (0.04, 0.03)
            coords = np.zeros((t, 2))
            for i in range(t - 1):
                u, v = steps[i]
                coords[i + 1] = coords[i, 0] + 1 - u, u * coords[i, 1] + v
            made |= {f"steps.{layer}": steps.astype(np.float32), f"coords.{layer}": coords.astype(np.float32)}
        elif scheme == "rope2d":
            made[f"coords.{layer}"] = rule.astype(np.float32)
        elif scheme != "nope":
            made[f"coords.{layer}"] = np.arange(t, dtype=np.float32)[:, None]
    return made


def _log_sum_exp(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Return Float32[T] log-sum-exp of every causal row, in blocks of rows."""
    t = len(q)
    result = np.empty(t, np.float32)
    for start in range(0, t, 512):
        rows = np.arange(start, min(start + 512, t))
        scores = q[rows] @ k[: rows[-1] + 1].T
        scores[np.arange(rows[-1] + 1)[None] > rows[:, None]] = -np.inf
        top = scores.max(1)
        result[rows] = top + np.log(np.exp(scores - top[:, None]).sum(1))
    return result


class Training:
    """A run that is being trained, as far as a reader can tell: it holds the lock and appends records."""

    def __init__(self, root: Path, run_id: str = "auto2d-1l-s3-4e4e", steps: int = 500) -> None:
        add_run(root, run_id, "auto2d-1l", ["auto2d"], [2], state="training", hours=0.02, steps=steps)
        self.folder, self.steps, self.step = root / run_id, steps, 0
        self._file = open(self.folder / "lock", "r+")  # noqa: SIM115 (held until close)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        (self.folder / "metrics.jsonl").write_text("")
        info = json.loads((self.folder / "run.json").read_text())
        (self.folder / "run.json").write_text(json.dumps({**info, "step": 0}))

    def advance(self, steps: int) -> None:
        """Append `steps` records."""
        made = records(np.random.default_rng(self.step), self.step + steps, self.steps, self.step + 1)
        with open(self.folder / "metrics.jsonl", "a") as file:
            file.writelines(json.dumps(record) + "\n" for record in made)
        self.step += steps

    def close(self) -> None:
        """Let go of the lock."""
        self._file.close()
