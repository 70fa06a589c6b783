"""Descent schemes against PyTorch's own, and heavy-ball descent against a loop over single
numbers.
"""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch

from recon.optim.descent import SGD, Adam, HeavyBall, cosine

F64 = torch.float64
SCALES = torch.tensor([1.0, 7.0, 40.0], dtype=F64)


def evaluate(x):
    """½ Σ s x² + Σ cos x, (S,), and its gradient."""
    return (0.5 * SCALES * x.square() + x.cos()).sum(-1), SCALES * x - x.sin()


def start():
    return torch.randn(2, 3, generator=torch.Generator().manual_seed(0), dtype=F64)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (SGD(0.01), partial(torch.optim.SGD, lr=0.01)),
        (SGD(0.01, 0.7), partial(torch.optim.SGD, lr=0.01, momentum=0.7)),
        (Adam(0.03), partial(torch.optim.Adam, lr=0.03, betas=(0.9, 0.99), eps=1e-12)),
        (
            Adam(0.1, (0.5, 0.8), 1e-3),
            partial(torch.optim.Adam, lr=0.1, betas=(0.5, 0.8), eps=1e-3),
        ),
    ],
)
def test_schemes_and_their_schedule_are_those_of_pytorch(ours, theirs):
    parameter, steps = torch.nn.Parameter(start()), 12
    optimiser = theirs([parameter])
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda done: cosine(done + 1, steps, 0.1)
    )
    state = ours.init(start())
    for k in range(1, steps + 1):
        parameter.grad = evaluate(parameter.detach())[1]
        optimiser.step()
        schedule.step()
        state = ours.step(state, *evaluate(state["x"]), cosine(k, steps, 0.1))
        torch.testing.assert_close(state["x"], parameter.detach(), rtol=1e-12, atol=1e-14)


def test_cosine_falls_from_one_to_its_end_and_stays_there():
    values = [cosine(k, 10, 0.2) for k in (0, 2, 5, 10, 15)]
    assert values == pytest.approx([1.0, 0.6 + 0.4 * math.cos(0.2 * math.pi), 0.6, 0.2, 0.2])


def heavy_ball(x, steps, settings):
    """One row, as its docstring says it, in plain numbers: energies, points accepted, proposals."""
    # in single precision
    grow, shrink = (torch.tensor(factor).item() for factor in (settings.grow, settings.shrink))
    best, best_energy, size = list(x), math.inf, settings.step_size
    best_grad, velocity = [0.0] * len(x), [0.0] * len(x)
    trace = []
    for _ in range(steps):
        energy, grad = (value[0].tolist() for value in evaluate(torch.tensor([x], dtype=F64)))
        if energy < best_energy:
            size *= 1.0 if best_energy == math.inf else grow
            best, best_energy, best_grad = list(x), energy, grad
            velocity = [settings.momentum * v + g for v, g in zip(velocity, grad, strict=True)]
        else:
            size *= shrink
            velocity = list(best_grad)
        length, norm = size * math.hypot(*velocity), max(math.hypot(*best), 1.0)
        size *= min(1.0, settings.max_relative_step * norm / length)
        moving = best_energy > settings.tol
        x = [b - size * v if moving else b for b, v in zip(best, velocity, strict=True)]
        low, high = settings.box or (-math.inf, math.inf)
        x = [min(max(value, low), high) for value in x]
        trace.append((best_energy, list(best), list(x)))
    return trace


@pytest.mark.parametrize(
    "settings",
    [
        HeavyBall(0.04, tol=-math.inf),
        HeavyBall(0.3, 0.5, 1.3, 0.4, tol=-math.inf),
        HeavyBall(0.02, tol=4.0),
        HeavyBall(0.02, tol=-math.inf, box=(-0.3, 0.8)),
        HeavyBall(1.0, tol=-math.inf, max_relative_step=0.03),
    ],
)
def test_heavy_ball_is_what_it_says(settings):
    state = settings.init(start())
    expected = [heavy_ball(row.tolist(), 40, settings) for row in start()]
    for k in range(40):
        state = settings.step(state, *evaluate(state["x"]))
        for row in range(2):
            energy, best, proposal = expected[row][k]
            assert state["accepted"]["energy"][row].item() == pytest.approx(energy, rel=1e-9)
            assert state["accepted"]["x"][row].tolist() == pytest.approx(best, rel=1e-9, abs=1e-12)
            assert state["x"][row].tolist() == pytest.approx(proposal, rel=1e-9, abs=1e-12)
    assert torch.equal(state["accepted"]["grad"], evaluate(state["accepted"]["x"])[1])


def test_an_equal_energy_is_not_better():
    energy, grad = evaluate(start())
    scheme = HeavyBall(0.1)
    state = scheme.step(scheme.init(start()), energy, grad)
    again = scheme.step(state, energy, torch.ones_like(grad))
    assert torch.equal(again["accepted"]["grad"], grad)
    assert torch.equal(again["step_size"], 0.5 * state["step_size"])
