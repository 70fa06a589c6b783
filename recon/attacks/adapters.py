"""Who was trained on, out of a low-rank adapter: W0 + B A, with B (m, r) = 0 before training.

Let H (d, n) be the inputs of the adapted layer that were trained on. Their gradients are
∂A = Bᵀ D Hᵀ and ∂B = D (A H)ᵀ, with D (m, n) those at the layer's outputs. So under plain gradient
descent the rows of B never leave the span of A0 H, and A changes nowhere outside it. With P the
projection of R^r onto what is orthogonal to the rows of B,

    C = P A,    C h = 0 for every input h that was trained on          (*)

(Oxman 2026, claim 3 of "The LoRA certificate"). It needs B = 0 at first; steps that are multiples
of the gradient (momentum and scalar decay keep (*), Adam does not); inputs that stay the same, as
behind a frozen part (dropout on them breaks it); *excitation*, rank B = q with q the rank of H; and
*capacity*, q < r, and q < m, or q < m − 1 where a softmax follows and the columns of B sum to zero.
The adversary sees rank B alone, and believes (*) where it is clear of rounding and below capacity
(`certificate`). The converse of (*) is not true: mixtures of H, and the kernel of A0, pass as well.

Where (*) fails, A − A0 still consists of mixtures of inputs, which the matched filter of
`recon.attacks.heads` looks for (`response`): for u, what an input has of its own, and δ (m), minus
the gradient of its loss at the layer's outputs, ⟨Bᵀδ, A u⟩ / ‖Bᵀδ‖ ‖u‖ weights the rows of A as a
step on h does. It asks neither for q < r nor for plain descent nor for two factors: of a merged
adapter A is B A, and B the identity (`Adapter.merged`).
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import normalize

from recon.attacks.heads import Public, column_norms
from recon.attacks.registry import Candidates, MaybeGenerator, Needs, register
from recon.errors import ReconError, one_reason

GAP = 30.0  # between the last singular value of B that is signal and the first that is rounding
FLOOR = 1e-3  # of the largest: rounding is below this
CHANCE = 5.0  # median deviations of public inputs that a residual may be off by chance
RIDGE = 3.0  # of the filter, in units of the public correlation


@dataclass(frozen=True)
class Adapter:
    """The factors of one layer; ReconError unless they are finite matrices that fit.

    Attributes:
        a (r, d), b (m, r).
    """

    a: Tensor
    b: Tensor

    def __post_init__(self) -> None:
        fit = self.a.dim() == self.b.dim() == 2 and len(self.a) == self.b.shape[1]
        if not (fit and (self.b @ self.a).isfinite().all()):
            raise ReconError("A (r, d) and B (m, r) are no finite matrices that fit")

    @property
    def merged(self) -> "Adapter":
        """What is left of it in merged weights: A is B A (m, d), and B the identity."""
        return Adapter(self.b @ self.a, torch.eye(len(self.b)).to(self.b))


@dataclass(frozen=True)
class Inputs:
    """What the adversary holds of one layer.

    Attributes:
        h (N, d): what candidates give this layer.
        public (k, d): what public images do, or the candidates themselves.
        signal (N, m): minus the gradient of a candidate's loss at the outputs of this layer, by the
            public weights; None without labels.
    """

    h: Tensor
    public: Tensor
    signal: Tensor | None = None

    @cached_property
    def own(self) -> Tensor:
        """(C + ridge)⁻¹ (h − mean) / scale (N, d) of length 1, C the correlation of public
        inputs.
        """
        public = Public(self.public)
        clutter = torch.cov(public.standardised(public.features).mT)
        clutter.diagonal().add_(RIDGE)
        return normalize(torch.linalg.solve(clutter, public.standardised(self.h).mT).mT, dim=1)


@dataclass(frozen=True)
class Certificate:
    """
    Attributes:
        rows (q, r): orthonormal, of B.
        gap: the ratio of singular values behind the last of them.
        holds: whether the adversary believes C h = 0.
    """

    rows: Tensor
    gap: float
    holds: bool


def certificate(layer: Adapter) -> Certificate:
    """The rank of B is where its singular values fall most. That they fall by `GAP`, to below
    `FLOOR`, tells rounding from steps that were no gradients; a rank of all that the layer allows
    may hide more.
    """
    _, values, rows = torch.linalg.svd(layer.b.double(), full_matrices=False)
    values = torch.cat([values, values[-1:]]).clamp_min(1e-12)
    gap, last = (values[:-1] / values[1:]).max(0)
    rank = int(last) + 1
    clear = bool(gap > GAP and values[rank] < FLOOR * values[0])
    softmax = bool(layer.b.sum(0).norm() < FLOOR * layer.b.norm())
    return Certificate(rows[:rank], gap.item(), clear and rank < len(layer.b) - softmax)


def residual(layer: Adapter, rows: Tensor, h: Tensor) -> Tensor:
    """‖C h‖ / ‖A h‖ (N,) of inputs h (N, d), in float64, at least 1e-12."""
    z = h.double() @ layer.a.double().mT
    left = (z - (z @ rows.mT) @ rows).norm(dim=1)
    return (left / z.norm(dim=1).clamp_min(1e-30)).clamp_min(1e-12)


def response(layer: Adapter, inputs: Inputs) -> Tensor:
    """The filter (N,): the root mean square of A u over rows, A with columns of norm one, and
    with δ also ⟨Bᵀδ, A u⟩ / ‖Bᵀδ‖; the sum, each in its own `deviations`.
    """
    answers = inputs.own @ (layer.a / column_norms(layer.a)).mT
    loudness = answers.square().mean(1).sqrt()
    score = deviations(loudness, loudness)
    if inputs.signal is not None:
        as_a_step = (answers * normalize(inputs.signal @ layer.b, dim=1)).sum(1)
        score = score + deviations(as_a_step, as_a_step)
    return score.double()


def deviations(x: Tensor, among: Tensor) -> Tensor:
    """x (N,) less the median of others, over their median deviation from that."""
    middle = among.median()
    return (x - middle) / (among - middle).abs().median().clamp_min(1e-12)


@register(
    Needs(
        "Null space of an adapter", Adapter, "B = 0", "help", "inputs of candidates", "linear, LoRA"
    )
)
def by_adapter_nullspace(
    released: Adapter,
    shape_or_prior: Inputs,
    settings: None = None,
    generator: MaybeGenerator = None,
) -> Candidates:
    """The candidates' own inputs, by whether the adapter of this layer was trained on them; of
    several layers whose inputs did not move in training, scores add up. Nothing is drawn, nothing
    to be set. score: the filter and, where the certificate holds, what −log residual has above
    `CHANCE` deviations of public inputs. ReconError where inputs do not fit.
    """
    with one_reason("the inputs do not fit the adapted layer"):
        seen, filtered = certificate(released), response(released, shape_or_prior)
        left, public = (
            residual(released, seen.rows, h) for h in (shape_or_prior.h, shape_or_prior.public)
        )
        exact = (deviations(-left.log(), -public.log()) - CHANCE).clamp_min(0)
    about = {"certificate": seen, "residual": left, "filter": filtered}
    knows = "the adapter, and what candidates and public images give its layer"
    return Candidates(shape_or_prior.h, filtered + exact * seen.holds, knows, about)
