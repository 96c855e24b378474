"""Where tensors live: CUDA, then MPS, then CPU."""

import torch

from models.errors import UsageError

DEVICES = ("auto", "cpu", "cuda", "mps")


def pick_device(name: str = "auto") -> torch.device:
    """Return the device called `name`; "auto" is the best one there is.

    Raises:
        UsageError: an unknown name, or a device this machine or this build of torch does not have.
    """
    kind = name.split(":")[0]
    if kind not in DEVICES:
        raise UsageError(f"unknown device {name!r}; give one of {', '.join(DEVICES)}")
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return torch.device("cuda" if available["cuda"] else "mps" if available["mps"] else "cpu")
    if not available[kind]:
        raise UsageError(
            f"device {name!r} was asked for, but torch {torch.__version__} finds none here; use cpu or auto"
        )
    device = torch.device(name)
    if kind == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UsageError(f"device {name!r} does not exist; this machine has {torch.cuda.device_count()} CUDA devices")
    return device
