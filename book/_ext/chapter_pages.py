"""Executed chapters as they are read: what is folded, what is left out, and what is told of every
figure and page.
"""

from __future__ import annotations

import ast
import re
from itertools import takewhile
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from sphinx.application import Sphinx
from strips import strip

RUN_IT = (
    "*Run this page:* `recon book {}` in a checkout of the project[, or download the notebook"
    " above]{{.screen}}."
)
#: {term}`shown <name>`, of which a page's head shows the words
ROLE = re.compile(r"\{[\w:]+\}`([^`<]+?)(?: <[^`>]*>)?`")
EXECUTED = "book/executed/"


def lays_out(cell: NotebookNode) -> bool:
    """Whether a code cell only puts numbers into words, tables or pages: its code is left to the
    notebook.

    Those are the cells with the tag `lays-out`, but for the one that runs the experiment.
    """
    tags = cell.metadata.get("tags", [])
    tagged = "lays-out" in tags and "solution" not in tags
    return cell.cell_type == "code" and tagged and "recon.run(" not in cell.source


def stored_in(cell: NotebookNode) -> set[str]:
    """Names that a code cell gives to the page: assigned, imported, or defined at its top level."""
    tree = ast.parse(cell.source)
    found = {
        n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    found |= {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    found |= {n.name for n in ast.walk(tree) if isinstance(n, ast.ExceptHandler) and n.name}
    imports = (n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom))
    return found | {(each.asname or each.name).split(".")[0] for n in imports for each in n.names}


def used_in(cell: NotebookNode) -> set[str]:
    """Names that a code cell reads."""
    return {
        n.id
        for n in ast.walk(ast.parse(cell.source))
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
    }


def needed(nb: NotebookNode) -> list[NotebookNode]:
    """Of the cells that only lay numbers out, those that make a name which a shown cell reads:
    without them no reader could copy that cell and run it.
    """
    shown = [cell for cell in nb.cells if cell.cell_type == "code" and not lays_out(cell)]
    wanted = set().union(*map(used_in, shown)) - set().union(*map(stored_in, shown))
    found: list[NotebookNode] = []
    for cell in reversed([cell for cell in nb.cells if lays_out(cell)]):
        if made := stored_in(cell) & wanted:
            found.append(cell)
            wanted = (wanted - made) | used_in(cell)
    return found


def fold_solutions(nb: NotebookNode) -> None:
    """Every cell with the tag "solution", code and output, folded under "Solution k"."""
    solutions = [cell for cell in nb.cells if "solution" in cell.metadata.get("tags", [])]
    for number, cell in enumerate(solutions, 1):
        cell.metadata["tags"] = ["hide-cell"]
        title = f"Solution {number}"
        cell.metadata["mystnb"] = {"code_prompt_show": title, "code_prompt_hide": title}


def draws(cell: NotebookNode) -> bool:
    """Whether a code cell shows a picture or an element of a page."""
    shown = (output.get("data", {}) for output in cell.get("outputs", []))
    return any({"image/png", "text/html"} & set(data) for data in shown)


def picture_first(nb: NotebookNode) -> None:
    """The page's picture, the cell with the tag `hero` or the first that draws, right under its
    answer; and the code that the page begins with, imports and parameters, in one fold at its foot
    (titled in _config.yml): without these no other cell can be copied and run.
    """
    drawn = [cell for cell in nb.cells if draws(cell)]
    answer = re.search(r"\*\*Answer\.\*\* .+?(?:\n\n|$)", nb.cells[0].source, re.DOTALL)
    if not drawn or answer is None:
        return
    tagged = [cell for cell in drawn if "hero" in cell.metadata.get("tags", [])]
    hero = (tagged or drawn)[0]
    title, *others = nb.cells
    code = [*takewhile(lambda cell: cell.cell_type == "code" and not draws(cell), others)]
    injected = any("injected-parameters" in cell.metadata.get("tags", []) for cell in code)
    sources = [
        cell.source
        for cell in code
        if not (injected and "parameters" in cell.metadata.get("tags", []))
    ]
    foot = nbformat.v4.new_code_cell("\n\n".join(sources), id="recon-imports")
    foot.metadata["tags"] = ["hide-input"]
    rest = nbformat.v4.new_markdown_cell(title.source[answer.end() :], id="recon-opening")
    title.source = title.source[: answer.end()]
    following = [cell for cell in others[len(code) :] if cell is not hero]
    nb.cells = [title, hero, *([rest] if rest.source else []), *following, foot]


def opening(nb: NotebookNode, name: str) -> str:
    """The paragraph of a chapter's first cell that begins with this word, as plain text; "" without
    one.
    """
    found = re.search(rf"\*\*{name}\.\*\* (.+?)(?:\n\n|$)", nb.cells[0].source, re.DOTALL)
    return (
        re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(found[1].split())).replace("*", "")
        if found
        else ""
    )


def described(nb: NotebookNode) -> dict[str, str]:
    """What search engines and messengers show of a chapter: its title, its question, its answer."""
    title = re.search(r"^# (.+)$", nb.cells[0].source, re.MULTILINE)
    question, answer = (ROLE.sub(r"\1", opening(nb, name)) for name in ("Question", "Answer"))
    found = {"description": question, "property=og:description": f"{question} {answer}"}
    return {"property=og:title": title[1] if title else "", **found} if question else {}


def stamp_table(nb: NotebookNode) -> str:
    """How a page was made, from the stamp in its metadata, folded; nothing without one."""
    stamp = nb.metadata.get("recon")
    if not stamp:
        return ""
    rows = {
        "Commit": f"`{stamp['commit']}`",
        "Profile": f"`{stamp['profile']}`",
        "Data": f"`{stamp['data']['name']}`, sha256 `{stamp['data']['sha256'][:16]}`",
        "Seed": stamp["seed"],
        "Device": stamp["device"],
        "Versions": ", ".join(f"{name} {number}" for name, number in stamp["versions"].items()),
        "Wall time": f"{stamp['seconds']:.0f} s, stored results reused",
        "Date": stamp["date"],
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    head = (
        "```{admonition} How this page was made\n:class: note dropdown\n\n| What | Value"
        " |\n|---|---|"
    )
    return f"{head}\n{table}\n```"


def laid_out(app: Sphinx, docname: str, source: list[str]) -> None:
    """Before an executed chapter is read: plumbing taken out or folded, its question in the page's
    head; at its end, how to run it and how it was made.
    """
    if docname.startswith(EXECUTED):
        nb = nbformat.reads(source[0], as_version=4)
        folded = needed(nb)
        for cell in filter(lays_out, nb.cells):
            cell.metadata.tags.append("hide-input" if cell in folded else "remove-input")
            if cell in folded:
                titles = {
                    "code_prompt_show": "Code of this step",
                    "code_prompt_hide": "Code of this step",
                }
                cell.metadata["mystnb"] = {**cell.metadata.get("mystnb", {}), **titles}
        if words := described(nb):
            nb.metadata["myst"] = {"html_meta": words}
        fold_solutions(nb)
        picture_first(nb)
        title, _, text = nb.cells[0].source.partition("\n")
        strip_of_page = strip(Path(app.srcdir), docname.removeprefix(EXECUTED))
        nb.cells[0].source = f"{title}\n\n{strip_of_page}\n{text}"
        foot = {
            "recon-stamp": stamp_table(nb),
            "recon-run-it": RUN_IT.format(docname.removeprefix(EXECUTED)),
        }
        # older pages hold the table themselves
        nb.cells = [cell for cell in nb.cells if cell.id not in foot]
        nb.cells += [
            nbformat.v4.new_markdown_cell(text, id=name) for name, text in foot.items() if text
        ]
        source[0] = nbformat.writes(nb)
