"""Other people's attacks on a head's members, in the scores that `rates` takes: larger is rather a
member. Each is given all that it asks for.
"""

import torch
from sklearn.ensemble import HistGradientBoostingRegressor
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from companion.chapters.heads.stacked import Heads, passed
from recon.attacks.heads import Public
from recon.optim.spectrum import right_singular
from recon.scoring.membership import lira

DAMPING = 0.2  # of the Hessian, as published
MOMENTUM = 0.9
COMPONENTS = 32  # of the features, for the quantile


def log_odds(outputs: Tensor, y: Tensor) -> Tensor:
    """φ = log(p / (1 − p)) of the class y (...) in outputs (..., c): the confidence of LiRA."""
    if outputs.shape[-1] == 1:
        return outputs[..., 0] * (2 * y - 1)
    right = one_hot(y, outputs.shape[-1]).bool()
    return outputs[right].view(y.shape) - outputs.masked_fill(right, -torch.inf).logsumexp(-1)


def lira_online(phi: Tensor, shadows: Tensor, inside: Tensor) -> Tensor:
    """`lira` of φ (m,), where few of the shadows (k, m) were trained on an image, or none: one more
    is thought to be, which is as much more confident than the others as those are on average.
    """
    outside = (shadows * ~inside).sum(0) / (~inside).sum(0).clamp_min(1)
    gain = ((shadows - outside) * inside).sum() / inside.sum().clamp_min(1)
    thought = torch.ones_like(inside[:1])
    return lira(phi, torch.cat([shadows, outside[None] + gain]), torch.cat([inside, thought]))


def lira_offline(phi: Tensor, shadows: Tensor, inside: Tensor) -> Tensor:
    """How far φ (m,) is above that of the shadows (k, m) which were not trained on the image."""
    count = (~inside).sum(0).clamp_min(1)
    return phi - (shadows * ~inside).sum(0) / count


def loss_quantile(phi: Tensor, x: Tensor, public_phi: Tensor, public: Public) -> Tensor:
    """φ (m,) less what an image like x (m, d) has with probability ½ where it was not trained on:
    boosted trees learn that quantile of φ from public images (Bertran et al. 2023).
    """
    axes = right_singular(public.standardised(public.features))[1][:COMPONENTS].float()
    model = HistGradientBoostingRegressor(loss="quantile", quantile=0.5, random_state=0)
    model.fit((public.standardised(public.features) @ axes.mT).numpy(), public_phi.numpy())
    return phi - torch.from_numpy(model.predict((public.standardised(x) @ axes.mT).numpy())).float()


def alignment(head: Heads, x: Tensor, y: Tensor, written: Tensor) -> Tensor:
    """Cosine (m,) of what training has written into the first layer, (h, d), and minus the gradient
    of the loss of x (m, d), y (m,) there.
    """
    delta = passed(head, x[None], y[None])[3][0]
    return -((normalize(delta, dim=1) @ written) * normalize(x, dim=1)).sum(1) / written.norm()


def inverse_hessian(
    head: Heads, x: Tensor, y: Tensor, train: Tensor, train_y: Tensor, left: Tensor, lr: float
) -> Tensor:
    """The attack of Suri, Zhang & Evans (2024) on x (m, d), y (m,), by somebody who knows all
    training images, train (n, d), but one, and the step size.

    With g the gradient of an image's loss ℓ, g₀ that of the others' mean loss and H its damped
    Hessian, the score is ℓ / (1 + momentum) − (‖H⁻¹g‖² / n + 2 ⟨H⁻¹g₀, H⁻¹g⟩) / lr. H is that of
    Gauss and Newton, U Uᵀ + damping; U has a column for each image and class, so that all is told
    by the inner products of gradients. Theirs has the image in question in H where it is a member,
    which of few images tells by itself; so `left` (m,) says which training image is left out of g₀
    and H for each: a member itself, any for others.
    """
    n = len(train)
    outputs, *asked = (part[0].double() for part in passed(head, x[None], y[None]))
    answers, *known = (part[0].double() for part in passed(head, train[None], train_y[None]))
    count = answers.shape[1]
    if count == 1:
        answers = torch.cat([torch.zeros_like(answers), answers], dim=1)
    roots = answers.softmax(1).sqrt()
    factor = torch.diag_embed(roots) - (roots**2)[:, :, None] * roots[:, None]
    residual = factor[:, -count:].mT.flatten(0, 1) / max(n - 1, 1) ** 0.5
    every = torch.arange(n).repeat_interleave(roots.shape[1])
    slope = (residual @ head[2][0].double()) * (known[0] > 0)[every]
    columns = train[every].double(), known[0][every], residual, slope
    gradients, own = (train.double(), *known), (x.double(), *asked)
    gram = _products(columns, columns)
    gram.diagonal().add_(DAMPING)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(gram))
    cross, others = _products(own, columns), _products(gradients, columns)
    plain, lengths = _products(own, gradients), _products(own, own, paired=True)
    score = -torch.nn.functional.logsigmoid(log_odds(outputs, y)) / (1 + MOMENTUM)
    for k in range(n):
        out, rest = every == k, torch.arange(n) != k
        at = left == k
        # those asked about, and last the mean of the others; less the columns that are left out
        a = torch.cat([cross[at], others[rest].mean(0, keepdim=True)]) * ~out
        b = a @ inverse
        b = (b - torch.linalg.solve(inverse[out][:, out], b[:, out].mT).mT @ inverse[out]) * ~out
        # ⟨H⁻¹g, H⁻¹g⟩ and ⟨H⁻¹g, H⁻¹g₀⟩, by Woodbury
        square = lengths[at] - (a[:-1] * b[:-1]).sum(1) - DAMPING * b[:-1].square().sum(1)
        mean = plain[at][:, rest].mean(1) - a[:-1] @ b[-1] - DAMPING * (b[:-1] @ b[-1])
        score[at] -= (square / n + 2 * mean) / (lr * DAMPING**2)
    return score.float()


def _products(a: tuple[Tensor, ...], b: tuple[Tensor, ...], paired: bool = False) -> Tensor:
    """Inner products of gradients, each told by an image, hidden units, and the gradients at the
    outputs and before the ReLU: of all pairs, or of each with itself.
    """
    x, hidden, residual, slope = (
        (left * right).sum(1) if paired else left @ right.mT
        for left, right in zip(a, b, strict=True)
    )
    return slope * (x + 1) + residual * (hidden + 1)
