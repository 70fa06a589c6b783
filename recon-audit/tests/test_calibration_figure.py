"""What the page shows of calibration: false alarms at the rule's level, and found members on a
network's own images.
"""

from __future__ import annotations

import json

from audit_calibration import alarms

from companion.chapters import ROOT
from recon_audit.scoring import LEVEL


def test_the_measured_audits_keep_their_promise():
    told = (ROOT / "benchmarks" / "audit_calibration.json").read_text(encoding="utf-8")
    networks = json.loads(told)["networks"]
    assert len(networks) >= 200
    null, own = (alarms(networks, case, "either") for case in ("null", "own"))
    assert (null < LEVEL).mean() <= LEVEL and (own < LEVEL).mean() > 0.5
