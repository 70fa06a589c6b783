"""What costs nothing, on toy data with known answers; and the excess over the best of it."""

from __future__ import annotations

import pytest
import torch
from pydantic import TypeAdapter

from recon.errors import ReconError
from recon.scoring.matching import Counts, match_counts
from recon.scoring.nulls import NULLS, NullTable, clears, means, null_candidates, null_table

SHAPE = (3, 32, 32)
DIM = 3072


def noise(n, seed):
    return torch.randn(n, DIM, generator=torch.Generator().manual_seed(seed))


def candidates(w1=None, train=None, others=None, m=12, seed=0, **more):
    train = noise(6, 1) if train is None else train
    w1 = noise(5, 3) if w1 is None else w1
    others = noise(8, 2) if others is None else others
    return null_candidates(w1, train, others, m, torch.Generator().manual_seed(seed), **more)


def residual(x, rows):
    """Largest distance of x from the span of `rows`, relative to x."""
    basis = torch.linalg.qr(rows.double().mT).Q
    x = x.double()
    return ((x - x @ basis @ basis.mT).norm(dim=1) / x.norm(dim=1)).max().item()


def test_mixtures_are_gaussian_in_the_span_of_the_training_images():
    train = noise(6, 1)
    x = candidates(train=train, m=4000)["mixtures"]
    assert residual(x, train) < 1e-5
    assert torch.cdist(x, train).min() > 1.0  # none is a training image
    assert (x.abs().amax(1) > 0).all()
    variance = x.square().mean(0)
    expected = train.square().mean(0)  # of z X / √n: Σ_i X_i² / n in every pixel
    assert ((variance - expected).abs() / expected).mean() < 0.1


def test_span_has_the_covariance_of_w1_in_the_searched_span():
    basis = torch.linalg.qr(noise(3, 7).mT).Q.mT
    w1 = torch.diag(torch.tensor([10.0, 3.0, 1.0])) @ basis + noise(3, 8) / 1e3
    x = candidates(w1=w1, m=4000, basis=basis)["span"]
    assert residual(x, basis) < 1e-5
    spread = (x @ basis.mT).std(0)
    assert torch.allclose(spread, torch.tensor([10.0, 3.0, 1.0]), rtol=0.1)


def test_span_without_a_basis_is_that_of_the_first_singular_vectors():
    """As many as there are training images, or the rank."""
    w1 = torch.diag(torch.tensor([9.0, 5.0, 2.0, 1.0])) @ torch.linalg.qr(noise(4, 7).mT).Q.mT
    x = candidates(w1=w1, train=noise(2, 1))["span"]
    assert torch.linalg.matrix_rank(x) == 2
    assert residual(x, w1[:2]) < 1e-4
    assert torch.linalg.matrix_rank(candidates(w1=w1)["span"]) == 4


def test_rows_are_the_largest_with_both_signs():
    w1 = noise(5, 3) * torch.tensor([1.0, 5.0, 2.0, 4.0, 3.0])[:, None]
    expected = torch.stack([w1[1], -w1[1], w1[3], -w1[3], w1[4]])
    assert torch.equal(candidates(w1=w1, m=5)["rows"], expected)


def test_directions_are_orthonormal_in_order_with_both_signs():
    basis = torch.linalg.qr(noise(4, 7).mT).Q.mT
    x = candidates(w1=torch.diag(torch.tensor([2.0, 9.0, 5.0, 0.0])) @ basis, m=8)["directions"]
    assert torch.equal(x[0:6:2], -x[1:6:2])
    assert torch.allclose(x[0:6:2] @ x[0:6:2].mT, torch.eye(3), atol=1e-5)
    assert torch.allclose((x[0:6:2] @ basis[[1, 2, 0]].mT).abs(), torch.eye(3), atol=1e-5)
    assert not x[6:].any()  # rank 3: the rest is padding


def test_means_of_all_of_classes_and_of_halves():
    others, labels = noise(8, 2), torch.tensor([0.0, 1.0] * 4)
    x = candidates(others=others, others_labels=labels, m=9)["means"]
    known = torch.stack([others.mean(0), others[0::2].mean(0), others[1::2].mean(0)])
    assert torch.allclose(x[0:6:2], known, atol=1e-6) and torch.equal(x[1:6:2], -x[0:6:2])
    weights = x[6] @ torch.linalg.pinv(others)
    assert torch.allclose(weights.sort().values, torch.tensor([0.0] * 4 + [0.25] * 4), atol=1e-4)
    unlabelled = means(others, 3, torch.Generator().manual_seed(0))
    assert torch.equal(unlabelled[0], others.mean(0)) and not torch.equal(
        unlabelled[1], unlabelled[2]
    )


@pytest.mark.parametrize("m", [1, 7, 40])
def test_exactly_m_of_each(m):
    assert {name: x.shape for name, x in candidates(m=m).items()} == dict.fromkeys(NULLS, (m, DIM))


def test_the_generator_decides():
    one, same, other = candidates(seed=0), candidates(seed=0), candidates(seed=1)
    assert all(torch.equal(one[name], same[name]) for name in NULLS)
    drawn = {name for name in NULLS if not torch.equal(one[name], other[name])}
    assert drawn == {"span", "mixtures", "means"}


@pytest.mark.parametrize(
    "w1",
    [torch.zeros(5, DIM), torch.ones(5, DIM), torch.zeros(1, DIM)],
    ids=["zero", "constant", "one zero row"],
)
def test_degenerate_weights(w1):
    """Nothing to learn, no crash: all that is left of a net of zeros are the sets that do not use
    it.
    """
    for n in (1, 6):
        train, held_out = noise(n, 1), noise(n, 4)
        found = candidates(w1=w1, train=train)
        table = null_table(found, train, held_out, torch.full((DIM,), 0.5), noise(2, 9), SHAPE)
        for name in ("span", "rows", "directions"):
            assert table.nulls[name] == Counts(0, 0, 0, 0, 0, 0)
            assert bool(found[name].any()) == bool(w1.any())


def test_excess_is_matches_minus_the_best_null():
    train, held_out, mean = noise(6, 1), noise(6, 4), torch.full((DIM,), 0.5)
    sets = {"good": torch.cat([train[:2], noise(4, 9)]), "better": train[:4], "bad": noise(6, 5)}
    x_hat = torch.cat([train[:5], held_out[:1]])
    table = null_table(sets, train, held_out, mean, x_hat, SHAPE)
    assert table.matches == match_counts(x_hat, train, mean, SHAPE)
    assert {name: counts.ncc_06 for name, counts in table.nulls.items()} == {
        "good": 2,
        "better": 4,
        "bad": 0,
        "held_out": 1,
    }
    assert (table.best_null.ncc_06, table.best_null_name.ncc_06) == (4, "better")
    for label, excess in vars(table.excess).items():
        counts = {name: vars(found)[label] for name, found in table.nulls.items()}
        assert (
            vars(table.best_null)[label]
            == max(counts.values())
            == counts[vars(table.best_null_name)[label]]
        )
        assert excess == vars(table.matches)[label] - max(counts.values())
    assert table.excess.ncc_06 == 1
    assert (
        TypeAdapter(NullTable).validate_json(TypeAdapter(NullTable).dump_json(table, by_alias=True))
        == table
    )
    # an attack that returns the wrong images
    swapped = null_table(sets, train, held_out, mean, held_out, SHAPE)
    assert swapped.best_null_name.ncc_06 == "held_out" and swapped.excess.ncc_06 == -6


def test_contrast_of_a_null_does_not_matter():
    """Rows of w1 may be tiny or huge: SSIM sees them at the training images' contrast."""
    train, held_out, mean = noise(6, 1) / 10, noise(6, 4) / 10, torch.full((DIM,), 0.5)
    tables = [
        null_table({"same": c * train}, train, held_out, mean, held_out, SHAPE)
        for c in (1e-6, 1.0, 1e6)
    ]
    assert tables[0].nulls["same"] == tables[1].nulls["same"] == tables[2].nulls["same"]
    assert tables[0].nulls["same"].ssim_04 == 6


def test_blur_of_few_training_images_scores_where_nothing_was_demixed():
    """The reason for all this: the nulls in the span beat held-out images by far, which look like
    no null at all.
    """
    train, held_out, mean = noise(3, 1), noise(3, 4), torch.full((DIM,), 0.5)
    mixing = torch.randn(50, 3, generator=torch.Generator().manual_seed(5))
    table = null_table(
        candidates(w1=mixing @ train, train=train), train, held_out, mean, noise(12, 6), SHAPE
    )
    assert table.nulls["span"].ncc_06 == table.nulls["mixtures"].ncc_06 == 3
    assert table.nulls["held_out"].ncc_06 == 0


def test_clearing_a_null_asks_for_more_than_chance():
    assert clears(30, 14) and clears(5, 0)
    assert not clears(4, 0) and not clears(20, 14) and not clears(14, 30) and not clears(0, 0)


def test_bad_shapes():
    with pytest.raises(ReconError, match="rows of one length"):
        candidates(w1=torch.zeros(3, 5))
    with pytest.raises(ReconError, match="rows of one length"):
        candidates(m=0)


def test_of_equal_nulls_the_first_is_named():
    train, held_out, mean = noise(4, 1), noise(4, 4), torch.full((DIM,), 0.5)
    table = null_table(
        {"one": train[:2], "two": train[2:]}, train, held_out, mean, held_out[:2], SHAPE
    )
    assert [table.nulls[name].ncc_06 for name in ("one", "two", "held_out")] == [2, 2, 2]
    assert table.best_null_name.ncc_06 == "one"


def test_other_shapes():
    generator = torch.Generator().manual_seed(0)
    train, held_out, x = (torch.rand(5, 128, generator=generator) - 0.5 for _ in range(3))
    table = null_table(
        {"some": train[:3]}, train, held_out, torch.full((128,), 0.5), train, (2, 8, 8)
    )
    assert (
        table.matches.ssim_04 == 5
        and table.best_null.ncc_channel_06 == 3
        and table.excess.ncc_08 == 2
    )
    with pytest.raises(ReconError, match="128 numbers"):
        null_table({"some": x}, train, held_out, torch.full((128,), 0.5), train, (1, 8, 8))


def test_nulls_get_the_median_norm_of_the_training_images():
    """Neither the mean nor the largest: one loud image must not set the contrast of all nulls."""
    mean = torch.rand(DIM, generator=torch.Generator().manual_seed(3))
    train = noise(5, 1) * torch.tensor([0.1, 0.1, 0.1, 0.1, 50.0])[:, None]
    null = train[:4] / train[:4].norm(dim=1, keepdim=True)
    table = null_table({"same": 7 * null}, train, noise(5, 4), mean, train, SHAPE)
    expected, loud = (
        match_counts(norm * null, train, mean, SHAPE)
        for norm in (train.norm(dim=1).median(), train[4].norm())
    )
    assert table.nulls["same"] == expected != loud


def test_every_set_is_shown_with_the_mean_that_was_subtracted():
    """SSIM compares x + mean: of the nulls, and of what is compared with held-out images, no other
    mean is added.
    """
    mean = torch.rand(DIM, generator=torch.Generator().manual_seed(3))
    train, held_out = noise(4, 1) / 5, noise(4, 4) / 5
    blurred = {"near": train + 0.8 * noise(4, 5) / 5}
    x_hat = held_out + 0.8 * noise(4, 6) / 5
    table = null_table(blurred, train, held_out, mean, x_hat, SHAPE)
    stretched = train.norm(dim=1).median() * torch.nn.functional.normalize(blurred["near"], dim=1)
    assert table.nulls["near"] == match_counts(stretched, train, mean, SHAPE)
    assert table.nulls["near"] != match_counts(stretched, train, blurred["near"].mean(0), SHAPE)
    assert table.nulls["held_out"] == match_counts(x_hat, held_out, mean, SHAPE)
    assert table.nulls["held_out"] != match_counts(x_hat, held_out, held_out.mean(0), SHAPE)


def test_half_of_an_odd_number_is_rounded_up():
    others = noise(7, 2)
    weights = means(others, 2, torch.Generator().manual_seed(0))[1] @ torch.linalg.pinv(others)
    assert torch.allclose(weights.sort().values, torch.tensor([0.0] * 3 + [0.25] * 4), atol=1e-4)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_directions_are_those_above_a_millionth_of_the_strongest(scale):
    basis = torch.linalg.qr(noise(4, 7).double().mT).Q.mT
    w1 = scale * torch.diag(torch.tensor([1.0, 1e-5, 1e-7, 1e-9], dtype=torch.float64)) @ basis
    x = candidates(w1=w1, m=8)["directions"]
    assert x[:4].any(1).all() and not x[4:].any()
    torch.testing.assert_close(
        (x[[0, 2]] @ basis[:2].mT).abs(), torch.eye(2, dtype=torch.float64), rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("labels", [None, "own"])
def test_means_of_one_image_and_of_none(labels):
    one, none = noise(1, 2), torch.zeros(0, DIM)
    for x, expected in ((one, one.expand(3, -1)), (none, none)):
        own = None if labels is None else torch.zeros(len(x))
        assert torch.equal(means(x, 3, torch.Generator().manual_seed(0), own), expected)
    assert not candidates(others=none)["means"].any() and candidates(others=none)[
        "means"
    ].shape == (12, DIM)


def test_mixtures_and_the_span_are_drawn_by_hand():
    """z X / √n and z w1 Bᵀ B, z the generator's normal numbers, the span's first."""
    train, w1, basis = noise(6, 1), noise(5, 3), torch.linalg.qr(noise(3, 7).mT).Q.mT
    found = candidates(w1=w1, train=train, basis=basis, m=4)
    own = torch.Generator().manual_seed(0)
    z, other = torch.randn(4, 5, generator=own), torch.randn(4, 6, generator=own)
    torch.testing.assert_close(found["span"], z @ w1 @ basis.mT @ basis, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found["mixtures"], other @ train / 6**0.5, rtol=1e-4, atol=1e-4)
