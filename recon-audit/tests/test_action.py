"""The GitHub Action: its file is what GitHub expects, and its script runs, with another `recon` in
place of ours.
"""

from __future__ import annotations

import json
import os
import subprocess

import pytest
import yaml

from companion.chapters import ROOT
from recon.cli import _parser

ACTION = yaml.safe_load((ROOT / "recon-audit" / "action.yml").read_text(encoding="utf-8"))
STEP = next(step for step in ACTION["runs"]["steps"] if step.get("id") == "audit")
TOLD = {"verdict": "leaks", "membership_verdict": None, "lines": ["One came back."]}


def test_every_input_arrives_as_a_variable_and_is_no_part_of_a_script():
    arrive = {value.strip("${ }") for value in STEP["env"].values()}
    assert arrive == {f"inputs.{name}" for name in ACTION["inputs"]}
    assert all("${{" not in step.get("run", "") for step in ACTION["runs"]["steps"])
    for name, output in ACTION["outputs"].items():
        assert f"steps.audit.outputs.{name}" in output["value"]


@pytest.fixture
def ran(tmp_path):
    """The step's script, with a `recon` that writes down how it was called, writes reports, and
    ends as told.
    """
    script = tmp_path / "recon"
    script.write_text(
        '#!/bin/sh\nprintf "%s\\n" "$@" > called\nmkdir -p "$OUT"\n'
        f"echo '{json.dumps(TOLD)}' > \"$OUT/report.json\"\nexit $CODE\n"
    )
    script.chmod(0o755)

    def run(code, **more):
        inputs = {
            "WEIGHTS": "w $(touch x).pt",
            "DATA": "d",
            "ARCH": "auto",
            "MEAN": "auto",
            "PROFILE": "smoke",
            "OUT": "o p",
        }
        space = (
            dict.fromkeys(STEP["env"], "")
            | inputs
            | {"FAIL_ON": "leaks membership", "AGGREGATES_ONLY": "true"}
            | more
        )
        space |= {"CODE": str(code), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        space |= {
            "GITHUB_OUTPUT": str(tmp_path / "output"),
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        }
        done = subprocess.run(
            ["bash", "-e", "-c", STEP["run"]], env=space, cwd=tmp_path, check=False
        )
        return (
            done.returncode,
            (tmp_path / "called").read_text().splitlines(),
            (tmp_path / "output").read_text(),
        )

    return run


def test_the_script_calls_the_audit_and_tells_what_it_said(ran, tmp_path):
    code, called, output = ran(3)
    assert code == 3 and not (tmp_path / "x").exists()
    assert output.splitlines() == [
        "report=o p/report.html",
        "json=o p/report.json",
        "verdict=leaks",
        "membership=None",
    ]
    assert (
        called[:3] == ["audit", "--weights", "w $(touch x).pt"] and called.count("--fail-on") == 2
    )
    assert "--aggregates-only" in called and "--held-out" not in called and "--labels" not in called
    assert (tmp_path / "summary").read_text() == "1. One came back.\n"


def test_the_options_of_the_script_are_those_of_the_command_line(ran):
    code, called, _ = ran(0, HELD_OUT="h", LABELS="predicted", AGGREGATES_ONLY="false")
    settings = vars(_parser().parse_args(called))
    assert code == 0 and settings["held_out"] == "h" and settings["labels"] == "predicted"
    assert not settings["aggregates_only"] and settings["fail_on"] == ["leaks", "membership"]
