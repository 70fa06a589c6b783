"""Which experiments would change with a definition or a module: read off the names in the code."""

import ast
from collections import defaultdict
from functools import cache

from companion.chapters import ROOT, entries
from recon.errors import ReconError

RUN = "companion.chapters.run.run"  # is part of every experiment


def experiments_that_use(place: str) -> list[str]:
    """Experiments whose code names a place, itself or through the definitions that it names.

    These may be more than those whose run comes there, and are never fewer.

    Args:
        place: recon.attacks.by_rgap, or a module or package, for any definition in it; ReconError
            for one that there is not.
    """
    named = _places()
    users = {user for user in named if f"{user}.".startswith(f"{place}.")}
    if not users:
        raise ReconError(f"there is no '{place}': give one such as recon.attacks.by_rgap")
    while more := {user for user in named if not named[user].isdisjoint(users)} - users:
        users |= more
    return [
        name
        for name, row in entries().items()
        if not users.isdisjoint({f"companion.chapters.{row.folder}.{name}", RUN})
    ]


@cache
def _places() -> dict[str, set[str]]:
    """Place -> those that it names: a module all that is in it; an import what is imported, and
    that a package's import of it; a definition what stands there and the module's statements that
    define nothing, MODULE.*. The `name` of an experiment is one of its definition's.
    """
    named = defaultdict[str, set[str]](set)
    for path in (*ROOT.glob("recon/**/*.py"), *ROOT.glob("companion/**/*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            names, defined = {f"{module}.*"}, set[str]()
            for node in ast.walk(statement):
                match node:
                    case ast.ImportFrom(source, aliases):
                        for alias in aliases:
                            place = f"{module}.{alias.asname or alias.name}"
                            named[module].add(place)
                            named[place].add(f"{source}.{alias.name}")
                            if f"{source}.".startswith(f"{module}."):
                                named[f"{source}.{alias.name}"].add(place)
                    case ast.Name(name, kind):
                        names.add(f"{module}.{name}")
                        if isinstance(kind, ast.Store):
                            defined.add(name)
                    case ast.keyword("name", ast.Constant(text)):
                        defined.add(str(text))
            if isinstance(statement, ast.FunctionDef | ast.ClassDef):
                defined = {statement.name}
            for name in defined or {"*"}:
                named[module].add(f"{module}.{name}")
                named[f"{module}.{name}"] |= names
    return named
