"""Two folders of PNGs, a training set and other photographs with the same classifier, and the script that shows it."""

import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from companion.chapters.linear.eight_bit import EightBitSettings, Twin, others, twin
from companion.chapters.run import check_seed
from companion.press import train_both
from recon.errors import ReconError
from recon.images.partitions import partition
from recon.images.pool import ImagePool
from recon.images.registry import load_pool
from recon.store.files import atomic_path, only_one

PHOTOGRAPHERS = """\
The images are 32 × 32 patches of photographs that come with scikit-learn and scikit-image, averaged over 2 × 2 pixels.
Those in training/ are as they were; those in other/ have been changed by a few grey levels.

china.jpg and flower.jpg   CC BY 2.0, https://creativecommons.org/licenses/by/2.0/
                           by danielbuechele, https://www.flickr.com/photos/danielbuechele/6061409035
                           and vultilion, https://www.flickr.com/photos/vultilion/6056698931
chelsea.png, coffee.png    CC0, by Stefan van der Walt and by Rachel Michetti
astronaut.png, rocket.jpg  public domain, by NASA and by SpaceX
"""


def twins(
    out: str | Path, n: int = 500, data: str = "auto", data_root: str | Path | None = None, seed: int = 0
) -> tuple[Path, Twin]:
    """Write out/training and out/other, n PNGs each (fewer where the pool holds fewer), and out/train_both.py.

    Both sets train to the same float32 numbers where `Twin.agree` says so: measured, then written.  PNGs of an earlier
    call are removed.  ReconError for images that are not 32 × 32 in colour, an odd n, a place that cannot be written.
    """
    check_seed(seed)
    pool = load_pool(data, data_root)
    if pool.shape != (3, 32, 32):
        raise ReconError(
            f"twins are made of colour images of 32 × 32 pixels, and those of {pool.name} are {pool.shape}"
        )
    drawn = partition(pool, n, seed=seed)
    pixels = (drawn.train.flat * 255).round().to(torch.uint8)
    choice = others(pool, drawn.train.index)
    made = twin(pixels, drawn.train.y, choice, EightBitSettings(weight_decay=train_both.DECAY))
    folder = Path(out)
    with only_one(folder):
        write(folder / "training", pixels, drawn.train.y, pool)
        write(folder / "other", made.pixels, choice.y[made.chosen], pool)
        with atomic_path(folder / "train_both.py") as path:
            path.write_text(Path(train_both.__file__).read_text(encoding="utf-8"), encoding="utf-8")
        if pool.name == "photos":
            with atomic_path(folder / "LICENCES.txt") as path:
                path.write_text(PHOTOGRAPHERS, encoding="utf-8")
    if pool.notice:
        print(f"recon: {pool.notice}", file=sys.stderr)
    return folder, made


def write(folder: Path, pixels: Tensor, y: Tensor, pool: ImagePool) -> None:
    """Images (n, d) uint8 as folder/Y-CLASS-NUMBER.png."""
    if folder.is_dir():
        for old in folder.glob("[01]-*.png"):
            old.unlink()
    for number, (image, label) in enumerate(zip(pixels, y.long().tolist(), strict=True)):
        name = f"{label}-{pool.y_names[label]}-{number:03}.png"
        picture = np.ascontiguousarray(image.unflatten(0, pool.shape).permute(1, 2, 0).numpy())
        with atomic_path(folder / name) as path:
            Image.fromarray(picture).save(path, format="PNG", optimize=True)
