"""The reference pages: docstrings as they are typed, fields with their class, signatures as they
are written.
"""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path

import pytest

from companion.chapters import ROOT
from recon.training.kkt import Trained

sys.path.append(str(ROOT / "book" / "_ext"))

import reference_parts  # noqa: E402


@pytest.fixture(scope="module")
def page(site) -> str:
    pages = [
        site / "book" / f"{name}.html"
        for name in ("reference", "reference-attacks", "reference-tools")
    ]
    return "\n".join(each.read_text(encoding="utf-8") for each in pages)


@pytest.mark.slow
def test_the_page_has_every_module_and_docstrings_as_they_are_typed(page):
    for module in reference_parts.modules():
        assert page.count(f'id="{module.replace(".", "-").replace("_", "-")}"') == 1, module
    for name in (
        "recon.attacks.recover.recover",
        "recon.attacks.rgap.rgap",
        "recon.scoring.matching.target_decoy",
        "recon_audit.audit.audit",
    ):
        assert f'id="{name}"' in page, name
    assert "‖g(x)‖²" in page and "companion.chapters.linear" not in page


@pytest.mark.slow
def test_the_page_names_no_folder_and_no_address_of_the_machine_that_built_it(page):
    text = html.unescape(re.sub(r"<[^>]+>", "", page))
    assert (
        re.findall(
            r"\w*Path\([^)]*\)|0x[0-9a-f]{6,}|<(?:function|class|\w+ object)[^>]*>|~recon", text
        )
        == []
    )
    assert str(ROOT) not in text and str(Path.home()) not in text


@pytest.mark.parametrize(
    ("typed", "markup"),
    [
        ("λ_i ∇Φ(x_i) of |W| and *args", "λ\\_i ∇Φ(x\\_i) of \\|W\\| and \\*args"),
        ("`recover` as in `a_b`", "``recover`` as in ``a_b``"),
        (">>> f(1)\n2", ">>> f(1)\n2"),
        ("  x = 1\n  y = 2", "::\n\n     x = 1\n     y = 2"),
    ],
)
def test_docstrings_are_no_markup(typed, markup):
    lines = ["First.", "", *typed.split("\n")]
    reference_parts.plain(None, "function", "f", test_docstrings_are_no_markup, None, lines)
    assert "\n".join(lines) == f"First.\n\n{markup}\n"


def test_a_section_becomes_a_list_of_its_names():
    lines = [
        "A run.",
        "",
        "Attributes:",
        "    theta_init, theta_star (p,): weights, see",
        "        Haim et al.",
        "    log_loss: 2 · x_i.",
    ]
    reference_parts.plain(None, "class", "Trained", Trained, None, lines)
    items = [
        "- ``theta_init``, ``theta_star`` (p,): weights, see Haim et al.",
        "- ``log_loss``: 2 · x\\_i.",
    ]
    assert "\n".join(lines) == "A run.\n\n" + "\n".join(items) + "\n"
