"""What a result or a report says of the machine that made it."""

import os
import platform
import re
import sys

import numpy as np
import torch

from recon.errors import ReconError


def resolve_device(device: str) -> torch.device:
    """ "auto" (the GPU if there is one), "cpu", "cuda" or "cuda:1"; ReconError for an unknown or
    absent device.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch("cpu|cuda(:[0-9]{1,2})?", device):
        raise ReconError(f"unknown device '{device}': choose auto, cpu, cuda or cuda:N")
    found = torch.device(device)
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ReconError("there is no usable GPU on this machine: choose --device cpu or auto")
    if found.index and found.index >= torch.cuda.device_count():
        raise ReconError(f"there is no GPU number {found.index} on this machine")
    return found


def cpu_count() -> int:
    """Cores that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)  # Linux alone has it
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def device_name(device: torch.device) -> str:
    """A device in words, without the name of the machine: "cpu (2 cores)" or the GPU's."""
    return (
        torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else f"cpu ({cpu_count()} cores)"
    )


def versions() -> dict[str, str]:
    """Versions that may matter to a number."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "recon": sys.modules["recon"].__version__,  # of this code, whatever is installed
    }


def check_seed(seed: int) -> None:
    """ReconError for a seed that generators do not take; they take 64 bits, and streams add to
    it.
    """
    if not 0 <= seed < 2**62:
        raise ReconError(f"the seed must not be negative, nor 2^62 or more, not {seed}")
