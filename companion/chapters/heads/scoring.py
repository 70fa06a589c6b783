"""Features that were found against those that were trained on, and what a feature shows of its
image.
"""

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from sklearn.linear_model import Ridge
from torch import Tensor
from torch.nn.functional import normalize

from companion.store.record import Record
from recon.attacks.heads import Public
from recon.scoring.roc import auc, true_rate

# for each public image; the best of three on other images (benchmarks/heads_decoders.py)
RIDGE = 5.0


def similarity(x_hat: Tensor, images: Tensor, public: Public) -> Tensor:
    """Cosines (m, n) of features (m, d) and (n, d), less the public mean and in units of the public
    deviation.
    """
    return (
        normalize(public.standardised(x_hat), dim=1)
        @ normalize(public.standardised(images), dim=1).mT
    )


def cosines(x_hat: Tensor, images: Tensor, public: Public) -> Record:
    """One-to-one matches of images (n, d) with candidates (m, d)."""
    scores = similarity(x_hat, images, public).numpy()
    matched = scores[linear_sum_assignment(scores, maximize=True)]
    return Record({f"cos_0.{k}": int((matched > k / 10).sum()) for k in (7, 8, 9)})


def rates(score: Tensor, member: np.ndarray) -> Record:
    """`cells.span` of `Metrics`, of scores (k,)."""
    s = score.double().numpy()
    return Record(
        {
            "auc": auc(s, member),
            "tpr_at_1pct": true_rate(s, member, 0.01),
            "tpr_at_0.1pct": true_rate(s, member, 0.001),
        }
    )


def assigned(x_hat: Tensor, images: Tensor, public: Public) -> Tensor:
    """The candidates (n, d) that images (n, d) match one to one; where there are too few, again the
    first one.
    """
    rows, columns = linear_sum_assignment(similarity(x_hat, images, public).numpy(), maximize=True)
    order = torch.zeros(len(images), dtype=torch.int64)
    order[torch.from_numpy(columns)] = torch.from_numpy(rows)
    return x_hat[order]


def pictures(
    x_hat: Tensor, train: Tensor, pixels: Tensor, public: Public, public_pixels: Tensor
) -> dict[str, Tensor]:
    """Of training features (n, d) and their pixels (n, C·H·W): the candidates (m, d) that they
    match, decoded by ridge regression on public images, the true features decoded (the ceiling),
    the public image whose feature is nearest to the candidate; and the cosines of the matches (n,).
    """
    x = public.standardised(public.features)
    model = Ridge(alpha=RIDGE * len(x)).fit(x.numpy(), public_pixels.numpy())

    def decoded(features: Tensor) -> Tensor:
        return (
            torch.from_numpy(model.predict(public.standardised(features).numpy()))
            .float()
            .clamp(0, 1)
        )

    found = assigned(x_hat, train, public)
    return {
        "x_train": pixels,
        "decoded": decoded(found),
        "ceiling": decoded(train),
        "nearest_public": public_pixels[similarity(found, public.features, public).argmax(1)],
        "matched": similarity(found, train, public).diagonal(),
    }
