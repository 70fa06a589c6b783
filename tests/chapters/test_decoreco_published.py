"""The published recipe from its tuned start: what it is given, its order, and where it goes on."""

from __future__ import annotations

import pytest
import torch
from small_networks import layer_passes

from companion.chapters.decoreco import story
from companion.chapters.decoreco.experiment_published import contribution, gallery
from companion.chapters.pictures import levels
from recon.attacks.haim_recipe import ALPHA
from recon.images.registry import load_pool
from recon.nets.gram import per_image_gradients
from recon.nets.mlp import MLP
from recon.released import Weights
from recon.scoring.matching import rescale


@pytest.fixture(scope="module")
def smoke(runs):
    return runs("decoreco-published")


def test_a_contribution_is_the_length_of_a_gradient():
    network = MLP((9, 6, 6, 1), None)
    weights = Weights(network, network.flatten(network.init(torch.Generator().manual_seed(0))))
    generator = torch.Generator().manual_seed(1)
    x, multipliers = torch.randn(4, 9, generator=generator), torch.rand(4, generator=generator)
    gradients = per_image_gradients(layer_passes(network, weights.params, x, alpha=ALPHA))
    length = sum(gradient.flatten(1).square().sum(1) for gradient in gradients.values()).sqrt()
    torch.testing.assert_close(contribution(weights, x, multipliers), multipliers / 4 * length)


def test_a_gallery_is_the_pool_without_these_images():
    pool, mean = load_pool("photos"), torch.full((3072,), 0.25)
    others = gallery(pool, torch.from_numpy(pool.index[[0, 2]]), mean)
    assert others.shape == (len(pool.index) - 2, 3072)
    torch.testing.assert_close(others[0] + mean, torch.from_numpy(pool.images[1]).flatten() / 255)


def test_the_ranked_show_each_training_image_once(smoke):
    """By its first rank: 1 and 2 are of one training image, 3 and 5 of the next; ranks 2, 4 and 6
    count as false.
    """
    noise = torch.rand(9, 3072, generator=torch.Generator().manual_seed(0))
    train = noise[:3]
    similar = train[[0, 0, 1, 2, 1, 2]] + 0.1 * noise[3:]
    rows = torch.tensor([5, 0, 3, 1, 4, 2])  # of x_hat, in the order of the ranks
    arrays = smoke.arrays | {
        "mean": torch.zeros(3072),
        "similar_rows": rows,
        "false_ranks": torch.tensor([1, 3, 5]),
        "x_train": torch.cat([train, smoke.array("x_train")]),
        "x_hat": torch.cat([similar[rows.argsort()], smoke.array("x_hat")]),
    }
    chosen = story.published_selected(smoke.metrics, arrays, n=3)
    for name, ranks, images in (("first", [1, 3, 4], [0, 1, 2]), ("false", [2, 4], [0, 2])):
        assert chosen[f"{name}.rank"].tolist() == ranks
        expected = levels(rescale(similar[torch.tensor(ranks) - 1]))
        assert torch.equal(chosen[f"{name}.x_hat"], expected)
        assert torch.equal(chosen[f"{name}.train"], levels(rescale(train[images])))
