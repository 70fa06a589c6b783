"""DecoReco's cost, side by side in one run: `python benchmarks/decoreco.py` prints and writes benchmarks/decoreco.json.

1. One objective + gradient at m = 100 and 1000 candidates, width 1000, float32 and float64: ours (closed form; the form
   chosen by cost) against a plain double backward of the same objective with the same smoothed ReLU', and ours within
   the span of n = m/2 images, where the attack searches.
2. The share of this machine's GEMM rate that ours reaches, by counted multiplications.
3. Training and reconstruction at n = 100 against the reference recipe (10⁶ epochs of gradient descent and 50,000 steps
   of double backward, float64), extrapolated from its measured steps.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from timing import seconds, side_by_side, write
from torch.utils.flop_counter import FlopCounterMode

from recon.attacks.stationarity import stationarity
from recon.nets.mlp import MLP, three_layer
from recon.released import Weights
from recon.training.inner import Objective

ALPHA = 20.0
RESULT = Path(__file__).parents[1] / "book" / "executed" / "results" / "decoreco-tuned" / "result.json"


class SmoothedReLU(torch.autograd.Function):
    """ReLU whose backward multiplies by sigmoid(α z), differentiable once more."""

    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        return z.relu()

    @staticmethod
    def backward(ctx, grad):
        (z,) = ctx.saved_tensors
        return grad * torch.sigmoid(ALPHA * z)


def double_backward(network: MLP, theta: dict, x: torch.Tensor, c: torch.Tensor) -> tuple:
    """R and its gradient in (x, c) as the formulas read: Σ_p ‖θ_p − ∇_p Σ_i c_i Φ(x_i)‖², by autograd."""
    theta = {name: value.detach().requires_grad_() for name, value in theta.items()}
    x, c = x.detach().requires_grad_(), c.detach().requires_grad_()
    h = x
    for layer in range(1, network.depth + 1):
        h = torch.nn.functional.linear(h, theta[f"w{layer}"], theta.get(f"b{layer}"))
        if layer < network.depth:
            h = SmoothedReLU.apply(h)
    grads = torch.autograd.grad((c * h[:, 0]).sum(), tuple(theta.values()), create_graph=True)
    energy = sum((value - grad).square().sum() for value, grad in zip(theta.values(), grads, strict=True))
    return energy.detach(), *torch.autograd.grad(energy, (x, c))


def problem(m: int, dim: int, dtype: torch.dtype, width: int = 1000):
    generator = torch.Generator().manual_seed(0)
    network = three_layer(width, dim)
    theta = network.init(generator, dtype=dtype)
    x = torch.randn(m, dim, generator=generator, dtype=dtype)
    c = 0.01 * torch.randn(m, generator=generator, dtype=dtype)
    return network, theta, x, c


def _square(dtype: torch.dtype, size: int = 2000):
    a = torch.randn(size, size, dtype=dtype)
    return lambda: a @ a


GEMM = {dtype: _square(dtype) for dtype in (torch.float32, torch.float64)}


def steps() -> list[dict]:
    rows = []
    for dtype in (torch.float32, torch.float64):
        for m in (100, 1000):
            network, theta, x, c = problem(m, 3072, dtype)
            weights = Weights(network, network.flatten(theta))
            small, small_theta, *coordinates = problem(m, m // 2, dtype)
            span = (Weights(small, small.flatten(small_theta)), *coordinates)
            ours = stationarity(weights, x, c, alpha=ALPHA)
            plain = double_backward(network, theta, x, c)
            error = ((ours.grad_x - plain[1]).norm() / plain[1].norm()).item()
            with FlopCounterMode(display=False) as counter:
                stationarity(weights, x, c, alpha=ALPHA)
            best = side_by_side(
                {
                    "gemm": GEMM[dtype],
                    "ours": lambda p=(weights, x, c): stationarity(*p, alpha=ALPHA),
                    "double_backward": lambda p=(network, theta, x, c): double_backward(*p),
                    "ours_in_the_span": lambda p=span: stationarity(*p, alpha=ALPHA, layer_weights=(1.0, 0.0, 0.0)),
                }
            )
            rate = 2 * 2000**3 / best.pop("gemm")
            rows.append(
                {
                    "m": m,
                    "dtype": str(dtype).removeprefix("torch."),
                    "seconds": best,
                    "ratio_double_backward_over_ours": best["double_backward"] / best["ours"],
                    "ratio_double_backward_over_span": best["double_backward"] / best["ours_in_the_span"],
                    "share_of_gemm_rate": counter.get_total_flops() / best["ours"] / rate,
                    "relative_gradient_error": error,
                }
            )
    return rows


def against_the_recipe(n: int = 100) -> dict:
    """Reference seconds from its measured steps; ours from the published run, if there is one."""
    network, theta, x, c = problem(2 * n, 3072, torch.float64)
    objective = Objective(network, (torch.arange(n) % 2).double(), 0.0)
    flat = network.flatten(theta)[None]
    training = seconds(lambda: objective.grad(flat, x[None, :n]))
    attack = seconds(lambda: double_backward(network, theta, x, c))
    reference = 1e6 * training + 5e4 * attack
    report = {
        "n": n,
        "reference_step_seconds": {"training": training, "attack": attack},
        "reference_seconds": reference,
    }
    if RESULT.is_file():
        published = json.loads(RESULT.read_text())["metrics"]
        ours = published["train_seconds"] + published["recon_seconds"]
        report |= {
            "ours_seconds": ours,
            "matches_above_0.6": published["matches"]["ncc_0.6"],
            "ratio": reference / ours,
        }
    return report


def main() -> None:
    write({"steps": steps(), "against_the_recipe": against_the_recipe()}, __file__)


if __name__ == "__main__":
    main()
