"""What the leakage chapters share: the victims' images, and the numbers that Chen & Campbell (2022) published."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from recon.data import ImagePool

VICTIMS = (1, 3)  # CIFAR-10 train indices of the paper's truck and deer
#: class -> index of its first image in the CIFAR-10 train set
FIRST_OF_CLASS = {0: 29, 1: 4, 2: 6, 3: 9, 4: 3, 5: 27, 6: 0, 7: 7, 8: 8, 9: 1}
CLASS_OF = {index: label for label, index in FIRST_OF_CLASS.items()}
METHODS = ("rgap", "dlg", "cosine_tv", "hybrid")
#: Table 1: rank deficiencies rd_1 … rd_d and c(M)
PUBLISHED_RANK = {
    "CNN2 V1": ((0,), 0),
    "CNN2 V2": ((-1470,), -1470),
    "CNN3 V1": ((0, -4533), -2266),
    "CNN3 V2": ((-1470, -1050), -1995),
    "CNN3 V3": ((0, 0), 0),
    "CNN3 V4": ((-2146, 0), -2146),
    "CNN4 V1": ((0, -3965, -386), -2772),
    "CNN4 V2": ((0, -9316, 0), -6211),
}
#: Appendix E, mean over both images: network -> method -> (MSE, PSNR with peak 255)
PUBLISHED = {
    "CNN2 V1": {"rgap": (0.0, 197.00), "dlg": (2.0181, 45.08), "cosine_tv": (0.2290, 54.54), "hybrid": (0.0008, 79.82)},
    "CNN2 V2": {
        "rgap": (0.0346, 62.75),
        "dlg": (2.15e8, -9.32),
        "cosine_tv": (0.3257, 53.01),
        "hybrid": (0.0051, 71.69),
    },
    "CNN3 V1": {
        "rgap": (0.0531, 60.90),
        "dlg": (0.9279, 48.46),
        "cosine_tv": (0.4086, 52.03),
        "hybrid": (0.0478, 61.48),
    },
    "CNN3 V2": {
        "rgap": (0.0518, 60.99),
        "dlg": (0.9900, 48.17),
        "cosine_tv": (0.4739, 51.37),
        "hybrid": (0.0322, 63.78),
    },
    "CNN3 V3": {
        "rgap": (0.0, 181.26),
        "dlg": (3.75e17, -59.49),
        "cosine_tv": (0.2302, 54.51),
        "hybrid": (0.0020, 75.79),
    },
    "CNN3 V4": {
        "rgap": (0.0429, 61.83),
        "dlg": (5.11e13, -29.17),
        "cosine_tv": (0.5082, 51.07),
        "hybrid": (0.0417, 61.96),
    },
    "CNN4 V1": {
        "rgap": (0.0547, 60.81),
        "dlg": (0.8585, 48.79),
        "cosine_tv": (0.4255, 51.86),
        "hybrid": (0.0610, 60.28),
    },
    "CNN4 V2": {
        "rgap": (0.0406, 62.05),
        "dlg": (0.0951, 58.35),
        "cosine_tv": (0.2177, 54.82),
        "hybrid": (0.0139, 67.72),
    },
}
DIVERGED = 100.0  # mean squared error beyond this: the attack ran away


@dataclass(frozen=True)
class Victims:
    """Images minus 0.5 (B, 3, 32, 32), float64, labels (B,) in 0 … 9, indices; exact: the paper's images."""

    x: Tensor
    labels: Tensor
    index: list[int]
    exact: bool

    @staticmethod
    def of(pool: ImagePool, wanted: tuple[int, ...] = VICTIMS) -> Victims:
        """By CIFAR-10 train index; on other data as many images from both classes, labelled with these."""
        row_of = {int(i): row for row, i in enumerate(pool.index)}
        exact = pool.name == "cifar10"
        if exact:
            rows, labels = [row_of[i] for i in wanted], [CLASS_OF[i] for i in wanted]
        else:
            train = np.flatnonzero(pool.part == "train")
            rows = [int(train[k]) for k in np.linspace(0, len(train) - 1, len(wanted)).round().astype(int)]
            labels = [int(pool.y[row]) for row in rows]
        x = torch.from_numpy(pool.images[rows]).double() / 255 - 0.5
        return Victims(x, torch.tensor(labels), [int(pool.index[row]) for row in rows], exact)


def pixels(x: Tensor) -> Tensor:
    """Back to [0, 1] as flat images, for showing; (B, d)."""
    return (x + 0.5).flatten(1).float()
