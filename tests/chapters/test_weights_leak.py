"""Chapter 8: oracles for the counts, the cells of the recipes, verdicts that turn in both
directions.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from companion.chapters.base import Context
from companion.chapters.separation_common import counts, is_true
from companion.chapters.tables import packed, unpacked
from companion.chapters.weights_leak import story_recipes as figures
from companion.chapters.weights_leak.experiment_recipes import (
    CHANGES,
    KNOWN_FOR,
    recipe_of,
    recipe_unit,
)
from companion.chapters.weights_leak.experiment_recipes import SIZES as RECIPE_SIZES
from companion.chapters.weights_leak.experiment_recipes import Metrics as RecipeMetrics
from companion.chapters.weights_leak.experiment_recipes import compute as compute_recipes
from companion.chapters.weights_leak.experiment_size import SIZES as MAP_SIZES
from companion.chapters.weights_leak.experiment_size import Metrics as SizeMetrics
from companion.chapters.weights_leak.experiment_size import attacked, count_table
from companion.chapters.weights_leak.story_recipes import claims as recipe_claims
from companion.chapters.weights_leak.story_size import claims as size_claims
from companion.store.record import Record, record
from recon.attacks.separation import FirstLayer, SeparationSettings, separate
from recon.images.pool import ImagePool
from recon.images.registry import load_pool
from recon.scoring.nulls import null_candidates
from recon.training.recipes import Recipe
from tests.records import bundle_of, replace

NCC = ("ncc_06", "ncc_07", "ncc_08")


def bundle(train, held_out, others, shape):
    """Images without labels."""
    return bundle_of(train, others, held_out, shape)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*size, seed=0):
    return torch.randn(*size, generator=seeded(seed))


def context(n=12, seed=0):
    """A pool of n images whose index is 100, 101, …, and nothing else."""
    images = np.random.default_rng(0).integers(0, 256, (n, 3, 32, 32), dtype=np.uint8)
    index, y = np.arange(100, 100 + n), np.arange(n) % 2
    pool = ImagePool("toy", images, y, y, index, np.full(n, "train"))
    return Context(pool, torch.device("cpu"), seed, Path(), None)


# --------------------------------------------------------------------------------------- the counts


def test_count_table():
    sets = bundle(normal(6, 40, seed=1), normal(6, 40, seed=2), normal(9, 40, seed=3), (40,))
    w1 = normal(8, 6, seed=4) @ sets.train
    # four training images, one of them blurred beyond 0.8; one held-out
    mixed = 0.75 * sets.train[3] + 0.66 * normal(40, seed=5) * sets.train[3].std()
    x_hat = torch.cat([sets.train[:3], mixed[None], sets.held_out[:1]])
    table = count_table(x_hat, sets, w1, seeded(7))
    assert table.matches.ncc_08 == 3 and table.matches.ncc_06 == 4
    assert table.null.ncc_08 == 1
    sets_of_nulls = null_candidates(w1, sets.train, sets.init, 6, seeded(7))
    for key in NCC:
        each = {name: getattr(counts(x, sets.train), key) for name, x in sets_of_nulls.items()}
        null, best = getattr(table.null, key), getattr(table.best_null, key)
        assert best == max(null, *each.values())
        assert getattr(table.excess, key) == getattr(table.matches, key) - best


@pytest.mark.parametrize("name", ["rows", "held_out", "means", "span"])
def test_any_null_can_be_the_best(name):
    """Weights whose rows are the images; candidates that are held out; others whose mean is an
    image; a span of one.
    """
    sets = bundle(normal(4, 60, seed=1), normal(4, 60, seed=2), normal(9, 60, seed=3), (60,))
    w1, x_hat = normal(5, 60, seed=4), normal(8, 60, seed=5)
    if name == "rows":
        w1 = sets.train.clone()
    if name == "held_out":
        x_hat = torch.cat([sets.held_out, x_hat[4:]])
    if name == "means":
        sets = bundle(sets.train, sets.held_out, sets.train[:1].expand(9, -1), sets.shape)
    if name == "span":
        w1 = normal(5, 1, seed=6) @ sets.train[:1]
    table = count_table(x_hat, sets, w1, seeded())
    assert table.matches.ncc_07 == 0
    expected = 4 if name in ("rows", "held_out") else 1
    assert table.best_null.ncc_07 >= expected and table.excess.ncc_07 <= -expected
    assert (table.null.ncc_07 == 4) == (name == "held_out")


def test_as_many_nulls_as_candidates(monkeypatch):
    """Twice as many candidates as images get twice as many tries; so do the nulls."""
    asked = []
    real = null_candidates

    def watched(w1, train, others, m, generator):
        asked.append(m)
        return real(w1, train, others, m, generator)

    monkeypatch.setattr("companion.chapters.weights_leak.experiment_size.null_candidates", watched)
    sets = bundle(normal(4, 30, seed=1), normal(4, 30, seed=2), normal(5, 30, seed=3), (30,))
    for m in (2, 11):
        count_table(normal(m, 30, seed=4), sets, normal(5, 30, seed=5), seeded())
    assert asked == [4, 11]


def test_an_attack_and_its_table():
    """Sparse sources mixed, and found again."""
    uniform = torch.rand(30, 600, generator=seeded(1)) - 0.5
    x = -uniform.sign() * torch.log1p(-2 * uniform.abs())
    sets = bundle(x[:6], x[6:12], x[12:], (600,))
    released = FirstLayer(normal(20, 6, seed=2) @ sets.train)
    settings = SeparationSettings(first_rank=None, restarts=2)
    table = attacked(sets, released, context(), settings)
    found = separate(released, sets.shape, settings, context().stream("separation.attack"))
    assert table.rank == len(found.sources) == 6
    assert table.matches.ncc_08 == 6 and table.null.ncc_06 == 0
    expected = count_table(found.x_hat, sets, released.w1, context().stream("separation.nulls"))
    assert table == {"rank": 6, **record(expected)}
    assert is_true(found.sources, sets.train, sets.init).all()


def test_of_a_known_start_only_the_difference_is_looked_at():
    """By the attack, and by the nulls: here the differences' rows are the images."""
    uniform = torch.rand(30, 600, generator=seeded(1)) - 0.5
    x = -uniform.sign() * torch.log1p(-2 * uniform.abs())
    sets = bundle(x[:6], x[6:12], x[12:], (600,))
    start = 10 * normal(20, 600, seed=3)
    added = torch.cat([6 * sets.train, normal(14, 6, seed=2) @ sets.train])
    table = attacked(
        sets,
        FirstLayer(added + start, start),
        context(),
        SeparationSettings(first_rank=None, restarts=2),
    )
    assert table.matches.ncc_08 == table.best_null.ncc_08 == 6


# --------------------------------------------------------------------------------- images and cells


def test_every_cell_is_a_recipe():
    for family, names in CHANGES.items():
        for name, change in names.items():
            recipe = recipe_of(Recipe(steps=1500), family, name)
            assert recipe.steps == 1500 * change.get("steps", 1)
    assert set(KNOWN_FOR) <= set(CHANGES["decay"])


def test_packed_and_back():
    cells = chapter_8().cells
    tensors = packed(cells)
    assert tensors["json"].dtype == torch.uint8
    assert unpacked(tensors) == record(cells)
    odd = replace(cells[0], cell="ä × ½, σ", erased=None, loss=1e-300, test_accuracy=None)
    assert unpacked(packed(odd)) == record(odd)
    assert b'"ncc_0.7"' in bytes(tensors["json"].tolist())


# ------------------------------------------------------------------------------------------- claims


def ncc_row(n):
    return Record({"ncc_0.6": n, "ncc_0.7": n, "ncc_0.8": n})


def table_of(found, null=2, excess=None):
    row = {"matches": found, "null": 0, "best_null": null}
    row["excess"] = found - null if excess is None else excess
    return {"rank": 9, **{name: ncc_row(count) for name, count in row.items()}}


def size_cell(n, width, excess):
    return Record(**table_of(n, 1, excess), n_train=n, width=width, log_loss=-9.0)


def size_metrics(shares, width=100):
    cells = [
        size_cell(n, w, round(share * n) if w == width else 0)
        for w in (20, width)
        for n, share in zip((20, 100, 400), shares, strict=True)
    ]
    return SizeMetrics(n_train=400, cells=cells)


def said_of_size(shares):
    return {claim.id: claim for claim in size_claims(size_metrics(shares), MAP_SIZES["smoke"])}


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ((0.9, 0.8, 0.1), "finding"),
        ((0.3, 0.6, 0.1), "finding"),
        ((0.5, 0.4, 0.1), "not reproduced"),  # never more than half
        ((0.9, 0.8, 0.6), "not reproduced"),  # no end in sight
        ((0.1, 0.2, 0.9), "not reproduced"),
    ],
)
def test_size_has_an_end(shares, expected):
    assert said_of_size(shares)["separation-size"].verdict == expected


def cell(name, erased, found, family="decay", known="unknown", null=2):
    """The more is left of the start, the less is found; but not in those cells that the law leaves
    out.
    """
    left = 1 / (1 + found) if known == "unknown" and family != "task" else 0.5
    return Record(
        **table_of(found, null),
        family=family,
        cell=name,
        known=known,
        n_train=100,
        erased=erased,
        start_left=-left,
        added=1.0,
        loss=0.1,
        test_accuracy=0.5,
    )


def recipes(cells):
    return RecipeMetrics(n_train=100, cells=cells)


def chapter_8():
    cells = [
        cell("SGD, decay 0", 0.0, 3),
        cell("SGD, decay 0", 0.0, 60, known="known"),
        cell("SGD, decay 0", 0.0, 1, known="known up to 10 %"),
        cell("Adam, decay 0", 0.0, 0),
        cell("Adam, decay 0", 0.0, 2, known="known"),
        cell("SGD, decay 1e-3", 0.75, 0, known="known"),
        cell("SGD, decay 1e-2", 7.5, 80),
        cell("SGD, decay 5e-3", 3.0, 70),
        cell("SGD, decay 1e-3", 1.0, 9),
        cell("Adam, decay 1e-2", None, 40),
        cell("small start", 0.0, 90, family="start"),
        cell("base", 3.75, 0, family="task"),
    ]
    return recipes(cells)


def changed(name, found, known="unknown"):
    at = {(row.cell, row.known): row for row in chapter_8().cells}
    row = at[name, known]
    at[name, known] = replace(row, matches=ncc_row(found), excess=ncc_row(found - 2))
    return recipes(list(at.values()))


def only(wanted):
    return recipes([row for row in chapter_8().cells if wanted(row)])


def said(metrics):
    return {claim.id: claim for claim in recipe_claims(metrics, RECIPE_SIZES["smoke"])}


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        (chapter_8(), "finding"),
        (changed("SGD, decay 1e-2", 4), "not reproduced"),  # erased, and nothing found
        (changed("SGD, decay 5e-3", 4), "not reproduced"),  # at the edge, erased
        (changed("SGD, decay 0", 50), "not reproduced"),  # not erased, and found
        (changed("Adam, decay 0", 50), "not reproduced"),
        (changed("SGD, decay 1e-3", 90), "finding"),  # between the two: no rule
        (changed("Adam, decay 1e-2", 90), "finding"),  # not defined: no rule
        (only(lambda row: (row.erased or 0) < 3), "not reproduced"),  # none erased was run
    ],
)
def test_the_start_must_be_erased(metrics, expected):
    assert said(metrics)["leak-start-erased"].verdict == expected


def test_what_is_listed_where_the_start_is_erased_and_where_it_stands():
    claim = said(chapter_8())["leak-start-erased"]
    assert "where erased: 80, 70; where it stands: 3, 0 of 100" in claim.ours
    assert "left of the start: -1.00" in claim.ours
    assert "nan" in said(recipes(chapter_8().cells[:1]))["leak-start-erased"].ours


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        (chapter_8(), "finding"),
        (changed("SGD, decay 0", 4, "known"), "not reproduced"),
        (changed("Adam, decay 0", 80, "known"), "finding"),  # Adam does not decide
        (changed("SGD, decay 0", 80, "known up to 10 %"), "finding"),
        (only(lambda row: row.known == "unknown"), "not reproduced"),  # none was run
    ],
)
def test_a_known_start_is_enough_or_not(metrics, expected):
    assert said(metrics)["leak-known-start"].verdict == expected


# ------------------------------------------------------------------------- a training that diverges


def test_a_network_that_diverged_is_not_attacked(monkeypatch):
    sizes = replace(RECIPE_SIZES["smoke"], base=Recipe(width=16, steps=20))
    photos = Context(load_pool("photos"), torch.device("cpu"), 0, Path(), None)
    assert unpacked(recipe_unit(sizes, photos, "decay-0"))
    monkeypatch.setitem(CHANGES["decay"], "SGD, decay 0", {"lr": 1e30})
    assert unpacked(recipe_unit(sizes, photos, "decay-0")) == []


def test_a_cell_that_diverged_does_not_end_the_sweep():
    """Of two cells one diverged: the other has its row, and the name of the first is kept."""
    row = cell("SGD, decay 0.02", 7.5, 80)
    stored = {"decay-0": packed([]), "decay-1": packed([row])}
    sizes = replace(RECIPE_SIZES["smoke"], families=("decay",), limit=2)
    metrics = compute_recipes(
        sizes, replace(context(), sweep=lambda unit, stems, name: stored)
    ).metrics
    assert [each.cell for each in metrics.cells] == ["SGD, decay 0.02"] and metrics.diverged == [
        "decay/SGD, decay 0"
    ]


def test_what_is_drawn_of_several_sets_is_a_mark_a_network():
    """Of cells whose Σ is defined, from PyTorch's start, known exactly or not at all."""
    figure = figures.plot_erased(
        SimpleNamespace(metrics=chapter_8()), SimpleNamespace(metrics=chapter_8())
    )
    marks = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert sorted(len(line.get_xdata()) for line in marks) == [2, 2, 4, 8]
    plt.close(figure)


def test_a_defence_stands_once_and_under_its_name():
    row = cell("base", 3.75, 0, family="task")
    cells = [
        row,
        replace(row, cell="noise 1 on the weights", family="defence"),
        replace(row, cell="4 layers"),
    ]
    figure = figures.plot_defences(SimpleNamespace(metrics=recipes(cells)))
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == [
        "noise 1 on the weights",
        "base recipe",
    ]
    plt.close(figure)
