"""How far rounding moves the traces of kept runs, as shares of the bands that `recon replay`
allows.

    python benchmarks/replays.py [--seconds 20] [NAME …]

Begins the kept runs of seed 0 anew for some seconds under another instruction set, and writes
benchmarks/replays.json. A share above 1 would turn a replay red on a machine where nothing is
wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.rounding import PLAIN  # noqa: E402

if os.environ | PLAIN != os.environ:  # libraries read it when a process begins
    os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | PLAIN)

from timing import write  # noqa: E402
from tqdm import tqdm  # noqa: E402

from companion.chapters import entries, kept_seeds  # noqa: E402
from companion.chapters.replay import replay  # noqa: E402


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seconds", type=float, default=20.0)
    arguments = parser.parse_args()
    names = arguments.names or [name for name in entries() if 0 in kept_seeds(name)]
    found = {name: replay(name, 0, arguments.seconds) for name in tqdm(names, disable=None)}
    write(
        {
            "share_of_the_band": {
                name: {"by": each.by, "largest": each.largest} for name, each in found.items()
            }
        },
        __file__,
    )


if __name__ == "__main__":
    main()
