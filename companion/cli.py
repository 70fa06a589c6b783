"""The half of the command line that makes the book: experiments, claims, pages; `recon.cli` asks
for it.
"""

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from recon.cli import a_path, a_size, say
from recon.errors import ReconError


def add_commands(
    command: Callable[..., Any],
    images: argparse.ArgumentParser,
    budget: argparse.ArgumentParser,
    chapters: argparse.ArgumentParser,
) -> None:
    """Add them by `command(name, function, about, *parents)`, which returns what adds an option;

    Args:
        images, budget, chapters: parents.
    """
    option = command(
        "list",
        _list,
        "experiments: chapter, paper section, cost at smoke, laptop, paper",
    )
    option("--uses", metavar="NAME", help="only those whose code uses this, such as recon.attacks")

    option = command("run", _run, "run one experiment, or find its result on disk", images, budget)
    option("name", metavar="NAME")
    option(
        "--set",
        type=a_size,
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="set a size; repeatable",
    )
    option(
        "--out",
        type=a_path,
        metavar="DIR",
        help="results go to DIR/NAME (default build/results/…)",
    )
    option("--workers", type=int, default=1, metavar="N", help="processes for a sweep of runs")

    command(
        "book",
        _book,
        "execute the chapters, then build HTML, as an edition",
        chapters,
        images,
        budget,
    )
    command(
        "render",
        partial(_press, "publish.render"),
        "build HTML of the published edition, without executing",
    )

    option = command(
        "publish",
        partial(_press, "publish.publish"),
        "promote an edition on CIFAR-10 into book/executed/",
    )
    option(
        "edition",
        type=a_path,
        nargs="?",
        default="laptop-cifar10",
        help="a name under build/ or a folder (default laptop-cifar10)",
    )

    command(
        "readme",
        partial(_press, "publish.refresh"),
        "write README.md from its template, and judge the book's results by today's rules",
    )

    command(
        "report",
        partial(_press, "numbers.write_report"),
        "write the report for a reproducibility track, from claims and kept results",
    )

    option = command(
        "keep",
        partial(_press, "publish.keep"),
        "put a result at profile paper, or at another seed, into the book",
    )
    option("folder", type=a_path, metavar="DIR", help="the folder of its result.json")

    option = command(
        "replay",
        _replay,
        "repeat kept results, as far as two minutes allow, and compare",
    )
    option("names", metavar="NAME", nargs="*", help="experiments (default: every one)")
    option("--weekly", action="store_true", help="a few of them, different ones each week")
    option(
        "--note",
        action="store_true",
        help="write the outcome to book/replays.json, for the claims page",
    )
    option("--seconds", type=float, default=120.0, help="for one result (default 120)")

    option = command(
        "claims",
        _claims,
        "every claim: paper value, ours, baseline, verdict, chapter",
    )
    option("--json", dest="as_json", action="store_true", help="as JSON")
    option(
        "--out",
        type=a_path,
        metavar="DIR",
        help="results to read (default: the published edition's)",
    )


def _press(function: str, **arguments: Any) -> None:
    """One function of the press; the path that it returns is printed."""
    say(resolve_name(f"companion.press.{function}")(**arguments))


def _list(uses: str | None) -> None:
    from companion.chapters import entries
    from companion.chapters.uses import experiments_that_use

    names = experiments_that_use(uses) if uses else list(entries())
    if not names:
        say(f"no experiment uses {uses}")
    cells = attrgetter("chapter", "section", "cost", "summary")
    rows = [(name, *cells(entries()[name])) for name in names]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        say("  ".join(map(str.ljust, row, widths)).rstrip())


def _run(**arguments: Any) -> None:
    from companion.chapters.run import folder_of, run, save_figures

    sizes = dict(arguments.pop("set"))
    if both := sorted(sizes.keys() & arguments.keys()):
        raise ReconError(f"'{both[0]}' is not a size but an option (recon run --help)")
    result = run(**arguments, **sizes)
    folder = folder_of(result, arguments["out"])
    save_figures(result, folder)
    if result.made.data.notice:
        print(f"recon: {result.made.data.notice}", file=sys.stderr)
    for claim in result.claims:
        say(f"{claim.verdict:15} {claim.id}: {claim.ours}")
    say(folder / "result.json")


def _book(chapters: list[str], **settings: Any) -> None:
    from companion.press.edition import Edition, build_edition

    say(build_edition(Edition(**settings), chapters=chapters))


def _replay(names: list[str], seconds: float, note: bool, weekly: bool) -> int:
    from companion.chapters.catalogue import NOTHING
    from companion.chapters.replay import every_kept, of_this_week, replay, write_replays
    from recon.images.registry import load_pool

    if weekly and load_pool("auto").name != "cifar10":
        say("no replay: the kept runs need CIFAR-10, which is not here")
        return 0
    kept = of_this_week() if weekly else every_kept()
    chosen = [(name, at) for name, at in kept if not names or name in names]
    if missing := set(names) - dict(chosen).keys():
        raise ReconError(f"the book has no such kept run of {min(missing)}")
    differ = False
    for name, at in chosen:
        again = replay(name, at, seconds)
        differ |= bool(again.differences)
        if note:
            write_replays([again])
        place = f"{again.name:24} seed {again.seed}  kept at {again.kept_at:9}"
        how = "agrees" if again.agrees else "was done in time" if again.by == NOTHING else "differs"
        say(f"{place} {again.by:17} {how}")
        for difference in again.differences:
            say(f"    {difference}")
    return int(differ)


def _claims(as_json: bool, out: str | None) -> None:
    from companion.chapters import ROOT
    from companion.chapters.catalogue import as_record, in_words, rows

    results = Path(out) if out else ROOT / "book" / "executed" / "results"
    claims = rows(results, ROOT, kept=not out)
    if not claims:
        raise ReconError(f"there are no results in {results}: run an experiment or the book first")
    if as_json:
        say(json.dumps([as_record(row) for row in claims], indent=1, ensure_ascii=False))
    else:
        say("\n".join(map(in_words, claims)))
