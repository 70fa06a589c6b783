"""Begin a run at the paper's size with the cells that the book keeps of it, so that `recon run`
does the missing ones alone:

    python benchmarks/resume_kept.py NAME SEED OUT
    recon run NAME --profile paper --data cifar10 --device cpu --seed SEED --out OUT

Every kept cell becomes the checkpoint of its unit, with its trace. For `separation-recipes` and
`heads`; of the latter the first cell is done again, since its features are kept in 8 bits.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from companion.chapters import kept_folder, registry
from companion.chapters.heads.experiment import SIZES as HEADS
from companion.chapters.tables import packed
from companion.chapters.weights_leak.experiment_recipes import CHANGES, KNOWN
from companion.chapters.weights_leak.experiment_recipes import SIZES as RECIPES
from companion.store.kept import kept_arrays
from companion.store.record import Record, record
from companion.store.results import TRACE, Result, load_result, result_key, traces
from recon.images.registry import load_pool
from recon.store.tensors import save_tensors

#: fields that a cell has today
RECIPE = "family cell known n_train start_left added erased loss test_accuracy rank"
RECIPE += " matches null best_null excess"
HEAD = "backbone n_train width classes recipe start test_accuracy rank matches null span_null"
HEAD += " public_null projected_null certified certified_true span filter margin fast_ica"
Units = Iterator[tuple[str, str, list[Record]]]


def recipes(stored: Result) -> Units:
    """Unit of today, unit at that time, rows; none of a network that diverged."""
    for family in set(CHANGES) - {"inputs"}:
        for number, name in enumerate(CHANGES[family]):
            cells = [c for c in stored.metrics.cells if c.cell == name and c.known in KNOWN]
            rows = [Record(cell.only(*RECIPE.split()), family=family) for cell in cells]
            before = cells[0].family if cells else family
            yield f"{family}-{number}", f"{before}-{PLACES.get(name, number)}", rows


#: where cells of another family had been
PLACES = {"base": 6, "flips": 7, "shifts": 8, "flips and shifts": 9} | {
    name: number + offset
    for number, name in enumerate(list(CHANGES["defence"])[4:])
    for offset in [1 if number < 4 else 3]
}


def heads(stored: Result) -> Units:
    """The same; a cell is known by its place in the sizes of that time."""
    first, cells = 0, list(map(record, HEADS["paper"].cells))
    for number, cell in enumerate(map(record, stored.made.config["cells"])):
        rows = stored.metrics.cells[first : first + len(cell.starts)]
        first += len(cell.starts)
        if number and cell in cells:
            rows = [row.only(*HEAD.split()) for row in rows]
            yield f"cell-{cells.index(cell)}", f"cell-{number}", rows


def main(name: str, seed: str, out: str) -> None:
    book, chosen = kept_folder(name, int(seed)), registry()[name]
    stored = replace(load_result(book, Record, arrays=False), arrays=kept_arrays(book))
    units, sizes, label = {
        "separation-recipes": (recipes, RECIPES, "recipes"),
        "heads": (heads, HEADS, "heads"),
    }[name]
    pool = load_pool("cifar10")
    key = result_key(name, chosen.version, sizes["paper"], int(seed), "cpu", pool.sha256)
    folder = Path(out) / name / f"checkpoint-{key}" / label
    for unit, old, rows in units(stored):
        trace = {
            TRACE + row.removeprefix(f"{old}: "): numbers
            for row, numbers in traces(stored.arrays).items()
            if row.startswith(f"{old}: ")
        }
        save_tensors({**packed(rows), **trace}, folder / f"{unit}.safetensors")
        print(unit, old, [row.get("cell", row.get("recipe")) for row in rows], len(trace))


if __name__ == "__main__":
    main(*sys.argv[1:])
