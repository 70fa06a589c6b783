"""scikit-learn's digits against its own table."""

import numpy as np
from sklearn.datasets import load_digits

from recon.images.registry import load_pool


def test_digits_are_scikit_learns():
    pool, table = load_pool("digits"), load_digits()
    assert pool.shape == (1, 8, 8) and len(pool) == 1797 and pool.class_names == tuple("0123456789")
    assert np.abs(pool.images[:, 0] / 255 - table.images / 16).max() <= 0.5 / 255
    assert (
        pool.images.min() == 0
        and pool.images.max() == 255
        and np.array_equal(pool.labels, table.target)
    )
    assert [pool.y_names[k] for k in pool.y[:4]] == ["even", "odd", "even", "odd"]
    assert np.array_equal(pool.y, table.target % 2) and pool.interchangeable
    assert pool.sha256.startswith("a705bbd25e1c")
