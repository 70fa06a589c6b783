"""What both classifiers of chapter 3 share: the starts (a) random, (b) truth, (c) partition, and
what is measured.
"""

from typing import Any

import torch
from torch import Tensor

from companion.chapters.base import Context, Tensors
from companion.store.record import Record
from recon.images.bundle import Bundle
from recon.optim.descent import HeavyBall
from recon.scoring.metrics import l2
from recon.scoring.naturalness import signs

STARTS = ("random", "truth", "partition")
#: Table 1 of Runkel et al. (2024): average ‖θ* − θ‖² of each start, for the affine and the
#: one-hidden-layer net
PAPER_AFFINE = {"random": 1.1214e-3, "truth": 1.3888e-3, "partition": 2.9749e-3}
PAPER_HIDDEN = {"random": 6.1157e-5, "truth": 1.7055e-3, "partition": 6.3629e-3}
BOX = (0.0, 1.0)  # that pixels lie in [0, 1] is no secret
#: of the images against the one-hidden-layer net
DESCENT = HeavyBall(10.0, 0.5, box=BOX, max_relative_step=0.1)


def images_of(sizes: Any, context: Context, dtype: torch.dtype) -> Bundle:
    """As many as the sizes say, in [0, 1]."""
    data = context.dataset(sizes.n_train, sizes.n_held_out)
    return Bundle.of(data, context.device, dtype, centred=False)


def start_of(images: Bundle, name: str, generator: torch.Generator) -> Tensor:
    """Start (a) U(0, 1), (b) the training images, (c) the other partition; (n, d)."""
    if name == "random":
        noise = torch.rand(images.train.shape, generator=generator, dtype=images.train.dtype)
        return noise.to(images.train.device)
    return images.train if name == "truth" else images.init


def measure(x_hat: Tensor, x_init: Tensor, images: Bundle) -> Record:
    """The reconstructions x_hat (n, d) from x_init.

    moved_l2: mean L2 distance from the start, over all values in [0, 1] · nn_train_l2: mean to the
    nearest training image · shares of images: nearer_to_partition: nearer to the start partition
    than to the training images · own_start_is_nearest: whose nearest image of the partition is the
    one in their own row, where start (c) began.
    """
    to_train = l2(x_hat, images.train).min(1)
    to_init = l2(x_hat, images.init).min(1)
    row = torch.arange(len(x_hat), device=x_hat.device)
    return Record(
        moved_l2=(x_hat - x_init).norm(dim=-1).mean().item(),
        nn_train_l2=to_train.values.mean().item(),
        nearer_to_partition=(to_init.values < to_train.values).double().mean().item(),
        own_start_is_nearest=(to_init.indices == row).double().mean().item(),
    )


def kept_arrays(images: Bundle) -> Tensors:
    """What the figures show beside reconstructions, float32."""
    return {
        "x_train": images.train.float(),
        "x_partition": images.init.float(),
        "x_held_out": images.held_out[:40].float(),
    }


def held_out_distance(images: Bundle) -> float:
    """Mean L2 distance of a held-out image to its nearest training image, the null of every
    "resembles".
    """
    return l2(images.held_out, images.train).amin(1).mean().item()


def slopes(x_hat: Tensor, held_out: Tensor, shape: tuple[int, ...]) -> Record:
    """Mean size of the exponent b in power ∝ frequency^−b, see `recon.scoring.naturalness.signs`:
    about 0 for noise, and 2 or more for photographs and for blotches. random: of what the attack
    makes of noise (n, d) · held_out: of held-out images (m, d).
    """
    sets = {"random": x_hat, "held_out": held_out}
    return Record({name: signs(x, shape)["slope"].abs().mean().item() for name, x in sets.items()})


def converged(history: Tensor, tol: float) -> bool:
    """Whether an energy (steps,) has stopped falling: by less than 1 % over the last quarter, or it
    is ≤ tol.
    """
    return bool(history[-1] <= tol or history[-1] >= 0.99 * history[-1 - len(history) // 4])
