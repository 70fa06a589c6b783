"""The command line. Exit codes: 0 done, 2 bad usage or input (one line on stderr), 1 the run
failed.

Every command comes from another distribution, by an entry point.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NoReturn

from recon import __version__
from recon.errors import ReconError

PROFILES = ("smoke", "laptop", "paper")
#: entry points of distributions that have commands: a function add_commands(command, **parents),
#: see `_parser`
COMMANDS = "recon.commands"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    # a § is no reason to fail where the terminal knows ASCII alone
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    arguments = vars(_parser().parse_args(argv))
    command, traceback, resumes = (
        arguments.pop(name) for name in ("command", "traceback", "resumes")
    )
    code = 1
    try:
        return command(**arguments) or 0
    except ReconError as error:
        code, line = 2, _one_line(error)
    except KeyboardInterrupt:
        line = (
            "interrupted; the next run continues from the last checkpoint"
            if resumes
            else "interrupted"
        )
    except MemoryError:
        line = "this machine has not enough memory for this run"
    # the run failed: a sentence for the user, the traceback for whoever asks
    except Exception as error:
        if traceback:
            raise
        line = f"{type(error).__name__}: {_one_line(error)} (--traceback shows where)"
    print(f"recon: {line}", file=sys.stderr)
    return code


def _one_line(error: object) -> str:
    """One printable line, whatever the names of files in it hold."""
    text = " ".join(str(error).split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def say(text: object) -> None:
    """To stdout and at once, while a full disk can still be told. That `head` has read enough is no
    failure.
    """
    try:
        print(text, flush=True)
    except OSError as error:
        # else the interpreter tries what is left once more, and complains
        if sys.stdout is sys.__stdout__:
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
    # too long, a loop of links, ~nobody, a zero byte
    except (OSError, RuntimeError, ValueError) as error:
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
    parser = _Parser(
        prog="recon", description="Can training data be recovered from trained weights?"
    )
    parser.add_argument("--version", action="version", version=f"recon {__version__}")
    parser.add_argument(
        "--traceback", action="store_true", help="show where an unexpected failure happened"
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    budget, images, chapters = (_Parser(add_help=False) for _ in range(3))
    budget.add_argument("--profile", choices=PROFILES, default="laptop")
    budget.add_argument("--device", default="auto", metavar="auto|cpu|cuda|cuda:N")
    budget.add_argument("--seed", type=int, default=0)
    images.add_argument("--data", default="auto", metavar="auto|cifar10|photos|digits|folder:PATH")
    images.add_argument(
        "--data-root", type=a_path, metavar="DIR", help="folder of CIFAR-10 (default $RECON_DATA)"
    )
    chapters.add_argument(
        "chapters",
        nargs="*",
        metavar="CHAPTER",
        help="only these, such as 01-linear (then no HTML)",
    )

    def command(
        name: str,
        does: Callable[..., int | None],
        about: str,
        *shared: _Parser,
        resumes: bool = True,
    ) -> Callable[..., argparse.Action]:
        added = commands.add_parser(name, help=about, parents=shared)
        # the names of its options are the names of its arguments
        added.set_defaults(command=does, resumes=resumes)
        return added.add_argument

    for provided in sorted(entry_points(group=COMMANDS), key=lambda point: point.name):
        try:
            provided.load()(command, images=images, budget=budget, chapters=chapters)
        except ImportError as error:  # another package of this name took the place of ours
            parser.exit(2, f"recon: {_one_line(error)}\n")
    return parser


if __name__ == "__main__":
    sys.exit(main())
