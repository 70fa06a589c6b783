"""Handwritten digits that need no download: scikit-learn's small ones."""

import numpy as np

from recon.images.pool import ImagePool, thirds


def load_digits() -> ImagePool:
    """scikit-learn's 1797 digits, 8 × 8 grey with 17 levels (stretched to 0 … 255), ten classes:
    even against odd; in file order, dealt to the three parts by `thirds`.
    """
    from sklearn.datasets import load_digits as bundled

    digits = bundled()
    images = np.rint(digits.images * (255 / 16)).astype(np.uint8)
    return ImagePool(
        name="digits",
        images=np.ascontiguousarray(images[:, None]),
        labels=digits.target.astype(np.int64),
        y=(digits.target % 2).astype(np.int64),
        index=np.arange(len(images)),
        part=thirds(len(images)),
        notice="Executed on scikit-learn's digits, not CIFAR-10.",
        interchangeable=True,
    )
