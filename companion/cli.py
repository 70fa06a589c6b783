"""The half of the command line that makes the book: experiments, claims, pages; `recon.cli` asks
for it.
"""

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from recon.cli import PROFILES, a_path, a_size, say
from recon.errors import ReconError


def add_commands(command: Callable[..., Any], **shared: argparse.ArgumentParser) -> None:
    """Add them by `command(name, function, about, *parents)`, which returns what adds an option;

    Args:
        shared: the parents `images`, `budget` and `chapters`.
    """
    images, budget, chapters = shared["images"], shared["budget"], shared["chapters"]
    option = command("list", _list, "experiments: chapter, paper section, cost per profile")
    option("--uses", metavar="MODULE", help="only those whose code imports this module")

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
        "--out", type=a_path, metavar="DIR", help="results go to DIR/NAME (default build/results/…)"
    )
    option("--workers", type=int, default=1, metavar="N", help="processes for a sweep of runs")

    option = command(
        "book",
        _book,
        "execute the chapters, then build HTML, as an edition",
        chapters,
        images,
        budget,
    )
    option("--all", action="store_true", dest="everything", help="execute the appendices too")
    command(
        "render",
        partial(_press, "publish.render"),
        "build HTML of the published edition, without executing",
    )

    publish = partial(_press, "publish.publish")
    option = command("publish", publish, "promote an edition on CIFAR-10 into book/executed/")
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

    about = "write the report for a reproducibility track, from claims and kept results"
    command("report", partial(_press, "numbers.write_report"), about)

    keep = partial(_press, "publish.keep")
    option = command(
        "keep", keep, "put a result at profile paper, or at another seed, into the book"
    )
    option("folder", type=a_path, metavar="DIR", help="the folder of its result.json")

    option = command(
        "replay", _replay, "repeat kept results, as far as two minutes allow, and compare"
    )
    option("names", metavar="NAME", nargs="*", help="experiments (with --all: every one)")
    option("--all", action="store_true", dest="everything")
    option("--weekly", action="store_true", help="a few of them, different ones each week")
    option(
        "--data-root", type=a_path, metavar="DIR", help="folder of CIFAR-10 (default $RECON_DATA)"
    )
    option("--seed", type=int, help="of the kept run (default: every seed that is kept)")
    option(
        "--note",
        action="store_true",
        help="write the outcome to book/replays.json, for the claims page",
    )
    option("--seconds", type=float, default=0.0, help="for one result (default 120; with --all 60)")
    option("--jobs", type=int, default=2, metavar="N", help="results at a time (default 2)")

    option = command(
        "claims", _claims, "every claim: paper value, ours, baseline, verdict, chapter"
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
    from companion.chapters.uses import experiments_that_import

    names = experiments_that_import(uses) if uses else list(entries())
    for name in names:
        entry = entries()[name]
        costs = zip(PROFILES, entry.cost.split(", "), strict=True)
        cost = ", ".join(f"{profile} {text}" for profile, text in costs)
        say(f"{name:16} {entry.chapter:20} {entry.section:6} {cost:52} {entry.summary}")


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


def _book(chapters: list[str], everything: bool, **settings: Any) -> None:
    from companion.press.edition import Edition, build_edition

    say(build_edition(Edition(**settings), chapters=chapters, everything=everything))


def _replay(
    names: list[str],
    seed: int | None,
    seconds: float,
    jobs: int,
    data_root: str | None,
    note: bool,
    **which: bool,
) -> int:
    from joblib import Parallel, delayed

    from companion.chapters.replay import (
        every_kept,
        of_this_week,
        replay,
        write_replays,
    )
    from recon.images.registry import load_pool

    if which["everything"] + which["weekly"] + bool(names) != 1:
        raise ReconError("name experiments, or --all of them, or --weekly for some")
    if which["weekly"] and load_pool("auto", data_root).name != "cifar10":
        say("no replay: the kept runs need CIFAR-10, which is not here")
        return 0
    chosen = of_this_week() if which["weekly"] else every_kept()
    chosen = [
        (name, at) for name, at in chosen if (not names or name in names) and seed in (None, at)
    ]
    if missing := sorted(set(names) - {name for name, _ in chosen}):
        raise ReconError(f"the book has no such kept run of {missing[0]}")
    seconds = seconds or (60.0 if which["everything"] else 120.0)
    engine, agree = Parallel(n_jobs=min(jobs, len(chosen)), return_as="generator"), True
    for again in engine(delayed(replay)(name, at, seconds, data_root) for name, at in chosen):
        agree = agree and not again.differences
        if note:
            write_replays([again])
        outcome = (
            "DIFFERS" if again.differences else "agrees" if again.agrees else "nothing to compare"
        )
        say(f"{again.name:24} seed {again.seed}  kept at {again.kept_at:9} {again.by:17} {outcome}")
        for difference in again.differences:
            say(f"    {difference}")
    return 0 if agree else 1


def _claims(as_json: bool, out: str | None) -> None:
    from companion.chapters import ROOT
    from companion.chapters.catalogue import in_words, records

    results = Path(out) if out else ROOT / "book" / "executed" / "results"
    claims = records(results, ROOT, published=not out)
    if as_json:
        say(json.dumps(claims, indent=1, ensure_ascii=False))
    else:
        say("\n".join(map(in_words, claims)))
