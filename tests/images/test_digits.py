"""scikit-learn's digits against its own table."""

import numpy as np
from sklearn.datasets import load_digits

from recon.images.registry import load_pool


def test_digits_are_scikit_learns():
    pool, table = load_pool("digits"), load_digits()
    assert pool.shape == (1, 8, 8) and pool.interchangeable
    assert np.abs(pool.images[:, 0] / 255 - table.images / 16).max() <= 0.5 / 255
    assert np.array_equal(pool.labels, table.target) and np.array_equal(pool.y, table.target % 2)
    assert pool.sha256.startswith("a705bbd25e1c")
