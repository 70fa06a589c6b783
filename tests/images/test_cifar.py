"""Both CIFAR-10 sources give the same experiments; every bad input is one sentence, and no
stranger's pickle is ever loaded.
"""

from __future__ import annotations

import dataclasses
import hashlib
import http.client
import os
import socket
import urllib.error
from pathlib import Path

import numpy as np
import pytest
from torchvision.datasets import CIFAR10
from toys import ANY, FOLDER

from recon.images import cifar
from recon.images.partitions import partition
from recon.images.registry import load_pool

PARTS = ("train", "init", "held_out")


def write_subset(folder, monkeypatch, **arrays):
    """A subset file whose checksum is the right one."""
    path = folder / cifar.SUBSET_FILE
    np.savez(path, **arrays)
    monkeypatch.setattr(cifar, "SUBSET_SHA256", hashlib.sha256(path.read_bytes()).hexdigest())


def test_download_and_subset_give_identical_pools(subset_folder, torchvision_folder, monkeypatch):
    a = load_pool("cifar10", subset_folder)
    monkeypatch.setenv("RECON_DATA", str(torchvision_folder))
    b = load_pool("auto")
    assert a.name == b.name == "cifar10" and a.sha256 == b.sha256
    for name in ("images", "labels", "y", "index", "part"):
        assert np.array_equal(getattr(a, name), getattr(b, name))


def test_the_pool_holds_the_right_images_of_every_range(subset_folder, fake_cifar):
    images, labels = fake_cifar
    pool = load_pool("cifar10", subset_folder)
    for name, ranges in cifar.INDEX_RANGES.items():
        assert pool.index[pool.part == name].tolist() == [i for r in ranges for i in r]
    assert np.array_equal(pool.images, images[pool.index].transpose(0, 3, 1, 2))
    assert np.array_equal(pool.labels, labels[pool.index])
    assert np.array_equal(pool.y == 0, np.isin(pool.labels, (0, 1, 8, 9)))


def test_real_subset_is_the_one_the_book_was_made_from():
    root = Path(os.environ.get("RECON_DATA", ""))
    if not (root / cifar.SUBSET_FILE).is_file():
        pytest.skip("no $RECON_DATA with the real subset file")
    pool = load_pool("cifar10")
    assert pool.sha256 == "940f4edc6006f159ce54fae9ce3e89ee1590c3de1cc752d0598313b65c954bc7"
    with np.load(root / cifar.SUBSET_FILE) as file:
        vehicles = [str(file["class_names"][k]) for k in cifar.VEHICLES]
    assert vehicles == ["airplane", "automobile", "ship", "truck"]
    large = partition(pool, 500, n_held_out=1000)
    indices = [getattr(large, part).index.numpy().astype("<i8").tobytes() for part in PARTS]
    sums = [hashlib.sha256(index).hexdigest()[:12] for index in indices]
    assert sums == ["e879b4a9739a", "f291796df373", "240612d6fc6d"]


def test_checksum_sees_pixels_labels_and_order(cifar_pool):
    pixels = cifar_pool.images.copy()
    pixels[0, 0, 0, 0] ^= 1
    changes = ({"images": pixels}, {"y": 1 - cifar_pool.y}, {"index": cifar_pool.index[::-1]})
    sums = {dataclasses.replace(cifar_pool, **change).sha256 for change in ({}, *changes)}
    assert len(sums) == 4


# ----------------------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("root", "message"),
    [
        ("nowhere", "does not exist"),
        (".", "holds neither"),
        ("~no-such-user-here/data", "cannot be read"),
        ("x" * 5000, "cannot be read"),
    ],
)
@pytest.mark.parametrize("source", ["auto", "cifar10"])
def test_a_folder_without_cifar_10(tmp_path, monkeypatch, one_sentence, source, root, message):
    monkeypatch.chdir(tmp_path)
    one_sentence(lambda: load_pool(source, root), message)


@pytest.mark.parametrize("source", ["auto", "cifar10"])
@pytest.mark.parametrize("how", [*ANY, *FOLDER])
def test_a_damaged_subset_is_refused_and_never_replaced(
    tmp_path, monkeypatch, how, source, one_sentence
):
    """Neither under the folder's name nor its own."""
    path = tmp_path / cifar.SUBSET_FILE
    path.write_bytes(b"PK\x03\x04" + b"x" * 999)
    (ANY | FOLDER)[how](path)
    for root in (tmp_path, path):
        monkeypatch.setenv("RECON_DATA", str(root))
        one_sentence(lambda: load_pool(source), "damaged|holds neither|not exist|cannot be read")


def test_a_subset_with_an_array_or_an_image_missing(subset_folder, monkeypatch, one_sentence):
    with np.load(subset_folder / cifar.SUBSET_FILE) as whole:
        arrays = dict(whole)
    write_subset(subset_folder, monkeypatch, **{k: v[10:] for k, v in arrays.items()})
    one_sentence(lambda: load_pool("cifar10", subset_folder), "lacks 10 of the images")
    del arrays["labels"]
    write_subset(subset_folder, monkeypatch, **arrays)
    one_sentence(lambda: load_pool("cifar10", subset_folder), "cannot be read.*labels")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (urllib.error.URLError("no route"), "no route"),
        (http.client.BadStatusLine("welcome to our hotel"), "welcome"),
        (TimeoutError("timed out"), "timed out"),
    ],
)
def test_an_unreachable_network(tmp_path, monkeypatch, capsys, one_sentence, error, message):
    monkeypatch.delenv("RECON_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    timeouts = []

    def fail(self):
        timeouts.append(socket.getdefaulttimeout())
        raise error

    monkeypatch.setattr(CIFAR10, "download", fail)
    before = socket.getdefaulttimeout()
    one_sentence(lambda: load_pool("cifar10"), f"could not be downloaded.*{message}")
    pool = load_pool("auto")
    assert pool.name == "photos" and message in capsys.readouterr().err
    assert timeouts == [cifar.DOWNLOAD_TIMEOUT_S] * 2
    assert socket.getdefaulttimeout() == before
