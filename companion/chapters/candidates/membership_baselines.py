"""With candidates in hand, without KKT: three tests of membership that take a line each.

They set the bar for `recon.attacks.multipliers`: what linear algebra on the first layer tells, and the outputs alone.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from recon.attacks.separation import FirstLayer
from recon.optim.spectrum import signal_span

NARROW = 0.1  # of the positive margins: the narrowest window that holds this share of them is where they gather


def span_share(weights: FirstLayer, x: Tensor) -> Tensor:
    """‖P x‖ / ‖x‖ (m,) of candidates x (m, d), P the projection on the directions that stand out of W1 − κ W1(0).

    1 for every training image where the layer is a mixture of fewer images than it has units; 0 for all where nothing
    stands out.
    """
    basis = signal_span(weights.update.float())
    return (x.float() @ basis.mT).norm(dim=1) / x.float().norm(dim=1).clamp_min(1e-30)


def row_likeness(w1: Tensor, x: Tensor) -> Tensor:
    """The largest |cos| (m,) of candidates x (m, d) with a row of w1 (h, d)."""
    return (normalize(x, dim=1) @ normalize(w1, dim=1).mT).abs().amax(1)


def common_margin(margins: Tensor) -> Tensor:
    """−|log m_i − log m*| (m,) of margins y Φ of candidates, m* where most of them gather; −∞ for the misclassified.

    Trained to the maximum margin, the images that carry it have *equal* margins (complementary slackness); others do
    not.  m* is the middle of the narrowest window, in log m, of `NARROW` of the positive margins.
    """
    logs = torch.where(margins > 0, margins, torch.ones_like(margins)).log()
    positive = logs[margins > 0].sort().values
    if not len(positive):
        return torch.full_like(margins, -torch.inf)
    count = max(int(NARROW * len(positive)), min(5, len(positive)))
    widths = positive[count - 1 :] - positive[: len(positive) - count + 1]
    first = int(widths.argmin())
    middle = positive[first : first + count].mean()
    return torch.where(margins > 0, -(logs - middle).abs(), -torch.inf)
