"""The command line.  Exit codes: 0 done, 2 bad usage or input (one line on stderr), 1 the run failed; of an audit that
was asked to fail, 3 for a leak and 4 where it cannot tell."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from recon import NO_COMPANION, __version__
from recon.errors import ReconError
from recon.images.registry import SOURCES
from recon.store.files import atomic_path

PROFILES = ("smoke", "laptop", "paper")
#: commands of the companion, for where it is not installed
BOOK = ("list", "run", "book", "render", "publish", "readme", "keep", "claims")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a § is no reason to fail where the terminal knows ASCII alone
        sys.stdout.reconfigure(errors="backslashreplace")
    arguments = vars(_parser().parse_args(argv))
    command, traceback = arguments.pop("command"), arguments.pop("traceback")
    code = 1
    try:
        return command(**arguments) or 0
    except ReconError as error:
        code, said = 2, _one_line(error)
    except KeyboardInterrupt:
        said = "interrupted" if command is _audit else "interrupted; the next run goes on from the last checkpoint"
    except MemoryError:
        said = "there is not enough memory on this machine for what was asked"
    except Exception as error:  # the run failed: a sentence for the user, the traceback for whoever asks
        if traceback:
            raise
        said = f"{type(error).__name__}: {_one_line(error)} (--traceback shows where)"
    print(f"recon: {said}", file=sys.stderr)
    return code


def _one_line(error: object) -> str:
    """One printable line, whatever the names of files in it hold."""
    text = " ".join(str(error).split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def say(text: object) -> None:
    """To stdout and at once, while a full disk can still be told.  That `head` has read enough is no failure."""
    try:
        print(text, flush=True)
    except OSError as error:
        if sys.stdout is sys.__stdout__:  # else the interpreter tries what is left once more, and complains
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if not isinstance(error, BrokenPipeError):
            raise


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"recon: {_one_line(message)} ({self.prog} --help shows the usage)\n")


def a_text(text: str) -> str:
    if not text.strip():  # "$UNSET" in a shell: never the default instead
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def a_path(text: str) -> str:
    try:
        os.stat(Path(a_text(text)).expanduser())
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass  # whoever uses it knows whether that matters
    except (OSError, RuntimeError, ValueError) as error:  # too long, a loop of links, ~nobody, a zero byte
        reason = error.strerror if isinstance(error, OSError) else error
        raise argparse.ArgumentTypeError(f"cannot be a path: {reason}") from error
    return text


def a_size(text: str) -> tuple[str, Any]:
    """ "n_train=50" -> ("n_train", 50); what is no JSON is text."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"must be FIELD=VALUE, not '{text}'")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="recon", description="Can training data be read out of trained weights?")
    parser.add_argument("--version", action="version", version=f"recon {__version__}")
    parser.add_argument("--traceback", action="store_true", help="show where an unexpected failure happened")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    budget, images, chapters = (_Parser(add_help=False) for _ in range(3))
    budget.add_argument("--profile", choices=PROFILES, default="laptop")
    budget.add_argument("--device", default="auto", metavar="auto|cpu|cuda|cuda:N")
    budget.add_argument("--seed", type=int, default=0)
    images.add_argument("--data", default="auto", metavar="|".join(SOURCES))
    images.add_argument("--data-root", type=a_path, metavar="DIR", help="where CIFAR-10 lies (default $RECON_DATA)")
    chapters.add_argument("chapters", nargs="*", metavar="CHAPTER", help="only these, such as 01-linear (then no HTML)")
    chapters.add_argument("--jobs", type=int, metavar="N", help="how many at a time (default: as many as cores)")

    def command(
        name: str, does: Callable[..., int | None], about: str, *shared: _Parser
    ) -> Callable[..., argparse.Action]:
        added = commands.add_parser(name, help=about, parents=shared)
        added.set_defaults(command=does)  # the names of its options are the names of its arguments
        return added.add_argument

    option = command("audit", _audit, "how much of its training set does your own network give away?", budget)
    option("--weights", type=a_path, required=True, metavar="FILE", help=".safetensors, .pt, .pth or .onnx")
    option("--arch", type=a_text, default="auto", metavar="auto|WIDTHS|NAME", help="3072-1000-1000-1, resnet18, …")
    option("--data", type=a_path, required=True, metavar="DIR", help="training images; or train/, held_out/; or .npz")
    option("--held-out", type=a_path, metavar="DIR", help="images that the network never saw, if not in --data")
    option("--labels", type=a_text, metavar="FILE|predicted", help="CSV of name,label (default: subfolders, if any)")
    option("--start", type=a_path, metavar="FILE", help="the weights before training, if an adversary may have them")
    began = "where its training began: resnet18, a checkpoint"
    option("--fine-tuned-from", type=a_text, metavar="FILE|NAME", help=began)
    option("--out", type=a_path, default="recon-audit", metavar="DIR", help="where the report goes")
    mean = "what training subtracted, divided by (default: inferred by the accuracy on training images)"
    option("--mean", default="auto", metavar="auto|image|channel|none|M,M,M/S,S,S", help=mean)
    option("--attacks", type=a_text, metavar="A,B", help="such as separation,membership (default: all)")
    fatal = ("leaks", "cannot-tell", "membership")
    option("--fail-on", action="append", default=[], choices=fatal, help="exit code 3, 4, 3")
    option("--shadows", type=int, metavar="N", help="networks trained to compare with (default: by profile 4, 8, 32)")
    option("--canaries", type=int, metavar="N", help="of them attacked, to know what would be found (1, 2, 4)")
    option("--json", type=a_text, metavar="FILE|-", help="the report as JSON to this file as well, - for stdout alone")
    option("--pdf", type=a_path, metavar="FILE", help="the report as PDF, printed by a Chromium on the PATH")
    option("--junit", type=a_path, metavar="FILE", help="the verdict as JUnit's XML")
    option("--model-card", type=a_path, metavar="FILE", help="a section for a model card: numbers, no names")
    option("--aggregates-only", action="store_true", help="no image and no name in any report: salted hashes instead")
    option("--salt", type=a_path, metavar="FILE", help="the hashes' salt, made if it is not there; keep it secret")

    try:
        from companion.cli import add_commands
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "companion":
            raise
        for name in BOOK:
            absent = commands.add_parser(name, help="needs the companion", prefix_chars="\0")
            absent.set_defaults(command=_needs_companion)
            absent.add_argument("ignored", nargs="*")
    else:
        add_commands(command, images=images, budget=budget, chapters=chapters)
    return parser


def _audit(
    weights: str, data: str, held_out: str | None, start: str | None, mean: str, attacks: str | None, **settings: Any
) -> int:
    from recon.auditing.aggregates import salt_in
    from recon.auditing.audit import ATTACKS, audit
    from recon.store.browser import find_browser
    from recon.store.files import check_writable

    names = ("fail_on", "json", "junit", "pdf", "model_card", "salt")
    fail_on, as_json, junit, pdf, model_card, salt = (settings.pop(name) for name in names)
    if salt and not settings["aggregates_only"]:
        raise ReconError("--salt is of the hashes that --aggregates-only writes")
    if pdf:
        find_browser()  # before anything is computed
    for place in (Path(each) for each in (as_json, junit, pdf, model_card) if each and each != "-"):
        if place.parent.exists():  # else it is made
            check_writable(place.parent, (place.name,))
    settings["start"] = settings.pop("fine_tuned_from")
    settings |= {
        "attacks": attacks or ATTACKS,
        "transform": _pixels(mean),
        "salt": salt_in(Path(salt)) if salt else None,
    }
    report = audit(weights, data, held_out, theta_init=start, **settings)
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
        say(Path(settings["out"]) / "report.html")
    if fail_on and (report.verdict == "leaks" or ("membership" in fail_on and report.membership == "inferred")):
        return 3
    untold = report.verdict == "cannot tell" or ("membership" in fail_on and report.membership == "cannot tell")
    return 4 if "cannot-tell" in fail_on and untold else 0


def _pixels(text: str) -> Any:
    """ "0.5,0.5,0.5/0.2,0.2,0.2" -> ([0.5, …], [0.2, …]); a word stays what it is."""
    mean, slash, std = text.partition("/")
    if not slash:
        return text
    try:
        return [float(part) for part in mean.split(",")], [float(part) for part in std.split(",")]
    except ValueError as error:
        raise ReconError(f"--mean must be a word or MEAN/STD, numbers joined by commas, not '{text}'") from error


def _needs_companion(ignored: list[str]) -> None:
    raise ReconError(NO_COMPANION)


if __name__ == "__main__":
    sys.exit(main())
