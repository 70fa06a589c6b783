"""Every claim of all results with the run that it comes from: what `recon claims` and the claims
page show.

A claim at the paper's size comes before the same claim at a smaller one, and only the former has
the paper's verdict: what was run at a smaller size says so.
"""

import math
import os
import re
import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from companion.chapters import load, registry, sizes_at
from companion.chapters.claims import PAPERS, claims_page
from companion.chapters.replay import ENOUGH, NOTHING, outcome, read_replays
from companion.store.results import Claim, Result
from recon.errors import ReconError

YEAR = re.compile(r"\b(?:19|20)\d\d\b")
UNDECIDED, MIXED, CHECK = "undecided", "mixed", "check"
NOT_TESTED = "not tested at the paper's size"  # why a paper's sentence is undecided
#: identities, theorems, and starts that solve the problem already: they check the code, and cannot
#: fail otherwise
CHECKS = (
    "linear-underdetermined",
    "linear-trivial",
    "linear-kernel",
    "affine-truth-perfect",
    "affine-distance-truth",
    "counterfactual-exact",
)


@dataclass(frozen=True)
class Row:
    """A claim with the run that it comes from.

    Attributes:
        seeds: the same claim at other seeds.
        at_paper_size: whether the run had the paper's size, as far as it states one.
        replays: what `recon replay` did again of it, and of those at other seeds; none of a run of
            the edition, which computes it.
    """

    claim: Claim
    result: Result[Any]
    chapter: str
    at_paper_size: bool
    seeds: tuple[Claim, ...] = ()
    replays: tuple[str, ...] = ()

    @property
    def replayed(self) -> bool:
        """Whether all runs that it rests on were done again: as a whole, or from their start, and
        scored.
        """
        return set(self.replays) <= set(ENOUGH)

    @property
    def tested(self) -> bool:
        """Whether the run decides: a paper's sentence has a verdict from a run at its size, and
        from no other.
        """
        return self.at_paper_size or not self.claim.section

    @property
    def verdict(self) -> str:
        """What the page says: `MIXED` where the image sets differ, `UNDECIDED` where the rule's
        number is nearer to its threshold than it spreads over them, `CHECK` for an identity that
        holds.
        """
        found = {self.claim.verdict, *(other.verdict for other in self.seeds)}
        if not self.tested:
            return UNDECIDED
        if self.claim.id in CHECKS and "not reproduced" not in found:
            return CHECK
        if len(found) > 1:
            return MIXED
        near = self.distance is not None and abs(self.distance) < 1
        return UNDECIDED if near else self.claim.verdict

    @property
    def distance(self) -> float | None:
        """Mean distance of the rule's number from its threshold over the image sets, in units of
        its standard deviation over them, at most 99; None where no single number decides, or of one
        image set.
        """
        margins = [each.margin for each in (self.claim, *self.seeds) if each.margin is not None]
        if len(margins) < 2:
            return None
        mean, spread = statistics.fmean(margins), statistics.stdev(margins)
        return math.copysign(min(99.0, abs(mean) / spread if spread else 99.0), mean)

    @property
    def image_sets(self) -> int:
        """Seeds that it was run at; each draws its own images."""
        return 1 + len(self.seeds)

    @property
    def verdict_over_sets(self) -> str:
        """`verdict`; where it is `MIXED`, what the image sets said, and where it is undecided for
        its size, that.
        """
        if not self.tested:
            return (
                f"{UNDECIDED} ({NOT_TESTED}; this run:"
                f" {replace(self, at_paper_size=True).verdict_over_sets})"
            )
        said = Counter(each.verdict for each in (self.claim, *self.seeds))
        told = ", ".join(f"{verdict} on {count}" for verdict, count in said.items())
        return (
            f"{MIXED} ({told} of {self.image_sets} image sets)"
            if self.verdict == MIXED
            else self.verdict
        )

    @property
    def size(self) -> str:
        """Images, width and candidates of the run, as far as it has one of each; images as many as
        there were, where the pool held fewer than were asked for; of several networks on the same
        images also their pixels.
        """
        config = self.result.made.config
        nets = config.get("nets") or ()
        if nets and "n_train" not in nets[0]:
            return f"n = {config['n_train']}, {config['side']} × {config['side']} pixels"
        if nets:
            pairs = [(net["n_train"], net["width"]) for net in nets]
            both = dict(zip(("n", "width"), zip(*pairs, strict=True), strict=True))
            ranges = {
                name: f"{min(v)} to {max(v)}" if min(v) < max(v) else f"{v[0]}"
                for name, v in both.items()
            }
            return ", ".join(f"{name} = {value}" for name, value in ranges.items())
        n = config.get("n_train") and getattr(self.result.metrics, "n_train", config["n_train"])
        found = {"n": n, "width": config.get("width"), "m": (config.get("attack") or {}).get("m")}
        return ", ".join(f"{name} = {value}" for name, value in found.items() if value is not None)

    @property
    def papers(self) -> str:
        """Which of these sizes are the paper's, ", the paper's n and width"; "" where it states
        none or the run had another.
        """
        stated = registry()[self.result.made.experiment].paper_size
        names = [{"n_train": "n"}.get(name, name.replace("_", " ")) for name in stated]
        whose = "the published recipe's" if "recipe_steps" in stated else "the paper's"
        return f", {whose} {' and '.join(names)}" if names and self.at_paper_size else ""


def rows(results: Path, root: Path, kept: bool = True) -> list[Row]:
    """Every claim of the results in a folder, in the order of the book; before them those kept at
    profile `paper`.
    """
    found, replays = [], {(row["name"], row["seed"]): outcome(row) for row in read_replays(root)}
    for folder in (*([root / "book" / "paper-size"] if kept else []), results):
        for name, experiment in registry().items():
            if not os.path.lexists(folder / name / "result.json"):
                continue
            result = load(folder / name, arrays=False)
            at_paper_size = experiment.at_paper_size(sizes_at(result, experiment))
            others = seeds_of(root, name, result) if kept else []
            seeds = (result.made.seed, *(other.made.seed for other in others))
            again = (
                tuple(replays.get((name, seed), NOTHING) for seed in seeds)
                if folder != results
                else ()
            )
            for claim in result.claims:
                same = tuple(c for other in others for c in other.claims if c.id == claim.id)
                found.append(Row(claim, result, experiment.chapter, at_paper_size, same, again))
    return found


def best(found: Iterable[Row]) -> dict[str, Row]:
    """Claim -> the run that counts: at the paper's size if there is one, and of those the one that
    is kept.
    """
    first = sorted(found, key=lambda row: not row.at_paper_size)
    return {row.claim.id: row for row in reversed(first)}


def seeds_of(root: Path, name: str, result: Result[Any]) -> list[Result[Any]]:
    """The same experiment, data and sizes at other seeds, one a seed, as `recon keep` stored them
    in the book; profiles are names of sizes, and change what they name.
    """
    folders = [
        path
        for where in ("seeds", "paper-size")
        for path in (root / "book" / where / name).glob("seed-*")
    ]
    found = [load(folder, arrays=False) for folder in sorted(folders)]

    def condition(each: Result[Any]) -> tuple[object, ...]:
        return each.made.data.sha256, each.made.config

    others = {each.made.seed: each for each in found if condition(each) == condition(result)}
    return [others[seed] for seed in sorted(others) if seed != result.made.seed]


def records(results: Path, root: Path, published: bool) -> list[dict[str, Any]]:
    """What `recon claims --json` prints;

    Args:
        published: with the runs kept in the book, and what was not attempted.
    """
    found = []
    for row in rows(results, root, kept=published):
        made = row.result.made
        run: dict[str, Any] = {
            "chapter": row.chapter,
            "experiment": made.experiment,
            "profile": made.profile,
        }
        run |= {
            "data": made.data.name,
            "device": made.device,
            "seed": made.seed,
            "seconds": made.seconds,
        }
        run |= {
            "size": row.size,
            "at_paper_size": row.at_paper_size,
            "tested": row.tested,
            "image_sets": row.image_sets,
        }
        run |= {
            "distance_to_threshold": row.distance,
            "replayed": row.replayed,
            "replays": row.replays,
        }
        others = {
            "other_seeds": [c.ours for c in row.seeds],
            "other_values": [c.value for c in row.seeds],
        }
        found.append(
            {
                **asdict(row.claim),
                "verdict": row.verdict,
                "at_this_size": row.claim.verdict,
                **run,
                **others,
            }
        )
    if not found:
        raise ReconError(f"there are no results in {results}: run an experiment or the book first")
    for item in claims_page(root)["not_attempted"] if published else ():
        empty = dict.fromkeys(("id", "ours", "null", "chapter"), "")
        found.append({**empty, **item, "verdict": "not attempted", "paper": PAPERS[item["paper"]]})
    return found


def place(section: str) -> str:
    """Where a claim stands: a section of the two papers with its sign, another paper as it is
    called.

    >>> place("4.2"), place("Balle et al. 2022, abstract"), place("")
    ('§4.2', 'Balle et al. 2022, abstract', '')
    """
    return section if not section or YEAR.search(section) else f"§{section}"


def in_words(record: dict[str, Any]) -> str:
    """One of `records` as a line."""
    if record["verdict"] == "not attempted":
        where = f"{record['paper']}, §{record['section']}"
        return f"{record['verdict']:15} {where}: {record['sentence']} ({record['why']})"
    where = place(record["section"]) or "ours"
    more = "".join(f" | {name}: {record[name]}" for name in ("paper", "null") if record[name])
    said = (
        record["verdict"]
        if record["tested"]
        else f"{UNDECIDED}, {NOT_TESTED} ({record['at_this_size']})"
    )
    return (
        f"{said:15} {record['id']} ({where}, {record['chapter']}, {record['size']}):"
        f" {record['ours']}{more}"
    )
