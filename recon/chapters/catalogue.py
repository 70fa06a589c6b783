"""Every claim of all results with the run that it comes from: what `recon claims` and the claims page show."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from recon.chapters import load, registry
from recon.errors import ReconError
from recon.store.results import Claim, Result

PAPERS = {"runkel2024": "Runkel et al.", "chen2022": "Chen & Campbell", "ours": "ours"}


@dataclass(frozen=True)
class Row:
    """A claim with the run that it comes from; `seeds`: the same claim at other seeds."""

    claim: Claim
    result: Result[Any]
    chapter: str
    seeds: tuple[Claim, ...] = ()


def rows(results: Path, root: Path, kept: bool = True) -> list[Row]:
    """Every claim of the results in a folder, in the order of the book; then those of runs kept at profile `paper`."""
    found = []
    for folder in (results, *([root / "book" / "paper-size"] if kept else [])):
        for name, experiment in registry().items():
            if not os.path.lexists(folder / name / "result.json"):
                continue
            result = load(folder / name, arrays=False)
            others = seeds_of(root, name, result) if folder == results else []
            for claim in result.claims:
                same = tuple(c for other in others for c in other.claims if c.id == claim.id)
                found.append(Row(claim, result, experiment.chapter, same))
    return found


def seeds_of(root: Path, name: str, result: Result[Any]) -> list[Result[Any]]:
    """The same experiment, profile and data at other seeds, as `recon keep` stored them in book/seeds/."""
    found = [load(folder, arrays=False) for folder in sorted((root / "book" / "seeds" / name).glob("seed-*"))]

    def condition(each: Result[Any]) -> tuple[object, ...]:
        return each.made.profile, each.made.data.sha256, each.made.config

    return [each for each in found if condition(each) == condition(result) and each.made.seed != result.made.seed]


def catalogue(root: Path) -> dict[str, Any]:
    """book/claims.yml: ids by paper, and what was not attempted; ReconError if it cannot be read."""
    try:
        return yaml.safe_load((root / "book" / "claims.yml").read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ReconError(f"book/claims.yml cannot be read: {error}") from error


def records(results: Path, root: Path, published: bool) -> list[dict[str, Any]]:
    """What `recon claims --json` prints; published: with the runs kept in the book, and what was not attempted."""
    found = []
    for row in rows(results, root, kept=published):
        made = row.result.made
        run: dict[str, Any] = {"chapter": row.chapter, "experiment": made.experiment, "profile": made.profile}
        run |= {"data": made.data.name, "device": made.device, "seed": made.seed}
        found.append({**asdict(row.claim), **run, "other_seeds": [claim.ours for claim in row.seeds]})
    if not found:
        raise ReconError(f"there are no results in {results}: run an experiment or the book first")
    for item in catalogue(root)["not_attempted"] if published else ():
        empty = dict.fromkeys(("id", "ours", "null", "chapter"), "")
        found.append({**empty, **item, "verdict": "not attempted", "paper": PAPERS[item["paper"]]})
    return found


def in_words(record: dict[str, Any]) -> str:
    """One of `records` as a line."""
    if record["verdict"] == "not attempted":
        where = f"{record['paper']}, §{record['section']}"
        return f"{record['verdict']:15} {where}: {record['sentence']} ({record['why']})"
    where = f"§{record['section']}" if record["section"] else "ours"
    more = "".join(f" | {name}: {record[name]}" for name in ("paper", "null") if record[name])
    return f"{record['verdict']:15} {record['id']} ({where}, {record['chapter']}): {record['ours']}{more}"
