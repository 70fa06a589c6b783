"""How PyTorch's threads wait for each other is said before torch is loaded, without loading it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PRINT = "import os, sys, {module}; print(os.environ['OMP_WAIT_POLICY'], 'torch' in sys.modules)"


@pytest.mark.parametrize(
    ("module", "readers", "expected"),
    [
        ("recon", None, "PASSIVE False"),
        ("recon", "ACTIVE", "ACTIVE False"),
        ("tests.conftest", None, "PASSIVE False"),
    ],
)
def test_threads_sleep_while_they_wait_unless_the_reader_wants_otherwise(module, readers, expected):
    """
    Args:
        readers: what the variable says before.
        expected: what it says after, and is torch loaded?
    """
    env = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    if readers:
        env["OMP_WAIT_POLICY"] = readers
    command = [sys.executable, "-c", PRINT.format(module=module)]
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(expected)
