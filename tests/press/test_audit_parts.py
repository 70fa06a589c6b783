"""What the audit's page shows of its benchmarks: counted as the files say, and refused where a file
is missing.
"""

from __future__ import annotations

import json
import sys

import pytest

from companion.chapters import ROOT
from companion.press.numbers import rendered
from recon.errors import ReconError

sys.path.append(str(ROOT / "book" / "_ext"))

import audit_parts  # noqa: E402
from claim_parts import Sources  # noqa: E402
from recon_parts import part  # noqa: E402

SOURCES = Sources(ROOT, ROOT / "book" / "executed" / "results", [])


def audit(verdict, membership, comparable=True, p=1.0, rate=0.02):
    return {
        "verdict": verdict,
        "membership": membership,
        "comparable": comparable,
        "p_images": None,
        "p_membership": p if comparable else None,
        "scores": {"lira": [0.5, p, rate], "rmia": [0.5, p, 0.0]} if comparable else None,
        "best": "lira",
    }


@pytest.fixture
def write(tmp_path):
    """Sources of a checkout that has one benchmark's file alone."""
    (tmp_path / "benchmarks").mkdir()

    def sources(name, content):
        (tmp_path / "benchmarks" / f"{name}.json").write_text(json.dumps(content))
        return Sources(tmp_path, tmp_path, [])

    return sources


def test_verdicts_are_counted_by_kind_and_false_alarms_at_every_level(write):
    quiet = audit("cannot tell", "not by these attacks")
    nulls = [
        quiet,
        audit("cannot tell", "inferred", p=0.015, rate=0.2),
        audit("cannot tell", "cannot tell", comparable=False),
        audit("leaks", "not by these attacks", p=0.06),
    ]
    networks = [
        {"kind": kind, "own": quiet, "null": null} for kind, null in zip("aabb", nulls, strict=True)
    ]
    networks[0]["own"] = audit("leaks", "inferred")
    text = part("audit-calibration", write("audit_calibration", {"n": 100, "networks": networks}))
    assert "| a | 2 | 1 | 1 | 0 | 1 | 0 |" in text and "| b | 2 | 0 | 0 | 1 | 0 | 1 |" in text
    assert "| all | 4 | 1 | 1 | 1 | 1 | 1 |" in text
    row = next(line for line in text.splitlines() if line.startswith("| all | 0.0%"))
    rates = [cell.split("(")[0].strip() for cell in row.split("|")[2:6]]
    assert rates == ["0.0%", "25.0%", "25.0%", "50.0%"]
    assert "named 8.0 of 100 at 1 % false alarms, where a guess names 2.0" in text  # 2, 20 and 2


def test_scores_are_means_and_ranges(write):
    pairs = ((0.5, 0.0), (0.7, 0.1))
    networks = [{"scores": {"lira": {"auc": area, "tpr_0.01": rate}}} for area, rate in pairs]
    text = part("audit-scores", write("membership", {"networks": networks}))
    assert "| LiRA | 0.600 (0.500–0.700) | 0.050 (0.000–0.100) |" in text


@pytest.mark.parametrize("name", audit_parts.PARTS)
def test_every_part_is_written_from_the_files_that_are_there_and_refused_without(name, tmp_path):
    assert part(name, SOURCES).count("\n") >= 2
    with pytest.raises(ReconError, match=r"benchmarks/.*\.json cannot be read"):
        part(name, Sources(tmp_path, tmp_path, []))


def test_the_page_says_what_the_files_say():
    text = rendered((ROOT / "book" / "audit.md").read_text(encoding="utf-8"), ROOT)
    assert "{{" not in text and "{%" not in text
    early = json.loads((ROOT / "benchmarks" / "audit_early.json").read_text())
    assert early["counts"]["verdict"].get("leaks", 0) == 0 and len(early["networks"]) >= 50
    compared = json.loads((ROOT / "benchmarks" / "membership.json").read_text())
    # "agree to the last digit"
    assert all(network["run against their code"] for network in compared["networks"])
