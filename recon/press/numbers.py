"""README.md and the pages of the book that name numbers: none of them is typed, each is read from a result file.

Such a text is a Jinja template.  `run("separation").metrics.matches.ncc_07` is a number of the published edition,
`paper(…)` of a run kept at the paper's size, `benchmark("leakage").rank_seconds` of benchmarks/leakage.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jinja2 import Environment, StrictUndefined, TemplateError

from recon.chapters import ROOT, load, registry
from recon.chapters.catalogue import PAPERS, Row, best, catalogue, rounding, rows, size_in_words
from recon.errors import ReconError
from recon.store.files import atomic_path
from recon.store.results import Claim

TEMPLATE = Path("book") / "readme.md.jinja"
COLUMNS = ("claim", "paper", "ours", "null", "verdict", "`recon run …`")


def rendered(text: str, root: Path = ROOT, results: Path | None = None) -> str:
    """The text with its expressions replaced; ReconError, one sentence, for what no result says.

    results: where the edition's result files are, by default those of the published one.
    """
    results = results or root / "book" / "executed" / "results"
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)  # noqa: S701  (Markdown)
    environment.filters |= {"percent": "{:.0%}".format, "number": number, "each": each}
    environment.globals |= {
        "run": partial(_found, results, root / "book" / "seeds"),
        "paper": partial(_found, root / "book" / "paper-size", root / "book" / "paper-size"),
        "benchmark": partial(_benchmark, root),
        "claims": partial(headlines, root, results),
        "other_claims": partial(_other_claims, root, results),
    }
    try:
        return environment.from_string(text).render()
    except (TemplateError, TypeError, ValueError, KeyError, AttributeError) as error:
        raise ReconError(f"a text asks for a number that no result has: {error}") from error


def write_readme(root: Path = ROOT) -> Path:
    """README.md from its template."""
    text = rendered((root / TEMPLATE).read_text(encoding="utf-8"), root)
    with atomic_path(root / "README.md") as temporary:
        temporary.write_text(text, encoding="utf-8")
    return root / "README.md"


def number(value: float, digits: int = 2) -> str:
    """As many significant digits, without a sign or zeros that say nothing.

    >>> number(0.0000223), number(8.1234e-7, 1), number(16.2), number(1500, 2)
    ('2.2e-5', '8e-7', '16', '1500')
    """
    text = f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:.0f}"
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def each(values: Iterable[Any], way: str = "") -> str:
    """The values, or one field of each by its path with dots, with commas between."""
    return ", ".join(str(_field(value, way)) for value in values)


def _field(value: Any, way: str) -> Any:
    for name in filter(None, way.split(".")):
        value = getattr(value, name)
    return value


def _found(at_seed_0: Path, at_others: Path, name: str, seed: int = 0) -> Any:
    """What a result says: metrics, made, and its claims by id."""
    result = load(at_others / name / f"seed-{seed}" if seed else at_seed_0 / name, arrays=False)
    return SimpleNamespace(metrics=result.metrics, made=result.made, claims={each.id: each for each in result.claims})


def _benchmark(root: Path, name: str) -> Any:
    try:
        return json.loads((root / "benchmarks" / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ReconError(f"benchmarks/{name}.json cannot be read: {error}") from error


@cache
def _best_rows(root: Path, results: Path) -> dict[str, tuple[Row, Row | None]]:
    """Claim -> the run that counts, and a smaller one that was repeated, if there is one."""
    found = rows(results, root)
    return {
        name: (row, next((each for each in found if each.claim.id == name and each is not row and each.seeds), None))
        for name, row in best(found).items()
    }


def claims_table(root: Path, results: Path, *ids: str) -> str:
    """These claims as a table, in this order; ReconError for one without a result."""
    counted = _best_rows(root, results)
    if missing := [name for name in ids if name not in counted]:
        raise ReconError(f"the claim '{missing[0]}' has no result")
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    return "\n".join([*lines, *(_line(*counted[name]) for name in ids)])


def headlines(root: Path, results: Path, *ids: str) -> str:
    """These claims as a table; ReconError for one that another rounding or another processor turns."""
    measured = rounding(root)
    if turned := [name for name in ids if measured.holds(name) is False]:
        raise ReconError(f"the claim '{turned[0]}' holds on one processor only: it is no headline")
    return claims_table(root, results, *ids)


def _other_claims(root: Path, results: Path, *ids: str) -> str:
    """All others, in the catalogue's order."""
    listed = catalogue(root)
    others = [name for paper in PAPERS for name in listed[paper] if name not in ids]
    return claims_table(root, results, *others)


def _line(row: Row, smaller: Row | None) -> str:
    claim, made = row.claim, row.result.made
    profile = profile_of(made.experiment, made.config, made.profile)
    command = f"`{made.experiment}`" if profile == "laptop" else f"`{made.experiment} --profile {profile}`"
    cells = [claim.sentence, claim.paper, ours_in_words(row, smaller), claim.null, row.verdict_over_sets, command]
    return "| " + " | ".join((cell or "–").replace("|", "\\|") for cell in cells) + " |"


def profile_of(name: str, config: dict[str, Any], stamped: str) -> str:
    """The profile that has these sizes today; the stamped one where that has them, or none has.

    What a profile was when a run was kept, it need not be any more.
    """
    wanted = json.loads(json.dumps(config))
    has = {profile: json.loads(json.dumps(asdict(sizes))) for profile, sizes in registry()[name].sizes.items()}
    return next((profile for profile in (stamped, *has) if has.get(profile) == wanted), stamped)


def ours_in_words(row: Row, smaller: Row | None = None) -> str:
    """What was found, and the range of its number over image sets; of the smaller run, if only that was repeated."""
    if row.seeds or smaller is None:
        return row.claim.ours + values_apart([row.claim, *row.seeds])
    size = size_in_words(smaller)
    where = f"the {smaller.result.made.profile} run" + (f", {size}" if size.startswith("n =") else "")
    return row.claim.ours + values_apart([smaller.claim, *smaller.seeds], where)


def values_apart(same: list[Claim], where: str = "") -> str:
    """The range of one claim's value over image sets, in brackets; nothing for one set.  where: the run, if the
    sentence before is about another.

    >>> values_apart([])
    ''
    """
    values = [claim.value for claim in same if claim.value is not None]
    if len(values) < 2:
        return ""
    head = f"{where}: " if where else ""
    return f" ({head}{number(min(values))} to {number(max(values))} over {len(values)} image sets)"


__all__ = [
    "TEMPLATE",
    "claims_table",
    "headlines",
    "number",
    "ours_in_words",
    "rendered",
    "values_apart",
    "write_readme",
]
