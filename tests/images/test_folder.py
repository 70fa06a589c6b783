"""A reader's folder of images: which files, which classes, and one sentence for what does not
fit.
"""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from torchvision.datasets import ImageFolder

from recon.images.partitions import partition
from recon.images.registry import load_pool


def write(folder, names, side=(6, 5), grey=False, seed=0):
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        pixels = rng.integers(0, 256, side if grey else (*side, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / name)


@pytest.fixture
def classes(tmp_path):
    root = tmp_path / "My Images µ"
    for k, name in enumerate(("cat", "dog", "eel")):
        write(root / name, [f"{i:02}.png" for i in range(12)], seed=k)
    (root / "cat" / "notes.txt").write_text("no image")
    (root / "empty").mkdir()
    return root


def test_classes_are_subfolders_as_torchvision_reads_them(classes):
    pool = load_pool(f"folder:{classes}")
    (classes / "empty").rmdir()
    oracle = ImageFolder(str(classes))
    assert pool.labels.tolist() == oracle.targets
    expected = np.stack([np.asarray(image).transpose(2, 0, 1) for image, _ in oracle])
    assert np.array_equal(pool.images, expected) and pool.shape == (3, 6, 5)
    # cat against dog and eel
    assert pool.y.tolist() == [int(label > 0) for label in oracle.targets]
    assert pool.name == "folder-my-images" and "not CIFAR-10" in pool.notice
    assert len(partition(pool, 4, n_held_out=2).train) == 4


def test_four_classes_are_halved(classes):
    write(classes / "fox", ["a.png"], seed=9)
    pool = load_pool(f"folder:{classes}")
    assert [pool.y[pool.labels == k].max() for k in range(4)] == [0, 0, 1, 1]


def test_flat_folder_has_random_labels_and_says_so(tmp_path):
    write(tmp_path, [f"{i:03}.png" for i in range(60)], grey=True)
    pool = load_pool(f"folder:{tmp_path}")
    assert pool.shape == (1, 6, 5) and pool.y.sum() == 30 and "drawn at random" in pool.notice
    assert np.array_equal(load_pool(f"folder:{tmp_path}").y, pool.y)
    assert 5 < pool.y[:30].sum() < 25  # not the first half against the second


def test_grey_among_colour(classes):
    write(classes / "cat", ["zz.png"], grey=True, seed=5)
    pool = load_pool(f"folder:{classes}")
    (row,) = np.flatnonzero((pool.images[:, :1] == pool.images).all((1, 2, 3)))
    assert row == 12 and np.array_equal(
        pool.images[row, 1], np.asarray(Image.open(classes / "cat" / "zz.png"))
    )


def test_of_equal_images_the_first_counts(classes):
    before = load_pool(f"folder:{classes}")
    (classes / "eel" / "copy.png").write_bytes((classes / "cat" / "03.png").read_bytes())
    after = load_pool(f"folder:{classes}")
    assert after.sha256 == before.sha256 and np.array_equal(after.labels, before.labels)


def test_what_does_not_fit(classes, tmp_path, one_sentence):
    def refused(match, path=classes):
        one_sentence(lambda: load_pool(f"folder:{path}"), match)

    refused("there is no folder", tmp_path / "nowhere")
    refused("cannot be read", "~no-such-user-here/x")
    refused("there are no images", classes / "empty")
    write(tmp_path / "one" / "only", ["a.png"])
    refused("in one class, only", tmp_path / "one")
    write(classes / "dog", ["wide.png"], side=(5, 6))
    refused("must have one width and height, and 00.png is 5 × 6 and wide.png is 6 × 5")
    (classes / "dog" / "wide.png").write_bytes(b"junk")
    refused("the image .*wide.png cannot be read")
    Image.fromarray(np.zeros((6, 5), np.uint16)).save(classes / "dog" / "wide.png")
    refused("wide.png has more than 8 bits a channel")
