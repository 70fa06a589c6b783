"""The command line.  Exit codes: 0 done, 2 bad usage or input (one line on stderr), 1 the run failed."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from recon import __version__
from recon.errors import ReconError
from recon.images.pools import SOURCES

if TYPE_CHECKING:
    from recon.store.results import Result

PROFILES = ("smoke", "laptop", "paper")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a § is no reason to fail where the terminal knows ASCII alone
        sys.stdout.reconfigure(errors="backslashreplace")
    arguments = _parser().parse_args(argv)
    try:
        arguments.command(arguments)
    except ReconError as error:
        print(f"recon: {_one_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("recon: interrupted; the next run goes on from the last checkpoint", file=sys.stderr)
        return 1
    except MemoryError:
        print("recon: there is not enough memory on this machine for what was asked", file=sys.stderr)
        return 1
    except Exception as error:  # the run failed: a sentence for the user, the traceback for whoever asks
        if arguments.traceback:
            raise
        print(f"recon: {type(error).__name__}: {_one_line(error)} (--traceback shows where)", file=sys.stderr)
        return 1
    return 0


def _one_line(error: object) -> str:
    """One printable line, whatever the names of files in it hold."""
    text = " ".join(str(error).split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _print(text: object) -> None:
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


def _text(text: str) -> str:
    if not text.strip():  # "$UNSET" in a shell: never the default instead
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def _path(text: str) -> str:
    try:
        os.stat(Path(_text(text)).expanduser())
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass  # whoever uses it knows whether that matters
    except (OSError, RuntimeError, ValueError) as error:  # too long, a loop of links, ~nobody, a zero byte
        reason = error.strerror if isinstance(error, OSError) else error
        raise argparse.ArgumentTypeError(f"cannot be a path: {reason}") from error
    return text


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="recon", description="Can training data be read out of trained weights?")
    parser.add_argument("--version", action="version", version=f"recon {__version__}")
    parser.add_argument("--traceback", action="store_true", help="show where an unexpected failure happened")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser("list", help="experiments: chapter, paper section, cost per profile")
    command.set_defaults(command=_list)

    command = commands.add_parser("run", help="run one experiment, or find its result on disk")
    command.add_argument("name", metavar="NAME")
    _settings(command)
    command.add_argument("--out", type=_path, metavar="DIR", help="results go to DIR/NAME (default build/results/…)")
    command.add_argument("--workers", type=int, default=1, metavar="N", help="processes for a sweep of runs")
    command.add_argument(
        "--scheduler", type=_text, metavar="ADDRESS", help="Dask scheduler whose workers a sweep uses instead"
    )
    command.set_defaults(command=_run)

    command = commands.add_parser("book", help="all chapters through papermill, then HTML, as an edition of its own")
    command.add_argument("chapters", nargs="*", metavar="CHAPTER", help="only these, such as 01-linear; then no HTML")
    _settings(command)
    command.set_defaults(command=_book)

    command = commands.add_parser("render", help="HTML of the published edition, without executing")
    command.set_defaults(command=_render)

    command = commands.add_parser("publish", help="promote an edition on CIFAR-10 into book/executed/")
    command.add_argument("edition", type=_path, nargs="?", help="a name under build/ or a folder (default: the newest)")
    command.set_defaults(command=_publish)

    command = commands.add_parser("keep", help="take a result at profile paper, or at another seed, into the book")
    command.add_argument("folder", type=_path, metavar="DIR", help="the folder of its result.json")
    command.set_defaults(command=_keep)

    command = commands.add_parser("audit", help="how much of its training set does your own network give away?")
    command.add_argument(
        "--weights", type=_path, required=True, metavar="FILE", help="safetensors of a ReLU MLP, one logit"
    )
    command.add_argument("--arch", type=_text, required=True, metavar="WIDTHS", help="for example 3072-1000-1000-1")
    command.add_argument("--data", type=_path, required=True, metavar="DIR", help="train/ and held_out/, or .npz")
    command.add_argument("--out", type=_path, default="recon-audit", metavar="DIR", help="where the report goes")
    command.add_argument("--mean", default="image", metavar="image|channel|none", help="what training subtracted")
    _budget(command)
    command.set_defaults(command=_audit)

    command = commands.add_parser("references", help="recompute the smoke references that nbval compares with")
    command.add_argument("chapters", nargs="*", metavar="CHAPTER", help="only these, such as 01-linear")
    command.set_defaults(command=_references)

    command = commands.add_parser("claims", help="every claim: paper value, ours, null, verdict, chapter")
    command.add_argument("--json", action="store_true", help="as JSON")
    command.add_argument("--out", type=_path, metavar="DIR", help="results to read (default: the published edition's)")
    command.set_defaults(command=_claims)
    return parser


def _settings(command: argparse.ArgumentParser) -> None:
    command.add_argument("--data", default="auto", metavar="|".join(SOURCES))
    command.add_argument("--data-root", type=_path, metavar="DIR", help="where CIFAR-10 lies (default $RECON_DATA)")
    _budget(command)


def _budget(command: argparse.ArgumentParser) -> None:
    command.add_argument("--profile", choices=PROFILES, default="laptop")
    command.add_argument("--device", default="auto", metavar="auto|cpu|cuda")
    command.add_argument("--seed", type=int, default=0)


def _list(_: argparse.Namespace) -> None:
    from recon.chapters import registry

    for experiment in registry().values():
        cost = ", ".join(f"{profile} {text}" for profile, text in experiment.cost.items())
        _print(f"{experiment.name:16} {experiment.chapter:20} {experiment.section:6} {cost:52} {experiment.summary}")


def _run(arguments: argparse.Namespace) -> None:
    from recon.chapters import output_folder, run

    result = run(
        arguments.name,
        profile=arguments.profile,
        data=arguments.data,
        device=arguments.device,
        seed=arguments.seed,
        out=arguments.out,
        data_root=arguments.data_root,
        workers=arguments.workers,
        scheduler=arguments.scheduler,
    )
    folder = output_folder(arguments.out, result.profile, result.data["name"]) / result.experiment
    _save_figures(result, folder)
    if result.data["notice"]:
        print(f"recon: {result.data['notice']}", file=sys.stderr)
    for claim in result.claims:
        _print(f"{claim.verdict:15} {claim.id}: {claim.ours}")
    _print(folder / "result.json")


def _save_figures(result: Result, folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from recon.chapters import registry
    from recon.store.files import atomic_path

    for stem, plot in registry()[result.experiment].figures.items():
        figure = plot(result)
        with atomic_path(folder / f"{stem}.png") as temporary:
            figure.savefig(temporary, format="png", dpi=150, bbox_inches="tight")
        plt.close(figure)


def _book(arguments: argparse.Namespace) -> None:
    from recon.press.publish import build_edition

    edition = build_edition(
        profile=arguments.profile,
        data=arguments.data,
        device=arguments.device,
        seed=arguments.seed,
        data_root=arguments.data_root,
        chapters=arguments.chapters or None,
    )
    _print(edition)


def _render(_: argparse.Namespace) -> None:
    from recon.press.publish import render

    _print(render())


def _publish(arguments: argparse.Namespace) -> None:
    from recon.press.publish import publish

    _print(publish(arguments.edition))


def _keep(arguments: argparse.Namespace) -> None:
    from recon.press.publish import keep

    _print(keep(arguments.folder))


def _audit(arguments: argparse.Namespace) -> None:
    from recon.audit.audit import audit

    out = Path(arguments.out)
    report = audit(
        Path(arguments.weights),
        arguments.arch,
        Path(arguments.data),
        out,
        profile=arguments.profile,
        seed=arguments.seed,
        device=arguments.device,
        mean=arguments.mean,
    )
    _print(report["summary"])
    _print(out / "report.html")


def _references(arguments: argparse.Namespace) -> None:
    from recon.press.publish import write_references

    _print(write_references(chapters=arguments.chapters or None))


def _claims(arguments: argparse.Namespace) -> None:
    from recon.press.pages import PAPERS, catalogue, rows
    from recon.press.publish import ROOT

    folder = Path(arguments.out) if arguments.out else ROOT / "book" / "executed" / "results"
    found = []
    for row in rows(folder, ROOT, kept=not arguments.out):
        result = row.result
        made: dict = {"chapter": row.chapter, "experiment": result.experiment, "profile": result.profile}
        made |= {"data": result.data["name"], "device": result.device, "seed": result.seed}
        found.append({**asdict(row.claim), **made, "other_seeds": [claim.ours for claim in row.seeds]})
    if not found:
        raise ReconError(f"there are no results in {folder}: run an experiment or the book first")
    if not arguments.out:
        found += [
            {"id": "", **dict.fromkeys(("ours", "null", "chapter"), ""), **item}
            | {"verdict": "not attempted", "paper": PAPERS[item["paper"]]}
            for item in catalogue(ROOT)["not_attempted"]
        ]
    if arguments.json:
        _print(json.dumps(found, indent=1, ensure_ascii=False))
        return
    for each in found:
        if each["verdict"] == "not attempted":
            _print(f"{each['verdict']:15} {each['paper']}, §{each['section']}: {each['sentence']} ({each['why']})")
            continue
        where = f"§{each['section']}" if each["section"] else "ours"
        null = f" | null: {each['null']}" if each["null"] else ""
        paper = f" | paper: {each['paper']}" if each["paper"] else ""
        _print(f"{each['verdict']:15} {each['id']} ({where}, {each['chapter']}): {each['ours']}{paper}{null}")


if __name__ == "__main__":
    sys.exit(main())
