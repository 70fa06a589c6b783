"""What a feature gives away of its image: a picture, its colours, its class, and which image it is."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy.optimize import linear_sum_assignment
from sklearn.linear_model import Ridge
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from companion.store.record import Record
from recon.attacks.heads import Public
from recon.scoring.metrics import ncc, ssim

RIDGE = 5.0  # for each public image; the best of three on other images (benchmarks/heads_decoders.py)

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Images:
    """features (n, d), pixels (n, C·H·W) in [0, 1], labels (n,)."""

    features: Tensor
    pixels: Tensor
    labels: Tensor

    def __getitem__(self, rows: slice) -> Images:
        return Images(self.features[rows], self.pixels[rows], self.labels[rows])


@dataclass(frozen=True)
class Reading:
    """What a linear map, learnt on public images, makes of features: pictures (n, C·H·W) and classes (n,)."""

    pictures: Tensor
    classes: Tensor


class Decoder:
    """Ridge regression from standardised features to pixels and to the indicators of the classes."""

    def __init__(self, public: Images, statistics: Public) -> None:
        self.statistics, self.pixels = statistics, public.pixels.shape[1]
        targets = torch.cat([public.pixels, one_hot(public.labels).to(public.pixels)], dim=1)
        x = statistics.standardised(public.features)
        self.model = Ridge(alpha=RIDGE * len(x)).fit(x.numpy(), targets.numpy())

    def __call__(self, features: Tensor) -> Reading:
        """Of features (n, d)."""
        made = torch.from_numpy(self.model.predict(self.statistics.standardised(features).numpy())).float()
        return Reading(made[:, : self.pixels].clamp(0, 1), made[:, self.pixels :].argmax(1))


def similarity(x_hat: Tensor, images: Tensor, public: Public) -> Tensor:
    """Cosines (m, n) of features (m, d) and (n, d), less the public mean and in units of the public deviation."""
    return normalize(public.standardised(x_hat), dim=1) @ normalize(public.standardised(images), dim=1).mT


def assigned(x_hat: Tensor, images: Tensor, public: Public) -> Tensor:
    """The candidates (n, d) that images (n, d) match one to one; where there are too few, again the first one."""
    rows, columns = linear_sum_assignment(similarity(x_hat, images, public).numpy(), maximize=True)
    order = torch.zeros(len(images), dtype=torch.int64)
    order[torch.from_numpy(columns)] = torch.from_numpy(rows)
    return x_hat[order]


def given(
    x_hat: Tensor, train: Images, others: Images, public: Images, flipped: Tensor, shape: Shape
) -> tuple[Record, dict[str, Tensor]]:
    """How much candidates (m, d) tell of the training images, beside the true features and the null: the candidates in
    the place of as many held-out images.  flipped (2 n, d): features of both sets' mirror images · shape (C, H, W)."""
    statistics, n = Public(public.features), len(train.features)
    decode, held_out = Decoder(public, statistics), others[slice(n)]
    n_held = len(held_out.features)
    found = assigned(x_hat, train.features, statistics)
    cases = {
        "found": (found, train, flipped[:n]),
        "ceiling": (train.features, train, flipped[:n]),
        "null": (assigned(x_hat, held_out.features, statistics), held_out, flipped[n:]),
    }
    read = {name: decode(x) for name, (x, _, _) in cases.items()}
    near = similarity(found, public.features, statistics).argmax(1)
    mean = public.pixels.mean(0)

    def likeness(pictures: Tensor, images: Images) -> Record:
        pairs = [f(pictures, images.pixels).diagonal() for f in (ncc, lambda a, b: ssim(a, b, shape))]
        return Record(ncc=pairs[0].median().item(), ssim=pairs[1].median().item())

    def colours(pictures: Tensor, images: Images) -> float:
        a, b = ((x - mean).unflatten(1, shape).mean((2, 3)).flatten() for x in (pictures, images.pixels))
        return torch.corrcoef(torch.stack([a, b]))[0, 1].item()

    def duplicates(x: Tensor, mirrored: Tensor) -> float:
        gallery = torch.cat([mirrored, others.features[n_held:]])
        nearest = similarity(x, gallery, statistics).argmax(1)
        return (nearest == torch.arange(len(x))).float().mean().item()

    like = {name: likeness(read[name].pictures, images) for name, (_, images, _) in cases.items()}
    metrics = Record(
        decoded=like["found"],
        ceiling=like["ceiling"],
        held_out=like["null"],
        mean_image=likeness(mean.expand(n, -1), train),
        nearest_public=likeness(public.pixels[near], train),
        colours=Record(**{name: colours(read[name].pictures, images) for name, (_, images, _) in cases.items()}),
        classes=Record(
            **{
                name: (read[name].classes == images.labels).float().mean().item()
                for name, (_, images, _) in cases.items()
            }
        ),
        duplicates=Record(**{name: duplicates(x, mirrored) for name, (x, _, mirrored) in cases.items()}),
    )
    shown = {
        "x_train": train.pixels,
        "decoded": read["found"].pictures,
        "ceiling": read["ceiling"].pictures,
        "nearest_public": public.pixels[near],
        "matched": similarity(found, train.features, statistics).diagonal(),
    }
    return metrics, shown
