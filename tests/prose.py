"""The sentences of the book's pages, and what the prose rules count in them.

    python tests/prose.py [FILE …]        the sentences that break a rule, of notebooks and Markdown pages

A sentence has at most two numbers and one negation, names what it speaks of, and is about images:
no history. Numbers of figures, tables, sections, chapters, years and names are names, and so is a
formula; what stands in code, in tables, headings, directives and HTML is no sentence.
"""  # noqa: E501

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BANNED = re.compile(
    r"what costs nothing|takes? no attack|\btheirs\b|\bthe (?:latter|former)\b|\bthe ones?"
    r" (?:that|which)\b",
    re.IGNORECASE,
)
DIARY = re.compile(
    r"\bearlier editions?\b|\b(?:first|second|third|this|an?)"
    r" edition\b|\breview(?:s|er|ers|ed)?\b|\bwas recorded\b"
    r"|\bfor an hour\b|\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}\b",
    re.IGNORECASE,
)
NEGATION = re.compile(
    r"\b(?:not|no|nor|never|nobody|none|nothing|neither|cannot|nowhere)\b|n['’]t\b", re.IGNORECASE
)
#: numbers that are names, or that only say where
NAMES = re.compile(
    r"\b(?:figs?|figures?|tables?|chapters?|appendix|appendices|eqs?|equations?|sections?|theorems?|propositions?|steps?"
    r"|exercises?|layers?|class|seeds?|claim|level|run|row)\.? ?"
    r"\(?[0-9A-Z]+(?:[.–-]\d+)*[a-z]?\)?(?:(?:, | and | to )\d+[a-z]?\b)*"
    r"|§+ ?[\dA-Z.]+(?:(?:, | and )[\dA-Z.]+)*|\(\d+\)|\b(?:19|20)\d\d\b|\b\d+ ?[×x] ?\d+(?: ?[×x]"
    r" ?\d+)*\b"
    r"|\b[A-Za-z]+[-‑]?\d+[\w-]*\b|\b\d+-(?:bit|nearest)\b|\bfloat\d+|\bL-?BFGS\b|\d+(?:st|nd|rd|th)\b|\b[0-9]+[DdW]\b",
    re.IGNORECASE,
)
NUMBER = re.compile(r"(?<![\w.])[-−+]?\d[\d,  ]*(?:\.\d+)?(?:e[-−+]?\d+)?|(?<![\w.\d])\.\d+")
WORD_NUMBERS = re.compile(r"\b(?:half|twice)\b")


@dataclass(frozen=True)
class Sentence:
    """A sentence and the file that it stands in."""

    text: str
    file: str

    def faults(self) -> list[str]:
        """What is wrong with it, one text a rule."""
        plain = NAMES.sub(" ", self.text)
        numbers = NUMBER.findall(plain)
        found = [f"{len(numbers)} numbers"] if len(numbers) > 2 else []
        negations = NEGATION.findall(
            re.sub(r"\bneither\b(.*?)\bnor\b", r"no \1", self.text, flags=re.IGNORECASE)
        )
        found += [f"{len(negations)} negations"] if len(negations) > 1 else []
        found += [f"banned: {match[0]}" for match in BANNED.finditer(self.text)]
        return found + [f"history: {match[0]}" for match in DIARY.finditer(self.text)]


#: directives that hold no prose
SILENT = re.compile(r"math|code|raw|eval-rst|include|toctree|bibliography|recon|mermaid|bibtex")
FENCE = re.compile(r"^ *(`{3,}|~{3,}|:{3,}) *(\{([\w:-]+)\})?(.*)$")


def unfenced(lines: list[str]) -> Iterator[str]:
    """Lines without code and without the fences of directives, whose content is prose but for
    `SILENT` ones.

    >>> list(unfenced(["a", "```{note}", "b", "```", "```python", "c", "```", "d"]))
    ['a', '', 'b', '', '', '', 'd']
    """
    open_: list[tuple[str, bool]] = []  # fences, and whether what is inside is silent
    for line in lines:
        silent = any(each for _, each in open_)
        found = FENCE.match(line)
        if (
            found
            and open_
            and not found[2]
            and not found[4].strip()
            and found[1].startswith(open_[-1][0])
        ):
            open_.pop()
        elif found and not silent:
            open_.append((found[1], not found[2] or bool(SILENT.match(found[3]))))
        elif not silent:
            yield line
            continue
        else:
            continue
        yield ""


def plain(markdown: str) -> str:
    """Markdown as it is read: prose alone, in paragraphs.

    >>> plain("# Title\\n\\nIt has $n=3$ images, see {numref}`fig-a`.\\n\\n| a | b |\\n|---|---|\\n| 1 | 2 |")
    'It has X images, see Fig.'
    """  # noqa: E501
    text = re.sub(
        r"<style.*?</style>|<script.*?</script>|<!--.*?-->", " ", markdown, flags=re.DOTALL
    )
    text = "\n".join(unfenced(text.splitlines()))
    text = re.sub(r"\{%.*?%\}|\{#.*?#\}", "", text, flags=re.DOTALL)
    text = re.sub(r"^:[\w-]+:.*$|^\(.*\)=$|^\|.*$|^#.*$|^---.*$", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"\$\$.*?\$\$", " X ", text, flags=re.DOTALL)
    text = re.sub(r"(?<![\\$])\$(?!\$)[^$\n]+\$", "X", text)
    text = re.sub(r"\{(?:numref|ref|eq|prf:ref)\}`[^`]*`", "Fig", text)
    text = re.sub(r"\{cite[:\w]*\}`[^`]*`", "", text)
    text = re.sub(r"\{[\w:-]+\}`([^`<]+?)(?: <[^`>]*>)?`", r"\1", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)(?:\{[^}]*\})?", r"\1", text)
    text = re.sub(r"`[^`\n]*`", "X", text)
    text = re.sub(r"<[^>]+>", " ", text)
    text = re.sub(r"\{\{.*?\}\}", " 7 ", text, flags=re.DOTALL)  # a number that the build fills in
    text = re.sub(r"[*_]{1,3}(?=\S)|(?<=\S)[*_]{1,3}", "", text)
    paragraphs = re.split(r"\n\s*\n|\n(?=\s*(?:[-*+]|\d+\.) )", text)
    return "\n".join(
        filter(
            None,
            (" ".join(re.sub(r"^\s*(?:[-*+]|\d+\.) ", "", each).split()) for each in paragraphs),
        )
    )


def sentences(text: str, file: str = "") -> Iterator[Sentence]:
    """Of plain text.

    >>> [s.text for s in sentences("One of 3. And Fig. 2 shows it (p. 4)! Yes.")]
    ['One of 3.', 'And Fig. 2 shows it (p. 4)!', 'Yes.']
    """
    for paragraph in text.splitlines():
        kept = re.sub(
            r"\b(Figs?|Eqs?|vs|e\.g|i\.e|cf|al|p|pp|No|App|approx|Sec|St)\.", r"\1․", paragraph
        )
        for each in re.split(r"(?<=[.!?:;])[\"”’)*_]* +(?=[\"“(*_]*[A-ZΑ-ΩÀ-Þ0-9])", kept):
            if each.strip():
                yield Sentence(each.strip().replace("․", "."), file)


def of_page(path: Path) -> Iterator[Sentence]:
    """Of a Markdown page, or of a notebook: text, captions, and the Markdown that it displays."""
    name = path.name
    if path.suffix != ".ipynb":
        yield from sentences(
            plain(
                re.sub(r"\A---\n.*?\n---\n", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
            ),
            name,
        )
        return
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield from sentences(plain(source), name)
            continue
        figure = cell["metadata"].get("mystnb", {}).get("figure", {})
        yield from sentences(plain(figure.get("caption", "")), name)
        for output in cell.get("outputs", []):
            yield from sentences(
                plain("".join(output.get("data", {}).get("text/markdown", ""))), name
            )


def words(path: Path) -> int:
    """Words of a page's prose and captions, without code, tables and solutions."""
    return sum(len(sentence.text.split()) for sentence in of_page(path))


def pages() -> list[Path]:
    """Every page that is written by hand, and every executed chapter; not the page of the rules'
    history.
    """
    prose = [
        page
        for page in sorted((ROOT / "book").glob("*.md"))
        if page.stem not in ("changes", "bibliography")
    ]
    return [
        *prose,
        ROOT / "README.md",
        *sorted((ROOT / "notebooks").glob("*.ipynb")),
        *sorted((ROOT / "book/executed").glob("*.ipynb")),
    ]


def main() -> int:
    """Exit code 1 where a sentence breaks a rule."""
    found = 0
    for path in map(Path, sys.argv[1:]) if sys.argv[1:] else pages():
        for sentence in of_page(path):
            if faults := sentence.faults():
                found += 1
                print(f"{path.name}: {', '.join(faults)}: {sentence.text}")
        print(f"{path.name}: {words(path)} words", file=sys.stderr)
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
