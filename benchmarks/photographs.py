"""Other photographs of the pool among the nulls of kept runs: `python benchmarks/photographs.py
[NAME …]` adds them to every count that a kept result has, from its images and the number of its
candidates, and judges its claims anew. Nothing else of a result changes, but that the published
recipe's kept reconstructions are ranked anew, and that what no code reads any more goes.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch

from companion.chapters import ROOT, experiment, kept_folder, kept_seeds, sizes_at, with_claims
from companion.chapters.base import Context, Tensors
from companion.chapters.common import n_photographs, nulls_without_weights
from companion.chapters.decoreco.experiment_published import ranking_of
from companion.chapters.decoreco.story import similar_selected
from companion.chapters.reference_common import start_images
from companion.chapters.separation_common import counts, other_photographs
from companion.chapters.weights_leak.experiment_recipes import classified
from companion.chapters.weights_leak.experiment_size import best_of
from companion.store.kept import KEPT, kept_arrays, kept_reconstructions
from companion.store.record import Record, record
from companion.store.results import FIGURE, as_json, load_result, read_json
from recon.images.bundle import Bundle
from recon.images.registry import load_pool
from recon.scoring.matching import match_counts, padded, target_decoy
from recon.store.tensors import save_tensors

Rescored = Callable[[Record, Record, Context, Path], Record]
TABLE = ("matches", "null", "nulls", "best_null", "best_null_name", "excess", "competition")


def draws(images: Bundle, context: Context, m: int, shift: float = 0.0) -> Tensors:
    """The two nulls, as `recon.scoring.nulls.null_candidates` has them."""
    x = other_photographs(images, context, m) - shift
    return {"photographs": padded(x[:m], m), "photographs_2": padded(x[m : 2 * m], m)}


COUNTED: dict[tuple[int, ...], Record] = {}


def with_photographs(
    table: Record, images: Bundle, context: Context, m: int, shift: float = 0.0
) -> Record:
    """A table of matches of m candidates with two nulls more."""
    sets, place = draws(images, context, m, shift), (context.seed, len(images), m, int(2 * shift))
    train, mean = images.train - shift, images.mean + shift
    if place not in COUNTED:
        counted = {name: match_counts(x, train, mean, images.shape) for name, x in sets.items()}
        COUNTED[place] = record(counted)
    before = {name: row for name, row in table.nulls.items() if name not in (*sets, "others")}
    held = before.pop("held_out")
    nulls = {**before, **COUNTED[place], "held_out": held}
    best = {by: max(row[by] for row in nulls.values()) for by in held}
    whose = {by: next(name for name in nulls if nulls[name][by] == best[by]) for by in held}
    excess = {by: table.matches[by] - best[by] for by in held}
    made = {"nulls": nulls, "best_null": best, "best_null_name": whose, "excess": excess}
    return Record(table, **record(made), n_photographs=n_photographs(sets))


def recipe_arm(metrics: Record, sizes: Record, context: Context, folder: Path) -> Record:
    """The published recipe from noise, or from the partition; of noise our own search beside it."""
    images, runs = context.images(sizes.n_train), Record(reference=metrics.variants.reference)
    if metrics.variants.reference.start == "random":
        for name in ("pixels", "pixels then span"):
            runs[name] = Record(metrics.variants[name].only(*TABLE))
            mixtures = runs[name].nulls.mixtures
            assert mixtures == metrics.variants.reference.nulls.mixtures, "another number of them"
    variants = {name: with_photographs(arm, images, context, 1000) for name, arm in runs.items()}
    if metrics.variants.reference.start == "partition":
        x = start_images(context, images)
        nulls = variants["reference"].nulls
        counted = record(match_counts(x, images.train, images.mean, images.shape))
        arm = Record(variants["reference"], nulls={"start_photographs": counted, **nulls})
        variants["reference"] = with_photographs(arm, images, context, 1000)
        others = match_counts(x, images.held_out, images.mean, images.shape)
        print(f"    its starting photographs match {counted}, and of held-out images {others}")
    return Record(metrics.only("n_train", "reference_net"), variants=Record(variants))


def published(metrics: Record, sizes: Record, context: Context, folder: Path) -> Record:
    images = context.images(sizes.n_train)
    x_hat = kept_reconstructions(folder)[0]
    nulls = nulls_without_weights(context, images, sizes.width, len(x_hat))
    shown, rows = ranking_of(x_hat, images, context, nulls)
    arrays = rows | {"x_hat": x_hat, "x_train": images.train, "mean": images.mean}
    kept = kept_arrays(folder)
    if FIGURE + "first.rank" in kept:
        kept |= {FIGURE + name: array for name, array in similar_selected(arrays).items()}
        save_tensors(kept, folder / KEPT)
    arm = with_photographs(metrics.arm, images, context, len(x_hat))
    return Record(metrics, arm=arm, shown=shown)


def prior(metrics: Record, sizes: Record, context: Context, folder: Path) -> Record:
    images = context.images(sizes.n_train).at_side(sizes.side)
    m = 2 * metrics.rank
    public = draws(images, context, m)["photographs"]
    pair = record(target_decoy(public, images.train, images.held_out, 0.6))
    blends = {name: row for name, row in metrics.blends.items() if name != "others"}
    components, attacked = (
        with_photographs(table, images, context, m) for table in (metrics.components, metrics.found)
    )
    blends["photographs"] = pair
    return Record(metrics, components=components, found=attacked, blends=Record(blends))


def judged_by_all(table: Record) -> Record:
    """With the held-out images and the other photographs among its nulls, and the excess."""
    best = best_of(table.null, table.best_null, table.photographs)
    excess = Record({name: table.matches[name] - best[name] for name in best})
    return Record(table, best_null=best, excess=excess)


def cells(metrics: Record, sizes: Record, context: Context, folder: Path) -> Record:
    """Of separation: two candidates a direction, or as many as images."""

    @cache
    def images_of(n: int, recipe: bool) -> Bundle:
        return classified(context, n, 2)[0] if recipe else context.images(n)

    @cache
    def photographs(n: int, recipe: bool, m: int) -> Record:
        images = images_of(n, recipe)
        sets = draws(images, context, m)
        best = best_of(*(counts(x, images.train) for x in sets.values()))
        return Record(photographs=best, n_photographs=n_photographs(sets))

    return Record(
        metrics,
        cells=[
            judged_by_all(Record(cell, **photographs(n, "family" in cell, max(2 * cell.rank, n))))
            for cell in metrics.cells
            for n in (cell.n_train,)
        ],
    )


def separation(metrics: Record, sizes: Record, context: Context, folder: Path) -> Record:
    images = context.images(sizes.n_train)
    return with_photographs(metrics, images, context, 2 * metrics.rank)


def batches(metrics: Record, sizes: Record, context: Context, folder: Path) -> Record:
    rows = []
    for row in metrics.separated:
        data = context.dataset(row.n, row.n)
        images = Bundle.of(data, torch.device("cpu"), centred=False)
        rows.append(with_photographs(row, images, context, 2 * row.rank, 0.5))
    return Record(metrics, separated=rows)


def without_twin(metrics: Record, sizes: Record, context: Context, folder: Path) -> Record:
    """Nothing of today counts what was found of a set's twin."""
    return Record({name: value for name, value in metrics.items() if name != "twin"})


RESCORED: dict[str, Rescored] = {
    "counterfactual-sets": without_twin,
    "decoreco-random": recipe_arm,
    "decoreco-partition": recipe_arm,
    "decoreco-published": published,
    "decoreco-second": published,
    "separation-prior": prior,
    "separation-size": cells,
    "separation-recipes": cells,
    "leakage-batches": batches,
    "separation": separation,
}


def rescore(name: str, folder: Path, seed: int) -> None:
    """One kept result, in its place."""
    chosen = experiment(name)
    stored = load_result(folder, chosen.metrics, arrays=False)
    pool = load_pool(stored.made.data.name)
    assert pool.sha256 == stored.made.data.sha256, "other images"
    context = Context(pool, torch.device("cpu"), seed, None, None)  # type: ignore[arg-type]
    found = RESCORED[name](record(stored.metrics), sizes_at(stored, chosen), context, folder)
    result = with_claims(replace(stored, metrics=chosen.metrics(found)), chosen)
    before = {claim.id: claim.verdict for claim in stored.claims}
    for claim in result.claims:
        print(f"{name} {seed}: {claim.id}: {before.get(claim.id)} -> {claim.verdict}")
        print(f"    {claim.ours}\n    {claim.null}", flush=True)
    sha256 = read_json(folder / "result.json").get("arrays_sha256")
    (folder / "result.json").write_text(as_json(result, sha256), encoding="utf-8")


def main() -> None:
    """Those that are named, or all."""
    for name in sys.argv[1:] or RESCORED:
        for seed in kept_seeds(name):
            rescore(name, kept_folder(name, seed), seed)
        for folder in sorted((ROOT / "book" / "seeds" / name).glob("seed-*")):
            rescore(name, folder, int(folder.name.removeprefix("seed-")))


if __name__ == "__main__":
    main()
