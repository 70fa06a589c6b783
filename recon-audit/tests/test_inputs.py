"""Images from wherever they are kept: arrays of every layout, data sets, folders with everything in
them, labels.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
from PIL import Image

from recon.errors import ReconError
from recon_audit.fit import transform_of
from recon_audit.images import Expected, Images, images_of, load_images
from recon_audit.labels import classes_of

N = 8


@pytest.fixture
def pixels():
    return np.random.default_rng(0).integers(0, 256, (2 * N, 6, 5, 3), dtype=np.uint8)


def save(folder, pixels, name):
    for k, image in enumerate(pixels):
        file = folder / name(k)
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(file)


@pytest.mark.parametrize("suffix", ["png", "bmp", "tiff", "gif", "webp"])
def test_formats_of_files(suffix, pixels, tmp_path):
    save(tmp_path / "f", pixels[:N, ..., 0], lambda k: f"{k}.{suffix}")
    found = images_of(tmp_path / "f", "train", Expected(dim=30))
    assert found.pixels.shape == (N, 1, 6, 5) and not found.note and found.labels is None
    if suffix != "webp":  # which loses something
        assert (found.pixels[:, 0] == pixels[:N, ..., 0]).all()


def test_sixteen_bits_grey_and_transparency(pixels, tmp_path):
    folder = tmp_path / "f"
    deep = pixels[0, ..., 0].astype(np.uint16) * 257
    save(folder, [deep], lambda _: "a.png")
    Image.fromarray(pixels[1]).convert("RGBA").save(folder / "b.png")
    Image.fromarray(pixels[2]).convert("L").save(folder / "c.png")
    found = images_of(folder, "train", Expected(dim=90))
    assert found.pixels.dtype == np.float32 and found.pixels.shape == (3, 3, 6, 5)
    np.testing.assert_allclose(found.pixels[0, 1], pixels[0, ..., 0] / 255, atol=1e-6)
    np.testing.assert_allclose(found.pixels[1], pixels[1].transpose(2, 0, 1) / 255, atol=1e-6)


def test_what_is_left_out_is_counted(pixels, tmp_path):
    folder, elsewhere = tmp_path / "train", tmp_path / "elsewhere"
    save(folder / "a", pixels[:3], lambda k: f"{k}.png")
    save(elsewhere, pixels[3:6], lambda k: f"{k}.png")
    os.symlink(elsewhere, folder / "b")  # a class behind a link is followed
    os.symlink(folder, folder / "again")  # and a circle is not
    os.symlink(tmp_path / "nowhere.png", folder / "dangling.png")
    os.mkfifo(folder / "pipe.png")
    (folder / "notes.txt").write_text("")
    save(folder / "a", pixels[6:7, :3], lambda _: "small.png")
    found = images_of(folder, "train", Expected(dim=90))
    assert len(found) == 6 and found.labels.tolist() == ["a"] * 3 + ["b"] * 3
    reasons = (
        "1 is no image by its name",
        "2 are no ordinary file",  # a pipe, and a link to nowhere
        "1 is of another size",
    )
    assert found.note == f"used 6 of 10 files in train, because {', '.join(reasons)}"


def test_names_that_no_terminal_should_believe(pixels, tmp_path):
    folder = tmp_path / "train"
    save(folder, pixels[:1], lambda _: "a\u202egnp.png")
    raw = os.fsencode(folder) + b"/\xff.png"
    with open(raw, "wb") as file:
        Image.fromarray(pixels[1]).save(file, format="png")
    assert images_of(folder, "train", Expected(dim=90)).names == [
        "train/a\\u202egnp.png",
        "train/\\xff.png",
    ]


def test_pairs_that_do_not_fit(pixels):
    for train, held_out, words in (
        (pixels, None, "no held-out images"),
        (pixels[:N], pixels[N:, :4], "differ in shape"),
        ((pixels[:N], [1, 2, 3]), pixels[N:], "8 train images and 3 labels"),
        (3, pixels, "not int"),
    ):
        with pytest.raises(ReconError, match=words):
            load_images(train, held_out)


def test_bytes_and_floats_meet_as_floats(pixels):
    train, held_out = load_images(pixels[:N], pixels[N:] / 255)
    assert train.pixels.dtype == held_out.pixels.dtype == np.float32 and train.pixels.max() <= 1


def test_images_in_both_sets_are_left_out(pixels):
    _, held_out = load_images(pixels[:N], np.concatenate([pixels[N:], pixels[:2]]))
    assert len(held_out) == N and "2 held-out images are training images" in held_out.note


def labelled(names, labels=None):
    return Images(np.zeros((len(names), 1, 2, 2), np.uint8), names, labels)


def test_labels_are_classes_where_they_fit():
    a, b = labelled(["x", "y"], ["cat", "dog"]), labelled(["z"], ["cat"])
    y, held_out, _ = classes_of(a, b, None, 2)
    assert y.tolist() == [0, 1] and held_out.tolist() == [0]
    assert classes_of(a, b, "predicted", 2) is None is classes_of(labelled(["x"]), b, None, 2)
    assert classes_of(a, labelled(["z"], ["cow"]), None, 2) is None  # subfolders may be anything
    assert classes_of(a, b, ([2, 0], [1.0]), 3)[0].tolist() == [2, 0]
    with pytest.raises(ReconError, match="2 and 1 images, and 1 and 1"):
        classes_of(a, b, ([0], [0]), 2)
    with pytest.raises(ReconError, match="3 labels"):
        classes_of(a, b, ([0, 1], [5]), 2)


def test_transforms(pixels):
    train = images_of(pixels, "train", Expected())
    x = train.scaled
    pair = transform_of(([0.5, 0.4, 0.3], [0.2, 0.2, 0.1]), train)
    torch.testing.assert_close(pair(x)[:, 2], (x[:, 2] - 0.3) / 0.1)
    torch.testing.assert_close(pair.back(pair(x)), x)
    assert torch.equal(transform_of("none", train)(x), x)
    torch.testing.assert_close(transform_of("image", train)(x), x - x.mean(0))
    torch.testing.assert_close(
        transform_of("channel", train)(x), x - x.mean((0, 2, 3), keepdim=True)
    )
    torch.testing.assert_close(transform_of(lambda z: 2 * z, train)(x), 2 * x)


NO_TRANSFORMS = [(0.5, 0.0), ([1, 2], 1.0), 3, "median", lambda z: z[:1], lambda z: z / 0]


@pytest.mark.parametrize("way", NO_TRANSFORMS, ids=range(len(NO_TRANSFORMS)))
def test_what_is_no_transform(pixels, way):
    train = images_of(pixels, "train", Expected())
    with pytest.raises(ReconError):
        transform_of(way, train)(train.scaled)
