"""Pages written when the book is built, from result files, stamps and docstrings: nothing on them is typed by hand.

A page in book/ asks for a part with a line of its own, `% recon: NAME`; `fill` replaces it in the staged copy.  Which
claims there must be is said by `book/claims.yml`; one without a result fails the build, and so does a result's claim
that nobody listed.
"""

from __future__ import annotations

import ast
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nbformat
import yaml

from recon.errors import ReconError
from recon.store.ledger import entries
from recon.store.results import Claim, Result, load_result

MARK = re.compile(r"^% recon: (\S+)$", re.MULTILINE)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
PUNCTUATION = re.compile(r"([\\`*_{}\[\]()#+\-.!|$<>~^:@])")
PAPERS = {"runkel2024": "Runkel et al.", "chen2022": "Chen & Campbell", "ours": "ours"}


@dataclass(frozen=True)
class Sources:
    """Where parts come from: the checkout, the edition's result files, its executed chapters."""

    root: Path
    results: Path
    chapters: list[Path]


@dataclass(frozen=True)
class Row:
    """A claim with the run that it comes from; `seeds`: the same claim at other seeds."""

    claim: Claim
    result: Result
    chapter: str
    seeds: tuple[Claim, ...] = ()


def fill(book: Path, sources: Sources) -> None:
    """Replace every mark in the Markdown pages of the staged folder `book`; ReconError for an unknown part."""
    for page in sorted(book.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if MARK.search(text):
            page.write_text(MARK.sub(lambda mark: part(mark[1], sources), text), encoding="utf-8")


def part(name: str, sources: Sources) -> str:
    """The Markdown of one part: `claims/PAPER`, `verdicts`, `not-attempted`, `chapters`, `compute`, `contents` or
    `reference`."""
    if name.startswith("claims/") and name.removeprefix("claims/") in PAPERS:
        return claims_table(sources, name.removeprefix("claims/"))
    parts: dict[str, Callable[[Sources], str]] = {
        "contents": contents,
        "verdicts": verdicts,
        "not-attempted": not_attempted,
        "chapters": chapter_table,
        "compute": compute,
        "reference": reference,
    }
    if name not in parts:
        raise ReconError(f"a page asks for the part '{name}', which there is not: claims/PAPER, {', '.join(parts)}")
    return parts[name](sources)


# -------------------------------------------------------------------------------------------------------- claims


def rows(results: Path, root: Path, kept: bool = True) -> list[Row]:
    """Every claim of the results in a folder, in the order of the book; then those of runs kept at profile `paper`."""
    from recon.chapters import registry

    found = []
    for folder in (results, *([root / "book" / "paper-size"] if kept else [])):
        for name, experiment in registry().items():
            if not os.path.lexists(folder / name / "result.json"):
                continue
            result = load_result(folder / name, arrays=False)
            others = seeds_of(root, name, result) if folder == results else []
            for claim in result.claims:
                same = tuple(c for other in others for c in other.claims if c.id == claim.id)
                found.append(Row(claim, result, experiment.chapter, same))
    return found


def seeds_of(root: Path, name: str, result: Result) -> list[Result]:
    """The same experiment, profile and data at other seeds, as `recon keep` stored them in book/seeds/."""
    folders = sorted((root / "book" / "seeds" / name).glob("seed-*"))
    found = [load_result(folder, arrays=False) for folder in folders]
    same = (result.profile, result.data["sha256"], result.config)
    return [r for r in found if (r.profile, r.data["sha256"], r.config) == same and r.seed != result.seed]


def catalogue(root: Path) -> dict:
    """book/claims.yml: ids by paper, and what was not attempted; ReconError if it cannot be read."""
    try:
        return yaml.safe_load((root / "book" / "claims.yml").read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ReconError(f"book/claims.yml cannot be read: {error}") from error


def checked(sources: Sources) -> dict[str, list[Row]]:
    """Rows by paper, in the catalogue's order.  ReconError for a claim without a result, or a result's without entry.

    At profile `smoke` experiments make fewer claims: there only the second is an error.
    """
    from recon.chapters import registry

    by_id = defaultdict(list)
    for row in rows(sources.results, sources.root):
        by_id[row.claim.id].append(row)
    listed = catalogue(sources.root)
    found = {paper: [row for name in listed[paper] for row in by_id.get(name, [])] for paper in PAPERS}
    known = [name for paper in PAPERS for name in listed[paper]]
    complete = not any(row.result.profile == "smoke" for group in by_id.values() for row in group)
    if complete and (missing := [name for name in known if name not in by_id]):
        raise ReconError(f"the claim '{missing[0]}' has no result file: run its experiment, or take it off claims.yml")
    without = [name for name in registry() if not os.path.lexists(sources.results / name / "result.json")]
    if complete and without:  # also where a kept run has the same claims
        raise ReconError(f"the experiment '{without[0]}' has no result file: run it before its claims are shown")
    if extra := sorted(set(by_id) - set(known)):
        raise ReconError(f"the claim '{extra[0]}' of a result is not listed in book/claims.yml")
    return found


def claims_table(sources: Sources, paper: str) -> str:
    """One paper's claims, or our own findings."""
    lines = ["```{container} claims", "| Claim | Paper | Ours | Null | Verdict |", "|---|---|---|---|---|"]
    for row in checked(sources)[paper]:
        claim = row.claim
        section = f" (§ {claim.section.removeprefix('C&C ')})" if claim.section else ""
        n_seeds = len(row.seeds) + 1
        ours = spread([claim.ours, *(other.ours for other in row.seeds)])
        many = f" *({n_seeds} seeds)*" if n_seeds > 1 else ""
        agree = sum(other.verdict == claim.verdict for other in row.seeds) + 1
        verdict = claim.verdict + (f", {agree} of {n_seeds} seeds" if agree < n_seeds else "")
        device = row.result.device.replace("NVIDIA ", "")
        where = f"[Chapter {int(row.chapter[:2])}](executed/{row.chapter}), {row.result.profile}, {escaped(device)}"
        cells = [f"{escaped(claim.sentence + section)} *{where}*", *map(escaped, (claim.paper, ours))]
        cells[2] += many
        cells += [escaped(claim.null), f"**{verdict}**"]
        lines.append("| " + " | ".join(cell or "–" for cell in cells) + " |")
    return "\n".join([*lines, "```"])


def spread(texts: list[str]) -> str:
    """The first text, each number that differs in the others followed by its range; the texts apart if more differs.

    >>> spread(["30 of 100, best 0.90", "28 of 100, best 0.91"])
    '30 (28 to 30) of 100, best 0.90 (0.90 to 0.91)'
    """
    first, *others = texts
    if not others or all(other == first for other in others):
        return first
    if any(NUMBER.split(other) != NUMBER.split(first) for other in others):
        return "; ".join([first, *(f"another seed: {other}" for other in others)])
    between, columns = NUMBER.split(first), zip(*(NUMBER.findall(text) for text in texts), strict=True)
    shown = []
    for numbers in columns:
        low, high = min(numbers, key=float), max(numbers, key=float)
        shown.append(numbers[0] if float(low) == float(high) else f"{numbers[0]} ({low} to {high})")
    return between[0] + "".join(number + text for number, text in zip(shown, between[1:], strict=True))


def verdicts(sources: Sources) -> str:
    """How many claims of each paper ended how; what was run twice counts once, by its largest profile."""
    found = checked(sources)
    lines = ["| | reproduced | partly | not reproduced | measured, nothing published | not attempted |"]
    lines.append("|---|---|---|---|---|---|")
    left_out = Counter(item["paper"] for item in catalogue(sources.root)["not_attempted"])
    for paper, label in list(PAPERS.items())[:2]:
        last = {row.claim.id: row.claim.verdict for row in found[paper]}
        count = Counter(last.values())
        numbers = [count[v] for v in ("reproduced", "partly", "not reproduced", "finding")]
        lines.append(f"| {label} | " + " | ".join(map(str, [*numbers, left_out[paper]])) + " |")
    return "\n".join(lines)


def not_attempted(sources: Sources) -> str:
    """What the papers say and nobody ran here, with the reason."""
    lines = ["| Paper | Claim | Why not |", "|---|---|---|"]
    for item in catalogue(sources.root)["not_attempted"]:
        sentence = f"{item['sentence']} (§ {item['section']})"
        lines.append(f"| {PAPERS[item['paper']]} | {escaped(sentence)} | {escaped(item['why'])} |")
    return "\n".join(lines)


def escaped(text: str) -> str:
    """Text as it is, in Markdown."""
    return PUNCTUATION.sub(r"\\\1", text)


# -------------------------------------------------------------------------------------------------------- status


def by_chapter(sources: Sources) -> dict[str, list[Result]]:
    """Chapter -> the results that its page shows."""
    from recon.chapters import registry

    found = defaultdict(list)
    for name, experiment in registry().items():
        if os.path.lexists(sources.results / name / "result.json"):
            found[experiment.chapter].append(load_result(sources.results / name, arrays=False))
    return found


def contents(sources: Sources) -> str:
    """Chapters with their questions, what reading takes, and what running took where this edition was made."""
    results = by_chapter(sources)
    lines = ["| | Chapter | Question | Reading | Run |", "|---|---|---|---|---|"]
    for page in sources.chapters:
        nb = nbformat.read(page, as_version=4)
        head = nb.cells[0].source
        title = re.search(r"^# (.+)$", head, re.MULTILINE)
        question = re.search(r"\*\*Question\.\*\* (.+?)(?:\n\n|$)", head, re.DOTALL)
        seconds = sum(result.seconds for result in results[page.stem])
        run = f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
        link = f"[{title[1] if title else page.stem}](executed/{page.stem})"
        asked = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(question[1].split())) if question else ""
        lines.append(f"| {page.stem[:2]} | {link} | {asked} | {reading_minutes(nb)} min | {run} |")
    return "\n".join(lines)


def chapter_table(sources: Sources) -> str:
    """How every page was made, and what its experiments took."""
    results = by_chapter(sources)
    columns = ("Chapter", "Commit", "Data", "Profile", "Device", "Versions", "Seconds", "Peak memory")
    table = []
    for page in sources.chapters:
        nb = nbformat.read(page, as_version=4)
        stamp = nb.metadata.get("recon")
        if not stamp:
            continue
        mine = results[page.stem]
        seconds = sum(result.seconds for result in mine)
        memory = max((result.peak_memory_mb for result in mine), default=0.0)
        versions = ", ".join(f"{name} {escaped(number)}" for name, number in stamp["versions"].items())
        data = f"{stamp['data']['name']}, sha256 `{stamp['data']['sha256'][:16]}`"
        cells = [f"[{page.stem}](executed/{page.stem})", f"`{stamp['commit']}`", data, stamp["profile"]]
        cells += [escaped(stamp["device"]), versions, f"{seconds:.0f}", f"{memory / 1000:.1f} GB" if memory else "–"]
        table.append(cells)
    same = [k for k in range(1, 6) if len({cells[k] for cells in table}) == 1]  # said once, above the table
    head = "; ".join(f"{columns[k].lower()}: {table[0][k]}" for k in same)
    kept = [k for k in range(len(columns)) if k not in same]
    lines = ["| " + " | ".join(columns[k] for k in kept) + " |", "|" + "---|" * len(kept)]
    lines += ["| " + " | ".join(cells[k] for k in kept) + " |" for cells in table]
    return (f"All chapters: {head}.\n\n" if head else "") + "\n".join(lines)


def reading_minutes(nb: nbformat.NotebookNode) -> int:
    """At 200 words a minute, prose and shown code, and a quarter of a minute a figure."""
    shown = [c for c in nb.cells if not {"remove-cell", "injected-parameters"} & set(c.metadata.get("tags", []))]
    words = sum(len(cell.source.split()) for cell in shown)
    figures = sum("mystnb" in cell.metadata for cell in shown)
    return max(1, round(words / 200 + figures / 4))


def compute(sources: Sources) -> str:
    """The ledger, summed: runs that ended as they should, and the others."""
    found = entries(sources.results)
    lines = ["| Runs | Number | Hours |", "|---|---|---|"]
    for outcome in ("done", "failed", "interrupted"):
        mine = [entry for entry in found if entry.outcome == outcome]
        lines.append(f"| {outcome} | {len(mine)} | {sum(entry.seconds for entry in mine) / 3600:.2f} |")
    kept = [load_result(path.parent, arrays=False) for path in sorted(sources.root.glob("book/*/**/result.json"))]
    extra = [result for result in kept if result.profile == "paper" or result.seed]
    lines.append(f"| kept: larger sizes, other seeds | {len(extra)} | {sum(r.seconds for r in extra) / 3600:.2f} |")
    return "\n".join(lines)


# ----------------------------------------------------------------------------------------------------- reference


def reference(sources: Sources) -> str:
    """Signatures and docstrings of every public name, module by module."""
    package = sources.root / "recon"
    return "\n".join(_module(path, package) for path in sorted(package.rglob("*.py")) if _documented(path, package))


def _documented(path: Path, package: Path) -> bool:
    inner = path.relative_to(package).parts[0]
    return path.name not in ("__init__.py", "cli.py") and inner not in ("experiments", "plots")


def _module(path: Path, package: Path) -> str:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    dotted = ".".join(("recon", *path.relative_to(package).with_suffix("").parts))
    lines = [f"## {dotted}", "", _text(ast.get_docstring(tree)), ""]
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            lines += [f"```python\n{_signature(node)}\n```", "", _text(_doc(node)), ""]
    return "\n".join(lines)


def _doc(node: ast.FunctionDef | ast.ClassDef) -> str:
    """The docstring, and those of a class's public methods."""
    found = [ast.get_docstring(node) or ""]
    for inner in node.body if isinstance(node, ast.ClassDef) else []:
        if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_") and ast.get_docstring(inner):
            found.append(f".{inner.name}: {ast.get_docstring(inner)}")
    return "\n\n".join(found)


def _signature(node: ast.FunctionDef | ast.ClassDef) -> str:
    if isinstance(node, ast.FunctionDef):
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        return f"{node.name}({ast.unparse(node.args)}){returns}"
    fields = [ast.unparse(inner) for inner in node.body if isinstance(inner, ast.AnnAssign)]
    return f"class {node.name}({', '.join(fields)})"


def _text(docstring: str | None) -> str:
    """As typed, line breaks and formulas included."""
    return f"```text\n{docstring}\n```" if docstring else ""
