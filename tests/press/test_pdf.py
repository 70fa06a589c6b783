"""The PDF edition: every page in order, formulas and pictures there, and one sentence where it cannot be made."""

from __future__ import annotations

import base64
import io
import shutil
import unicodedata

import pytest
from PIL import Image

from recon.errors import ReconError
from recon.press import pdf


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
            f"<div style='height: 3000px'></div><img loading='lazy' src='data:image/png;base64,{picture}'>"
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
    assert len(found.pages) >= 6 and sum(len(page.images) for page in found.pages) == 2


def test_without_chromium_it_is_one_sentence(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(ReconError, match="a PDF needs Chromium on the PATH"), pdf.chromium():
        pass
