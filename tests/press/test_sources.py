"""Settings that are taken over have a source: their numbers stand in it, and its words in the
paper.
"""

import re
from pathlib import Path
from pkgutil import resolve_name

import pytest
import yaml

from companion.chapters import entries

BOOK = Path(__file__).resolve().parents[2] / "book"
SOURCES = yaml.safe_load((BOOK / "sources.yml").read_text("utf-8"))
EXPERIMENTS = SOURCES["experiments"]
NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?")
FILE = re.compile(r"[^,]+, ([\w-]+/[\w-]+)@([0-9a-f]{8}):[^:]+:\d+: .+")
TAKEN_OVER = [(resolve_name(name), said) for name, said in SOURCES["presets"].items()]
for name, entry in entries().items():
    TAKEN_OVER += [(size, EXPERIMENTS[name][field]) for field, size in entry.paper_size.items()]


@pytest.mark.parametrize(("value", "said"), TAKEN_OVER)
def test_what_is_taken_over_stands_in_its_source(value, said):
    for number in filter(None, map(float, NUMBER.findall(repr(value)))):
        near = (pytest.approx(number, rel=1e-5) == float(at) for at in NUMBER.findall(said))
        assert said.startswith("ours") or any(near)


def test_a_source_is_words_of_a_paper_or_a_line_of_a_repository_in_the_bibliography():
    assert {name for name, entry in entries().items() if entry.section} <= set(EXPERIMENTS)
    ledger, bib = ((BOOK / name).read_text("utf-8") for name in ("ledger.yml", "references.bib"))
    said = [text for settings in EXPERIMENTS.values() for text in settings.values()]
    for text in {text for text in [*said, *SOURCES["presets"].values()] if text[:4] != "ours"}:
        repository, quotes = FILE.fullmatch(text), re.findall("“(.+?)”", text)
        assert all(part in bib for part in repository.groups()) if repository else quotes, text
        assert all(quote.replace("\\", "\\\\") in ledger for quote in quotes), text
