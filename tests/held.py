"""What a smoke result is held to: invariants, measured bands, and the verdicts that rounding leaves
alone.

test_smoke.py asks it of the results that it computes.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from tests.bands import allowance, faults
from tests.invariants import broken

ROOT = Path(__file__).resolve().parents[1]


@cache
def measured() -> tuple[dict[str, Any], dict[str, Any]]:
    """Bands, and by experiment whether it is loose and which verdicts each claim had
    (benchmarks/rounding.py).
    """
    kept = (ROOT / "tests" / "chapters" / "bands.json").read_text(encoding="utf-8")
    found = (ROOT / "benchmarks" / "rounding.json").read_text(encoding="utf-8")
    return json.loads(kept), json.loads(found)


def wrong(name: str, metrics: dict[str, Any], verdicts: dict[str, str]) -> list[str]:
    """What is not as measured, in words; at most one turned verdict is forgiven where rounding
    turns others.
    """
    bands, found = measured()[0][name], measured()[1][name]
    off = faults(bands, metrics, allowance(bands) if found["loose"] else 0)
    stable = {claim: list(seen)[0] for claim, seen in found["verdicts"].items() if len(seen) == 1}
    turned = [
        f"{claim} {verdicts.get(claim)}, not {verdict}"
        for claim, verdict in stable.items()
        if verdicts.get(claim) != verdict
    ]
    new = [f"{claim} is not measured" for claim in verdicts.keys() - found["verdicts"].keys()]
    return [
        *broken(metrics),
        *(f"{path} {now}, not {kept}" for path, (kept, now) in off.items()),
        *(turned if len(turned) > found["loose"] else []),
        *new,
    ]
