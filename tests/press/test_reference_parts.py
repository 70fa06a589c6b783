"""The reference pages: docstrings as they are typed, fields with their class, signatures as they
are written.
"""

from __future__ import annotations

import html
import re
import sys
from dataclasses import dataclass, field
from inspect import Parameter, signature
from pathlib import Path

import pytest
from sphinx.ext.autodoc import DataDocumenter

from companion.chapters import ROOT
from recon.attacks.recover import RecoverSettings
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


def entry(page: str, name: str) -> str:
    """What the page says of one public name, from its signature to the end of its own text, as one
    line.
    """
    found = re.search(rf'id="{re.escape(name)}">(.*?)(?=<dl class="py|</dl>)', page, re.DOTALL)
    assert found is not None, name
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", found[1])).split())


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
    assert "‖θ_1‖²" in page and "companion.chapters.linear" not in page


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
    assert "root : Path = ROOT" in entry(page, "recon.store.keys.code_hash")


@pytest.mark.slow
def test_the_page_lists_the_fields_of_a_dataclass_under_its_signature(page):
    said = entry(page, "recon.attacks.recover.RecoverSettings")
    assert "step_x : float = 0.02" in said and said.startswith("class RecoverSettings (")
    listed = re.search(
        r'id="recon\.attacks\.recover\.RecoverSettings">.*?</dt>\s*<dd>(.*?)</dd>', page, re.DOTALL
    )[1]
    items = re.findall(r"<li>.*?</li>", listed, re.DOTALL)
    first = [re.findall(r'<span class="pre">(\w+)</span></code>', item)[0] for item in items]
    assert first[:4] == ["m", "restarts", "steps", "init_scale"] and set(first) <= set(
        RecoverSettings.__annotations__
    )


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


FOLDER = Path("/somewhere/else")


@dataclass(frozen=True)
class Base:
    folder: Path = FOLDER
    rate: float = 3e-5
    scales: list[float] = field(default_factory=lambda: [0.5])


@dataclass(frozen=True, kw_only=True)
class Derived(Base):
    rate: float = 1e-2
    names: dict[str, int] = field(default_factory=dict, repr=False)
    must: int
    exact: float = field(default=0.5)


def test_defaults_of_a_dataclass_are_shown_as_they_are_written():
    def shown(owner):
        reference_parts.as_written(None, owner.__init__, True)
        found = signature(owner.__init__).parameters.values()
        return {
            each.name: each.default if each.default is Parameter.empty else repr(each.default)
            for each in found
        }

    empty = Parameter.empty
    base = {"folder": "FOLDER", "rate": "3e-05", "scales": "[0.5]"}
    assert shown(Base) == {"self": empty, **base}
    own = {"rate": "0.01", "names": "dict()", "must": empty, "exact": "0.5"}
    assert shown(Derived) == {"self": empty, **base, **own}
    assert Derived(must=1).folder == FOLDER  # what it does is as it was


def test_a_function_and_a_written_init_are_left_to_sphinx():
    class Plain:
        def __init__(self, folder: Path = FOLDER) -> None: ...

    for each in (Plain.__init__, test_docstrings_are_no_markup):
        reference_parts.as_written(None, each, True)
        assert not hasattr(each, "__signature__")


@pytest.mark.parametrize(
    ("value", "hidden"),
    [
        (("a", "b"), False),
        (FOLDER, True),
        ({"f": print}, True),
        ((int,), True),
        (list(range(40)), True),
    ],
)
def test_a_constant_has_its_value_where_it_reads_as_code(monkeypatch, value, hidden):
    monkeypatch.setattr(DataDocumenter, "should_suppress_value_header", lambda _: False)
    documenter = object.__new__(reference_parts.Data)
    documenter.object = value
    assert documenter.should_suppress_value_header() is hidden


def test_parameters_on_lines_of_their_own_are_no_list_of_definitions():
    parameter = '<dd><em class="sig-param"><span>{}</span></em>,</dd>\n'
    kept = "<dl>\n<dt>term</dt>\n<dd>meaning</dd>\n</dl>"
    context = {"body": f"(\n\n<dl>\n{parameter.format('x')}{parameter.format('y')}</dl>\n\n){kept}"}
    reference_parts.lines_of_signatures(None, "", "", context, None)
    assert "<dl>" not in context["body"].replace(kept, "") and kept in context["body"]
    assert re.findall(
        r'<span class="sig-line"><em class="sig-param"><span>(\w)<', context["body"]
    ) == ["x", "y"]
    reference_parts.lines_of_signatures(None, "", "", nothing := {}, None)
    assert nothing == {}
