"""What scoring costs, against libraries, side by side on one thread: `python
benchmarks/scoring.py`.

SSIM of all pairs of 100 candidates and 100 images against scikit-image's `structural_similarity`,
pair by pair; singular values and right singular vectors of a first layer of 1000 units against
`torch.linalg.svd`, in float32 and in float64.
"""

from __future__ import annotations

import torch
from skimage.metrics import structural_similarity
from timing import side_by_side, write

from recon.optim.spectrum import right_singular
from recon.scoring.metrics import ssim

N, SHAPE, UNITS = 100, (3, 32, 32), 1000


def one_by_one(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """scikit-image, (m, n)."""
    images, others = (x.view(-1, *SHAPE).numpy() for x in (a, b))
    return torch.tensor([
        [structural_similarity(image, other, data_range=1, channel_axis=0) for other in others] for image in images  # noqa: E501
    ])  # fmt: skip


def main() -> None:
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    a, b = torch.rand(2, N, 3 * 32 * 32, generator=generator)
    layer = torch.randn(UNITS, 3 * 32 * 32, generator=generator)
    largest = (ssim(a, b, SHAPE) - one_by_one(a, b)).abs().max().item()
    assert largest < 1e-6, largest
    of_ssim = side_by_side(
        {"ours": lambda: ssim(a, b, SHAPE), "theirs": lambda: one_by_one(a, b)}, repeat=3
    )
    of_svd = side_by_side({
        "ours": lambda: right_singular(layer),
        "float32": lambda: torch.linalg.svd(layer, full_matrices=False),
        "float64": lambda: torch.linalg.svd(layer.double(), full_matrices=False),
    })  # fmt: skip
    write(
        {
            "ssim_over_scikit_image": of_ssim["theirs"] / of_ssim["ours"],
            "ssim_largest_difference": largest,
            "right_singular_over_svd_float32": of_svd["float32"] / of_svd["ours"],
            "right_singular_over_svd_float64": of_svd["float64"] / of_svd["ours"],
        },
        __file__,
    )


if __name__ == "__main__":
    main()
