"""scikit-learn's digits against its own table; MNIST and its twin from files as torchvision leaves them."""

from __future__ import annotations

import struct
import urllib.error

import numpy as np
import pytest
import torchvision.datasets.mnist
from sklearn.datasets import load_digits

from recon.images import digits
from recon.images.registry import load_pool

FOLDER = {"mnist": "MNIST", "fashion-mnist": "FashionMNIST"}


@pytest.fixture
def idx_folder(tmp_path):
    """30 random images as both data sets, training and test files."""
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (30, 28, 28)).astype(np.uint8), np.arange(30) % 10
    for folder in FOLDER.values():
        raw = tmp_path / folder / "raw"
        raw.mkdir(parents=True)
        for part, shift in (("train", 0), ("t10k", 1)):
            header = struct.pack(">IIII", 0x803, 30, 28, 28)
            (raw / f"{part}-images-idx3-ubyte").write_bytes(header + (images + shift).astype(np.uint8).tobytes())
            labelled = struct.pack(">II", 0x801, 30) + labels.astype(np.uint8).tobytes()
            (raw / f"{part}-labels-idx1-ubyte").write_bytes(labelled)
    return tmp_path, images, labels


def test_digits_are_scikit_learns():
    pool, table = load_pool("digits"), load_digits()
    assert pool.shape == (1, 8, 8) and len(pool) == 1797 and pool.class_names == tuple("0123456789")
    assert np.abs(pool.images[:, 0] / 255 - table.images / 16).max() <= 0.5 / 255
    assert pool.images.min() == 0 and pool.images.max() == 255 and np.array_equal(pool.labels, table.target)
    assert [pool.y_names[k] for k in pool.y[:4]] == ["even", "odd", "even", "odd"]
    assert np.array_equal(pool.y, table.target % 2) and pool.interchangeable
    assert pool.sha256.startswith("a705bbd25e1c")


@pytest.mark.parametrize("name", FOLDER)
def test_files_of_torchvision(name, idx_folder, monkeypatch):
    root, images, labels = idx_folder
    pool = load_pool(name, root)
    assert np.array_equal(pool.images, images[:, None]) and np.array_equal(pool.labels, labels)
    monkeypatch.setenv("RECON_DATA", str(root))
    assert load_pool(name).sha256 == pool.sha256 and pool.name == name
    monkeypatch.setattr(digits.files, "cache_folder", lambda: root)  # a data folder that holds other things
    assert load_pool(name, root / "MNIST").sha256 == pool.sha256


def test_two_classes_of_ten():
    garments = {"T-shirt", "trousers", "pullover", "dress", "coat", "shirt"}
    assert {name for k, name in enumerate(digits.GARMENTS) if k not in digits.ACCESSORIES} == garments


def test_y_of_mnist_and_its_twin(idx_folder):
    root, _, labels = idx_folder
    mnist, fashion = load_pool("mnist", root), load_pool("fashion-mnist", root)
    assert mnist.y.tolist() == [label % 2 for label in labels] and mnist.y_names == ("even", "odd")
    assert fashion.y.tolist() == [int(label in (5, 7, 8, 9)) for label in labels]
    assert fashion.y_names == ("garment", "accessory") and fashion.class_names[9] == "ankle boot"


@pytest.mark.parametrize("name", FOLDER)
def test_offline(name, tmp_path, monkeypatch, one_sentence):
    def refuse(*_, **__):
        raise urllib.error.URLError("no route")

    monkeypatch.delenv("RECON_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(torchvision.datasets.mnist, "download_and_extract_archive", refuse)
    one_sentence(lambda: load_pool(name), "MNIST could not be downloaded to .*no route")
    one_sentence(lambda: load_pool(name, tmp_path), "MNIST could not be downloaded to .*no route")


@pytest.mark.parametrize("content", [b"", b"\x00" * 40, b"junk" * 99, struct.pack(">II", 0x803, 9)])
def test_damaged_files(content, idx_folder, one_sentence):
    root, _, _ = idx_folder
    (root / "MNIST" / "raw" / "train-images-idx3-ubyte").write_bytes(content)
    one_sentence(lambda: load_pool("mnist", root), "the MNIST files in .* are missing, truncated or damaged")
    (root / "MNIST" / "raw" / "train-images-idx3-ubyte").unlink()
    one_sentence(lambda: load_pool("mnist", root), "the MNIST files in .* are missing, truncated or damaged")
