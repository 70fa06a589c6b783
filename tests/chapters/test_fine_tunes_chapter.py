"""Whole fine-tunes: what is trained and how fast."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from companion.chapters.fine_tunes import experiment as tunes
from companion.chapters.fine_tunes.story import label
from companion.store.record import Record
from recon.images.features import backbone
from recon.optim.rng import named

CELL = replace(tunes.BY_ADAMW, n=4, epochs=1)
X, Y = torch.rand(4, 3, 32, 32, generator=named(0, "x")), torch.arange(4)


def fine_tuned(**changes) -> tuple[tunes.Network, tunes.Network]:
    of, cell = backbone("lite0", 32), replace(CELL, **changes)
    before = tunes.Network(of, named(0, "test")).eval()
    return before, tunes.fine_tuned(cell, X, Y, of, named(0, "test"))


def buffers(network: tunes.Network) -> list[float]:
    return [value.double().norm().item() for value in network.buffers()]


def test_the_network_before_is_the_public_backbone_and_the_same_head():
    before, after = fine_tuned(lr=1e-9, body_lr=1e-9, weight_decay=0.0)
    for name, value in before.named_parameters():
        torch.testing.assert_close(value, after.get_parameter(name), rtol=0, atol=1e-7)
    assert buffers(before) != buffers(after) and not after.training


@pytest.mark.parametrize("frozen", [False, True])
def test_batch_norm_is_frozen_or_not_and_the_same_seed_trains_the_same(frozen):
    (before, after), (_, again) = (fine_tuned(frozen_statistics=frozen) for _ in range(2))
    assert (buffers(before) == buffers(after)) == frozen
    assert all(map(torch.equal, after.parameters(), again.parameters()))


def test_rates_by_layer_fall_towards_the_first():
    network = tunes.Network(backbone("lite0", 32), named(0, "test"))
    cell = replace(CELL, lr=1.0, body_lr=0.5, layerwise=0.5)
    head, *body = tunes.rates_by_layer(cell, network)
    rates = [group["lr"] for group in body]
    assert head["lr"] == 1 and rates == [0.5 ** (k + 1) for k in range(len(rates))]
    assert body[-1]["params"][0] is network.body.net._conv_stem.weight
    count = sum(len(group["params"]) for group in (head, *body))
    assert count == len(list(network.parameters()))


def test_crops_and_flips_are_of_every_image_and_drawn_by_the_seed():
    plain, varied, again = (fine_tuned(augment=augment)[1] for augment in (False, True, True))
    w, v, a = (network.head[0].weight for network in (plain, varied, again))
    assert not torch.equal(w, v) and torch.equal(v, a)


def test_cells_of_a_recipe_are_the_plain_ones():
    rows = [
        Record(recipe="SGD", n=n, frozen_statistics=frozen, augment=False, images=0)
        for n, frozen in ((100, False), (300, False), (100, True))
    ]
    metrics = tunes.Metrics(n_train=100, cells=rows)
    assert metrics.of("SGD") == rows[:1] and metrics.of("AdamW") == []
    assert label(rows[2]) == "SGD, batch norm frozen, n = 100"
    names = [cell.name for cell in tunes.SIZES["paper"].cells]
    assert len(set(names)) == len(names)
