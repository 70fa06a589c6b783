"""One folder a chapter, all alike, and a row of experiments.yml for each of its experiments:

    experiment.py   `Metrics`: what is measured, in words
                    `SIZES`: how large, one instance of a dataclass a profile
                    `compute(sizes, context) -> Outcome`
    story.py        `claims(metrics, sizes)`: each sentence with the paper's value, ours, the null
                    and a verdict
                    `FIGURES`: a function `plot_*(result)` for each figure of the page

A second experiment of a chapter has two such files with a name of its own. The folder's
`__init__.py` puts them together as an `Experiment`, which is imported when it is asked for: what
lists experiments or claims reads the table alone, and loads no torch.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from companion.store.results import Result, adapter, load_result, read_json
from recon.errors import ReconError, one_reason

if TYPE_CHECKING:
    from companion.chapters.base import Experiment

PROFILES = ("smoke", "laptop", "paper")
ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("experiments.yml")


@dataclass(frozen=True)
class Entry:
    """A row of experiments.yml, which says what the fields are."""

    folder: str
    chapter: str
    summary: str
    cost: str
    section: str = ""
    paper_size: Mapping[str, Any] = field(default_factory=dict)

    def at_paper_size(self, config: Mapping[str, Any]) -> bool | None:
        """Whether the sizes of a result are the paper's, or those that it takes over; None where
        neither states any.
        """
        stated = self.paper_size.items()
        return all(config.get(name) == value for name, value in stated) if stated else None


@cache
def entries() -> Mapping[str, Entry]:
    """Name -> row of every experiment, in the order of the book."""
    rows = yaml.load(TABLE.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return {name: Entry(**row) for name, row in rows.items()}


def experiment(name: str) -> Experiment:
    """By its name, from the folder of its row; ReconError for one that there is not."""
    from companion.chapters.base import Experiment

    if name not in entries():
        raise ReconError(f"unknown experiment '{name}': choose one of {', '.join(entries())}")
    folder = import_module(f"{__name__}.{entries()[name].folder}")
    members = (value for value in vars(folder).values() if isinstance(value, Experiment))
    return next(value for value in members if value.name == name)


def sizes_of(chosen: Experiment, profile: str, overrides: Mapping[str, Any]) -> Any:
    """The sizes of a profile, with some fields replaced; "attack.restarts" is a field of the field
    `attack`.

    Texts are read as the field's type. ReconError for an unknown profile, an unknown field (with
    the nearest one), or a value that does not fit.
    """
    from companion.store.checkpoints import flatten_tree, unflatten_tree

    if profile not in chosen.sizes:
        raise ReconError(f"unknown profile '{profile}': choose one of {', '.join(chosen.sizes)}")
    sizes = chosen.sizes[profile]
    kind: Any = type(sizes)
    for path, value in overrides.items():
        place = path.replace(".", "/")
        fields = flatten_tree(asdict(sizes))
        if place not in fields:
            near = difflib.get_close_matches(place, fields, n=1, cutoff=0.0)[0].replace("/", ".")
            raise ReconError(f"{chosen.name} has no size '{path}': did you mean '{near}'?")
        with one_reason(f"{path} of {chosen.name} cannot be {value!r}"):
            sizes = adapter(kind).validate_python(unflatten_tree(fields | {place: value}))
    return sizes


def load(folder: Path, arrays: bool = True) -> Result[Any]:
    """A stored result of any experiment, its claims made by today's code; ReconError where it is
    missing or damaged.
    """
    name = str(read_json(folder / "result.json").get("experiment"))
    if name not in entries():
        raise ReconError(f"the result in {folder} is of an unknown experiment '{name}'")
    chosen = experiment(name)
    return with_claims(load_result(folder, chosen.metrics, arrays), chosen)


def with_claims(result: Result[Any], chosen: Experiment) -> Result[Any]:
    """The result with the sentences and verdicts of today: they are a function of its metrics and
    sizes.
    """
    with one_reason(f"the result of {chosen.name} is of another version, run it again"):
        claims = chosen.claims(result.metrics, sizes_at(result, chosen))
    return replace(result, made=replace(result.made, claims=claims))


def sizes_at(result: Result[Any], chosen: Experiment) -> Any:
    """The sizes that a result was made at; ReconError where they have other fields today."""
    kind: Any = type(next(iter(chosen.sizes.values())))
    with one_reason(f"the result of {chosen.name} was made at sizes that there are no more"):
        return adapter(kind).validate_python(result.made.config)


def kept(name: str, seed: int = 0) -> Result[Any]:
    """The run at the paper's size that the book keeps, with the arrays that its figures need.

    ReconError, one sentence, for an unknown experiment, or where no run of this seed is kept.
    """
    from companion.store.kept import kept_arrays

    if seed not in kept_seeds(experiment(name).name):
        raise ReconError(f"the book keeps no run of {name} with seed {seed}")
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
