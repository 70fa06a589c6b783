"""The slider: that a rule chooses the pairs, and that the fragment is self-contained and labelled."""

from types import SimpleNamespace

import pytest
import torch
from test_quiz import Collect

from recon.chapters.decoreco_tuned.compare import choose_pairs, compare

FOUND = [0, 3, 4, 5, 9, 12, 13]  # by place in contribution: candidates that resemble a training image


def result(found=FOUND, m=20):
    """m candidates in a shuffled order; of these by contribution, `found` are noisy training images, the rest noise."""
    generator = torch.Generator().manual_seed(0)
    train = torch.randn(m, 3072, generator=generator)
    x_hat = torch.randn(m, 3072, generator=generator)
    x_hat[found] = train[found] + 0.3 * x_hat[found]
    shuffle = torch.randperm(m, generator=generator)
    arrays = {
        "x_train": train,
        "x_hat": x_hat[shuffle],
        "mean": torch.zeros(3072),
        "contribution": torch.linspace(1, 0, m)[shuffle],
    }
    return SimpleNamespace(array=arrays.__getitem__)


def test_pairs_are_the_quantiles_of_contribution_in_both_groups():
    choice = choose_pairs(result(), n=3)
    assert (choice.candidates, choice.above) == (20, 7)
    assert [pair.place - 1 for pair in choice.pairs if pair.ncc > 0.6] == [0, 5, 13]
    assert [pair.place - 1 for pair in choice.pairs if pair.ncc <= 0.6] == [1, 11, 19]
    assert [pair.place for pair in choice.pairs] == sorted(pair.place for pair in choice.pairs)


def test_a_match_lies_over_its_own_training_image():
    for pair in choose_pairs(result()).pairs:
        likeness = torch.corrcoef(torch.stack([pair.image, pair.nearest]))[0, 1].item()
        assert likeness == pytest.approx(pair.ncc, abs=0.02)
        assert pair.image.min() >= 0 and pair.image.max() <= 1


@pytest.mark.parametrize(("found", "expected"), [([], 3), ([2], 4), (list(range(20)), 3)])
def test_a_small_or_empty_group_is_no_fault(found, expected):
    assert len(choose_pairs(result(found)).pairs) == expected


def test_fragment_is_self_contained_and_labelled():
    page, text = Collect(), compare(result())
    page.feed(text)
    images = [attributes for tag, attributes in page.tags if tag == "img"]
    sliders = [attributes for tag, attributes in page.tags if tag == "input"]
    assert len(images) == 12 and all(i["alt"] and i["src"].startswith("data:image/webp;base64,") for i in images)
    assert len({i["alt"] for i in images}) == 12 and len({s["aria-label"] for s in sliders}) == 6
    assert all("hidden" in s for s in sliders)  # the script shows them
    assert "://" not in text and text.count("<strong>match</strong>") == text.count("<strong>no match</strong>") == 3
    assert "7 of the 20 candidates" in text
