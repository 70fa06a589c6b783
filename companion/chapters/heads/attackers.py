"""Other people's attacks on a head's members, in the scores that `rates` takes: larger is rather a
member. Each is given all that it asks for.
"""

from collections.abc import Sequence

import torch
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.pipeline import make_pipeline
from torch import Tensor
from torch.nn.functional import linear, logsigmoid, normalize, one_hot, pad

from recon.attacks.heads import Public
from recon.attacks.multipliers import confidence
from recon.scoring.membership import lira

DAMPING = 0.2  # of the Hessian, as published
MOMENTUM = 0.9
COMPONENTS = 32  # of the features, for the quantile


Head = list[Tensor]  # weights and biases (h, d), (h,), (c, h), (c,)


def passed(head: Head, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """Outputs (n, c) for images x (n, d) of classes y (n,), and what tells the gradients of their
    losses, see `written`.
    """
    hidden = linear(x, *head[:2]).relu()
    outputs = linear(hidden, *head[2:])
    if outputs.shape[1] == 1:
        residual = outputs.sigmoid() - y[:, None]
    else:
        residual = outputs.softmax(1) - one_hot(y, outputs.shape[1])
    return outputs, *written(head, x, hidden, residual)


def written(head: Head, x: Tensor, hidden: Tensor, residual: Tensor) -> tuple[Tensor, ...]:
    """Images (n, d), hidden units (n, h), and gradients at the outputs (n, c) and before the
    ReLU.
    """
    return x, hidden, residual, (residual @ head[2]) * (hidden > 0)


def outside(shadows: Tensor, inside: Tensor) -> Tensor:
    """Mean (m,) of those of shadows (k, m) that were not trained on the image."""
    return (shadows * ~inside).sum(0) / (~inside).sum(0).clamp_min(1)


def lira_online(phi: Tensor, shadows: Tensor, inside: Tensor) -> Tensor:
    """`lira` of φ (m,), where few of the shadows (k, m) were trained on an image, or none: one more
    is thought to be, which is as much more confident than the others as those are on average.
    """
    mean = outside(shadows, inside)[None]
    thought = torch.ones_like(inside[:1])
    gain = ((shadows - mean) * inside).sum() / inside.sum().clamp_min(1)
    return lira(phi, torch.cat([shadows, mean + gain]), torch.cat([inside, thought]))


def lira_offline(phi: Tensor, shadows: Tensor, inside: Tensor) -> Tensor:
    """How far φ (m,) is above that of the shadows (k, m) which were not trained on the image."""
    return phi - outside(shadows, inside)


def loss_quantile(phi: Tensor, x: Tensor, public_phi: Tensor, public: Public) -> Tensor:
    """φ (m,) less what an image like x (m, d) has with probability ½ where it was not trained on:
    boosted trees learn that quantile of φ from public images (Bertran et al. 2023).
    """
    trees = HistGradientBoostingRegressor(loss="quantile", quantile=0.5, random_state=0)
    model = make_pipeline(PCA(min(COMPONENTS, len(public_phi)), random_state=0), trees)
    model.fit(public.standardised(public.features).numpy(), public_phi.numpy())
    return phi - torch.from_numpy(model.predict(public.standardised(x).numpy())).float()


def alignment(head: Head, x: Tensor, y: Tensor, written: Tensor) -> Tensor:
    """Cosine (m,) of what training has written into the first layer, (h, d), and minus the gradient
    of the loss of x (m, d), y (m,) there.
    """
    delta = passed(head, x, y)[-1]
    return -((normalize(delta, dim=1) @ written) * normalize(x, dim=1)).sum(1) / written.norm()


def inverse_hessian(head: Head, x: Tensor, y: Tensor, n: int, lr: float) -> Tensor:
    """The attack of Suri, Zhang & Evans (2024) on x (m, d), y (m,), of which the first n are the
    training images, by somebody who knows all of these but one, and the step size.

    With g the gradient of an image's loss ℓ, g₀ that of the others' mean loss and H its damped
    Hessian, the score is ℓ / (1 + momentum) − (‖H⁻¹g‖² / n + 2 ⟨H⁻¹g₀, H⁻¹g⟩) / lr. H is that of
    Gauss and Newton, U Uᵀ + damping; U has a column for each image and class, so that all is told
    by the inner products of gradients. Theirs has the image in question in H where it is a member,
    which of few images tells by itself; so one training image is left out of g₀ and H for each: a
    member itself, any for others.
    """
    head = [part.double() for part in head]
    outputs, *asked = passed(head, x.double(), y)
    known = [part[:n] for part in asked]
    count = outputs.shape[1]
    answers = pad(outputs, (1, 0)) if count == 1 else outputs
    roots = answers[:n].softmax(1).sqrt()
    factor = torch.diag_embed(roots) - (roots**2)[:, :, None] * roots[:, None]
    residual = factor[:, -count:].mT.flatten(0, 1) / max(n - 1, 1) ** 0.5
    every = torch.arange(n).repeat_interleave(roots.shape[1])
    columns = written(head, known[0][every], known[1][every], residual)
    gram = _products(columns, columns)
    gram.diagonal().add_(DAMPING)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(gram))
    cross = _products(asked, columns)
    plain = _products(asked, known)
    lengths = _products(asked, asked, paired=True)
    score = -logsigmoid(confidence(outputs, y)) / (1 + MOMENTUM)
    for k in range(n):
        out = every == k
        rest = torch.arange(n) != k
        at = slice(k, None, n)
        # those asked about, and last the mean of the others; b is 0 where columns are left out
        a = torch.cat([cross[at], cross[:n][rest].mean(0, keepdim=True)])
        b = a @ inverse
        b = b - torch.linalg.solve(inverse[out][:, out], b[:, out].mT).mT @ inverse[out]
        others = b[-1]
        a = a[:-1]
        b = b[:-1]
        # ⟨H⁻¹g, H⁻¹g⟩ and ⟨H⁻¹g, H⁻¹g₀⟩, by Woodbury
        square = lengths[at] - (a * b).sum(1) - DAMPING * b.square().sum(1)
        mean = plain[at][:, rest].mean(1) - a @ others - DAMPING * (b @ others)
        score[at] -= (square / n + 2 * mean) / (lr * DAMPING**2)
    return score.float()


def _products(a: Sequence[Tensor], b: Sequence[Tensor], paired: bool = False) -> Tensor:
    """Inner products of gradients, each told by an image, hidden units, and the gradients at the
    outputs and before the ReLU: of all pairs, or of each with itself.
    """
    x, hidden, residual, slope = (
        (left * right).sum(1) if paired else left @ right.mT
        for left, right in zip(a, b, strict=True)
    )
    return slope * (x + 1) + residual * (hidden + 1)
