"""Which code a result depends on: the modules its experiment imports, directly or not, and their hash.

Editing one chapter's code does not make the other chapters' results and pages stale.  Profiles are left out since a
result's key holds the config's values, and the experiments' registry since it only finds and stores.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from pathlib import Path

#: modules that show, store or publish results but do not compute them
NOT_COMPUTING = (
    *("plots", "publish.py", "runner.py", "html.py", "stamps.py", "cli.py", "results.py", "ledger.py", "sources.py"),
    *("files.py", "pages.py", "__init__.py", "experiments/__init__.py", "experiments/profiles.py"),
)
PACKAGE = Path(__file__).parents[1]


def imported(source: str) -> set[str]:
    """Modules of `recon` that a file or notebook cell imports, as dotted names without "recon.", at any depth."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "recon":
            base = node.module.removeprefix("recon").removeprefix(".")
            names |= {base} | {f"{base}.{alias.name}".strip(".") for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name.removeprefix("recon.") for alias in node.names if alias.name.startswith("recon.")}
    return names - {""}


def dependencies(modules: Iterable[str], package: Path = PACKAGE) -> list[Path]:
    """Files of the computing modules among `modules` (dotted, without "recon.") and all they import, sorted."""
    found: set[Path] = set()
    todo = list(modules)
    while todo:
        path = package / (todo.pop().replace(".", "/") + ".py")
        relative = path.relative_to(package)
        skipped = relative.as_posix() in NOT_COMPUTING or relative.parts[0] in NOT_COMPUTING
        if path in found or skipped or not path.is_file():
            continue
        found.add(path)
        todo += imported(path.read_text(encoding="utf-8"))
    return sorted(found)


def source_hash(modules: Iterable[str], package: Path = PACKAGE) -> str:
    """SHA-256 over what `modules` depend on, comments and docstrings removed; 16 digits."""
    digest = hashlib.sha256()
    for path in dependencies(modules, package):
        digest.update(path.relative_to(package).as_posix().encode())
        digest.update(code_only(path.read_text(encoding="utf-8")).encode())
    return digest.hexdigest()[:16]


def code_only(source: str) -> str:
    """The syntax tree without docstrings, as text that no version of Python words differently."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return _dump(tree)


def _dump(node: object) -> str:
    """Like `ast.dump` without empty fields: each Python adds some (3.12 `type_params`), and 3.13 leaves them out."""
    if isinstance(node, list):
        return f"[{', '.join(map(_dump, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    filled = [f"{name}={_dump(value)}" for name, value in ast.iter_fields(node) if value is not None and value != []]
    return f"{type(node).__name__}({', '.join(filled)})"
