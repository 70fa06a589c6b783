"""What is cited, archived and installed says the same of itself."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from pybtex.database import parse_file

from recon import __version__

ROOT = Path(__file__).resolve().parents[1]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


CITATION = yaml.safe_load(text("CITATION.cff"))
ARCHIVE = yaml.safe_load(text(".zenodo.json"))  # JSON is YAML


@pytest.mark.parametrize("folder", [".", "companion", "recon-audit"])
def test_distributions_have_one_version_and_ask_for_each_others(folder):
    project = tomllib.loads(text(f"{folder}/pyproject.toml"))["project"]
    asked = re.findall("'training-data-recon.*?==(.*?)'", str(project["dependencies"]))
    assert {project["version"], CITATION["version"], *asked} == {__version__}


def test_the_changelog_begins_with_this_version_and_its_date():
    newest = text("CHANGELOG.md").split("\n## ")[1]
    assert newest.startswith(f"{__version__} — {CITATION['date-released']}\n")


def test_the_entry_on_the_page_is_that_of_the_citation_file():
    shown = re.search(r"```bibtex\n(.*?)```", text("book/publish.md"), re.DOTALL)[1]
    fields = dict(re.findall(r"(\w+) += {(.*)}", shown))
    assert fields["title"] == CITATION["title"] == ARCHIVE["title"]
    assert f"{{{{{CITATION['authors'][0]['name']}}}}}" in fields["author"]
    assert CITATION["authors"] == ARCHIVE["creators"]
    assert fields["year"] == str(CITATION["date-released"].year)
    assert fields["note"].startswith(f"Version {__version__}, ")


@pytest.mark.parametrize(("key", "place"), [("runkel2024", 0), ("chen2022", 1)])
def test_both_papers_are_references_as_in_the_bibliography(key, place):
    paper = parse_file(str(ROOT / "book/references.bib")).entries[key].fields
    cited, archived = CITATION["references"][place], ARCHIVE["related_identifiers"][place]
    assert (cited["title"], str(cited["year"])) == (paper["title"], paper["year"])
    number = f"arXiv:{paper['eprint']}"
    assert cited["identifiers"][0]["value"] == archived["identifier"] == number
