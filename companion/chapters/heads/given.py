"""The pictures of what was found: each training image's candidate, decoded, and the nearest public image."""

from __future__ import annotations

import torch
from scipy.optimize import linear_sum_assignment
from sklearn.linear_model import Ridge
from torch import Tensor
from torch.nn.functional import normalize

from recon.attacks.heads import Public

RIDGE = 5.0  # for each public image; the best of three on other images (benchmarks/heads_decoders.py)


def similarity(x_hat: Tensor, images: Tensor, public: Public) -> Tensor:
    """Cosines (m, n) of features (m, d) and (n, d), less the public mean and in units of the public deviation."""
    return normalize(public.standardised(x_hat), dim=1) @ normalize(public.standardised(images), dim=1).mT


def assigned(x_hat: Tensor, images: Tensor, public: Public) -> Tensor:
    """The candidates (n, d) that images (n, d) match one to one; where there are too few, again the first one."""
    rows, columns = linear_sum_assignment(similarity(x_hat, images, public).numpy(), maximize=True)
    order = torch.zeros(len(images), dtype=torch.int64)
    order[torch.from_numpy(columns)] = torch.from_numpy(rows)
    return x_hat[order]


def pictures(x_hat: Tensor, train: Tensor, pixels: Tensor, public: Public, public_pixels: Tensor) -> dict[str, Tensor]:
    """Of training features (n, d) and their pixels (n, C·H·W): the candidates (m, d) that they match, decoded by ridge
    regression on public images, the true features decoded (the ceiling), the public image whose feature is nearest to
    the candidate; and the cosines of the matches (n,)."""
    x = public.standardised(public.features)
    model = Ridge(alpha=RIDGE * len(x)).fit(x.numpy(), public_pixels.numpy())

    def decoded(features: Tensor) -> Tensor:
        return torch.from_numpy(model.predict(public.standardised(features).numpy())).float().clamp(0, 1)

    found = assigned(x_hat, train, public)
    return {
        "x_train": pixels,
        "decoded": decoded(found),
        "ceiling": decoded(train),
        "nearest_public": public_pixels[similarity(found, public.features, public).argmax(1)],
        "matched": similarity(found, train, public).diagonal(),
    }
