"""What a page says of its claims beside the run on the page: the verdicts of the runs that count."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from IPython.display import Markdown

from recon.chapters import ROOT, experiment, load, sizes_at
from recon.chapters.catalogue import Row, best, seeds_of, size_in_words
from recon.store.results import Claim, Result


def that_count(*results: Result[Any], root: Path = ROOT) -> Markdown:
    """A table of verdicts: for every claim of these results, that of the run at the paper's size which the book keeps,
    where there is one, as on the claims page.

    A paper's sentence without a run at the paper's size is undecided.
    """
    lines = ["*The verdicts that count*, as on the [claims page](../claims):", "", "| verdict | run | sentence |"]
    lines.append("| --- | --- | --- |")
    for result in results:
        chosen = experiment(result.made.experiment)
        kept = root / "book" / "paper-size" / chosen.name
        runs = [load(kept, arrays=False)] if (kept / "result.json").is_file() else []
        found = [row for run in (*runs, result) for row in _rows(run, root)]
        counted = best(found)
        for claim in result.claims:
            row = counted[claim.id]
            stored = any(run.made.key == row.result.made.key for run in runs)
            where = f"kept, {size_in_words(row) or 'the paper’s size'}" if stored else "this page"
            sets = f"{row.image_sets} image set{'s' * (row.image_sets > 1)}"
            lines.append(
                f"| {row.verdict_over_sets} | {where}, {sets} | {claim.sentence.replace('|', chr(92) + '|')} |"
            )
    return Markdown("\n".join(lines))


def in_full(claims: Iterable[Claim], head: str = "") -> Markdown:
    """A list of claims with what they were held against: ours and the null, a line each.  head: what stands above."""
    lines = [f"{head}\n"] if head else []
    for claim in claims:
        lines.append(f"- **{claim.verdict}**: {_plain(claim.sentence)}")
        lines += [f"  - {name}: {_plain(said)}" for name, said in (("ours", claim.ours), ("null", claim.null)) if said]
    return Markdown("\n".join(lines))


def _plain(text: str) -> str:
    """Without what Markdown would take for markup.

    >>> _plain("‖θ*‖² of c_out, |W|")
    '‖θ\\\\*‖² of c\\\\_out, \\\\|W\\\\|'
    """
    return re.sub(r"([*_|`$])", r"\\\1", text)


def _rows(result: Result[Any], root: Path) -> list[Row]:
    """Its claims; the sizes as a file has them, with lists for tuples, so that those of other seeds are the same."""
    chosen = experiment(result.made.experiment)
    result = replace(result, made=replace(result.made, config=json.loads(json.dumps(result.made.config))))
    others = seeds_of(root, chosen.name, result)
    fits = chosen.at_paper_size(sizes_at(result, chosen))
    return [
        Row(claim, result, chosen.chapter, fits, tuple(c for each in others for c in each.claims if c.id == claim.id))
        for claim in result.claims
    ]


__all__ = ["in_full", "that_count"]
