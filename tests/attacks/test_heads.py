"""Features out of a mixture: against a solver of linear programmes, the truth, and what must be
refused.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch.nn.functional import normalize

from recon.attacks.heads import (
    Public,
    SparseSettings,
    chance_zeros,
    count_zeros,
    distinct,
    matched_filter,
    programmes,
    span_of,
    span_test,
    sparse_features,
    toward_label,
)
from recon.attacks.separation import FirstLayer
from recon.errors import ReconError

D, N = 120, 12


def draw(n: int, seed: int) -> torch.Tensor:
    """n sparse features (n, D) that are not negative, of unequal scale."""
    g = torch.Generator().manual_seed(seed)
    scale = 0.5 + torch.rand(D, generator=g)
    return torch.randn(n, D, generator=g).clamp_min(0) * scale


@pytest.fixture(scope="module")
def public() -> Public:
    return Public(draw(300, 1))


@pytest.fixture(scope="module")
def trained() -> torch.Tensor:
    return draw(N, 2)


def layer_of(features: torch.Tensor, seed: int = 3) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed)
    return torch.randn(40, len(features), generator=g) @ features


def test_all_features_come_back_certified(public, trained):
    found = sparse_features(FirstLayer(layer_of(trained)), public)
    near = normalize(found.x_hat, dim=1) @ normalize(trained, dim=1).mT
    assert len(found.basis) == N and len(found.x_hat) == N and found.certified.all()
    assert near.amax(0).min() > 0.999 and near.amax(1).min() > 0.999
    assert (found.x_hat >= 0).all()
    torch.testing.assert_close(
        found.x_hat.norm(dim=1), public.features.norm(dim=1).median().expand(N)
    )


def test_the_splitting_solves_the_linear_programme(public, trained):
    """Against HiGHS, from one anchor and without moving it."""
    basis = span_of(FirstLayer(layer_of(trained)), public)
    anchor = normalize((public.features[:1] / public.units @ basis.mT) @ basis, dim=1)
    ours = programmes(anchor, basis, SparseSettings(restarts=1, iterations=3000))[0]
    ours = ours / (ours @ anchor[0])
    b = basis.double().numpy()
    best = linprog(
        b.sum(1),
        A_ub=-b.T,
        b_ub=np.zeros(D),
        A_eq=(b @ anchor[0].double().numpy())[None],
        b_eq=[1.0],
        bounds=(None, None),
    )
    assert best.status == 0 and ours.min() > -1e-4
    assert ours.sum().item() == pytest.approx(best.fun, rel=1e-3)


def test_training_features_are_fixed_points_of_the_programmes(public, trained):
    """Each is the answer where it is the anchor, however often the answer is the next anchor."""
    basis = span_of(FirstLayer(layer_of(trained)), public)
    x = normalize(trained / public.units, dim=1)
    found = normalize(programmes(x, basis, SparseSettings(restarts=10)), dim=1)
    torch.testing.assert_close(found, x, atol=1e-3, rtol=0)


def test_noise_gives_no_certificate(public):
    """A layer that holds no features: its extreme vectors have the zeros of chance."""
    g = torch.Generator().manual_seed(4)
    found = sparse_features(
        FirstLayer(torch.randn(40, D, generator=g)), public, SparseSettings(rank=N)
    )
    assert len(found.x_hat) and not found.certified.any()


def test_later_rounds_find_others(trained):
    """Three anchors, always the same: only what is taken out of them leads to more than three
    features.
    """
    few = Public(draw(3, 1))
    found = sparse_features(FirstLayer(layer_of(trained)), few, SparseSettings(rounds=12))
    assert int(found.certified.sum()) > 3


def test_the_rank_is_told_in_the_weights_as_they_are(public, trained):
    """Features that hardly vary: in units of their scale, what is left of the start would stand out
    there.
    """
    shrink = torch.where(torch.arange(D) < 30, 1e-3, 1.0)
    w = layer_of(trained * shrink) + 1e-3 * torch.randn(
        40, D, generator=torch.Generator().manual_seed(4)
    )
    few = Public(public.features * shrink)
    basis = span_of(FirstLayer(w), few)
    assert (
        len(basis) == N
        and len(span_of(FirstLayer(w / few.scale), Public(few.features / few.scale))) > N
    )
    torch.testing.assert_close(basis @ basis.mT, torch.eye(N), atol=1e-5, rtol=0)


def test_distinct_keeps_one_of_each():
    x = torch.tensor([[1.0, 0.0, 0.0], [0.99, 0.01, 0.0], [0.0, 1.0, 1.0]])
    assert distinct(x).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]


def test_the_span_tells_members_exactly(public, trained):
    layer, asked = FirstLayer(layer_of(trained)), torch.cat([trained, draw(200, 6)])
    score = span_test(layer, asked, public, N)
    assert score[:N].min() > -1e-3 > score[N:].max() and (score >= -1.001).all()
    # whatever the length of a feature
    torch.testing.assert_close(span_test(layer, 1e-3 * asked, public, N), score)


def test_columns_straighten_what_adam_bends(public):
    """Columns stretched by factors of up to a hundred, as step sizes of their own do."""
    g = torch.Generator().manual_seed(7)
    trained, others = draw(40, 9), draw(200, 6)
    bend = 10 ** (2 * torch.rand(D, generator=g))
    w = torch.randn(80, 40, generator=g) @ (trained / public.units) * bend
    apart = {}
    for preconditioned in (False, True):
        score = span_test(FirstLayer(w), torch.cat([trained, others]), public, 40, preconditioned)
        apart[preconditioned] = (score[:40, None] > score[40:]).float().mean().item()
    assert apart[True] > 0.99 > apart[False]


def test_the_filter_is_its_formula(public):
    g = torch.Generator().manual_seed(11)
    w, f = torch.randn(7, D, generator=g), draw(1, 12)[0]
    # between two rows: rounding decides of none
    bias = -(w @ f).sort().values[3:5].mean().expand(7)
    mean, std = public.features.mean(0), public.features.std(0)
    c = np.corrcoef(public.features.numpy().T)
    u = np.linalg.inv(c + 3 * np.eye(D)) @ ((f - mean) / std).double().numpy()
    response = [(row / w.norm(dim=0)).double().numpy() @ u / np.linalg.norm(u) for row in w]
    fires = [float(row @ f + b) > 0 for row, b in zip(w, bias, strict=True)]
    expected = np.mean([r**2 for r, on in zip(response, fires, strict=True) if on]) ** 0.5
    assert 0 < sum(fires) < 7
    assert matched_filter(w, bias, f[None], public).item() == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("classes", [1, 3])
def test_the_signed_filter_is_its_formula(public, classes):
    w, features, g = layer_of(draw(30, 5)), draw(3, 6), torch.Generator().manual_seed(7)
    outer, labels = torch.randn(classes, len(w), generator=g), torch.tensor([1, 0, 1])
    bias = torch.randn(len(w), generator=g)
    toward = toward_label(outer, labels)
    mean, scale = public.features.mean(0), public.scale
    correlation = torch.cov(((public.features - mean) / scale).mT)
    inverse = torch.linalg.inv(correlation + 2.0 * torch.eye(D))

    def responses(f: torch.Tensor) -> torch.Tensor:
        u = inverse @ ((f - mean) / scale)
        return (w / w.norm(dim=0)) @ (u / u.norm())

    noise = torch.stack([responses(f) for f in public.features]).std(0)
    scores = matched_filter(w, bias, features, public, ridge=2.0, toward=toward)
    for f, label, score in zip(features, labels, scores, strict=True):
        v = outer[0] if classes == 1 else outer[label] - outer.mean(0)
        v = v * (-1 if classes == 1 and label == 0 else 1) * (w @ f + bias > 0)
        wanted = (v / noise) @ (responses(f) / noise) / (v / noise).norm()
        assert score.item() == pytest.approx(wanted.item(), rel=1e-3)


def test_zeros_and_what_chance_gives():
    x = torch.tensor([[0.0, 0.0, 1.0, 3.0], [1.0, 1.0, 1.0, 1.0]])
    assert count_zeros(x).tolist() == [2, 0]
    assert chance_zeros(torch.eye(11, 100), SparseSettings(excess=1.2)) == pytest.approx(17)


def test_nothing_stands_out_of_a_layer_of_zeros(public):
    assert sparse_features(FirstLayer(torch.zeros(40, D)), public).x_hat.shape == (0, D)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda public: Public(torch.ones(5, 3)), "alike"),
        (lambda public: Public(torch.ones(1, 3)), "two rows"),
        (lambda public: SparseSettings(rounds=0), "positive"),
        (lambda public: span_of(FirstLayer(torch.ones(4, 7)), public), "7 inputs"),
        (
            lambda public: span_of(FirstLayer(torch.ones(4, D)), public, rank=6),
            "4 rows .* not of 6",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(public, call, words):
    with pytest.raises(ReconError, match=words):
        call(public)
