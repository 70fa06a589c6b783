"""Every experiment at profile `smoke`, its metrics held to pinned numbers: what a wrong sign anywhere would move.

The numbers lie in smoke/NAME.json, and in smoke/NAME.*.json as other kinds of processors have them: descent in float32
does not come out alike on all.  `RECON_PIN=KIND pytest tests/chapters/test_smoke.py` writes those of this processor
where none fits.  Within 1 %, counts within two; times are left out.  Results go where `$RECON_SMOKE_OUT` says (see the
Makefile), so that nbval finds what was computed here.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from benchmarks.compare import compared
from recon.chapters import registry

PINNED = Path(__file__).parent / "smoke"


@pytest.mark.parametrize("name", registry())
def test_metrics_are_what_they_were(name, out, runs):
    result = runs(name)
    metrics = json.loads((out / name / "result.json").read_text())["metrics"]
    compare = [compared(json.loads(file.read_text()), metrics) for file in PINNED.glob(f"{name}.*json")]
    faults = [{key: each[key] for key in ("differ", "gone", "new") if each.get(key)} for each in compare]
    if all(faults) and os.environ.get("RECON_PIN"):
        (PINNED / f"{name}.{os.environ['RECON_PIN']}.json").write_text(
            json.dumps(metrics, indent=1, sort_keys=True) + "\n"
        )
        return
    assert all(each["numbers"] > 5 for each in compare) and result.claims
    assert not all(faults), min(faults, key=lambda each: len(str(each)))


def test_a_number_that_moves_is_seen():
    old = {"a": [1.0, {"b": 40}], "c": "x", "d": True, "train_seconds": 3.0}
    for new in (
        {**old, "a": [1.02, {"b": 40}]},
        {**old, "a": [1.0, {"b": 37}]},
        {**old, "c": "y"},
        {**old, "d": False},
    ):
        assert len(compared(old, new)["differ"]) == 1
    assert not compared(old, {**old, "a": [1.001, {"b": 39}], "train_seconds": 9.0})["differ"]
    assert compared(old, {**old, "a": [1.0]})["gone"] == ["a[1].b"]
    assert compared(old, {**old, "e": 1})["new"] == ["e"]
