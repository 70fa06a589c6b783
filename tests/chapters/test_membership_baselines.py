"""One-line tests of membership, each on a case with a known answer."""

from __future__ import annotations

import torch

from companion.chapters.candidates.membership_baselines import common_margin, row_likeness, span_share
from recon.attacks.separation import FirstLayer


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_the_span_holds_the_images_and_no_others():
    images, others = drawn(5, 60), drawn(20, 60, seed=1)
    w1_init = drawn(40, 60, seed=2)
    mixed = 20 * drawn(40, 5, seed=3) @ images
    small = FirstLayer(1e-4 * w1_init + mixed)
    inside, outside = span_share(small, images), span_share(small, others)
    assert inside.min() > 0.999 and outside.max() < 0.9
    known = FirstLayer(100 * w1_init + mixed, 100 * w1_init)
    assert span_share(known, images).min() > 0.999 and span_share(known, others).max() < 0.9
    torch.testing.assert_close(span_share(small, 7 * others), outside)
    assert (span_share(FirstLayer(torch.zeros(4, 60)), images) == 0).all()


def test_the_nearest_row_has_either_sign():
    rows = torch.eye(3)
    x = torch.tensor([[2.0, 0, 0], [0, -3, 0], [1, 1, 1]])
    torch.testing.assert_close(row_likeness(rows, x), torch.tensor([1.0, 1.0, 3**-0.5]))


def test_margins_gather_where_the_carriers_are():
    generator = torch.Generator().manual_seed(0)
    spread = torch.exp(2 * torch.randn(100, generator=generator))
    margins = torch.cat([1.5 * torch.exp(0.01 * torch.randn(30, generator=generator)), spread, -spread])
    score = common_margin(margins)
    assert score[:30].min() > score[30:130].topk(10).values[-1] and (score[130:] == -torch.inf).all()
    torch.testing.assert_close(common_margin(100 * margins)[:130], score[:130], atol=1e-4, rtol=0)
    assert (common_margin(-spread) == -torch.inf).all()
    assert common_margin(torch.tensor([2.0])).tolist() == [0.0]
