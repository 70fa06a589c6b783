"""The answer of an audit: a verdict, which images, and the same as a page, as JSON and as JUnit's XML."""

from __future__ import annotations

import html
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from recon.auditing.card import card
from recon.auditing.verdict import CANNOT_TELL, INFERRED, LEAKS
from recon.store.browser import print_page
from recon.store.files import atomic_path

SCHEMA = "recon-audit/1"
FILES = ("report.html", "report.json")
PDF = "report.pdf"


@dataclass(frozen=True)
class Leaked:
    """A training image that is given away.

    image: its name · index: its row, None where neither may be told (`recon.auditing.aggregates`) · how: "separation",
    "rows", "decoreco" or "membership" · score: NCC of its reconstruction, or log-likelihood ratio (or share of images
    dominated, or multiplier) · probability: 1 − the estimated share of chance among training images that score as high.
    """

    image: str
    index: int | None
    how: str
    score: float
    probability: float


@dataclass(frozen=True)
class Report:
    """What `recon.audit` returns.

    verdict: "leaks", "not by these attacks" or "cannot tell", on images · membership: "inferred", "not by these
    attacks", "cannot tell", or None where it was not asked · lines: what came back, who can be named, the worst single
    image · leaked: which training images, most probable first · data: what report.json holds · page: the HTML · salt:
    of the hashes that stand for names in a report of aggregates only; it is in neither of them.
    """

    verdict: str
    membership: str | None
    lines: list[str]
    leaked: list[Leaked]
    data: dict[str, Any]
    page: str
    salt: str | None = None

    @property
    def sentence(self) -> str:
        """The three lines as one text."""
        return " ".join(self.lines)

    def __str__(self) -> str:
        return "\n".join([f"{self.verdict}: {self.lines[0]}", *self.lines[1:]])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(each.image)}</td><td>{each.how}</td><td>{each.score:.2f}</td>"
            f"<td>{each.probability:.0%}</td></tr>"
            for each in self.leaked[:10]
        )
        head = "<tr><th>image</th><th>how</th><th>score</th><th>probability</th></tr>"
        table = f"<table>{head}{rows}</table>" if rows else ""
        told = "".join(f"<li>{html.escape(line)}</li>" for line in self.lines)
        return f"<p><b>{html.escape(self.verdict)}</b></p><ol>{told}</ol>{table}"

    def to_json(self) -> str:
        """The text of report.json; see `schema`."""
        return json.dumps(self.data, indent=1) + "\n"

    def save(self, folder: str | Path, pdf: bool = False) -> Path:
        """Write report.html and report.json, and report.pdf if asked; returns the path of the page.  ReconError where
        they cannot be written, or where there is no Chromium to print with."""
        folder = Path(folder)
        for name, text in zip(FILES, (self.page, self.to_json()), strict=True):
            with atomic_path(folder / name) as temporary:
                temporary.write_text(text, encoding="utf-8")
        if pdf:
            self.print(folder / PDF)
        return folder / FILES[0]

    def print(self, path: str | Path) -> None:
        """Write the page as PDF; ReconError where there is no Chromium, or it fails."""
        print_page(self.page, Path(path))

    def model_card(self) -> str:
        """A section for a model card, numbers alone; see `recon.auditing.card`."""
        return card(self.data)

    def junit(self) -> str:
        """The same as a suite of JUnit: images and membership are a test each, failed for a leak, an error where the
        audit cannot tell."""
        outcomes = {"images": self.verdict} | ({} if self.membership is None else {"membership": self.membership})
        failed = sum(kind in (LEAKS, INFERRED) for kind in outcomes.values())
        errors = sum(kind == CANNOT_TELL for kind in outcomes.values())
        seconds = f"{self.data['seconds']:.2f}"
        suite = ElementTree.Element("testsuite", name="recon audit", tests=str(len(outcomes)), failures=str(failed))
        suite.set("errors", str(errors))
        suite.set("time", seconds)
        for name, kind in outcomes.items():
            case = ElementTree.SubElement(suite, "testcase", classname="recon.audit", name=name, time=seconds)
            if kind in (LEAKS, INFERRED):
                ElementTree.SubElement(case, "failure", type=kind, message=self.sentence)
            elif kind == CANNOT_TELL:
                ElementTree.SubElement(case, "error", type=kind, message=self.sentence)
        text = ElementTree.tostring(suite, encoding="unicode")
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def schema() -> dict[str, Any]:
    """JSON schema of report.json, for readers that want to check it."""
    path = Path(__file__).parent / "report.schema.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def as_data(leaked: list[Leaked]) -> list[dict[str, Any]]:
    """For JSON."""
    return [asdict(each) for each in leaked]
