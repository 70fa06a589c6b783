"""Which experiments would change with a module, read off the imports."""

import ast
from functools import cache
from pathlib import Path

from companion.chapters import ROOT, entries
from recon.errors import ReconError


def experiments_that_import(module: str) -> list[str]:
    """Experiments whose chapter's folder imports a module of the repository, itself or through
    others, by a name such as recon.attacks.recover; ReconError for one that there is not.
    """
    if not _file(module).is_file():
        raise ReconError(f"there is no module '{module}': give one such as recon.attacks.recover")
    rows = entries().items()
    return [name for name, row in rows if module in _reach(f"companion.chapters.{row.folder}")]


@cache
def _reach(module: str) -> set[str]:
    """The modules that one imports, in turn."""
    reached: set[str] = set()
    todo = {module}
    while todo:
        name = todo.pop()
        reached.add(name)
        for node in ast.walk(ast.parse(_file(name).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                names = {f"{node.module}.{alias.name}" for alias in node.names}
                todo |= {other for other in names | {str(node.module)} if _file(other).is_file()}
        todo -= reached
    return reached


def _file(module: str) -> Path:
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
