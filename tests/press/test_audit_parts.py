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
from recon_parts import NUMBERED, part  # noqa: E402

SOURCES = Sources(ROOT, ROOT / "book" / "executed" / "results", [])


def audited(verdict, membership, comparable=True, p=1.0, rate=0.02):
    scores = {"lira": [0.5, p, rate], "rmia": [0.5, p, 0.0]} if comparable else None
    said = {
        "verdict": verdict,
        "membership": membership,
        "comparable": comparable,
        "p_images": None,
    }
    return said | {"p_membership": p if comparable else None, "scores": scores, "best": "lira"}


@pytest.fixture
def made(tmp_path):
    """A checkout of which only benchmarks are there."""
    (tmp_path / "benchmarks").mkdir()

    def write(name, told):
        (tmp_path / "benchmarks" / f"{name}.json").write_text(json.dumps(told))
        return Sources(tmp_path, tmp_path, [])

    return write


def test_verdicts_are_counted_by_kind_and_false_alarms_at_every_level(made):
    quiet = audited("cannot tell", "not by these attacks")
    networks = [
        {"kind": "a", "own": audited("leaks", "inferred"), "null": quiet},
        {"kind": "a", "own": quiet, "null": audited("cannot tell", "inferred", p=0.015, rate=0.2)},
        {
            "kind": "b",
            "own": quiet,
            "null": audited("cannot tell", "cannot tell", comparable=False),
        },
        {"kind": "b", "own": quiet, "null": audited("leaks", "not by these attacks", p=0.06)},
    ]
    text = part("audit-calibration", made("audit_calibration", {"n": 100, "networks": networks}))
    assert "| a | 2 | 1 | 1 | 0 | 1 | 0 |" in text and "| b | 2 | 0 | 0 | 1 | 0 | 1 |" in text
    assert "| all | 4 | 1 | 1 | 1 | 1 | 1 |" in text
    row = next(line for line in text.splitlines() if line.startswith("| all | 0.0%"))
    assert [cell.split("(")[0].strip() for cell in row.split("|")[2:6]] == [
        "0.0%",
        "25.0%",
        "25.0%",
        "50.0%",
    ]
    assert "named 8.0 of 100 at 1 % false alarms, where a guess names 2.0" in text  # 2, 20 and 2
    assert "in 33.3% of audits" in text


def test_two_audits_stand_side_by_side(made):
    said = {"auc": 0.5, "tpr_0.01": 0.1, "seconds": 2.0}
    networks = [
        {"second opinion": {"recon": said | {"auc": auc}, "ml_privacy_meter": said}}
        for auc in (0.6, 0.8)
    ]
    text = part("audit-second-opinion", made("membership", {"networks": networks}))
    assert "| `recon.audit` | 0.700 (0.600–0.800) | 0.100 (0.100–0.100) | 2.0 (2.0–2.0)" in text


def test_scores_are_means_and_ranges(made):
    networks = [
        {"scores": {"lira": {"auc": a, "tpr_0.01": r}}} for a, r in ((0.5, 0.0), (0.7, 0.1))
    ]
    text = part("audit-scores", made("membership", {"networks": networks}))
    assert "| LiRA | 0.600 (0.500–0.700) | 0.050 (0.000–0.100) |" in text


def test_the_gallery_says_what_came_back_and_why_an_attack_did_not_apply(made):
    quiet = {
        "n": 50,
        "trained": "Adam; 75 steps",
        "accuracy": {"train": 1.0, "held_out": 0.62},
        "verdict": "cannot tell",
        "membership": "inferred",
        "area": 0.987,
        "leaked": 0,
        "by": None,
        "power": {"canaries": 2, "leaking": 1},
        "did_not_apply": {},
        "processor_seconds": 61.4,
        "profile": "laptop",
    }
    leaky = quiet | {
        "verdict": "leaks",
        "leaked": 36,
        "by": "decoreco",
        "membership": "cannot tell",
        "area": None,
    }
    conv = quiet | {"power": None, "processor_seconds": 1140.0, "profile": "smoke"}
    conv["did_not_apply"] = {
        "separation": "A convolution.",
        "rows": "A convolution.",
        "decoreco": "It has a Conv2d.",
    }
    networks = {"one": leaky, "two": quiet, "three": conv}
    text = part("audit-gallery", made("audit_gallery", {"networks": networks}))
    assert (
        "| leaks | 36 of 50, by DecoReco; of 2 canaries 1 leaked | cannot tell | 1.0 (`laptop`) |"
        in text
    )
    assert (
        "- **two**: Adam; 75 steps. Accuracy 100%, on images held out 62%.\n" in text
        and "none; of 2 canaries 1 leaked" in text
    )
    assert text.endswith(
        "held out 62%. No separation and rows: A convolution. No DecoReco: It has a Conv2d."
    )
    assert "none: no attack on images applies | inferred (area 0.99)" in text
    assert (
        "from 1 of 3 networks (one); members could be inferred of 2 of 3 networks (two; three)"
        in text
    )
    assert "of three, took 19 minutes of one core.\n" in text and "| 19.0 (`smoke`) |" in text


@pytest.mark.parametrize("name", audit_parts.PARTS)
def test_every_part_is_written_from_the_files_that_are_there_and_refused_without(name, tmp_path):
    assert part(name, SOURCES).count("\n") >= 2
    with pytest.raises(ReconError, match=r"benchmarks/.*\.json cannot be read"):
        part(name, Sources(tmp_path, tmp_path, []))


def test_the_page_says_what_the_files_say():
    assert "book/audit" in NUMBERED
    shown = rendered((ROOT / "book" / "audit.md").read_text(encoding="utf-8"), ROOT)
    early = json.loads((ROOT / "benchmarks" / "audit_early.json").read_text())
    assert early["counts"]["verdict"].get("leaks", 0) == 0 and len(early["networks"]) >= 50
    compared = json.loads((ROOT / "benchmarks" / "membership.json").read_text())
    # "agree to the last digit"
    assert all(each["run against their code"] for each in compared["networks"])
    assert "{{" not in shown and "{%" not in shown
