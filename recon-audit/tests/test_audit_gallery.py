"""The networks of the gallery at toy size: their trainings, what is said of them, and the file that
goes on.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from audit_gallery import NETWORKS, in_sequence, train_network, words

from recon.images.partitions import Dataset, Partition

SMALL = {
    name: replace(each, recipe=replace(each.recipe, width=8, steps=3))
    for name, each in NETWORKS.items()
}


def toy(n=6, side=8):
    """Noise, with classes in turn."""
    x = torch.rand(2 * n, 3, side, side, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(2 * n) % 10
    parts = [
        Partition(x[k], (labels[k] % 2).float(), labels[k], labels[k])
        for k in torch.arange(2 * n).split(n)
    ]
    return Dataset(parts[0], parts[0], parts[1])


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_is_trained_and_without_hooks(name):
    module, done = train_network(SMALL[name], toy())
    x = toy().train.x
    # batch norm of ResNet-18 alone
    assert done.steps == 3 and len(list(module.buffers())) in (0, 60)
    assert not module._forward_hooks and not any(
        hasattr(p, "grad_sample") for p in module.parameters()
    )
    again, _ = train_network(SMALL[name], toy())
    with torch.no_grad():
        flat = in_sequence(module, x.shape[1:])(x.flatten(1))
        assert flat.shape == (6, 10 if name == "ResNet-18" else 1)
        if name == "ResNet-18":
            assert torch.equal(flat, module(x))  # its parts in a row are the network itself
    assert all(
        torch.equal(a, b) for a, b in zip(module.parameters(), again.parameters(), strict=True)
    )
    assert ("ε = 8 at δ = 1/60" in words(SMALL[name].recipe, done, 6)) == ("DP-SGD" in name)
