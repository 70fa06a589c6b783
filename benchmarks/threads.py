"""How PyTorch's threads wait for each other, by default and as recon sets it
(OMP_WAIT_POLICY=PASSIVE).

    python benchmarks/threads.py [--products 1000] [--rounds 3]

Seconds of 1,000 products of 300 × 300 matrices in float32, in processes of their own with as many
threads as PyTorch takes, on a quiet machine and beside one busy process; by turns, the least of
three. Writes benchmarks/threads.json, unless --products says otherwise.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from timing import write

PRODUCTS = 1000
POLICIES: dict[str, dict[str, str]] = {"default": {}, "passive": {"OMP_WAIT_POLICY": "PASSIVE"}}
PLACES = ("quiet", "beside a busy process")
MULTIPLY = """
import sys, time, torch
matrix = torch.rand(300, 300)
matrix @ matrix
start = time.perf_counter()
for _ in range(int(sys.argv[1])):
    matrix @ matrix
print(time.perf_counter() - start)
"""


@contextmanager
def busy() -> Iterator[None]:
    """One process that keeps one processor busy."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield
        finally:
            process.kill()


def seconds(policy: str, products: int) -> float:
    """Of the products, in a process without other variables that say how threads work."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("OMP_")}
    command = [sys.executable, "-c", MULTIPLY, str(products)]
    return float(subprocess.check_output(command, env=env | POLICIES[policy]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--products", type=int, default=PRODUCTS)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    least = {place: dict.fromkeys(POLICIES, float("inf")) for place in PLACES}
    for _ in range(options.rounds):
        for place, times in least.items():
            with busy() if place != "quiet" else nullcontext():
                for policy in POLICIES:
                    times[policy] = min(times[policy], seconds(policy, options.products))
    ratios = {place: times["default"] / times["passive"] for place, times in least.items()}
    report = {"products": options.products, "seconds": least, "ratio_default_over_passive": ratios}
    write(report, __file__) if options.products == PRODUCTS else print(report)


if __name__ == "__main__":
    main()
