"""The PDF edition: every page in order, formulas and pictures there, and one sentence where it cannot be made."""

from __future__ import annotations

import base64
import io
import shutil
import unicodedata

import pytest
from PIL import Image

from companion.chapters.leakage_rank.story import drawing
from companion.press import pdf
from recon.errors import ReconError

pytestmark = pytest.mark.slow


def test_pages_become_one_file_with_a_bookmark_each(tmp_path, browser):
    pypdf = pytest.importorskip("pypdf", reason="pypdf is not installed: make env")
    buffer = io.BytesIO()
    Image.effect_noise((64, 64), 50).save(buffer, format="PNG")
    picture = base64.b64encode(buffer.getvalue()).decode()
    for name in ("first", "second"):
        (tmp_path / f"{name}.html").write_text(
            f"<title>{name.title()} — the book</title><style>.claim p {{color: red}}</style><h1>{name}</h1>"
            f"<details><summary>more</summary><p>opened {name}</p></details>"
            f"<details class='claim'><summary>claim</summary><p>closed {name}</p></details>"
            f"<a href='#end'>down</a> <a href='second.html#end'>on</a> <a href='elsewhere.html'>out</a>"
            f"<div style='height: 3000px'></div><h2 id='end'>end</h2>"
            f"<img loading='lazy' src='data:image/png;base64,{picture}'>"
        )
    target = tmp_path / "book.pdf"
    tab = browser.new_page()
    pdf.join([tmp_path / "first.html", tmp_path / "second.html"], target, tab)
    tab.close()
    found = pypdf.PdfReader(target)
    assert [entry.title for entry in found.outline] == ["First", "Second"]
    text = "".join(page.extract_text() for page in found.pages)
    text = "".join(unicodedata.normalize("NFKC", text).split())  # a ligature is two letters
    assert text.index("openedfirst") < text.index("openedsecond") and "closed" not in text
    number = {page.indirect_reference.idnum: k for k, page in enumerate(found.pages)}
    ends = [number[found.named_destinations[f"/p{k}-end"].page.idnum] for k in (0, 1)]
    assert ends[0] < number[found.outline[1].page.idnum] <= ends[1]
    links = [each.get_object() for page in found.pages for each in page.get("/Annots", [])]
    assert not any("/A" in each for each in links)  # nothing leads out of the file
    led = [each.get("/Dest") for each in links]
    assert led.count(None) == 2 and set(led) >= {"/p0-end", "/p1-end"}  # "out", of either page, leads nowhere
    assert led[:2] == ["/p0-end", "/p1-end"]
    assert len(found.pages) >= 5 and sum(len(page.images) for page in found.pages) == 2


def test_an_element_is_printed_as_what_it_shows(tmp_path, browser):
    pypdf = pytest.importorskip("pypdf", reason="pypdf is not installed: make env")
    (tmp_path / "page.html").write_text(f"<title>Page</title><h1>Page</h1>{drawing()}")
    tab = browser.new_page()
    pdf.join([tmp_path / "page.html"], tmp_path / "book.pdf", tab)
    tab.close()
    (sheet,) = pypdf.PdfReader(tmp_path / "book.pdf").pages
    text = " ".join(unicodedata.normalize("NFKC", sheet.extract_text()).split())
    assert "On the web page one draws the image" in text and "mean squared error 0 to the last digit" in text
    assert "Draw" not in text and "Clear the drawing" not in text and len(sheet.images) == 3


def test_without_chromium_it_is_one_sentence(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(ReconError, match="a PDF needs Chromium on the PATH"), pdf.chromium():
        pass
