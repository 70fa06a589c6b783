"""What a result depends on: its sizes, seed, device, images, and the code that computes it, definition by definition.

From an experiment's `compute` the hash follows every name that is used, in whatever module it is defined.  What is not
reached does not count, nor do docstrings, comments and the words of errors in what is.
"""

import ast
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

#: folder of the packages that are followed: the module, and beside it in a checkout what makes the book
ROOT = Path(__file__).parents[2]
PACKAGES = ("recon", "companion")
#: (module, name defined there); the name "" stands for all of the module
Name = tuple[str, str]


def result_key(experiment: str, sizes: Any, seed: int, device: str, data_sha256: str, code: str) -> str:
    """Hash of all that a result depends on, 16 digits.  device: the kind that computes · code: `code_hash`."""
    parts = [experiment, asdict(sizes), seed, device.split(":")[0], data_sha256, code]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def code_hash(names: Iterable[Name], root: Path = ROOT) -> str:
    """SHA-256 over every definition that `names` reach; 16 digits."""
    digest = hashlib.sha256()
    for module, name in sorted(reached(names, root)):
        digest.update(f"{module}\0{name}\0{_read(module, root).text(name)}\0".encode())
    return digest.hexdigest()[:16]


def reached(names: Iterable[Name], root: Path = ROOT) -> set[Name]:
    """All definitions of the packages that these use, directly or not, themselves included.  ValueError for a module
    that there is not; what is imported from elsewhere counts as nothing."""
    found: set[Name] = set()
    todo = list(names)
    if missing := [module for module, _ in todo if not _is_module(module, root) and module not in sys.modules]:
        raise ValueError(f"there is no module {missing[0]}")
    while todo:
        module, name = todo.pop()
        source = _read(module, root)
        if name not in source.definitions:
            todo += source.handed_on(name)
        elif (module, name) not in found:
            found.add((module, name))
            todo += [(module, STATEMENTS), *source.uses(name)]
    return found


def imported(source: str) -> list[Name]:
    """What a notebook's cells import from the packages."""
    return list(_imports(ast.parse(source)).values())


STATEMENTS = "<statements>"  # of a module, that happen when it is imported


class _Module:
    """One file: its top-level definitions by name, and what it imports from the packages."""

    def __init__(self, dotted: str, root: Path) -> None:
        self.dotted, self.root = dotted, root
        path = root / dotted.replace(".", "/")
        file = next((f for f in (path.with_suffix(".py"), path / "__init__.py") if f.is_file()), None)
        tree = ast.parse(file.read_text(encoding="utf-8") if file else "")
        _Silent().visit(tree)
        self.imports = _imports(tree)
        self.definitions: dict[str, list[ast.stmt]] = {}
        for node in tree.body:
            for name in _defines(node):
                self.definitions.setdefault(name, []).append(node)

    def text(self, name: str) -> str:
        """A definition, as no version of Python words it differently."""
        return "\n".join(_dump(node) for node in self.definitions[name])

    def uses(self, name: str) -> Iterator[Name]:
        """What a definition refers to, here or in other modules of the packages."""
        for node in self.definitions[name]:
            imports = {**self.imports, **_imports(node)}
            for inner in ast.walk(node):
                if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name):
                    target = _joined(imports.get(inner.value.id))
                    if target and _is_module(target, self.root):
                        yield target, inner.attr
                elif isinstance(inner, ast.Name) and inner.id in PACKAGES:  # recon.a.b.f after import recon.a.b
                    yield from (whole for local, whole in imports.items() if local.startswith(f"{inner.id}."))
                elif isinstance(inner, ast.Name):
                    found = imports.get(inner.id, (self.dotted, inner.id))
                    if not _is_module(_joined(found), self.root):
                        yield found

    def handed_on(self, name: str) -> list[Name]:
        """Where to look for what is asked of this module and not defined in it."""
        if name == "":
            return [(self.dotted, each) for each in self.definitions]
        if name in self.imports and self.imports[name] != (self.dotted, name):  # a package that imports its modules
            return [self.imports[name]]
        inner = f"{self.dotted}.{name}".strip(".")
        return [(inner, "")] if _is_module(inner, self.root) else []


@lru_cache(maxsize=1024)
def _read(dotted: str, root: Path) -> _Module:
    return _Module(dotted, root)


def _joined(name: Name | None) -> str:
    return ".".join(filter(None, name or ()))


@lru_cache(maxsize=4096)
def _is_module(dotted: str, root: Path) -> bool:
    path = root / dotted.replace(".", "/")
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def _imports(tree: ast.AST) -> dict[str, Name]:
    """Local name -> what it is in the package, for all imports within a node."""
    found: dict[str, Name] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in PACKAGES:
            found |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            whole = [alias for alias in node.names if alias.name.startswith(tuple(f"{each}." for each in PACKAGES))]
            found |= {alias.asname or alias.name: (alias.name, "") for alias in whole}
    return found


def _defines(node: ast.stmt) -> list[str]:
    """Names that a top-level statement defines; `STATEMENTS` for one that does something, none for idle ones."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return [inner.id for target in targets for inner in ast.walk(target) if isinstance(inner, ast.Name)]
    idle = isinstance(node, ast.Import | ast.ImportFrom | ast.Pass)
    typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    return [] if idle or typing_only else [STATEMENTS]


class _Silent(ast.NodeTransformer):
    """Takes away what is only said: docstrings, and the words of errors and of assertions."""

    def visit(self, node: ast.AST) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            node.exc = node.exc.func
        elif isinstance(node, ast.Assert):
            node.msg = None
        return node


def _dump(node: object) -> str:
    """Like `ast.dump` without empty fields: each Python adds some (3.12 `type_params`), and 3.13 leaves them out."""
    if isinstance(node, list):
        return f"[{', '.join(map(_dump, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    filled = [f"{name}={_dump(value)}" for name, value in ast.iter_fields(node) if value is not None and value != []]
    return f"{type(node).__name__}({', '.join(filled)})"
