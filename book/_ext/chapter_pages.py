"""Executed chapters as they are read: what is folded, what is left out, and what is told of every figure and page."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from sphinx.application import Sphinx

RUN_IT = "*Run this page:* `recon book {}` in a checkout of the project[, or download the notebook above]{{.screen}}."
#: {term}`shown <name>`, of which a page's head shows the words
ROLE = re.compile(r"\{[\w:]+\}`([^`<]+?)(?: <[^`>]*>)?`")
EXECUTED, PAPER_SIZE = "book/executed/", "book/paper-size"
DATA = {"cifar10": "CIFAR-10", "photos": "the bundled photographs"}


def lays_out(cell: NotebookNode) -> bool:
    """Whether a code cell only puts numbers into words, tables or pages: its code is left to the notebook.

    Those are the cells with the tag `lays-out`, but for the one that runs the experiment.
    """
    tags = cell.metadata.get("tags", [])
    tagged = "lays-out" in tags and "solution" not in tags
    return cell.cell_type == "code" and tagged and "recon.run(" not in cell.source


def stored_in(cell: NotebookNode) -> set[str]:
    """Names that a code cell gives to the page: assigned, imported, or defined at its top level."""
    tree = ast.parse(cell.source)
    found = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    found |= {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    found |= {n.name for n in ast.walk(tree) if isinstance(n, ast.ExceptHandler) and n.name}
    imports = (n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom))
    return found | {(each.asname or each.name).split(".")[0] for n in imports for each in n.names}


def used_in(cell: NotebookNode) -> set[str]:
    """Names that a code cell reads."""
    return {n.id for n in ast.walk(ast.parse(cell.source)) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def needed(nb: NotebookNode) -> list[NotebookNode]:
    """Of the cells that only lay numbers out, those that make a name which a shown cell reads: without them no reader
    could copy that cell and run it."""
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


def fold_imports(nb: NotebookNode) -> None:
    """The page's imports and its parameters, as one cell, folded under a title of its own (see _config.yml): without
    them no other cell can be copied and run."""
    parameters = [c for c in nb.cells if {"parameters", "injected-parameters"} & set(c.metadata.get("tags", []))]
    for cell in nb.cells:
        if cell.cell_type == "code" and "\nimport recon\n" in cell.source:
            cell.source = "\n\n".join([*(each.source for each in parameters[-1:]), cell.source])
            cell.metadata["tags"] = ["hide-input"]
            for each in parameters:
                each.metadata["tags"] = ["remove-cell"]
            return


def opening(nb: NotebookNode, name: str) -> str:
    """The paragraph of a chapter's first cell that begins with this word, as plain text; "" without one."""
    found = re.search(rf"\*\*{name}\.\*\* (.+?)(?:\n\n|$)", nb.cells[0].source, re.DOTALL)
    return re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(found[1].split())).replace("*", "") if found else ""


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
    head = "```{admonition} How this page was made\n:class: note dropdown\n\n| What | Value |\n|---|---|"
    return f"{head}\n{table}\n```"


# ----------------------------------------------------------------------------------------------------- captions

#: a name, and the run or the kept result that a chapter gives it
BINDING = re.compile(r'^(\w+) = ([\w.]+)\(\s*"([a-z-]+)"', re.MULTILINE)
#: the kept run where there is one, else this page's
CHOICE = re.compile(r"^(\w+) = (\w+)\[0\] if \2 else (\w+)$", re.MULTILINE)
CALL = re.compile(r"\((\w+)")
VARIES = re.compile(r"(?:each|against|over|to|of) n\b")


def runs_of(nb: NotebookNode, root: Path) -> dict[str, Path]:
    """By the chapter's names for them: the files of the results that its figures are drawn from."""
    found = {}
    for cell in nb.cells:
        for name, function, experiment in BINDING.findall(cell.source if cell.cell_type == "code" else ""):
            ours, paper = (root / folder / experiment / "result.json" for folder in (f"{EXECUTED}results", PAPER_SIZE))
            found[name] = paper if function != "recon.run" and paper.is_file() else ours
        for name, kept, own in CHOICE.findall(cell.source if cell.cell_type == "code" else ""):
            found[name] = found[kept] if PAPER_SIZE in found[kept].as_posix() else found[own]
    return {name: file for name, file in found.items() if file.is_file()}


def made(result: dict[str, Any], caption: str) -> str:
    """How many images, which draw, which profile, in words, from a result file's content.

    What the caption says of its seed itself is not said again; nor is n, where it says that n varies.
    """
    data, varies = result["data"], len(set(numbers(result["config"]))) > 1
    images = f"{'up to ' if varies else ''}{data['n']} training images (n)"
    words = [] if not data["n"] or VARIES.search(caption) else [f"{images} from {DATA.get(data['name'], data['name'])}"]
    words += [] if "seed" in caption.lower() else [f"seed {result['seed']}"]
    words += ["at the paper's size" if result["profile"] == "paper" else f"profile {result['profile']}"]
    said = ", ".join(words)
    return said[0].upper() + said[1:] + "."


def numbers(config: Any) -> Iterator[int]:
    """Every number of training images in an experiment's sizes.

    >>> sorted(set(numbers({"n_train": 5, "nets": [{"n_train": 5}, {"n_train": 9}], "ns": [20, 50], "n": 3})))
    [5, 9, 20, 50]
    """
    for name, value in config.items() if isinstance(config, dict) else ():
        if name in ("n_train", "n_trains", "ns"):
            yield from value if isinstance(value, list) else [value]
        for each in value if isinstance(value, list) else [value]:
            yield from numbers(each)


def drawn_from(cell: NotebookNode) -> bool:
    """Whether the cell's figure has a caption that leaves its sizes to this file."""
    has_caption = "caption" in cell.metadata.get("mystnb", {}).get("figure", {})
    return has_caption and "own-sizes" not in cell.metadata.get("tags", [])


def tell_sizes(nb: NotebookNode, root: Path) -> None:
    """At the end of every figure's caption: how many images, which seed and which profile, from its result file.

    Not where the cell's tag "own-sizes" says that the caption tells them itself, or that the figure depends on none.
    """
    runs = runs_of(nb, root)
    for cell in nb.cells:
        figure = cell.metadata.get("mystnb", {}).get("figure", {})
        drawn = [runs[name] for name in CALL.findall(cell.source) if name in runs] if drawn_from(cell) else []
        if drawn:
            said = made(json.loads(drawn[0].read_text(encoding="utf-8")), figure["caption"])
            figure["caption"] += f" [{said}]{{.recon-made}}"


def laid_out(app: Sphinx, docname: str, source: list[str]) -> None:
    """Before an executed chapter is read: plumbing taken out or folded, captions completed, its question in the page's
    head; at its end, how to run it and how it was made."""
    if docname.startswith(EXECUTED):
        nb = nbformat.reads(source[0], as_version=4)
        folded = needed(nb)
        for cell in filter(lays_out, nb.cells):
            cell.metadata.tags.append("hide-input" if cell in folded else "remove-input")
            if cell in folded:
                titles = {"code_prompt_show": "Code of this step", "code_prompt_hide": "Code of this step"}
                cell.metadata["mystnb"] = {**cell.metadata.get("mystnb", {}), **titles}
        if words := described(nb):
            nb.metadata["myst"] = {"html_meta": words}
        fold_imports(nb)
        fold_solutions(nb)
        tell_sizes(nb, Path(app.srcdir))
        foot = {"recon-stamp": stamp_table(nb), "recon-run-it": RUN_IT.format(docname.removeprefix(EXECUTED))}
        nb.cells = [cell for cell in nb.cells if cell.id not in foot]  # older pages hold the table themselves
        nb.cells += [nbformat.v4.new_markdown_cell(text, id=name) for name, text in foot.items() if text]
        source[0] = nbformat.writes(nb)
