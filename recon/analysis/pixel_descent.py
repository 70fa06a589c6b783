"""Descent on DecoReco's energy from given images: what the landscape does to a start."""

from __future__ import annotations

from torch import Tensor

from recon.analysis.landscape import StationarityAttack, joint_span
from recon.attacks.decoreco import half_and_half
from recon.attacks.reconstruct import reconstruct
from recon.nets.mlp import MLP
from recon.optim.descent import HeavyBall


def descend_in_pixels(network: MLP, theta_star: Tensor, x_init: Tensor, steps: int, descent: HeavyBall) -> Tensor:
    """`steps` of descent on f(x) of `StationarityAttack` from x_init (S, n, d); theta_star (p,); the images (S, n, d).

    In the row space of w1 only: what of x_init lies outside neither counts nor changes.  The gradient of f has a part
    outside, too, along the images themselves (they enter f through Σ_i λ_i y_i δ_i x_iᵀ), which this leaves out; the
    span of w1 and x_init would hold all of it.
    """
    params = dict(network.unflatten(theta_star))
    basis = joint_span(params["w1"])
    small = network.with_inputs(len(basis))
    theta = small.flatten({**params, "w1": params["w1"] @ basis.mT})
    labels = half_and_half(x_init.shape[1], x_init.device, x_init.dtype)
    attack = StationarityAttack(small, theta, labels, descent)
    start = x_init @ basis.mT
    found = reconstruct(attack, start, steps, label="landscape")
    return x_init + (found.x_hat - start) @ basis
