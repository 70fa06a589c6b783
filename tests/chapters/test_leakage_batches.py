"""The size of an image that is known up to a factor."""

import torch

from companion.chapters.leakage_batches.experiment import scaled_by_bias


def test_the_bias_gives_size_and_sign():
    generator = torch.Generator().manual_seed(0)
    x, a = torch.randn(3, 20, generator=generator), torch.randn(7, 3, generator=generator)
    scales = torch.tensor([[0.3], [-2.0], [5.0]])
    torch.testing.assert_close(scaled_by_bias(scales * x, a @ x, a.sum(1)), x)
