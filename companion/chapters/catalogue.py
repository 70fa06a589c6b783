"""Every claim of all results with the run that it comes from: what `recon claims` and the claims
page show.

A claim at the paper's size comes before the same claim at a smaller one, and only the former has
the paper's verdict: what was run at a smaller size says so. All of it is read from the files of
results and from book/claims.yml: no experiment is imported.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from companion.chapters import entries
from companion.chapters.claims import texts
from companion.store.record import Record
from companion.store.results import Claim, Result, load_result

UNDECIDED = "undecided"
MIXED = "mixed"
#: verdict -> the answer that a reader is given
ANSWERS = {
    "reproduced": "holds",
    "partly": "partly",
    "depends on stopping": "partly",
    "not reproduced": "fails",
    "undecided": "open",
    MIXED: "open",
    "finding": "measured",
    "check": "check",
}
CHECK = "check"
NOT_TESTED = "not tested at the paper's size"  # why a paper's sentence is undecided
ONE_SET = "one set"  # of images, which no other confirms
#: verdicts of a sentence that holds, the least first
HOLDS = ("partly", "reproduced", "finding")
#: identities, theorems, and starts that solve the problem already: they check the code, and cannot
#: fail otherwise
CHECKS = (
    "linear-underdetermined",
    "linear-trivial",
    "linear-kernel",
    "collapse-repeated-train",
    "affine-truth-perfect",
    "affine-distance-truth",
)
REPLAYS = Path("book") / "replays.json"
#: what binds a number to today's code; "a part": one of several independent runs, from its start to
#: its scores
ENOUGH = ("whole", "start and scores", "start and a part")
NOTHING = "nothing"


@dataclass(frozen=True)
class Row:
    """A claim with the run that it comes from.

    Attributes:
        seeds: the same claim at other seeds.
        at_paper_size: whether the run had the paper's size, None where it states none.
        replays: what `recon replay` did again of it, and of those at other seeds; none of a run of
            the edition, which computes it.
    """

    claim: Claim
    result: Result[Any]
    chapter: str
    at_paper_size: bool | None
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
        return self.at_paper_size is not False or not self.claim.section

    @property
    def verdict(self) -> str:
        """What the page says: that of the least image set where the sentence holds on all, `MIXED`
        where it holds on some, `CHECK` for an identity that holds. No larger margin lowers it, and
        no further set on which the sentence holds.
        """
        verdicts = {claim.verdict for claim in (self.claim, *self.seeds)}
        if not self.tested:
            return UNDECIDED
        if self.claim.id in CHECKS and "not reproduced" not in verdicts:
            return CHECK
        if verdicts <= {*HOLDS}:
            return min(verdicts, key=HOLDS.index)
        return MIXED if len(verdicts) > 1 else self.claim.verdict

    @property
    def margins(self) -> list[float]:
        """How far the rule's number is from its threshold, one an image set, the least first; in
        the unit of its rule, and empty where no single number decides.
        """
        claims = (self.claim, *self.seeds)
        return sorted(claim.margin for claim in claims if claim.margin is not None)

    @property
    def image_sets(self) -> int:
        """Seeds that it was run at; each draws its own images."""
        return 1 + len(self.seeds)

    @property
    def verdict_over_sets(self) -> str:
        """`verdict`; where its image sets differ, of which, where there is one, that it is one, and
        where it is undecided for its size, what this run has.
        """
        if not self.tested:
            return f"{UNDECIDED} ({NOT_TESTED}; this run: {self.claim.verdict})"
        counts = Counter(claim.verdict for claim in (self.claim, *self.seeds))
        if len(counts) > 1:
            parts = ", ".join(f"{verdict} on {count}" for verdict, count in counts.items())
            return f"{self.verdict} ({parts} of {self.image_sets} image sets)"
        return f"{self.verdict} ({ONE_SET})" if self.image_sets == 1 else self.verdict

    @property
    def size(self) -> str:
        """Images, width and candidates of the run, as far as it has one of each; images as many as
        there were, where the pool held fewer than were asked for.
        """
        config = self.result.made.config
        n = config.get("n_train") and self.result.metrics.get("n_train", config["n_train"])
        sizes = {"n": n, "width": config.get("width"), "m": (config.get("attack") or {}).get("m")}
        return ", ".join(f"{name} = {value}" for name, value in sizes.items() if value is not None)


def rows(results: Path, root: Path, kept: bool = True) -> list[Row]:
    """Every claim of the results in a folder, in the order of the book; before them those kept at
    profile `paper`.
    """
    replays = {(row["name"], row["seed"]): outcome(row) for row in read_replays(root)}
    paper_size = root / "book" / "paper-size"
    table = []
    for folder in (paper_size, results) if kept else (results,):
        for name, entry in entries().items():
            if not os.path.lexists(folder / name / "result.json"):
                continue
            result = read_result(folder / name)
            others = seeds_of(root, name, result) if kept else []
            seeds = [run.made.seed for run in (result, *others)]
            again = [replays.get((name, seed), NOTHING) for seed in seeds]
            for claim in result.claims:
                row = Row(
                    claim,
                    result,
                    entry.chapter,
                    entry.at_paper_size(result.made.config),
                    tuple(c for other in others for c in other.claims if c.id == claim.id),
                    tuple(again) if folder == paper_size else (),
                )
                table.append(row)
    return table


def read_result(folder: Path) -> Result[Record]:
    """A stored result with its claims as they were stored, in the words of today's
    book/claims.yml.
    """
    result = load_result(folder, Record, arrays=False)
    words: dict[str, Any] = {claim.id: texts().get(claim.id, {}) for claim in result.claims}
    claims = [replace(claim, **words[claim.id]) for claim in result.claims]
    return replace(result, made=replace(result.made, claims=claims))


def best(table: Iterable[Row]) -> dict[str, Row]:
    """Claim -> the run that counts: at the paper's size if there is one, and of those the one that
    is kept.
    """
    first = sorted(table, key=lambda row: not row.at_paper_size)
    return {row.claim.id: row for row in reversed(first)}


def seeds_of(root: Path, name: str, result: Result[Any]) -> list[Result[Any]]:
    """The same experiment, data and sizes at other seeds, one a seed, as `recon keep` stored them
    in the book; profiles are names of sizes, and change what they name.
    """
    others = map(read_result, root.glob(f"book/*/{name}/seed-*"))
    made = (result.made.data.sha256, result.made.config)
    alike = {
        other.made.seed: other
        for other in others
        if (other.made.data.sha256, other.made.config) == made
    }
    return [alike[seed] for seed in sorted(alike) if seed != result.made.seed]


def read_replays(root: Path) -> list[dict[str, Any]]:
    """The rows of book/replays.json, which `recon replay --note` writes; none without it."""
    path = root / REPLAYS
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []


def outcome(row: Mapping[str, Any]) -> str:
    """What a row of book/replays.json comes to: what was replayed, or that it differs."""
    return row["by"] if row["agrees"] or row["by"] == NOTHING else "differs"


def as_record(row: Row) -> dict[str, Any]:
    """A claim and its run, as `recon claims --json` prints them."""
    made = row.result.made
    return {
        **asdict(row.claim),
        "verdict": row.verdict,
        "chapter": row.chapter,
        "experiment": made.experiment,
        "profile": made.profile,
        "data": made.data.name,
        "seed": made.seed,
        "size": row.size,
        "image_sets": row.image_sets,
        "replayed": row.replayed,
    }


def in_words(row: Row) -> str:
    """The same as a line."""
    claim = row.claim
    where = f"§{claim.section}" if claim.section else "ours"
    beside = {"paper": claim.paper, "baseline": claim.null}
    more = "".join(f" | {name}: {text}" for name, text in beside.items() if text)
    about = f"{claim.id} ({where}, {row.chapter}, {row.size})"
    return f"{row.verdict_over_sets:25} {about}: {claim.ours}{more}"
