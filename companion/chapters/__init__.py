"""One folder a chapter, all alike:

    experiment.py   `Metrics`: what is measured, in words
                    `SIZES`: how large, one instance of a dataclass a profile
                    `compute(sizes, context) -> Outcome`
    story.py        `claims(metrics, sizes)`: each sentence with the paper's value, ours, the null
                    and a verdict
                    `FIGURES`: a function `plot_*(result)` for each figure of the page

A second experiment of a chapter has two such files with a name of its own. The folder's
`__init__.py` puts them together as `Experiment`s, which `registry` finds: there is no list to edit.
"""

import difflib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from pydantic import TypeAdapter, ValidationError

from companion.chapters.base import Experiment
from companion.store.results import Result, adapter, kept_arrays, load_result, read_json
from recon.errors import ReconError

PROFILES = ("smoke", "laptop", "paper")
ROOT = Path(__file__).resolve().parents[2]


@cache
def registry() -> Mapping[str, Experiment]:
    """Name -> experiment: every `Experiment` that a folder beside this file defines, in the order
    of the book.
    """
    found: dict[str, Experiment] = {}
    for module in iter_modules(__path__):
        if module.ispkg:
            members = vars(import_module(f"{__name__}.{module.name}"))
            found |= {
                value.name: value for value in members.values() if isinstance(value, Experiment)
            }
    return dict(sorted(found.items(), key=lambda item: item[1].chapter))


def experiment(name: str) -> Experiment:
    """By its name; ReconError for one that there is not."""
    if name not in registry():
        raise ReconError(f"unknown experiment '{name}': choose one of {', '.join(registry())}")
    return registry()[name]


def sizes_of(chosen: Experiment, profile: str, overrides: Mapping[str, Any]) -> Any:
    """The sizes of a profile, with some fields replaced; "attack.restarts" is a field of the field
    `attack`.

    Texts are read as the field's type. ReconError for an unknown profile, an unknown field (with
    the nearest one), or a value that does not fit.
    """
    if profile not in chosen.sizes:
        raise ReconError(f"unknown profile '{profile}': choose one of {', '.join(chosen.sizes)}")
    sizes = chosen.sizes[profile]
    for path, value in overrides.items():
        sizes = _with(sizes, path, value, chosen.name)
    return sizes


def _with(sizes: Any, path: str, value: object, whose: str) -> Any:
    """A copy of a dataclass with one field replaced."""
    name, _, inner = path.partition(".")
    known = [each.name for each in fields(sizes)]
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]
        raise ReconError(f"{whose} has no size '{name}': did you mean '{near}'?")
    old = getattr(sizes, name)
    if inner and not is_dataclass(old):
        raise ReconError(f"{name} of {whose} is a value without fields: set {name} itself")
    if inner:
        return replace(sizes, **{name: _with(old, inner, value, f"{name} of {whose}")})
    try:
        checked = TypeAdapter(type(sizes)).validate_python(
            {**{each: getattr(sizes, each) for each in known}, name: value}
        )
    except ValidationError as error:
        message = error.errors()[0]["msg"]
        raise ReconError(f"{name} of {whose} cannot be {value!r}: {message}") from error
    return replace(sizes, **{name: getattr(checked, name)})


def load(folder: Path, arrays: bool = True) -> Result[Any]:
    """A stored result of any experiment, its claims made by today's code; ReconError where it is
    missing or damaged.
    """
    name = read_json(folder / "result.json").get("experiment")
    chosen = registry().get(str(name))
    if chosen is None:
        raise ReconError(f"the result in {folder} is of an unknown experiment '{name}'")
    found = load_result(folder, chosen.metrics, arrays)
    return with_claims(found, chosen)


def with_claims(result: Result[Any], chosen: Experiment) -> Result[Any]:
    """The result with the sentences and verdicts of today: they are a function of its metrics and
    sizes.
    """
    try:
        claims = chosen.claims(result.metrics, sizes_at(result, chosen))
    except (AttributeError, KeyError) as error:
        raise ReconError(
            f"the result of {chosen.name} is of another version: {error}; run it again"
        ) from error
    return replace(result, made=replace(result.made, claims=claims))


def sizes_at(result: Result[Any], chosen: Experiment) -> Any:
    """The sizes that a result was made at; ReconError where they have other fields today."""
    kind: Any = type(next(iter(chosen.sizes.values())))
    try:
        return adapter(kind).validate_python(result.made.config)
    except ValidationError as error:
        raise ReconError(
            f"the result of {chosen.name} was made at sizes that there are no more: run it again"
        ) from error


def kept(name: str, seed: int = 0) -> Result[Any]:
    """The run at the paper's size that the book keeps, with the arrays that its figures need.

    ReconError, one sentence, for an unknown experiment, or where no run of this seed is kept.
    """
    if seed not in (seeds := kept_seeds(experiment(name).name)):
        there = f"only of seed {', '.join(map(str, seeds))}" if seeds else "of no seed"
        raise ReconError(f"the book keeps no run of {name} with seed {seed}, {there}")
    folder = kept_folder(name, seed)
    return replace(load(folder, arrays=False), arrays=kept_arrays(folder), kept=True)


def kept_folder(name: str, seed: int, root: Path = ROOT) -> Path:
    """Where the book keeps a run at the paper's size."""
    return root / "book" / "paper-size" / name / (f"seed-{seed}" if seed else "")


def kept_seeds(name: str) -> list[int]:
    """Seeds of the runs of an experiment that the book keeps at the paper's size."""
    folder = kept_folder(name, 0)
    others = sorted(int(path.name.removeprefix("seed-")) for path in folder.glob("seed-*"))
    return [0, *others] if (folder / "result.json").is_file() else others


def kept_sets(name: str) -> list[Result[Any]]:
    """The runs of an experiment that the book keeps at the paper's size, one an image set, in the
    order of their seeds.
    """
    return [kept(name, seed) for seed in kept_seeds(name)]
