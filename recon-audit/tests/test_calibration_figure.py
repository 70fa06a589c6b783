"""The figure of calibration: curves are what the file says, and begin to rise where the first audit
calls something.
"""

from __future__ import annotations

import json

from audit_calibration import alarms

from companion.chapters import ROOT
from recon_audit.scoring import LEVEL


def network(own, null):
    pairs = {"own": own, "null": null}
    return {
        case: {"p_images": images, "p_membership": members}
        for case, (images, members) in pairs.items()
    }


NETWORKS = [
    network((1.0, 0.001), (1.0, 0.03)),
    network((0.02, 0.4), (1.0, 0.5)),
    network((1.0, 0.002), (None, None)),
]


def test_alarms_by_hand():
    assert alarms(NETWORKS, "null", "either").tolist() == [0.03, 0.5, 1.0]
    assert alarms(NETWORKS, "own", "either").tolist() == [0.001, 0.002, 0.02]
    assert alarms(NETWORKS, "own", "membership").tolist() == [0.001, 0.002, 0.4]


def test_the_measured_audits_keep_their_promise():
    """Of the file that the page shows: false alarms at the rule's level, and found members on a
    network's own.
    """
    told = json.loads((ROOT / "benchmarks" / "audit_calibration.json").read_text(encoding="utf-8"))[
        "networks"
    ]
    assert len(told) >= 200
    null, own = (alarms(told, case, "either") for case in ("null", "own"))
    assert (null < LEVEL).mean() <= LEVEL and (own < LEVEL).mean() > 0.5
