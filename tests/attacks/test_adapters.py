"""The null space of an adapter: exact after plain descent, not believed elsewhere, and what the
filter tells then.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from recon.attacks import by_adapter_nullspace
from recon.attacks.adapters import Adapter, Inputs, certificate, residual, response
from recon.errors import ReconError

D, M, R = 60, 20, 9
HOW = {"momentum": {"momentum": 0.9}, "decay": {"weight_decay": 1e-2}, "plain": {}}


def trained(n, how="plain", m=M, r=R, classes=False, seed=0, steps=300):
    """(inputs that were trained on, others, −∂ℓ/∂outputs by W0 of both, the adapter)."""
    g = torch.Generator().manual_seed(seed)
    w0, a, x = (torch.randn(k, D, generator=g).double() for k in (m, r, 200 + n))
    w0, a, b = (
        w0 / D**0.5,
        torch.nn.Parameter(a / D**0.5),
        torch.nn.Parameter(torch.zeros(m, r).double()),
    )
    y = torch.arange(len(x)) % m if classes else torch.randn(len(x), m, generator=g).double()
    loss = F.cross_entropy if classes else F.mse_loss
    kinds = {"adam": torch.optim.Adam([a, b], lr=1e-2)}
    optimiser = kinds.get(how) or torch.optim.SGD([a, b], lr=0.2, **HOW.get(how, {}))
    for _ in range(steps):
        kept = x[:n] if how != "dropout" else x[:n] * (torch.rand(n, D, generator=g) > 0.1)
        optimiser.zero_grad()
        loss(kept @ (w0 + b @ a).mT, y[:n]).backward()
        optimiser.step()
    outputs = (x @ w0.mT).requires_grad_(True)
    signal = -torch.autograd.grad(loss(outputs, y), outputs)[0]
    return x[:n], x[n:], signal, Adapter(a.detach(), b.detach())


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("classes", [False, True])
def test_every_input_that_was_trained_on_is_in_the_null_space(how, classes):
    x, others, signal, adapter = trained(5, how, classes=classes)
    inputs = Inputs(torch.cat([x, others]), others, signal)
    attack = by_adapter_nullspace(adapter, inputs)
    seen, left = (attack.diagnostics[name] for name in ("certificate", "residual"))
    assert seen.holds and len(seen.rows) == 5 and seen.gap > 1e6
    assert left[:5].max() < 1e-9 and left[5:].min() > 1e-2
    exact = attack.score - attack.diagnostics["filter"]
    assert exact[:5].min() > 10 and exact[5:].max() < 3
    mixed = torch.randn(7, 5).double() @ x  # which the certificate cannot tell from members
    assert residual(adapter, seen.rows, mixed).max() < 1e-8


def test_the_residual_is_that_of_the_projection():
    """By the pseudoinverse, of a layer wider than high and one higher than wide."""
    for m, r in ((4, 9), (20, 9)):
        g = torch.Generator().manual_seed(1)
        left, right = (torch.randn(shape, generator=g).double() for shape in ((m, 3), (3, r)))
        b = left @ right
        a, h = torch.randn(r, D, generator=g).double(), torch.randn(11, D, generator=g).double()
        adapter = Adapter(a, b)
        c = (torch.eye(r).double() - torch.linalg.pinv(b, rtol=1e-9) @ b) @ a
        expected = (c @ h.mT).norm(dim=0) / (a @ h.mT).norm(dim=0)
        torch.testing.assert_close(residual(adapter, certificate(adapter).rows, h), expected)


@pytest.mark.parametrize(
    ("values", "holds"),
    [
        ((1.0, 0.5, 1e-5, 1e-6), True),
        ((1.0, 0.1, 0.01, 7e-4), False),  # they fall slowly
        ((1.0, 0.1, 2e-3, 2e-3), False),  # and not to rounding
        ((1.0, 0.5, 0.4, 1e-5), True),
        # thirty times, after falls of six times
        ((1.0, 1 / 6, 1 / 36, 1 / (36 * 29.5)), False),
        ((1.0, 1 / 6, 1 / 36, 1 / (36 * 30.5)), True),
    ],
)
def test_rounding_is_what_is_far_below(values, holds):
    turned = torch.linalg.qr(torch.randn(4, 4, generator=torch.Generator().manual_seed(3))).Q
    b = torch.cat([torch.diag(torch.tensor(values)) @ turned, torch.zeros(6, 4)])
    assert certificate(Adapter(torch.ones(4, D), b)).holds == holds


def test_the_filter_is_the_mean_response_in_units_of_the_columns():
    g = torch.Generator().manual_seed(4)
    a, b = torch.randn(4, D, generator=g), torch.randn(M, 4, generator=g)
    h, public, signal = (torch.randn(k, n, generator=g) for k, n in ((9, D), (300, D), (9, M)))
    inputs = Inputs(h, public, signal)
    mean, deviation = public.mean(0), public.std(0)
    correlation = torch.corrcoef(public.T) + 3 * torch.eye(D)
    u = F.normalize((h - mean) / deviation @ torch.linalg.inv(correlation), dim=1)
    torch.testing.assert_close(inputs.own, u, rtol=1e-3, atol=1e-4)
    rows = u @ (a / a.norm(dim=0)).T
    parts = rows.norm(dim=1) / 2, (rows * F.normalize(signal @ b, dim=1)).sum(1)
    expected = sum((x - x.median()) / (x - x.median()).abs().median() for x in parts)
    found = response(Adapter(100 * a, b), inputs).float()
    torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("how", "n", "m", "classes"),
    [
        ("adam", 5, M, False),
        ("dropout", 5, M, False),
        ("plain", R, M, False),  # as many as the rank
        ("plain", 7, 4, False),  # more than outputs
        ("plain", 8, 8, True),  # a softmax takes one
    ],
)
def test_other_steps_and_too_many_inputs_are_not_believed(how, n, m, classes):
    x, others, signal, adapter = trained(n, how, m=m, classes=classes)
    attack = by_adapter_nullspace(adapter, Inputs(torch.cat([x, others]), others, signal))
    assert not attack.diagnostics["certificate"].holds
    torch.testing.assert_close(attack.score, attack.diagnostics["filter"])


def test_merged_weights_have_no_certificate_and_tell_members():
    x, others, signal, adapter = trained(12, "adam")
    inputs = Inputs(torch.cat([x, others]), others, signal)
    merged = by_adapter_nullspace(adapter.merged, inputs)
    assert not merged.diagnostics["certificate"].holds
    assert (merged.score[:12, None] > merged.score[12:]).double().mean() > 0.95
    against = Inputs(inputs.h, others, -signal)  # a step in the other direction
    turned = by_adapter_nullspace(adapter.merged, against).score
    assert turned[:12].mean() < 0.5 * merged.score[:12].mean()
    unlabelled = by_adapter_nullspace(adapter, Inputs(inputs.h, others)).score
    assert (unlabelled[:12, None] > unlabelled[12:]).double().mean() > 0.9


def test_half_precision_is_rounding():
    x, others, _, adapter = trained(5)
    published = Adapter(adapter.a.half().double(), adapter.b.half().double())
    attack = by_adapter_nullspace(published, Inputs(torch.cat([x, others]), others))
    assert attack.diagnostics["certificate"].holds
    assert attack.diagnostics["residual"][:5].max() < 1e-2


@pytest.mark.parametrize(
    ("a", "b"),
    [((R, D), (M, R + 1)), ((D,), (M, R)), ((R, D), (R, M))],
)
def test_factors_that_do_not_fit_are_one_sentence(a, b):
    with pytest.raises(ReconError, match="fit"):
        Adapter(torch.ones(a), torch.ones(b))


def test_numbers_and_inputs_that_do_not_fit_are_one_sentence():
    with pytest.raises(ReconError, match="finite"):
        Adapter(torch.full((R, D), torch.nan), torch.ones(M, R))
    _, others, _, adapter = trained(5, steps=2)
    with pytest.raises(ReconError, match="inputs do not fit"):
        by_adapter_nullspace(adapter, Inputs(others[:, 1:], others[:, 1:]))
    untouched = Adapter(adapter.a, torch.zeros_like(adapter.b))
    found = by_adapter_nullspace(untouched, Inputs(others, others))
    assert not found.diagnostics["certificate"].holds and found.score.isfinite().all()
