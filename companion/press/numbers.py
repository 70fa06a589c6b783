"""README.md and the pages of the book that name numbers: none of them is typed, each is read from a
result file.

Such a text is a Jinja template. `run("separation").metrics.matches.ncc_07` is a number of the
published edition, `kept(…)` of a run kept at the paper's size, `benchmark("leakage").rank_seconds`
of benchmarks/leakage.json.
"""

import json
import re
from collections import Counter
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jinja2 import Environment, StrictUndefined
from nbformat import NotebookNode

from companion.chapters import ROOT, load
from companion.chapters.catalogue import ANSWERS, Row, best, rows
from companion.chapters.claims import claims_page
from recon.errors import one_reason
from recon.store.files import atomic_path

TEMPLATE = Path("book") / "readme.md.jinja"
REPORT = Path("book") / "report.md.jinja"
LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
PAPERS_REPRODUCED = ("runkel2024", "chen2022")


def rendered(text: str, root: Path = ROOT, results: Path | None = None) -> str:
    """The text with its expressions replaced; ReconError, one sentence, for what no result says.

    Args:
        results: where the edition's result files are, by default those of the published one.
    """
    results = results or root / "book" / "executed" / "results"
    environment = Environment(
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )  # noqa: S701  (Markdown)
    environment.filters |= {
        "percent": "{:.0%}".format,
        "number": number,
        "fixed": fixed,
        "commas": "{:,}".format,
    }
    environment.globals |= {
        "run": partial(_result, results, root / "book" / "seeds"),
        "kept": partial(_result, root / "book" / "paper-size", root / "book" / "paper-size"),
        "benchmark": partial(benchmark, root),
        "claims": partial(claims_of, root, results),
        "words": partial(claims_page, root),
        "counts": partial(counts, root, results),
    }
    with one_reason("a text asks for a number that no result has"):
        return environment.from_string(text).render()


#: an expression in a chapter's text; formulas have braces of their own
EXPRESSION = re.compile(r"\{\{ (.+?) \}\}")


def fill_in(nb: NotebookNode, results: Path) -> None:
    """The expressions in a chapter's sentences, in place, from these results of its edition and
    from kept runs.

    Such as `{{ kept("linear").metrics.twins.agree }}`; ReconError, one sentence, for what no result
    says.
    """
    for cell in nb.cells:
        if cell.cell_type == "markdown":
            cell.source = EXPRESSION.sub(
                lambda match: rendered(match[0], results=results), cell.source
            )


def write_readme(root: Path = ROOT) -> Path:
    """README.md from its template."""
    return _write(rendered((root / TEMPLATE).read_text("utf-8"), root), root / "README.md")


def write_report(root: Path = ROOT) -> Path:
    """build/report.md, what a reproducibility track asks for (MLRC, TMLR), from its template."""
    text = rendered((root / REPORT).read_text("utf-8"), root)
    return _write(LINK.sub(r"\1", text), root / "build" / "report.md")


def _write(text: str, path: Path) -> Path:
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def number(value: float, digits: int = 2) -> str:
    """As many significant digits, without a sign or zeros that say nothing.

    >>> number(0.0000223), number(8.1234e-7, 1), number(16.2), number(1500, 2)
    ('2.2e-5', '8e-7', '16', '1500')
    """
    text = f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:.0f}"
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def fixed(value: float, digits: int = 1) -> str:
    """With as many digits after the point.

    >>> fixed(10.94), fixed(0.5, 2)
    ('10.9', '0.50')
    """
    return f"{value:.{digits}f}"


def _result(at_seed_0: Path, at_others: Path, name: str, seed: int = 0) -> Any:
    """What a result says: metrics, made, and its claims by id."""
    result = load(at_others / name / f"seed-{seed}" if seed else at_seed_0 / name, arrays=False)
    return SimpleNamespace(
        metrics=result.metrics,
        made=result.made,
        claims={claim.id: claim for claim in result.claims},
    )


def benchmark(root: Path, name: str) -> Any:
    """What a benchmark wrote; ReconError where it cannot be read."""
    with one_reason(f"benchmarks/{name}.json cannot be read"):
        return json.loads((root / "benchmarks" / f"{name}.json").read_text(encoding="utf-8"))


def counts(root: Path, results: Path, paper: str) -> dict[str, int]:
    """How many claims of a paper have each answer that claims of the two papers have; what was run
    twice counts once, by the run that counts.
    """
    answers = {
        name: Counter(ANSWERS[row.verdict] for row in claims_of(root, results, name))
        for name in PAPERS_REPRODUCED
    }
    mine, either = answers[paper], set().union(*answers.values())
    return {kind: mine[kind] for kind in dict.fromkeys(ANSWERS.values()) if kind in either}


@cache
def claims_of(root: Path, results: Path, paper: str) -> list[Row]:
    """The claims of a paper, in the order of book/claims.yml, each by the run that counts."""
    counted = best(rows(results, root))
    return [counted[name] for name in claims_page(root)[paper] if name in counted]
