"""Repairs of what Jupyter Book and its themes put on every page; tests/test_browser.py checks the result."""

from __future__ import annotations

from sphinx.application import Sphinx


def tidy(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: object) -> None:
    """Before a page is written: each script once, none of Thebe's, and roles that ARIA still knows."""
    once: dict = {}
    for script in context.get("script_files", []):
        # Sphinx registers inline scripts twice, and a second `const` is a syntax error in the reader's console.
        text = script.attributes.get("body") or str(script.filename)
        if "thebe" not in text.lower():  # kernels are not offered; its script names a host outside
            once.setdefault(text, script)
    context["script_files"] = list(once.values())
    if "body" in context:  # a bibliography is a role=list, whose children must be list items
        context["body"] = context["body"].replace('role="doc-biblioentry"', 'role="listitem"')


def setup(app: Sphinx) -> dict:
    """Last of all listeners: the themes add scripts in theirs."""
    app.connect("html-page-context", tidy, priority=1000)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
