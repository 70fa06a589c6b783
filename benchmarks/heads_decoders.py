"""From features to pictures, ridge against better: `python benchmarks/heads_decoders.py` writes a
table.

Decoders learnt on public images and their mirror images, for a head trained on the images of seed
9, which no reported run attacks: ridge regression of three strengths, kernel ridge regression, and
a network of three convolutions with PixelShuffle, trained for minutes. Medians of NCC and SSIM of
pictures decoded from the features that the linear programmes find, from the true features (the
ceiling), and from found ones in the place of held-out ones (the null). Below, what else features
give away.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from heads_tuning import SEED, heads
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from timing import write
from torch import Tensor, nn
from torch.nn.functional import one_hot

from companion.chapters.heads.experiment import Cell, Task
from companion.chapters.heads.scoring import RIDGE, assigned, similarity
from recon.attacks.heads import sparse_features
from recon.attacks.separation import FirstLayer
from recon.images.features import backbone, features
from recon.scoring.metrics import ncc, ssim

SHAPE = (3, 32, 32)
Decode = Callable[[Tensor], Tensor]


def fitted(model: Ridge | KernelRidge) -> Callable[[Tensor, Tensor], Decode]:
    """scikit-learn's model on what is left of the mean image."""

    def fit(z: Tensor, pixels: Tensor) -> Decode:
        mean = pixels.mean(0)
        model.fit(z.numpy(), (pixels - mean).numpy())
        return lambda x: torch.from_numpy(model.predict(x.numpy())).float() + mean

    return fit


def network(epochs: int, width: int = 64, noise: float = 0.3) -> Callable[[Tensor, Tensor], Decode]:
    """4 × 4 to 32 × 32 pixels; features are dropped and made noisy, or it learns the public images
    by heart.
    """

    def fit(z: Tensor, pixels: Tensor) -> Decode:
        torch.manual_seed(0)
        mean = pixels.mean(0)
        net = nn.Sequential(
            *(
                nn.Dropout(0.3),
                nn.Linear(z.shape[1], 32 * width),
                nn.ReLU(),
                nn.Unflatten(1, (2 * width, 4, 4)),
            ),
            *(nn.Conv2d(2 * width, 4 * width, 3, padding=1), nn.PixelShuffle(2), nn.ReLU()),
            *(nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2), nn.ReLU()),
            *(nn.Conv2d(width, 2 * width, 3, padding=1), nn.PixelShuffle(2), nn.ReLU()),
            *(nn.Conv2d(width // 2, 3, 3, padding=1), nn.Flatten()),
        )
        steps = epochs * len(z) // 64
        optimiser = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-2)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
        for _ in range(steps):
            rows = torch.randint(len(z), (64,))
            loss = (
                (net(z[rows] + noise * torch.randn(64, z.shape[1])) + mean - pixels[rows])
                .square()
                .mean()
            )
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
        net.eval()
        return lambda x: net(x).detach() + mean

    return fit


def given(x_hat: Tensor, task: Task, flipped: Tensor) -> dict[str, dict[str, float]]:
    """What candidates (m, d) tell of the training images, beside the true features and the null:
    the candidates in the place of as many held-out images.

    colours: correlation of the mean colours of a decoded picture and its image, less those of the
    mean image · classes: share told by ridge regression · duplicates: share whose mirror image is
    nearest in a gallery with all other held-out images.

    Args:
        flipped (2 n, d): features of both sets' mirror images.
    """
    public, pixels, n = task.public, task.pixels["public"], len(task.train)
    z, mean = public.standardised(public.features), pixels.mean(0)
    wanted = torch.cat([pixels, one_hot(task.public_labels).to(pixels)], dim=1)
    model = Ridge(alpha=RIDGE * len(z)).fit(z.numpy(), wanted.numpy())
    train, others = (
        (task.pixels[name][:n], y[:n])
        for name, y in (("train", task.labels), ("others", task.other_labels))
    )
    cases = {
        "found": (assigned(x_hat, task.train, public), *train, flipped[:n]),
        "ceiling": (task.train, *train, flipped[:n]),
        "null": (assigned(x_hat, task.others[:n], public), *others, flipped[n:]),
    }
    told: dict[str, dict[str, float]] = {"colours": {}, "classes": {}, "duplicates": {}}
    for name, (x, images, labels, mirrored) in cases.items():
        read = torch.from_numpy(model.predict(public.standardised(x).numpy())).float()
        both = torch.stack([read[:, : pixels.shape[1]].clamp(0, 1), images]) - mean
        told["colours"][name] = torch.corrcoef(both.unflatten(2, SHAPE).mean((3, 4)).flatten(1))[
            0, 1
        ].item()
        told["classes"][name] = (
            (read[:, pixels.shape[1] :].argmax(1) == labels).float().mean().item()
        )
        nearest = similarity(x, torch.cat([mirrored, task.others[n:]]), public).argmax(1)
        told["duplicates"][name] = (nearest == torch.arange(n)).float().mean().item()
    return told


def main() -> None:
    ((task, released),) = heads([Cell()])
    public, n = task.public, len(task.train)
    mirrored = task.pixels["public"].unflatten(1, SHAPE).flip(-1)
    z = public.standardised(torch.cat([public.features, features(mirrored, backbone())]))
    pixels = torch.cat([task.pixels["public"], mirrored.flatten(1)])
    x_hat = sparse_features(FirstLayer(released.w1), public).x_hat
    train, others = task.pixels["train"], task.pixels["others"][:n]
    cases = {
        "found": (assigned(x_hat, task.train, public), train),
        "ceiling": (task.train, train),
        "null": (assigned(x_hat, task.others[:n], public), others),
    }
    tried = {
        **{f"ridge {k:g} for each image": fitted(Ridge(alpha=k * len(z))) for k in (1, 5, 15)},
        "kernel ridge": fitted(KernelRidge(kernel="rbf", gamma=0.1 / z.shape[1], alpha=1.0)),
        "network": network(5),
    }

    def likeness(pictures: Tensor, images: Tensor) -> dict[str, float]:
        scores = {"ncc": ncc(pictures, images), "ssim": ssim(pictures, images, SHAPE)}
        return {name: round(score.diagonal().median().item(), 3) for name, score in scores.items()}

    mean = pixels.mean(0)
    rows: dict[str, dict] = {"mean image": {"ceiling": likeness(mean.expand(n, -1), train)}}
    for name, fit in tried.items():
        start = time.process_time()
        decode = fit(z, pixels)
        seconds = round(time.process_time() - start, 1)
        found = {
            case: likeness(decode(public.standardised(x)).clamp(0, 1), y)
            for case, (x, y) in cases.items()
        }
        rows[name] = found | {"cpu_seconds": seconds}
    told = given(
        x_hat, task, features(torch.cat([train, others]).unflatten(1, SHAPE).flip(-1), backbone())
    )
    near = similarity(cases["found"][0], public.features, public).argmax(1)
    told |= {"nearest_public": likeness(task.pixels["public"][near], train)}
    write({"seed": SEED, "decoders": rows, "given": told}, __file__)


if __name__ == "__main__":
    main()
