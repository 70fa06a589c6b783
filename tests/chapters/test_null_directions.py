"""Blind directions: exactly blind, exactly within black and white, blind at every training step."""

from __future__ import annotations

import pytest
import torch
from scipy.optimize import minimize

from companion.chapters.candidates.kkt_sets import Points, split
from companion.chapters.candidates.null_directions import EDGE, room, seen_rows, toward
from recon.errors import ReconError
from recon.nets.mlp import three_layer
from recon.training.kkt import KKTSettings, train_to_kkt

F64 = torch.float64


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


@pytest.fixture
def case():
    network = three_layer(8, 40)
    theta_init = network.flatten(network.init(torch.Generator().manual_seed(0), "small", F64))
    pixels = torch.rand(6, 40, generator=torch.Generator().manual_seed(1), dtype=F64)
    pixels[0, :3] = torch.tensor([0.0, 1.0, EDGE / 2])
    x = pixels - pixels.mean(0)
    seen = seen_rows(network.unflatten(theta_init)["w1"], x)
    reach = room(pixels)
    return network, theta_init, x, pixels, seen, reach


def test_seen_rows_span_the_start_and_the_images(case):
    network, theta_init, x, _, seen, _ = case
    assert seen.shape == (14, 40)
    torch.testing.assert_close(seen @ seen.mT, torch.eye(14, dtype=F64))
    w1 = network.unflatten(theta_init)["w1"]
    for rows in (w1, x):
        torch.testing.assert_close((rows @ seen.mT) @ seen, rows)
    with pytest.raises(ReconError, match="no blind direction"):
        seen_rows(torch.ones(30, 40), torch.ones(10, 40))


def test_what_is_found_is_blind_and_within_reach(case):
    _, _, _, pixels, seen, reach = case
    assert (reach[0, :3] == 0).all() and torch.equal(reach, reach.clamp(0, 0.5))
    v = toward(3 * reach * drawn(6, 40, seed=2).sign(), reach, seen, 200)
    assert (v @ seen.mT).abs().max() < 1e-13
    assert (v.abs() <= reach + 1e-15).all() and (v[0, :3] == 0).all()
    assert ((pixels + v >= 0) & (pixels + v <= 1) & (pixels - v >= 0) & (pixels - v <= 1)).all()
    assert (v.norm(dim=1) > 0.4 * reach.norm(dim=1)).all()


def test_with_hardly_more_free_pixels_than_constraints_it_is_exactly_blind():
    """An image of mostly black and white pixels: few directions are left of it, or none, and
    rounding is no excuse.
    """
    seen = torch.linalg.qr(drawn(600, 200, seed=4)).Q.mT
    reach = 0.5 * torch.ones(3, 600, dtype=F64)
    reach[0, 205:], reach[1, 200:] = 0.0, 0.0
    v = toward(3 * reach * drawn(3, 600, seed=5).sign(), reach, seen, 200)
    assert (v @ seen.mT).norm(dim=1).max() < 1e-13
    assert (v.abs() <= reach + 1e-15).all()
    assert v[0].norm() > 0.01 and v[2].norm() > 0.1
    assert (v[1] == 0).all()


def test_it_is_the_nearest(case, monkeypatch):
    """Against a general solver, before the last shortening."""
    _, _, _, _, seen, reach = case
    target = 0.5 * drawn(6, 40, seed=3)
    found = toward(target, reach, seen, 5000)
    for i in range(2):
        t, r = target[i].numpy(), reach[i].numpy()
        solved = minimize(
            lambda v, t=t: 0.5 * ((v - t) ** 2).sum(),
            0 * t,
            jac=lambda v, t=t: v - t,
            bounds=[(-b, b) for b in r],
            constraints={
                "type": "eq",
                "fun": lambda v: seen.numpy() @ v,
                "jac": lambda v: seen.numpy(),
            },
            method="SLSQP",
            options={"maxiter": 500, "ftol": 1e-12},
        )
        assert solved.success
        torch.testing.assert_close(found[i], torch.from_numpy(solved.x), atol=2e-4, rtol=0)


def test_blind_pairs_train_as_the_images_do(case):
    """The whole run, not only its end; pairs in other directions do not."""
    network, theta_init, x, _, seen, reach = case
    y = torch.tensor([0.0, 0, 0, 1, 1, 1], dtype=F64)
    v = toward(3 * reach * drawn(6, 40, seed=2).sign(), reach, seen, 200)
    settings = KKTSettings(60, method="gradient-descent", step_size=0.3)

    def gap(move):
        pairs = split(Points(x, y, torch.ones(6).double()), move)
        one, two = (
            train_to_kkt(network, a, b, theta_init, settings).theta_star
            for a, b in ((x, y), (pairs.x, pairs.y))
        )
        return ((one - two).norm() / (one - theta_init).norm()).item()

    assert gap(v) < 1e-12 < 1e-3 < gap(0.5 * reach * drawn(6, 40, seed=5).sign())
