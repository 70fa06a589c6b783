"""How sure the book is of each chapter: counted from verdicts, sizes and image sets, nothing judged by hand."""

from __future__ import annotations

from collections import defaultdict

from claim_parts import Sources, checked

from recon.chapters.catalogue import UNDECIDED, Row, best

#: image sets on which a claim must have one and the same verdict to count as confirmed
SETS = 3


def decided(row: Row) -> bool:
    """Whether the run that counts has the paper's size, where the paper states one, and came to a verdict."""
    return row.verdict != UNDECIDED


def confirmed(row: Row) -> bool:
    """Whether it has the same verdict on at least `SETS` image sets."""
    return row.image_sets >= SETS and all(other.verdict == row.claim.verdict for other in row.seeds)


def level(claims: int, settled: int, sure: int) -> str:
    """high: nine of ten claims decided and half of all confirmed; fair: two of three decided; else low.

    >>> level(10, 9, 5), level(10, 9, 4), level(10, 6, 6)
    ('high', 'fair', 'low')
    """
    if 10 * settled >= 9 * claims and 2 * sure >= claims:
        return "high"
    return "fair" if 3 * settled >= 2 * claims else "low"


def confidence(sources: Sources) -> str:
    """One row a chapter: its claims, how many are decided and confirmed, and what follows."""
    by_chapter: dict[str, list[Row]] = defaultdict(list)
    for row in best(row for rows in checked(sources).values() for row in rows).values():
        by_chapter[row.chapter].append(row)
    lines = ["| Chapter | Claims | Decided | Confirmed | Confidence |", "|---|---:|---:|---:|---|"]
    for chapter, rows in sorted(by_chapter.items()):
        settled = sum(map(decided, rows))
        sure = sum(decided(row) and confirmed(row) for row in rows)
        said = level(len(rows), settled, sure)
        lines.append(f"| [{chapter}](executed/{chapter}) | {len(rows)} | {settled} | {sure} | {said} |")
    return "\n".join(lines)
