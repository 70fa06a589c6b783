"""Images from wherever they are kept: files of every kind, folders with everything in them."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
from PIL import Image

from recon.errors import ReconError
from recon_audit.fit import transform_of
from recon_audit.images import Expected, Images, raw_of, settle
from recon_audit.labels import classes_of

N = 8


@pytest.fixture
def pixels(monkeypatch):
    monkeypatch.setattr("recon_audit.images.MIN_IMAGES", 1)
    return np.random.default_rng(0).integers(0, 256, (2 * N, 6, 5, 3), dtype=np.uint8)


def images_of(source, **expected):
    expected = Expected(**expected)
    return settle([raw_of(source, "train", expected)], expected)[0]


def save(folder, pixels, name="{}.png"):
    folder.mkdir(parents=True, exist_ok=True)
    for k, image in enumerate(pixels):
        Image.fromarray(image).save(folder / name.format(k))


@pytest.mark.parametrize("suffix", ["png", "bmp", "tiff", "gif", "webp"])
def test_formats_of_files(suffix, pixels, tmp_path):
    save(tmp_path / "f", pixels[:N, ..., 0], f"{{}}.{suffix}")
    found = images_of(tmp_path / "f", dim=30)
    assert found.scaled.shape == (N, 1, 6, 5) and not found.note
    if suffix != "webp":  # which loses something
        assert (found.scaled[:, 0].numpy() * 255 == pixels[:N, ..., 0]).all()


def test_sixteen_bits_grey_and_transparency(pixels, tmp_path):
    save(tmp_path, [pixels[0, ..., 0].astype(np.uint16) * 257])
    Image.fromarray(pixels[1]).convert("RGBA").save(tmp_path / "b.png")
    Image.fromarray(pixels[2]).convert("L").save(tmp_path / "c.png")
    found = images_of(tmp_path, dim=90).scaled.numpy()
    np.testing.assert_allclose(found[0, 1], pixels[0, ..., 0] / 255, atol=1e-6)
    np.testing.assert_allclose(found[1], pixels[1].transpose(2, 0, 1) / 255, atol=1e-6)


def test_what_is_left_out_is_counted(pixels, tmp_path):
    folder, elsewhere = tmp_path / "train", tmp_path / "elsewhere"
    save(folder / "a", pixels[:3])
    save(elsewhere, pixels[3:6])
    os.symlink(elsewhere, folder / "b")  # a class behind a link is followed
    os.symlink(folder, folder / "again")  # and a circle is not
    os.symlink(tmp_path / "nowhere.png", folder / "dangling.png")
    os.mkfifo(folder / "pipe.png")
    (folder / "notes.txt").write_text("")
    save(folder / "a", pixels[6:7, :3], "small{}.png")
    found = images_of(folder, dim=90)
    assert found.labels.tolist() == ["a"] * 3 + ["b"] * 3
    # a pipe, and a link to nowhere
    reasons = "no image by its name: 1, no ordinary file: 2, of another size: 1"
    assert found.note == f"used 6 of 10 files in train ({reasons})"


def test_names_that_no_terminal_should_believe(pixels, tmp_path):
    folder = tmp_path / "train"
    save(folder, pixels[:1], "a\u202egnp.png")
    with open(os.fsencode(folder) + b"/\xff.png", "wb") as file:
        Image.fromarray(pixels[1]).save(file, format="png")
    assert images_of(folder, dim=90).names == ["train/a\\u202egnp.png", "train/\\xff.png"]


def test_folders_that_are_no_classes_are_no_labels():
    a, b = (
        Images(torch.zeros(2, 1, 2, 2), ["x", "y"], kinds)
        for kinds in (["cat", "dog"], ["cow"] * 2)
    )
    assert classes_of((a, b), None, 2) is None is classes_of((a, a), "predicted", 2)
    with pytest.raises(ReconError, match="2 and 2 labels"):
        classes_of((a, b), ([0], [0]), 2)


def test_transforms(pixels):
    train = images_of(pixels)
    x = train.scaled
    pair = transform_of(([0.5, 0.4, 0.3], [0.2, 0.2, 0.1]), train)
    torch.testing.assert_close(pair(x)[:, 2], (x[:, 2] - 0.3) / 0.1)
    assert torch.equal(transform_of("none", train)(x), x)
    torch.testing.assert_close(transform_of("image", train)(x), x - x.mean(0))
    for way in ((0.5, 0.0), ([1, 2], 1.0), 3, "median", lambda z: z[:1], lambda z: z / 0):
        with pytest.raises(ReconError):
            transform_of(way, train)(x)
