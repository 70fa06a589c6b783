"""Both CIFAR-10 sources give the same experiments; every bad input is one sentence."""

from __future__ import annotations

import dataclasses
import hashlib
import http.client
import os
import socket
import urllib.error

import numpy as np
import pytest
import torch
from torchvision.datasets import CIFAR10

from recon.images import cifar, files
from recon.images.partitions import partition
from recon.images.registry import load_pool

PARTS = ("train", "init", "held_out")


def test_download_and_subset_give_identical_experiments(
    subset_folder, torchvision_folder, monkeypatch
):
    a = load_pool("cifar10", subset_folder)
    monkeypatch.setenv("RECON_DATA", str(torchvision_folder))
    b = load_pool("auto")
    assert a.name == b.name == "cifar10" and a.sha256 == b.sha256
    for name in ("images", "y", "index", "part"):
        assert np.array_equal(getattr(a, name), getattr(b, name))
    one, other = (partition(pool, 40) for pool in (a, b))
    for part in ("train", "init", "held_out"):
        for name in ("x", "y", "index"):
            assert torch.equal(
                getattr(getattr(one, part), name), getattr(getattr(other, part), name)
            )


def test_partitions_are_disjoint_balanced_and_in_file_order(subset_folder, fake_cifar):
    images, labels = fake_cifar
    drawn = partition(load_pool("cifar10", subset_folder), 500, n_held_out=200)
    parts = {"train": drawn.train, "init": drawn.init, "held_out": drawn.held_out}
    assert [len(p) for p in parts.values()] == [500, 500, 200]
    seen = torch.cat([p.index for p in parts.values()])
    assert len(seen.unique()) == len(seen)
    for name, part in parts.items():
        n = len(part) // 2
        assert torch.equal(part.y, torch.tensor([0.0, 1.0]).repeat_interleave(n))
        for half in (part.index[:n], part.index[n:]):
            assert (half.diff() > 0).all()
        assert all(any(int(i) in r for r in cifar.INDEX_RANGES[name]) for i in part.index)
        # pixel (0, 0) encodes the index: the right images came along
        assert torch.equal(
            (part.x[:, :2, 0, 0] * 255).round().long() @ torch.tensor([1, 256]), part.index
        )
        expected = torch.from_numpy(images[part.index.numpy()]).permute(0, 3, 1, 2)
        assert torch.equal((part.x * 255).round().to(torch.uint8), expected)
        assert (
            torch.equal(part.flat.reshape(part.x.shape), part.x) and part.x.dtype == torch.float32
        )
        vehicle = np.isin(labels[part.index.numpy()], (0, 1, 8, 9))
        assert np.array_equal(part.y.numpy(), (~vehicle).astype(np.float32))
        for label in (0, 1):  # the first of their class in the range, none left out
            whole = [
                i
                for r in cifar.INDEX_RANGES[name]
                for i in r
                if (labels[i] not in cifar.VEHICLES) == bool(label)
            ]
            assert part.index[part.y == label].tolist() == whole[:n]


def test_real_subset_is_the_one_the_book_was_made_from():
    root = os.environ.get("RECON_DATA", "")
    if not os.path.isfile(os.path.join(root, cifar.SUBSET_FILE)):
        pytest.skip("no $RECON_DATA with the real subset file")
    pool = load_pool("cifar10")
    assert pool.sha256 == "940f4edc6006f159ce54fae9ce3e89ee1590c3de1cc752d0598313b65c954bc7"
    with np.load(os.path.join(root, cifar.SUBSET_FILE)) as file:
        assert pool.class_names == tuple(map(str, file["class_names"]))
    small, large = partition(pool, 6, n_held_out=6), partition(pool, 500, n_held_out=1000)
    drawn = [getattr(small, part).index.tolist() for part in PARTS]
    assert drawn == [
        [1, 2, 4, 0, 3, 6],
        [10000, 10003, 10004, 10001, 10002, 10005],
        [30000, 30002, 30006, 30001, 30003, 30004],
    ]
    sums = [
        hashlib.sha256(getattr(large, part).index.numpy().astype("<i8").tobytes()).hexdigest()
        for part in PARTS
    ]
    assert [digest[:12] for digest in sums] == ["e879b4a9739a", "f291796df373", "240612d6fc6d"]


def test_bad_sources(tmp_path, subset_folder, torchvision_folder, monkeypatch, one_sentence):
    one_sentence(lambda: load_pool("imagenet"), "unknown data source 'imagenet'")
    one_sentence(lambda: load_pool("auto", tmp_path / "nowhere"), "does not exist")
    one_sentence(lambda: load_pool("cifar10", tmp_path), "holds neither")
    subset = subset_folder / cifar.SUBSET_FILE
    whole = subset.read_bytes()
    subset.write_bytes(whole[: len(whole) // 2])
    one_sentence(lambda: load_pool("cifar10", subset_folder), "damaged or is another file")
    monkeypatch.setattr(cifar, "SUBSET_SHA256", hashlib.sha256(subset.read_bytes()).hexdigest())
    one_sentence(lambda: load_pool("cifar10", subset_folder), "cannot be read")
    batch = torchvision_folder / cifar.TORCHVISION_FOLDER / "data_batch_3"
    batch.write_bytes(batch.read_bytes()[:1000])
    one_sentence(lambda: load_pool("cifar10", torchvision_folder), "missing, truncated or damaged")


def test_unreachable_network(tmp_path, monkeypatch, capsys, one_sentence):
    monkeypatch.delenv("RECON_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def refuse(self):
        raise urllib.error.URLError("no route")

    monkeypatch.setattr(CIFAR10, "download", refuse)
    one_sentence(lambda: load_pool("cifar10"), "could not be downloaded.*no route")
    pool = load_pool("auto")
    assert pool.name == "photos" and "not CIFAR-10" in pool.notice
    assert "no route" in capsys.readouterr().err


def test_checksum_sees_pixels_labels_and_order(subset_folder):
    pool = load_pool("cifar10", subset_folder)
    other = pool.images.copy()
    other[0, 0, 0, 0] ^= 1
    sums = {pool.sha256}
    for changed in ({"images": other}, {"y": 1 - pool.y}, {"index": pool.index[::-1]}):
        sums.add(dataclasses.replace(pool, **changed).sha256)
    assert len(sums) == 4


@pytest.mark.parametrize("source", ["auto", "cifar10"])
@pytest.mark.parametrize("content", [b"", b"\x00\xff\n\xfe" * 999, b"PK\x03\x04 not a zip"])
def test_junk_named_like_the_subset(tmp_path, monkeypatch, source, content, one_sentence):
    path = tmp_path / "my data µ" / cifar.SUBSET_FILE
    path.parent.mkdir()
    path.write_bytes(content)
    # the folder, or the file itself; never silently the photographs
    for named in (path.parent, path):
        monkeypatch.setenv("RECON_DATA", str(named))
        one_sentence(lambda: load_pool(source), "damaged or is another file")
    assert load_pool("photos").name == "photos"  # which needs none of it


@pytest.mark.parametrize("missing", ["index", "labels"])
def test_subset_without_an_array_or_an_image(subset_folder, monkeypatch, missing, one_sentence):
    path = subset_folder / cifar.SUBSET_FILE
    with np.load(path) as whole:
        arrays = dict(whole)

    def write(content):
        np.savez(path, **content)
        monkeypatch.setattr(cifar, "SUBSET_SHA256", hashlib.sha256(path.read_bytes()).hexdigest())

    write({name: array for name, array in arrays.items() if name != missing})
    one_sentence(lambda: load_pool("cifar10", subset_folder), f"cannot be read.*{missing}")
    write({name: array[10:] for name, array in arrays.items()})
    one_sentence(lambda: load_pool("cifar10", subset_folder), "lacks 10 of the images")


def test_missing_batch_of_the_download(torchvision_folder, one_sentence):
    (torchvision_folder / cifar.TORCHVISION_FOLDER / "data_batch_5").unlink()
    one_sentence(lambda: load_pool("auto", torchvision_folder), "missing, truncated or damaged")


def test_a_captive_portal_is_an_unreachable_network(tmp_path, monkeypatch, one_sentence):
    """Something answers, but not HTTP as it should be."""

    def portal(*_, **__):
        raise http.client.BadStatusLine("welcome to our hotel")

    monkeypatch.delenv("RECON_DATA", raising=False)
    monkeypatch.setattr(files, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(CIFAR10, "download", portal)
    one_sentence(lambda: load_pool("cifar10"), "could not be downloaded.*welcome")
    assert load_pool("auto").name == "photos"


def test_timeout_of_the_download_does_not_stay(tmp_path, monkeypatch, one_sentence):
    monkeypatch.delenv("RECON_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    seen = []

    def stall(self):
        seen.append(socket.getdefaulttimeout())
        raise TimeoutError("timed out")

    monkeypatch.setattr(CIFAR10, "download", stall)
    before = socket.getdefaulttimeout()
    one_sentence(lambda: load_pool("cifar10"), "could not be downloaded.*timed out")
    assert seen == [cifar.DOWNLOAD_TIMEOUT_S] and socket.getdefaulttimeout() == before


def test_impossible_paths(monkeypatch, one_sentence):
    one_sentence(lambda: load_pool("cifar10", "~no-such-user-here/data"), "cannot be read")
    one_sentence(lambda: load_pool("cifar10", "x" * 5000), "cannot be read")


def test_class_names_are_in_the_order_of_their_labels():
    """CIFAR-10 numbers its classes alphabetically."""
    assert list(cifar.CLASS_NAMES) == sorted(cifar.CLASS_NAMES) and len(cifar.CLASS_NAMES) == 10
    assert {cifar.CLASS_NAMES[k] for k in cifar.VEHICLES} == {
        "airplane",
        "automobile",
        "ship",
        "truck",
    }
