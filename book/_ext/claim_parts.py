"""The claims page: what did not reproduce and why, a summary, and every claim as a card that opens.

Nothing on it is typed by hand but the reasons, and those lie in book/claims.yml beside the ids that
they are for.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import yaml

from companion.chapters.catalogue import (
    ANSWERS,
    CHECK,
    MIXED,
    ONE_SET,
    Row,
    best,
    read_replays,
    rows,
)
from companion.chapters.claims import PAPERS, claims_page
from recon.errors import ReconError

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
PUNCTUATION = re.compile(r"([\\`*_{}\[\]()#+\-.!|$<>~^:@])")
FAILED, STOPPING = "not reproduced", "depends on stopping"
NOT_REPLAYED, THUMBNAILS = "not replayed", "thumbnails"
#: verdicts that are an answer and a reason
REASONS = {STOPPING: "depends on stopping", MIXED: "image sets differ"}


@dataclass(frozen=True)
class Sources:
    """Where parts come from: a checkout (or its staged copy), the edition's result files, its
    executed chapters.
    """

    root: Path
    results: Path
    chapters: list[Path]


def checked(sources: Sources) -> dict[str, list[Row]]:
    """Rows by paper, in the catalogue's order. ReconError for a claim without a result, or a
    result's without entry.

    At profile `smoke` experiments make fewer claims: there only the second is an error.
    """
    by_id = defaultdict(list)
    for row in rows(sources.results, sources.root):
        by_id[row.claim.id].append(row)
    listed = claims_page(sources.root)
    found = {
        paper: [row for name in listed[paper] for row in by_id.get(name, [])] for paper in PAPERS
    }
    known = [name for paper in PAPERS for name in listed[paper]]
    complete = not any(
        row.result.made.profile == "smoke" for group in by_id.values() for row in group
    )
    if complete and (missing := [name for name in known if name not in by_id]):
        raise ReconError(
            f"the claim '{missing[0]}' has no result file: run its experiment, or take it off"
            " claims.yml"
        )
    if extra := sorted(set(by_id) - set(known)):
        raise ReconError(f"the claim '{extra[0]}' of a result is not listed in book/claims.yml")
    return found


# -------------------------------------------------------------------------------------------- cards


def cards(sources: Sources, paper: str) -> str:
    """One paper's claims, or our own findings, as cards; the run that counts is the first column of
    each.
    """
    of = defaultdict(list)
    for row in checked(sources)[paper]:
        of[row.claim.id].append(row)
    return "\n\n".join(card(runs) for runs in of.values())


def card(runs: list[Row]) -> str:
    """One claim: verdict and sentence, and marks where the run that it rests on is of one image set
    or not bound to today's code; opened, what the paper has and what each run has.
    """
    first = best(runs)[runs[0].claim.id]
    runs = sorted(runs, key=lambda row: row is not first)
    claim = first.claim
    mark = f" {chip(ONE_SET)}" if first.image_sets == 1 else ""
    mark += "" if first.replayed else f" {chip(NOT_REPLAYED)}"
    title = f"{chip(first.verdict)}{mark} {escaped(' '.join(claim.sentence.split()))}"
    head = ["the run that counts", *["a smaller one"] * (len(runs) - 1)]
    lines = {name: [cells(row)[name] for row in runs] for name in cells(first)}
    table = ["| | " + " | ".join(head) + " |", "|---|" + "---|" * len(runs)]
    table += [
        f"| {name} | " + " | ".join(cell or "–" for cell in row) + " |"
        for name, row in lines.items()
    ]
    section = f"§ {claim.section.removeprefix('C&C ')}. " if claim.section else ""
    said = f"{escaped(section)}*Paper:* {escaped(claim.paper)}\n\n" if claim.section else ""
    links = (
        f"[{chapter_name(first.chapter)}](executed/{first.chapter}) · [link to this"
        f" claim](#claim-{claim.id})"
    )
    options = f":name: claim-{claim.id}\n:class-container: claim {slug(first.verdict)}"
    return (
        f"`````{{dropdown}} {title}\n{options}\n\n{said}"
        + "\n".join(table)
        + f"\n\n{links} · `{claim.id}`\n`````"
    )


def cells(row: Row) -> dict[str, str]:
    """What one run has for a claim, in Markdown."""
    claim = row.claim
    sets = _sets([row.image_sets])
    return {
        "Ours": escaped(spread([claim.ours, *(other.ours for other in row.seeds)])),
        "Baseline": escaped(spread([claim.null, *(other.null for other in row.seeds)])),
        "Size": escaped(row.size),
        "Seeds": sets,
        "Done again": ", ".join(dict.fromkeys(row.replays)) or "by this edition",
        "Verdict": row.verdict_over_sets,
        "From its threshold": margins(row),
    }


def margins(row: Row) -> str:
    """How far what decides is from where the verdict turns: on the least image set, and on the
    most.
    """
    ends = [f"{margin:.2g}" for margin in (*row.margins[:1], *row.margins[-1:])]
    return " to ".join(dict.fromkeys(ends)) or "no single number decides"


def chip(verdict: str) -> str:
    """The answer as a label, whose shape and colour say no more than its text, and the reason."""
    reason = f" {REASONS[verdict]}" if verdict in REASONS else ""
    return f"[{ANSWERS.get(verdict, verdict)}]{{.chip .{slug(verdict)}}}{reason}"


def slug(verdict: str) -> str:
    """
    >>> slug("not reproduced"), slug("one set")
    ('v-fails', 'v-one-set')
    """
    return "v-" + ANSWERS.get(verdict, verdict).replace(" ", "-")


def spread(texts: list[str]) -> str:
    """The first text, each number that differs in the others followed by its range; the texts apart
    if more differs.

    >>> spread(["30 of 100, best 0.90", "28 of 100, best 0.91"])
    '30 (28 to 30) of 100, best 0.90 (0.90 to 0.91)'
    """
    first, *others = texts
    if not others or all(other == first for other in others):
        return first
    if any(NUMBER.split(other) != NUMBER.split(first) for other in others):
        return "; ".join([first, *(f"another seed: {other}" for other in others)])
    between, columns = (
        NUMBER.split(first),
        zip(*(NUMBER.findall(text) for text in texts), strict=True),
    )
    shown = []
    for numbers in columns:
        low, high = min(numbers, key=float), max(numbers, key=float)
        shown.append(numbers[0] if float(low) == float(high) else f"{numbers[0]} ({low} to {high})")
    return between[0] + "".join(
        number + text for number, text in zip(shown, between[1:], strict=True)
    )


def escaped(text: str) -> str:
    """Text as it is, in Markdown."""
    return PUNCTUATION.sub(r"\\\1", text)


# ------------------------------------------------------------------------------ the top of the page


def by_figure(sources: Sources, paper: str) -> str:
    """One row a figure or table of a paper: what it says, what we find, the null, the verdicts, the
    image sets.
    """
    counted = best(row for rows_ in checked(sources).values() for row in rows_)
    lines = ["| In the paper | They say | We find | Baseline | Verdict |", "|---|---|---|---|---|"]
    for item in claims_page(sources.root)["figures"][paper]:
        mine = {name: counted[name] for name in item["claims"] if name in counted}
        chapters = {row.chapter: chapter_name(row.chapter) for row in mine.values()}
        links = ", ".join(f"[{said}](executed/{stem})" for stem, said in chapters.items())
        names = named([*mine])
        ends = dict.fromkeys(row.verdict for row in mine.values())
        chips = "; ".join(
            f"{chip(end)} ("
            + ", ".join(f"[{names[key]}](#claim-{key})" for key in mine if mine[key].verdict == end)
            + ")"
            for end in ends
        )
        sets = _sets([row.image_sets for row in mine.values()] or [1])
        picture = f"![What we show for {item['where']}]({small(item)})" if "picture" in item else ""
        found = f"{item['we_find']} ({links})"
        sized = f"{chips}; {sets}"
        lines.append(
            f"| {item['where']} {picture} | {item['they_say']} | {found} | {item['null_says']} |"
            f" {sized} |"
        )
    return "\n".join(lines)


def _sets(counts: list[int]) -> str:
    """Of claims on so many image sets each: "1 image set", "3 image sets", "1 to 3 image sets"."""
    least, most = min(counts), max(counts)
    return f"{'' if least == most else f'{least} to '}{most} image set{'s' if most > 1 else ''}"


def small(item: dict[str, str]) -> str:
    """The thumbnail of a row's picture, as write_thumbnails of recon_parts.py names it."""
    return f"{THUMBNAILS}/{item['picture'].replace('#', '-')}.png"


def headlines(sources: Sources) -> str:
    """Our own: the sentence, what was found, the null, the verdict; ReconError for one whose run
    was not replayed.
    """
    counted = best(row for rows_ in checked(sources).values() for row in rows_)
    lines = ["| Finding | Where | Verdict |", "|---|---|---|"]
    for name in claims_page(sources.root)["headlines"]:
        if name in counted:
            row = counted[name]
            if not row.replayed:
                raise ReconError(
                    f"the claim '{name}' rests on a run that is not replayed: it is no headline"
                )
            where = f"[{chapter_name(row.chapter)}](executed/{row.chapter})"
            lines.append(
                f"| {escaped(row.claim.sentence)} {_links([name])} | {where} |"
                f" {chip(row.verdict)} |"
            )
    return "\n".join(lines)


def chapter_name(stem: str) -> str:
    """
    >>> chapter_name("07-adversary"), chapter_name("b-gradients")
    ('Chapter 7', 'Appendix B')
    """
    return f"Chapter {int(stem[:2])}" if stem[0].isdigit() else f"Appendix {stem[0].upper()}"


def failed(sources: Sources) -> str:
    """What did not reproduce at the paper's size: each statement, its claims, and the reason as far
    as we know it.
    """
    found = checked(sources)
    counted = best(row for paper in PAPERS if paper != "ours" for row in found[paper])
    left = {name for name, row in counted.items() if row.verdict in (FAILED, STOPPING)}
    lines = ["| They say | What we find |", "|---|---|"]
    for item in claims_page(sources.root)["why"]:
        mine = [name for name in item["claims"] if name in left]
        left -= set(mine)
        if mine:
            lines.append(f"| {item['they_say']} {_links(mine)} | {item['we_find']} |")
    for name in sorted(left):
        lines.append(
            f"| {escaped(counted[name].claim.sentence)} {_links([name])} |"
            f" {escaped(counted[name].claim.ours)} |"
        )
    return (
        "\n".join(lines) if lines[2:] else "Everything that was run at the paper's size reproduced."
    )


def replies(sources: Sources) -> str:
    """What the authors could answer to every verdict on their papers other than "reproduced", and
    the run that would settle it; ReconError for a verdict without a reply.
    """
    found, said = checked(sources), claims_page(sources.root)["replies"]
    counted = best(row for paper in PAPERS if paper != "ours" for row in found[paper])
    open_ = [
        name for name, row in counted.items() if row.verdict not in ("reproduced", CHECK, "finding")
    ]
    if without := sorted(set(open_) - {name for item in said for name in item["claims"]}):
        raise ReconError(
            f"the verdict on '{without[0]}' has no reply of its authors in book/claims.yml"
        )
    lines = ["| They could answer | What would settle it |", "|---|---|"]
    for item in said:
        mine = [name for name in item["claims"] if name in open_]
        if mine:
            verdicts_of = ", ".join(dict.fromkeys(chip(counted[name].verdict) for name in mine))
            lines.append(
                f"| {verdicts_of} {item['they_could_answer']} {_links(mine)} |"
                f" {item['would_settle']} |"
            )
    return "\n".join(lines)


def named(names: list[str]) -> dict[str, str]:
    """Ids of claims -> what sets each apart from the others.

    >>> named(["affine-random-noise", "hidden-random-noise"])
    {'affine-random-noise': 'affine', 'hidden-random-noise': 'hidden'}
    >>> named(["hidden-distance"])
    {'hidden-distance': 'claim'}
    """
    words = {name: name.split("-") for name in names}
    common = set.intersection(*map(set, words.values())) if words else set()
    return {
        name: " ".join(word for word in parts if word not in common) or "claim"
        for name, parts in words.items()
    }


def _links(names: list[str]) -> str:
    return (
        "(" + ", ".join(f"[{words}](#claim-{name})" for name, words in named(names).items()) + ")"
    )


def verdicts(sources: Sources) -> str:
    """How many claims ended how; what was run twice counts once, at the paper's size if it was
    run.
    """
    found = checked(sources)
    counts = {
        paper: Counter(ANSWERS[row.verdict] for row in best(found[paper]).values())
        for paper in PAPERS
    }
    left_out = Counter(item["paper"] for item in claims_page(sources.root)["not_attempted"])
    lines = ["| | " + " | ".join(PAPERS.values()) + " |", "|---|" + "---:|" * len(PAPERS)]
    for kind in dict.fromkeys(ANSWERS.values()):
        numbers = " | ".join(str(counts[paper][kind]) for paper in PAPERS)
        lines.append(f"| {chip(kind)} | {numbers} |")
    lines.append(
        "| [not attempted](#not-attempted) | "
        + " | ".join(str(left_out[paper]) for paper in PAPERS)
        + " |"
    )
    return "\n".join(lines)


def ledger(sources: Sources) -> str:
    """How many sentences of both papers can be checked, and how many name claims."""
    path = sources.root / "book" / "ledger.yml"
    sentences = yaml.load(path.read_text("utf-8"), yaml.CSafeLoader)
    tested = sum("claim" in sentence for sentence in sentences)
    return (
        f"The {{download}}`ledger <ledger.yml>` has the {len(sentences)} sentences of both papers"
        f" that can be checked: {tested} name their claims, {len(sentences) - tested} say why they"
        " have none. {download}`Sources <sources.yml>` say where settings come from: a paper, a"
        " line of a repository, or us."
    )


def not_attempted(sources: Sources) -> str:
    """What the papers say and nobody ran here, with the reason."""
    lines = ["| Paper | Claim | Why not |", "|---|---|---|"]
    for item in claims_page(sources.root)["not_attempted"]:
        sentence = f"{item['sentence']} (§ {item['section']})"
        lines.append(f"| {PAPERS[item['paper']]} | {escaped(sentence)} | {item['why']} |")
    return "\n".join(lines)


def replays(sources: Sources) -> str:
    """What `recon replay` says of every kept result, a row each."""
    lines = ["| Result | Seed | Kept at | Replayed | Agrees |", "|---|---:|---|---|---|"]
    for row in read_replays(sources.root):
        agrees = (
            "yes" if row["agrees"] else "nothing to compare" if row["by"] == "nothing" else "**no**"
        )
        lines.append(
            f"| {row['name']} | {row['seed']} | `{row['kept_at']}` | {row['by']} | {agrees} |"
        )
    return "\n".join(lines)
