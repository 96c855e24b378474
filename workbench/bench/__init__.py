"""Benchmarks, as ratios against a baseline measured in the same run on the same machine."""

import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Measurement:
    """One number and what it is compared with.

    Attributes:
        name: what was measured, a dotted path.
        value, unit: the number.
        baseline: the same quantity of the baseline, in the same unit; None where there is none.
        ratio: value / baseline (speeds) or value / baseline (times, memory); `better` says which way is good.
        better: "higher" or "lower".
        target: the bound this project holds itself to, on the ratio where there is a baseline, else on the value.
        against: what the baseline is.
    """

    name: str
    value: float
    unit: str
    baseline: float | None = None
    ratio: float | None = None
    better: str = "higher"
    target: float | None = None
    against: str = ""

    @property
    def met(self) -> bool | None:
        """Is the target met; None where there is none."""
        if self.target is None:
            return None
        number = self.value if self.ratio is None else self.ratio
        return number >= self.target if self.better == "higher" else number <= self.target

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self) | {"met": self.met}


def run(progress: Progress = lambda name: None) -> dict[str, Any]:
    """Run every benchmark; returns `{"measurements": [...], "machine": {...}}`. `progress` is told what is running."""
    return {"measurements": [m.as_dict() for m in _all(progress)], "machine": machine()}


def _all(progress: Progress) -> Iterator[Measurement]:
    from workbench.bench.dashboard import measure_dashboard
    from workbench.bench.evaluation import measure_evaluation
    from workbench.bench.training import gemm_rate, measure_tasks, measure_training
    from workbench.bench.views import measure_views

    progress("matrix products")
    rate = gemm_rate()
    yield Measurement("machine.gemm", rate / 1e9, "GFLOP/s")
    progress("drawing strings")
    yield from measure_tasks()
    progress("training steps")
    yield from measure_training(rate)
    progress("scoring a long string")
    yield from measure_evaluation()
    progress("views of 20,000 tokens")
    yield from measure_views()
    progress("the dashboard in Chromium (needs playwright and Chromium)")
    yield from measure_dashboard()


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    import torch

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": gpu,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "system": platform.system(),
    }
