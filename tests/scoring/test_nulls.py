"""What costs nothing, on toy data with known answers; and the excess over the best of it."""

from __future__ import annotations

import pytest
import torch
from pydantic import TypeAdapter

from recon.errors import ReconError
from recon.scoring.matching import Counts, match_counts
from recon.scoring.nulls import NullTable, means, null_candidates, null_table

SHAPE = (3, 32, 32)
DIM = 3072
MEAN = torch.full((DIM,), 0.5)


def noise(n, seed):
    return torch.randn(n, DIM, generator=torch.Generator().manual_seed(seed))


def candidates(w1=None, train=None, others=None, m=12, **more):
    train = noise(6, 1) if train is None else train
    w1 = noise(5, 3) if w1 is None else w1
    others = noise(8, 2) if others is None else others
    photographs = more.pop("photographs", noise(20, 9))
    draws = torch.Generator().manual_seed(0)
    return null_candidates(w1, train, others, photographs, m, draws, **more)


def test_other_photographs_are_taken_as_they_are_twice_as_far_as_they_go():
    x = candidates(m=12)
    assert torch.equal(x["photographs"], noise(20, 9)[:12])
    assert torch.equal(x["photographs_2"][:8], noise(20, 9)[12:])
    assert not x["photographs_2"][8:].any()
    assert not candidates(photographs=noise(20, 9)[:0])["photographs"].any()


def test_span_without_a_basis_is_that_of_the_first_singular_vectors():
    """As many as there are training images, or the rank."""
    basis = torch.linalg.qr(noise(4, 7).mT).Q.mT
    w1 = torch.diag(torch.tensor([9.0, 5.0, 2.0, 1.0])) @ basis
    x = candidates(w1=w1, train=noise(2, 1))["span"]
    assert torch.linalg.matrix_rank(x) == 2
    torch.testing.assert_close(x @ basis[:2].mT @ basis[:2], x, rtol=0, atol=1e-4)
    assert torch.linalg.matrix_rank(candidates(w1=w1)["span"]) == 4


def test_rows_are_the_largest_with_both_signs():
    w1 = noise(5, 3) * torch.tensor([1.0, 5.0, 2.0, 4.0, 3.0])[:, None]
    expected = torch.stack([w1[1], -w1[1], w1[3], -w1[3], w1[4]])
    x = candidates(w1=w1, m=5)
    assert torch.equal(x["rows"], expected)
    assert len(x) == 7 and set(map(len, x.values())) == {5}


def test_means_of_all_of_classes_and_of_halves():
    others, labels = noise(7, 2), torch.tensor([0.0, 1.0] * 3 + [0.0])
    x = candidates(others=others, others_labels=labels, m=9)["means"]
    known = torch.stack([others.mean(0), others[0::2].mean(0), others[1::2].mean(0)])
    assert torch.allclose(x[0:6:2], known, atol=1e-6) and torch.equal(x[1:6:2], -x[0:6:2])
    weights = x[6] @ torch.linalg.pinv(others)  # half of seven is four
    assert torch.allclose(weights.sort().values, torch.tensor([0.0] * 3 + [0.25] * 4), atol=1e-4)
    assert not torch.equal(x[6], x[8])


@pytest.mark.parametrize("w1", [torch.zeros(5, DIM), torch.ones(5, DIM), torch.zeros(1, DIM)])
def test_degenerate_weights(w1):
    """Nothing to learn, no crash: all that is left of a net of zeros are the sets that do not use
    it.
    """
    train = noise(1, 1)
    sets = candidates(w1=w1, train=train)
    table = null_table(sets, train, noise(1, 4), MEAN, noise(2, 9), SHAPE)
    for name in ("span", "rows", "directions"):
        assert table.nulls[name] == Counts(0, 0, 0, 0, 0, 0)
        assert bool(sets[name].any()) == bool(w1.any())


def test_excess_is_matches_minus_the_best_null():
    train, held_out = noise(6, 1), noise(6, 4)
    sets = {"good": train[:2], "better": train[:4], "equal": train[2:], "bad": noise(6, 5)}
    x_hat = torch.cat([train[:5], held_out[:1]])
    table = null_table(sets, train, held_out, MEAN, x_hat, SHAPE)
    counts = {name: row.ncc_06 for name, row in table.nulls.items()}
    assert counts == {"good": 2, "better": 4, "equal": 4, "bad": 0, "held_out": 1}
    assert (table.best_null.ncc_06, table.best_null_name.ncc_06) == (4, "better")
    assert (table.matches.ncc_06, table.excess.ncc_06) == (5, 1)
    adapter = TypeAdapter(NullTable)
    assert adapter.validate_json(adapter.dump_json(table, by_alias=True)) == table
    # an attack that returns the wrong images
    swapped = null_table(sets, train, held_out, MEAN, held_out, SHAPE)
    assert swapped.best_null_name.ncc_06 == "held_out" and swapped.excess.ncc_06 == -6


def test_blur_of_few_training_images_scores_where_nothing_was_demixed():
    """The reason for all this: the nulls in the span beat held-out images by far, which look like
    no null at all.
    """
    train = noise(3, 1)
    sets = candidates(w1=noise(50, 5)[:, :3] @ train, train=train)
    table = null_table(sets, train, noise(3, 4), MEAN, noise(12, 6), SHAPE)
    assert table.nulls["span"].ncc_06 == table.nulls["mixtures"].ncc_06 == 3
    assert table.nulls["held_out"].ncc_06 == 0


def test_nulls_get_the_median_norm_of_the_training_images():
    """Neither the mean nor the largest: one loud image must not set the contrast of all nulls; nor
    does the null's own.
    """
    mean = torch.rand(DIM, generator=torch.Generator().manual_seed(3))
    train = noise(5, 1) * torch.tensor([0.1, 0.1, 0.1, 0.1, 50.0])[:, None]
    null = train[:4] / train[:4].norm(dim=1, keepdim=True)
    expected, loud = (
        match_counts(norm * null, train, mean, SHAPE)
        for norm in (train.norm(dim=1).median(), train[4].norm())
    )
    for scale in (1e-6, 7, 1e6):
        table = null_table({"same": scale * null}, train, noise(5, 4), mean, train, SHAPE)
        assert table.nulls["same"] == expected != loud
    table = null_table({"photographs": 1e-6 * null}, train, noise(5, 4), mean, train, SHAPE)
    assert table.nulls["photographs"] == match_counts(1e-6 * null, train, mean, SHAPE)
    assert table.nulls["photographs"] != expected
    # also where that norm is below 1
    table = null_table({"same": null}, 1e-3 * train, noise(5, 4), mean, train, SHAPE)
    assert table.nulls["same"].ncc_06 == 4


def test_means_of_one_image_and_of_none():
    image, nothing = noise(1, 2), torch.zeros(0, DIM)
    for x, expected in ((image, image.expand(3, -1)), (nothing, nothing)):
        assert torch.equal(means(x, 3, torch.Generator(), torch.zeros(len(x))), expected)


def test_mixtures_and_the_span_are_drawn_by_hand():
    """z X / √n and z w1 Bᵀ B, z the generator's normal numbers, the span's first."""
    train, w1, basis = noise(6, 1), noise(5, 3), torch.linalg.qr(noise(3, 7).mT).Q.mT
    x = candidates(w1=w1, train=train, basis=basis, m=4)
    generator = torch.Generator().manual_seed(0)
    span = torch.randn(4, 5, generator=generator) @ w1 @ basis.mT @ basis
    mixtures = torch.randn(4, 6, generator=generator) @ train / 6**0.5
    torch.testing.assert_close(x["span"], span, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(x["mixtures"], mixtures, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_directions_are_in_order_down_to_a_millionth_of_the_strongest(scale):
    basis = torch.linalg.qr(noise(4, 7).double().mT).Q.mT
    values = torch.tensor([1e-5, 1.0, 1e-7, 1e-9], dtype=torch.float64)
    x = candidates(w1=scale * values.diag() @ basis, m=8)["directions"]
    assert torch.equal(x[0:4:2], -x[1:4:2])
    cosines = (x[0:4:2] @ basis[[1, 0]].mT).abs()
    torch.testing.assert_close(cosines, torch.eye(2, dtype=x.dtype), rtol=0, atol=1e-6)
    assert not x[4:].any()  # the rest is padding


def test_every_set_is_scored_with_the_mean_that_was_subtracted():
    """SSIM compares x + mean."""
    mean = torch.rand(DIM, generator=torch.Generator().manual_seed(3))
    train, held_out = noise(4, 1) / 5, noise(4, 4) / 5
    x_hat = held_out + 0.8 * noise(4, 6) / 5
    table = null_table({"near": train + 0.8 * noise(4, 5) / 5}, train, held_out, mean, x_hat, SHAPE)
    assert table.nulls["held_out"] == match_counts(x_hat, held_out, mean, SHAPE)
    assert table.nulls["held_out"] != match_counts(x_hat, held_out, held_out.mean(0), SHAPE)
    assert table.matches == match_counts(x_hat, train, mean, SHAPE)


@pytest.mark.parametrize("change", [{"w1": torch.zeros(3, 5)}, {"m": 0}])
def test_what_nulls_refuse(change):
    with pytest.raises(ReconError):
        candidates(**change)
