"""Chapter 8: oracles for the counts, and the cells of the recipes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from companion.chapters.base import Context
from companion.chapters.separation_common import counts, is_true, other_photographs
from companion.chapters.tables import unpacked
from companion.chapters.weights_leak.experiment_recipes import (
    CHANGES,
    CHANNELS,
    KNOWN_FOR,
    MEAN,
    given,
    recipe_unit,
)
from companion.chapters.weights_leak.experiment_recipes import SIZES as RECIPE_SIZES
from companion.chapters.weights_leak.experiment_size import count_table, separation_counts
from companion.store.record import record
from recon.attacks.separation import FirstLayer, SeparationSettings, separate
from recon.images.pool import ImagePool
from recon.images.registry import load_pool
from recon.scoring.nulls import null_candidates
from recon.training.recipes import Recipe
from tests.records import bundle_of, replace

NCC = ("ncc_0.6", "ncc_0.7", "ncc_0.8")


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*size, seed=0):
    return torch.randn(*size, generator=seeded(seed))


def context(*shape, n=12):
    """A pool of n images whose index is 100, 101, …, and nothing else."""
    images = np.random.default_rng(0).integers(0, 256, (n, *shape), dtype=np.uint8)
    index, y = np.arange(100, 100 + n), np.arange(n) % 2
    pool = ImagePool("toy", images, y, y, index, np.full(n, "train"))
    return Context(pool, torch.device("cpu"), 0, Path(), None)


# --------------------------------------------------------------------------------------- the counts


def test_count_table():
    sets = bundle_of(normal(6, 40, seed=1), normal(9, 40, seed=3), normal(6, 40, seed=2), (40,))
    w1 = normal(8, 6, seed=4) @ sets.train
    # four training images, one of them blurred beyond 0.8; one held-out
    mixed = 0.75 * sets.train[3] + 0.66 * normal(40, seed=5) * sets.train[3].std()
    x_hat = torch.cat([sets.train[:3], mixed[None], sets.held_out[:1]])
    toy = context(1, 1, 40)
    table = count_table(x_hat, sets, w1, toy)
    assert table.matches.ncc_08 == 3 and table.matches.ncc_06 == 4
    assert table.null.ncc_08 == 1
    public, draws = other_photographs(sets, toy, 6), toy.stream("separation.nulls")
    sets_of_nulls = null_candidates(w1, sets.train, sets.init, public, 6, draws)
    assert table.n_photographs == 6
    for key in NCC:
        nulls = [counts(x, sets.train)[key] for x in sets_of_nulls.values()]
        assert table.best_null[key] == max(table.null[key], *nulls)
        assert table.excess[key] == table.matches[key] - table.best_null[key]


def sparse():
    """Six images of each kind with a Laplace distribution."""
    uniform = torch.rand(30, 600, generator=seeded(1)) - 0.5
    x = -uniform.sign() * torch.log1p(-2 * uniform.abs())
    return bundle_of(x[:6], x[12:], x[6:12], (600,))


def test_an_attack_and_its_table():
    """Sparse sources mixed, and found again."""
    sets = sparse()
    released = FirstLayer(normal(20, 6, seed=2) @ sets.train)
    settings = SeparationSettings(first_rank=None, restarts=2)
    toy = context(1, 1, 600)
    table = separation_counts(sets, released, toy, settings)
    found = separate(released, sets.shape, settings, toy.stream("separation.attack"))
    assert table.rank == len(found.sources) == 6
    assert table.matches.ncc_08 == 6 and table.null.ncc_06 == 0
    expected = count_table(found.x_hat, sets, released.w1, toy)
    assert table == {"rank": 6, **record(expected)}
    assert is_true(found.sources, sets.train, sets.init).all()


def test_of_a_known_start_only_the_difference_is_looked_at():
    """By the attack, and by the nulls: here the differences' rows are the images."""
    sets = sparse()
    start = 10 * normal(20, 600, seed=3)
    added = torch.cat([6 * sets.train, normal(14, 6, seed=2) @ sets.train])
    table = separation_counts(
        sets,
        FirstLayer(added + start, start),
        context(1, 1, 600),
        SeparationSettings(first_rank=None, restarts=2),
    )
    assert table.matches.ncc_08 == table.best_null.ncc_08 == 6


# --------------------------------------------------------------------------------- images and cells


def test_every_cell_is_a_recipe():
    for names in CHANGES.values():
        for change in names.values():
            assert Recipe(**change)
    assert set(KNOWN_FOR) <= set(CHANGES["decay"])


def photos():
    return Context(load_pool("photos"), torch.device("cpu"), 0, Path(), None)


def test_inputs_as_other_preprocessing_gives_them():
    """Raw pixels, less a half, and channels of mean 0 and deviation 1."""
    images = photos().images(6)
    pixels = images.pixels(images.train).flatten(1)
    for number in (0.0, 0.5):
        torch.testing.assert_close(given(images, number).train, pixels - number)
    normalised = given(images, CHANNELS)
    channels = normalised.train.unflatten(1, images.shape)
    assert channels.mean((0, 2, 3)).abs().max() < 1e-5
    torch.testing.assert_close(channels.std((0, 2, 3)), torch.ones(3))


def test_chapter_6_trains_on_these_inputs():
    sizes = replace(RECIPE_SIZES["smoke"], kkt_width=32)
    raw, centred = (unpacked(recipe_unit(sizes, photos(), f"inputs-{k}"))[0] for k in (0, 3))
    assert (raw.cell, centred.cell) == ("raw pixels", MEAN) and raw.added != centred.added
    assert centred.loss < 1e-3 and centred.erased == 0.0


# ------------------------------------------------------------------------- a training that diverges


def test_a_network_that_diverged_is_not_attacked(monkeypatch):
    sizes = replace(RECIPE_SIZES["smoke"], base=Recipe(width=16, steps=20))
    assert unpacked(recipe_unit(sizes, photos(), "decay-0"))
    monkeypatch.setitem(CHANGES["decay"], "SGD, decay 0", {"lr": 1e30})
    assert unpacked(recipe_unit(sizes, photos(), "decay-0")) == []
