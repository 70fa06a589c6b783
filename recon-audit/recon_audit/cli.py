"""The command `recon audit`. Where it was asked to fail, its exit codes are 3 for a leak, 4 where
it cannot tell.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recon.cli import a_path, a_text, say
from recon.errors import one_reason

FATAL = ("leaks", "cannot-tell", "membership")
#: option -> its type, what it stands for in the help, and the help
OPTIONS: dict[str, tuple[Any, str, str]] = {
    "--weights": (a_path, "FILE", ".safetensors, .pt or .pth"),
    "--base": (a_path, "FILE", "the network that the weights, an adapter of PEFT's, adapt"),
    "--arch": (a_text, "auto|WIDTHS|NAME", "3072-1000-1000-1, resnet18, …"),
    "--data": (a_path, "DIR", "training images; or train/, held_out/; or .npz"),
    "--held-out": (a_path, "DIR", "images that the network never saw, if not in --data"),
    "--labels": (a_text, "FILE|predicted", "CSV of name,label (default: subfolders, if any)"),
    "--start": (a_path, "FILE", "the weights before training, if an adversary may have them"),
    "--fine-tuned-from": (a_text, "FILE|NAME", "where its training began: resnet18, a checkpoint"),
    "--out": (a_path, "DIR", "where report.html and report.json go"),
    "--mean": (
        a_text,
        "auto|image|channel|none|M,M,M/S,S,S",
        "what training subtracted, divided by (default: inferred by the accuracy on training"
        " images)",
    ),
    "--resize": (int, "N", "pixels of the shorter side of every picture"),
    "--crop": (int, "N", "pixels of a square in its middle, cut out"),
    "--attacks": (a_text, "A,B", "such as separation,membership (default: all)"),
    "--shadows": (int, "N", "networks trained to compare with (default: by profile 4, 8, 32)"),
    "--canaries": (int, "N", "of them attacked, to know what would be found (1, 2, 4)"),
    "--groups": (a_text, "FILE|folders", "CSV of name,patient: images that belong together"),
    "--time": (float, "S", "seconds that it may take, with fewer networks (smoke: 300)"),
    "--claimed-epsilon": (
        a_text,
        "E[,D]",
        "of differential privacy as claimed: is it consistent with a lower bound?",
    ),
}
DEFAULTS = {"--arch": "auto", "--out": "recon-audit", "--mean": "auto"}


def add_commands(command: Callable[..., Any], **shared: argparse.ArgumentParser) -> None:
    """Add it; see `recon.cli`."""
    option = command(
        "audit",
        _audit,
        "how much of its training set does your own network give away?",
        shared["budget"],
        resumes=False,
    )
    for name, (kind, metavar, words) in OPTIONS.items():
        option(
            name,
            type=kind,
            metavar=metavar,
            help=words,
            required=name in ("--weights", "--data"),
            default=DEFAULTS.get(name),
        )
    option("--fail-on", action="append", default=[], choices=FATAL, help="exit code 3, 4, 3")
    words = "they hold for both sets, from one source: membership is inferred by them"
    option("--trust-labels", action="store_true", help=words)
    option("--aggregates-only", action="store_true", help="no image and no name in the report")


def _audit(
    weights: str,
    data: str,
    held_out: str | None,
    start: str | None,
    mean: str,
    fail_on: list[str],
    fine_tuned_from: str | None,
    **settings: Any,
) -> int:
    from recon_audit.audit import audit

    settings |= {"start": fine_tuned_from, "transform": _pixels(mean)}
    report = audit(weights, data, held_out, theta_init=start, **settings)
    say(report)
    for note in report.data["images"]["notes"]:
        say(f"Note: {note}.")
    say(Path(settings["out"]) / "report.html")
    asked = {report.verdict, report.membership if "membership" in fail_on else ""}
    if fail_on and asked & {"leaks", "inferred"}:
        return 3
    return 4 if "cannot-tell" in fail_on and "cannot tell" in asked else 0


def _pixels(text: str) -> Any:
    """ "0.5,0.5,0.5/0.2,0.2,0.2" -> ([0.5, …], [0.2, …]); a word stays what it is."""
    if "/" not in text:
        return text
    with one_reason(f"--mean must be a word or MEAN/STD, numbers joined by commas, not '{text}'"):
        return tuple([float(number) for number in part.split(",")] for part in text.split("/"))
