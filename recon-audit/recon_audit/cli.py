"""The command `recon audit`. Where it was asked to fail, its exit codes are 3 for a leak, 4 where
it cannot tell.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recon.cli import a_path, a_text, say
from recon.errors import ReconError
from recon.store.files import atomic_path, check_writable


def add_commands(command: Callable[..., Any], **shared: argparse.ArgumentParser) -> None:
    """Add it; see `recon.cli`."""
    about = "how much of its training set does your own network give away?"
    option = command("audit", _audit, about, shared["budget"], resumes=False)
    option(
        "--weights",
        type=a_path,
        required=True,
        metavar="FILE",
        help=".safetensors, .pt or .pth",
    )
    option(
        "--base",
        type=a_path,
        metavar="FILE",
        help="the network that the weights, an adapter of PEFT's, adapt",
    )
    option(
        "--arch",
        type=a_text,
        default="auto",
        metavar="auto|WIDTHS|NAME",
        help="3072-1000-1000-1, resnet18, …",
    )
    option(
        "--data",
        type=a_path,
        required=True,
        metavar="DIR",
        help="training images; or train/, held_out/; or .npz",
    )
    option(
        "--held-out",
        type=a_path,
        metavar="DIR",
        help="images that the network never saw, if not in --data",
    )
    option(
        "--labels",
        type=a_text,
        metavar="FILE|predicted",
        help="CSV of name,label (default: subfolders, if any)",
    )
    option(
        "--start",
        type=a_path,
        metavar="FILE",
        help="the weights before training, if an adversary may have them",
    )
    began = "where its training began: resnet18, a checkpoint"
    option("--fine-tuned-from", type=a_text, metavar="FILE|NAME", help=began)
    option("--out", type=a_path, default="recon-audit", metavar="DIR", help="where the report goes")
    mean = (
        "what training subtracted, divided by (default: inferred by the accuracy on training"
        " images)"
    )
    option("--mean", default="auto", metavar="auto|image|channel|none|M,M,M/S,S,S", help=mean)
    option("--resize", type=int, metavar="N", help="pixels of the shorter side of every picture")
    option("--crop", type=int, metavar="N", help="pixels of a square in its middle, cut out")
    option(
        "--attacks", type=a_text, metavar="A,B", help="such as separation,membership (default: all)"
    )
    fatal = ("leaks", "cannot-tell", "membership")
    option("--fail-on", action="append", default=[], choices=fatal, help="exit code 3, 4, 3")
    option(
        "--shadows",
        type=int,
        metavar="N",
        help="networks trained to compare with (default: by profile 4, 8, 32)",
    )
    option(
        "--canaries",
        type=int,
        metavar="N",
        help="of them attacked, to know what would be found (1, 2, 4)",
    )
    option(
        "--groups",
        type=a_text,
        metavar="FILE|folders",
        help="CSV of name,patient: images that belong together",
    )
    option("--time", type=float, metavar="S", help="seconds that it may take, with fewer networks")
    option(
        "--claimed-epsilon",
        type=a_text,
        metavar="E[,D]",
        help="of differential privacy as claimed: is it consistent with a lower bound?",
    )
    option(
        "--json",
        type=a_text,
        metavar="FILE|-",
        help="the report as JSON to this file as well, - for stdout alone",
    )
    option(
        "--pdf",
        type=a_path,
        metavar="FILE",
        help="the report as PDF, printed by a Chromium on the PATH",
    )
    option("--junit", type=a_path, metavar="FILE", help="the verdict as JUnit's XML")
    option(
        "--model-card",
        type=a_path,
        metavar="FILE",
        help="a section for a model card: numbers, no names",
    )
    option(
        "--aggregates-only",
        action="store_true",
        help="no image and no name in any report: salted hashes instead",
    )
    option(
        "--salt",
        type=a_path,
        metavar="FILE",
        help="the hashes' salt, made if it is not there; keep it secret",
    )


def _audit(
    weights: str,
    data: str,
    held_out: str | None,
    start: str | None,
    mean: str,
    attacks: str | None,
    **settings: Any,
) -> int:
    from recon_audit.aggregates import salt_in
    from recon_audit.audit import ATTACKS, audit
    from recon_audit.browser import find_browser
    from recon_audit.places import discard

    names = ("fail_on", "json", "junit", "pdf", "model_card", "salt")
    fail_on, as_json, junit, pdf, model_card, salt = (settings.pop(name) for name in names)
    if salt and not settings["aggregates_only"]:
        raise ReconError("--salt is of the hashes that --aggregates-only writes")
    if pdf:
        find_browser()  # before anything is computed
    places = [Path(name) for name in (as_json, junit, pdf, model_card) if name and name != "-"]
    for place in places:
        if place.parent.exists():  # else it is made
            check_writable(place.parent, (place.name,))
    settings["start"] = settings.pop("fine_tuned_from")
    settings |= {
        "attacks": attacks or ATTACKS,
        "transform": _pixels(mean),
        "salt": salt_in(Path(salt)) if salt else None,
    }
    try:
        report = audit(weights, data, held_out, theta_init=start, **settings)
    finally:
        discard(*places)  # a failed audit must not leave the answer of another
    written = {junit: report.junit(), as_json: report.to_json(), model_card: report.model_card()}
    for path, text in written.items():
        if path and path != "-":
            with atomic_path(Path(path)) as temporary:
                temporary.write_text(text, encoding="utf-8")
    if pdf:
        report.print(pdf)
    if as_json == "-":
        say(report.to_json().rstrip())
    else:
        say(report)
        for note in report.data["images"]["notes"]:
            say(f"Note: {note}.")
        say(Path(settings["out"]) / "report.html")
    if fail_on and (
        report.verdict == "leaks" or ("membership" in fail_on and report.membership == "inferred")
    ):
        return 3
    untold = report.verdict == "cannot tell" or (
        "membership" in fail_on and report.membership == "cannot tell"
    )
    return 4 if "cannot-tell" in fail_on and untold else 0


def _pixels(text: str) -> Any:
    """ "0.5,0.5,0.5/0.2,0.2,0.2" -> ([0.5, …], [0.2, …]); a word stays what it is."""
    mean, slash, std = text.partition("/")
    if not slash:
        return text
    try:
        return [float(part) for part in mean.split(",")], [float(part) for part in std.split(",")]
    except ValueError as error:
        raise ReconError(
            f"--mean must be a word or MEAN/STD, numbers joined by commas, not '{text}'"
        ) from error
