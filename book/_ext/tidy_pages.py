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


#: label, icon, and address for a repository's address, its owner and name, a branch and a file
BUTTONS = (
    ("Source on GitHub", "fab fa-github", "{url}/blob/{branch}/{file}"),
    ("Open in Colab", "fas fa-cloud", "https://colab.research.google.com/github/{name}/blob/{branch}/{file}"),
    ("Open in Binder", "fas fa-rocket", "https://mybinder.org/v2/gh/{name}/{branch}?urlpath=lab/tree/{file}"),
)
EXECUTED = "book/executed/"


def links(repository: str, branch: str, pagename: str) -> list[dict]:
    """A page's buttons that lead to the repository; none where it has no address.

    A chapter leads to its notebook, which can be run; other pages have their source only.
    """
    if not repository:
        return []
    chapter = pagename.startswith(EXECUTED)
    file = f"notebooks/{pagename.removeprefix(EXECUTED)}.ipynb" if chapter else f"{pagename}.md"
    where = {"url": repository.rstrip("/"), "branch": branch, "file": file}
    where["name"] = "/".join(where["url"].split("/")[-2:])
    return [
        {"type": "link", "url": address.format(**where), "tooltip": label, "icon": icon, "label": label.lower()}
        for label, icon, address in (BUTTONS if chapter else BUTTONS[:1])
    ]


def add_links(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: object) -> None:
    """The buttons of `links`, from the one setting `repository` of _config.yml."""
    options = app.config.html_theme_options
    if doctree is not None and "header_buttons" in context:
        found = links(options.get("repository_url") or "", options.get("repository_branch") or "main", pagename)
        context["header_buttons"] += found


def setup(app: Sphinx) -> dict:
    """Last of all listeners: the themes add scripts in theirs."""
    app.connect("html-page-context", tidy, priority=1000)
    app.connect("html-page-context", add_links, priority=1001)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
