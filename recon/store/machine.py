"""What a result says of the machine and the checkout that made it."""

import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from joblib import cpu_count

from recon.errors import ReconError


def resolve_device(device: str) -> torch.device:
    """ "auto" (the GPU if there is one), "cpu", "cuda" or "cuda:1"; ReconError for an unknown or absent device."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, number = device.partition(":")
    if device != "cpu" and (kind != "cuda" or (":" in device and not (number.isascii() and number.isdecimal()))):
        raise ReconError(f"unknown device '{device}': choose auto, cpu, cuda or cuda:N")
    if kind == "cuda" and not torch.cuda.is_available():
        raise ReconError("there is no usable GPU on this machine: choose --device cpu or auto")
    if number and int(number[:9]) >= torch.cuda.device_count():
        raise ReconError(f"there is no GPU number {number} on this machine: it has {torch.cuda.device_count()}")
    return torch.device(device)


def device_name(device: torch.device) -> str:
    """A device in words, without the name of the machine: "cpu (2 cores)" or the GPU's."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"cpu ({cpu_count()} cores)"


def versions() -> dict[str, str]:
    """Versions that may matter to a number."""
    found = {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__}
    return {**found, "recon": version("recon")}


def check_seed(seed: int) -> None:
    """ReconError for a seed that generators do not take; they take 64 bits, and streams add to it."""
    if not 0 <= seed < 2**62:
        raise ReconError(f"the seed must not be negative, nor 2^62 or more, not {seed}")


def peak_memory_mb() -> float:
    """Largest resident memory so far of this process or one of its children, in MB; 0 where nobody counts it."""
    try:
        import resource
    except ImportError:  # Windows
        return 0.0
    unit = 1 if sys.platform == "darwin" else 1024
    usage = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return round(max(usage) * unit / 1e6, 1)


def gpu_memory_mb(device: torch.device) -> float:
    """Most memory that tensors held at once on this GPU, in MB; 0 on a CPU."""
    return round(torch.cuda.max_memory_allocated(device) / 1e6, 1) if device.type == "cuda" else 0.0


def commit(root: Path) -> str:
    """Short hash of HEAD, "-dirty" with uncommitted changes in recon/, companion/ or notebooks/; "unknown" without a
    commit."""
    head = _git(root, "rev-parse", "--short", "HEAD")
    if not head:
        return "unknown"
    return head + ("-dirty" if _git(root, "status", "--porcelain", "--", "recon", "companion", "notebooks") else "")


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
