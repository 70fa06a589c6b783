"""What other fields would try on a head's span: `python benchmarks/heads_unmixing.py` writes a
table.

On heads trained on the images of seed 9, which no reported run attacks, and in the same span for
all: the features matched above cosines 0.7, 0.8 and 0.9 one to one, as many held-out features in
their place (the null), CPU-seconds.

- FastICA's three contrasts (scikit-learn).
- Semi-NMF: B = M F with F ≥ 0 only, as the mixing has both signs (Ding, Li & Jordan 2010); NMF
  proper needs B ≥ 0.
- Sparse dictionary learning with codes that are not negative (scikit-learn): codes are features.
- A learned prior (denoising source separation, Särelä & Valpola 2005): a network learns on public
  features to take other features off.
- Sparse non-negative vectors by linear programmes: `recon.attacks.heads`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from heads_tuning import SEED, heads
from sklearn.decomposition import DictionaryLearning, FastICA
from timing import write
from torch import Tensor, nn
from torch.nn.functional import normalize

from companion.chapters.heads.experiment import Cell, cosines
from recon.attacks.heads import Public, SparseSettings, span_of, sparse_features
from recon.attacks.separation import FirstLayer, orthogonalise

Unmixing = Callable[[Tensor, Public], Tensor]
SAME = 0.85  # |cos| of two candidates from which on one of them begins anew


def smoothed(traces: Tensor, agreement: Tensor) -> Tensor:
    """Traces (m,), noisy, as a parabola of how far each candidate agrees with its denoised self
    (m,).
    """
    powers = torch.stack(
        [torch.ones_like(agreement), agreement, agreement.square()], dim=1
    ).double()
    return (powers @ (torch.linalg.pinv(powers) @ traces.double())).to(traces)


def distinct(w: Tensor, change: Tensor, generator: torch.Generator) -> Tensor:
    """w (m, r), where of any two alike the one that changes more (m,) begins anew, orthogonal to
    those that stay.
    """
    rank = change.argsort(stable=True).argsort(stable=True)
    again = (((w @ w.mT).abs() > SAME) & (rank[:, None] > rank)).any(1)
    missing = int(again.sum())
    if not missing:
        return w
    stay = torch.linalg.qr(w[~again].mT).Q
    fresh = torch.randn(missing, w.shape[1], generator=generator).to(w)
    w = w.clone()
    w[again] = normalize(fresh - (fresh @ stay) @ stay.mT, dim=1)
    return w


def fast_ica(contrast: str) -> Unmixing:
    """Sources (r, d) of the sign that leaves less below zero."""

    def unmix(basis: Tensor, public: Public) -> Tensor:
        model = FastICA(
            len(basis), fun=contrast, whiten="unit-variance", random_state=0, max_iter=300
        )
        model.fit(basis.numpy().T)
        x = torch.from_numpy(model.components_).float() @ basis
        below, above = x.clamp_max(0).square().sum(1), x.clamp_min(0).square().sum(1)
        return torch.where((below > above)[:, None], -x, x).clamp_min(0)

    return unmix


def semi_nmf(steps: int = 1000) -> Unmixing:
    """Multiplicative updates of F from public features' parts in the span; M by least squares."""

    def unmix(basis: Tensor, public: Public) -> Tensor:
        x = basis.double()
        part = (public.features / public.units)[: len(basis)].double() @ x.mT @ x
        f = part.clamp_min(0) + 1e-3
        for _ in range(steps):
            m = torch.linalg.lstsq(f.mT, x.mT).solution.mT
            pull, push = m.mT @ x, m.mT @ m
            up = pull.clamp_min(0) + (-push).clamp_min(0) @ f
            down = (-pull).clamp_min(0) + push.clamp_min(0) @ f
            f = (f * (up / down.clamp_min(1e-12)).sqrt()).clamp_min(1e-12)
        return f.float()

    return unmix


def dictionary(alpha: float) -> Unmixing:
    """The d columns of the basis are the samples; their codes over r atoms, none negative, are the
    features.
    """

    def unmix(basis: Tensor, public: Public) -> Tensor:
        samples = basis.numpy().T * basis.shape[1] ** 0.5
        model = DictionaryLearning(
            len(basis),
            alpha=alpha,
            max_iter=10,
            fit_algorithm="cd",
            transform_algorithm="lasso_cd",
            positive_code=True,
        )
        return torch.from_numpy(model.fit_transform(samples)).float().mT

    return unmix


def learned_prior(steps: int = 1000, orthogonal: int = 15, free: int = 25) -> Unmixing:
    """Denoising source separation with a network for the prior; other features are the noise it
    learns to take off.
    """

    def unmix(basis: Tensor, public: Public) -> Tensor:
        draws = torch.Generator().manual_seed(0)
        torch.manual_seed(0)
        d = basis.shape[1]
        clean = normalize(public.features / public.units, dim=1)
        net = nn.Sequential(nn.Linear(d, 512), nn.ReLU(), nn.Linear(512, d), nn.ReLU())
        optimiser = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-2)
        for _ in range(steps):
            x = clean[torch.randint(len(clean), (128,), generator=draws)]
            others = clean[torch.randint(len(clean), (len(basis),), generator=draws)]
            mixed = normalize(torch.randn(128, len(basis), generator=draws) @ others, dim=1)
            share = 0.2 + 0.8 * torch.rand(128, 1, generator=draws)
            z = d**0.5 * normalize(share * x + (1 - share.square()).sqrt() * mixed, dim=1)
            loss = (net(z) - d**0.5 * x).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        w = normalize(
            clean[torch.randint(len(clean), (len(basis),), generator=draws)] @ basis.mT, dim=1
        )
        w = orthogonalise(w)
        for k in range(orthogonal + free):
            with torch.no_grad():
                probe = normalize(torch.randn(w.shape, generator=draws), dim=1)
                here, beside = (net(d**0.5 * u @ basis) for u in (w, w + 0.2 * probe))
            pull = here @ basis.mT / d**0.5
            traces = ((beside - here) @ basis.mT * probe).sum(1) / (0.2 * d**0.5)
            moved = normalize(pull - smoothed(traces, (pull * w).sum(1))[:, None] * w, dim=1)
            w, before = (orthogonalise(moved) if k < orthogonal else moved), w
            if k >= orthogonal:
                w = distinct(w, 1 - (w * before).sum(1).abs(), draws)
        x = w @ basis
        return torch.where((x.sum(1) < 0)[:, None], -x, x).clamp_min(0)

    return unmix


def linear_programmes(basis: Tensor, public: Public) -> Tensor:
    """What the chapter does."""
    found = sparse_features(
        FirstLayer(basis * public.units), public, SparseSettings(rank=len(basis))
    )
    return found.x_hat / public.units


TRIED: dict[str, Unmixing] = {
    **{f"FastICA, {contrast}": fast_ica(contrast) for contrast in ("logcosh", "exp", "cube")},
    "semi-NMF": semi_nmf(),
    "dictionary learning": dictionary(0.3),
    "learned prior": learned_prior(),
    "linear programmes": linear_programmes,
}


def main(ns: tuple[int, ...] = (100,)) -> None:
    rows: dict[str, dict] = {name: {} for name in TRIED}
    for task, released in heads([Cell(n=n) for n in ns]):
        n, basis = len(task.train), span_of(FirstLayer(released.parts[0]), task.public)
        for name, unmix in TRIED.items():
            start = time.process_time()
            x = unmix(basis, task.public) * task.public.units
            seconds = time.process_time() - start
            found, null = (
                cosines(x, images, task.public) for images in (task.train, task.others[:n])
            )
            print(name, n, vars(found), round(seconds, 1), flush=True)
            rows[name][f"n = {n}"] = {
                "matches": vars(found),
                "null": vars(null),
                "cpu_seconds": round(seconds, 1),
            }
    write({"seed": SEED, "unmixing": rows}, __file__)


if __name__ == "__main__":
    main()
