"""Training features out of a head, and who was trained on: a first layer over frozen features that
are not negative.

A head's first layer is W = κ W(0) + A F after plain SGD: its rows are mixtures of the training
features, F (n, d), as those of any first layer are of its inputs. Features behind a ReLU are more
than inputs: none is negative, and about half of their numbers are zero. So a training feature is an
*extreme* vector of the span: with more than n − 1 zeros it is, up to scale, the only vector there
that has them. It is found by a linear programme (Spielman, Wang & Wright 2012, for sparse
dictionaries; here with the sign known), one for each anchor a in the span,

    min_x Σ_p x_p   subject to   x ≥ 0,   x in the span of the rows of W,   ⟨x, a⟩ = 1,

solved by Douglas–Rachford splitting for all anchors at once, then again with the answer as the
anchor, until it moves no more. Anchors are public features. Those of later rounds are less their
part in the span of what has been found, so that what has been found violates their constraint.

*Certificate.* By chance an extreme vector of an n-dimensional span has n − 1 zeros, and a few
entries that are merely small. One with many more is a coincidence, or a training feature. No label,
no image and no other head enters.

Membership needs no unmixing: a feature that was trained on lies in the span (`span_test`). Under
Adam and AdamW every weight has a step size of its own and the span is bent; dividing the columns of
W by their norms straightens it. Where the start is unknown and not gone its noise fills the span:
`matched_filter` looks for what a feature has of its own and, where the label is known, for the sign
with which training writes it into each unit.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from recon.attacks.separation import FirstLayer
from recon.errors import ReconError
from recon.optim.spectrum import right_singular, signal_rank

STEP = 0.5  # of the splitting, in units of the root mean square entry of an anchor
ZERO = 0.05  # an entry counts as zero below this share of the vector's mean
ANCHORS = 2  # for each dimension of the span, at most
SIGNED = 1.0  # loading of the matched filter where labels are known
ALIKE = 0.9  # |cos| above which two vectors are one


@dataclass(frozen=True)
class Public:
    """What anybody knows of a backbone: its features (k, d) of public images. mean, scale (d,): of
    each feature, scale at least a hundredth of the median one, so that a feature that is constant
    in public does not dominate · ReconError for fewer than two rows, other than finite numbers, or
    all rows alike.
    """

    features: Tensor

    def __post_init__(self) -> None:
        if (
            self.features.dim() != 2
            or len(self.features) < 2
            or not torch.isfinite(self.features).all()
        ):
            raise ReconError("public features must be a finite matrix with two rows or more")
        if not (self.features.std(0) > 0).any():
            raise ReconError(
                "all public features are alike: they tell nothing of what the backbone gives"
            )

    @property
    def mean(self) -> Tensor:
        """(d,)."""
        return self.features.mean(0)

    @property
    def scale(self) -> Tensor:
        """Standard deviation (d,)."""
        deviation = self.features.std(0)
        return deviation.clamp_min(0.01 * deviation[deviation > 0].median().item())

    @property
    def units(self) -> Tensor:
        """Those of the search (d,): the scale, at least its median. What is left of the start is as
        large in features that hardly vary, and would stand out.
        """
        scale = self.scale
        return scale.clamp_min(scale.median().item())

    def standardised(self, features: Tensor) -> Tensor:
        """(features − mean) / scale, (n, d): how two features are compared."""
        return (features - self.mean) / self.scale


@dataclass(frozen=True)
class SparseSettings:
    """Tuned on heads trained on other images than any that are reported
    (benchmarks/heads_tuning.py).

    Attributes:
        rank: dimensions of the span, by default those that stand out of the spectrum.
        anchors: public features used in a round, at most.
        rounds, at most: they end when one finds nothing new.
        restarts: of each programme from its own answer.
        iterations: of the splitting each time.
        excess: of zeros over rank − 1, see `chance_zeros`.
    """

    rank: int | None = None
    anchors: int = 400
    rounds: int = 8
    restarts: int = 6
    iterations: int = 30
    excess: float = 1.2

    def __post_init__(self) -> None:
        ranks = [] if self.rank is None else [self.rank]
        if (
            min(self.anchors, self.rounds, self.restarts, self.iterations, *ranks) < 1
            or self.excess <= 0
        ):
            raise ReconError(
                "rank, anchors, rounds, restarts, iterations and excess must be positive"
            )


@dataclass(frozen=True)
class SparseFeatures:
    """
    Attributes:
        x_hat (r, d): found features, not negative, of the length of a public one, those with most
            zeros first.
        zeros (r,): how many entries of each are zero.
        certified (r,): whether those are more than `chance_zeros`.
        basis (rank, d): orthonormal, of the span, in the public `units`.
    """

    x_hat: Tensor
    zeros: Tensor
    certified: Tensor
    basis: Tensor


def sparse_features(
    layer: FirstLayer,
    public: Public,
    settings: SparseSettings | None = None,
    preconditioned: bool = False,
) -> SparseFeatures:
    """The attack: sparse vectors in the span of the layer's rows that are not negative. ReconError
    where the widths of layer and features differ; an empty result where nothing stands out of the
    spectrum.

    Args:
        preconditioned: the head was trained with Adam or AdamW.
    """
    settings = settings or SparseSettings()
    basis = span_of(layer, public, settings.rank, preconditioned)
    rank, units = len(basis), public.units
    certain = others = basis.new_empty(0, basis.shape[1])
    anchors, count = public.features / units, min(settings.anchors, ANCHORS * rank)
    every = max(1, len(anchors) // max(count, 1))
    for k in range(settings.rounds if rank else 0):
        part = (anchors[k % every :: every][:count] @ basis.mT) @ basis
        if len(certain):
            inside = torch.linalg.qr(certain.mT).Q
            part = part - (part @ inside) @ inside.mT
        x = programmes(part, basis, settings)
        sure = count_zeros(x) > chance_zeros(basis, settings)
        before, certain, others = (
            len(certain),
            distinct(torch.cat([certain, x[sure]])),
            torch.cat([others, x[~sure]]),
        )
        if len(certain) >= rank or len(certain) == before:
            break
    x = distinct(torch.cat([certain, others]))[:rank]
    length = public.features.norm(dim=1).median()
    x_hat = normalize(x.clamp_min(0) * units, dim=1) * length
    return SparseFeatures(
        x_hat, count_zeros(x), count_zeros(x) > chance_zeros(basis, settings), basis
    )


def chance_zeros(basis: Tensor, settings: SparseSettings) -> float:
    """Zeros that an extreme vector of the span has at most by chance: rank − 1, times `excess`, and
    `ZERO` of all.
    """
    rank, d = basis.shape
    return settings.excess * (rank - 1) + ZERO * d


def span_of(
    layer: FirstLayer, public: Public, rank: int | None = None, preconditioned: bool = False
) -> Tensor:
    """Orthonormal rows (r, d) of what training wrote into the layer, in the public `units`; see
    `sparse_features`. The rank is told where what is left of the start has entries alike
    (`signal_rank`): in the weights as they are, or over column norms where preconditioned.
    ReconError for a rank above the number of rows.
    """
    w = layer.update.detach()
    if w.shape[1] != public.features.shape[1]:
        raise ReconError(
            f"a layer of {w.shape[1]} inputs does not take {public.features.shape[1]} features"
        )
    if rank is not None and rank > len(w):
        raise ReconError(
            f"a first layer of {len(w)} rows holds the span of at most {len(w)} features, not of"
            f" {rank}"
        )
    values, directions = right_singular(w / column_norms(w) if preconditioned else w)
    rank = signal_rank(values, w.shape) if rank is None else rank
    rows = (
        directions[:rank]
        if preconditioned
        else torch.linalg.qr((directions[:rank] / public.units).mT).Q.mT
    )
    return rows.to(public.features)


def column_norms(w: Tensor) -> Tensor:
    """(d,), at least a millionth of the largest."""
    norms = w.norm(dim=0)
    return norms.clamp_min(1e-6 * norms.max().item())


def programmes(anchors: Tensor, basis: Tensor, settings: SparseSettings) -> Tensor:
    """Answers x (k, d) of the linear programmes of `anchors` (k, d), in the span of `basis` (r, d).
    Douglas–Rachford: with P the projection onto all x of the span with ⟨x, a⟩ = 1, for ‖a‖ = 1, and
    t the step, z ← z + max(2 P(z) − z − t, 0) − P(z).
    """
    a = normalize(anchors[anchors.norm(dim=1) > 1e-6 * anchors.norm(dim=1).max()], dim=1)
    z, t = a, STEP / a.shape[1] ** 0.5
    for _ in range(settings.restarts):
        for _ in range(settings.iterations):
            inside = (z @ basis.mT) @ basis
            p = inside + (1 - (inside * a).sum(1, keepdim=True)) * a
            z = z + (2 * p - z - t).clamp_min(0) - p
        a = normalize(p, dim=1)
        z = z - p + a
    return p


def count_zeros(x: Tensor) -> Tensor:
    """Entries of each row of x (k, d) that are zero or nearly, (k,) int64."""
    return (x.abs() < ZERO * x.abs().mean(1, keepdim=True)).sum(1)


def distinct(x: Tensor) -> Tensor:
    """Rows of x (k, d), one of each group that are alike, those with the most zeros first."""
    x = x[count_zeros(x).argsort(descending=True, stable=True)]
    unit = normalize(x, dim=1)
    alike = ((unit @ unit.mT).abs() > ALIKE).cpu()  # looked at row by row
    chosen = torch.zeros(len(x), dtype=torch.bool)
    for k in range(len(x)):
        chosen[k] = not bool((alike[k] & chosen).any())
    return x[chosen.to(x.device)]


def span_test(
    layer: FirstLayer, features: Tensor, public: Public, rank: int, preconditioned: bool = False
) -> Tensor:
    """−‖f − P f‖ / ‖f‖ (k,) of features (k, d) in the public `units`, P onto the layer's `rank`
    strongest directions: 0 in the span, −1 at right angles to it. Exact for plain SGD with the
    start gone or known.
    """
    basis = span_of(layer, public, rank, preconditioned)
    x = features / public.units
    return -(x - (x @ basis.mT) @ basis).norm(dim=1) / x.norm(dim=1).clamp_min(1e-12)


def matched_filter(
    w: Tensor,
    bias: Tensor,
    features: Tensor,
    public: Public,
    ridge: float = 3.0,
    toward: Tensor | None = None,
) -> Tensor:
    """Response of the layer w (h, d), bias (h,) to what each of features (k, d) has of its own,
    (k,). u = (C + ridge)⁻¹ (f − mean) / scale, C the public correlation: what other images share is
    filtered out, as radar filters clutter (the matched filter of Reed, Mallett & Brennan 1974,
    loaded diagonally). Of the responses s_j = ⟨ŵ_j, u⟩ / ‖u‖ of the units j that f activates, ŵ
    being w with columns of unit norm, the score is the root mean square. Where the label is given,
    so is the sign: the score is then ⟨v, s⟩ / ‖v‖, with v = `toward` on active units, and s and v
    in units of the deviation of s over the public features.

    Args:
        toward (k, h): where training moves the units, see `toward_label`.
    """
    z = public.standardised(torch.cat([features, public.features]))
    clutter = torch.cov(z[len(features) :].mT)
    asked = z if toward is not None else z[: len(features)]
    u = torch.linalg.solve(clutter + ridge * torch.eye(len(clutter)).to(clutter), asked.mT).mT
    response = normalize(u, dim=1) @ (w / column_norms(w)).mT
    active = (features @ w.mT + bias > 0).to(w)
    if toward is None:
        return ((response.square() * active).sum(1) / active.sum(1).clamp_min(1)).sqrt()
    response, others = response.split([len(features), len(public.features)])
    noise = others.std(0).clamp_min(1e-6 * others.std(0).max().item())
    return (response / noise * normalize(active * toward / noise, dim=1)).sum(1)


def toward_label(outer: Tensor, labels: Tensor) -> Tensor:
    """(k, h): minus the gradient of the loss at the hidden units, for answers alike to all classes:
    the row of the last layer (K, h) of each label (k,) less their mean, or ± its one row.
    """
    if len(outer) == 1:
        return (2 * labels.to(outer) - 1)[:, None] * outer
    return (outer - outer.mean(0))[labels.long()]
