"""Both CIFAR-10 sources give the same experiments; every bad input is one sentence."""

from __future__ import annotations

import hashlib
import os
import pickle
import urllib.error

import numpy as np
import pytest
import torch
from torchvision.datasets import CIFAR10

from recon import data
from recon.errors import ReconError

N_TRAIN = 50000


@pytest.fixture(scope="module")
def fake_cifar():
    """Random labels, and images that encode their own index."""
    rng = np.random.default_rng(0)
    images = np.zeros((N_TRAIN, 32, 32, 3), np.uint8)
    images[:, 0, 0, :] = np.stack([np.arange(N_TRAIN) % 256, np.arange(N_TRAIN) // 256, np.full(N_TRAIN, 7)], 1)
    return images, rng.integers(0, 10, N_TRAIN)


@pytest.fixture
def subset_folder(fake_cifar, tmp_path, monkeypatch):
    images, labels = fake_cifar
    index = np.concatenate([np.arange(r.start, r.stop) for ranges in data.INDEX_RANGES.values() for r in ranges])
    index = np.append(index[::-1], 5)  # in another order, and one test image that must not be taken for train image 5
    is_test = np.zeros(len(index), bool)
    is_test[-1] = True
    folder = tmp_path / "subset folder ü"
    folder.mkdir()
    path = folder / data.SUBSET_FILE
    np.savez(path, images=images[index], labels=labels[index], index=index, is_test=is_test)
    monkeypatch.setattr(data, "SUBSET_SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    return folder


@pytest.fixture
def torchvision_folder(fake_cifar, tmp_path, monkeypatch):
    images, labels = fake_cifar
    folder = tmp_path / "tv" / data.TORCHVISION_FOLDER
    folder.mkdir(parents=True)

    def write(name, content):
        (folder / name).write_bytes(pickle.dumps(content))
        return name, hashlib.md5((folder / name).read_bytes()).hexdigest()

    flat = images.transpose(0, 3, 1, 2).reshape(N_TRAIN, -1)
    train = [
        write(f"data_batch_{k + 1}", {"data": flat[k * 10000 : (k + 1) * 10000], "labels": list(map(int, part))})
        for k, part in enumerate(labels.reshape(5, 10000))
    ]
    meta = write("batches.meta", {"label_names": [str(k) for k in range(10)]})
    monkeypatch.setattr(CIFAR10, "train_list", [list(entry) for entry in train])
    monkeypatch.setattr(CIFAR10, "test_list", [])
    monkeypatch.setattr(CIFAR10, "meta", {"filename": meta[0], "key": "label_names", "md5": meta[1]})
    return folder.parent


def test_download_and_subset_give_identical_experiments(subset_folder, torchvision_folder, monkeypatch):
    a = data.load_pool("cifar10", subset_folder)
    monkeypatch.setenv("RECON_DATA", str(torchvision_folder))
    b = data.load_pool("auto")
    assert a.name == b.name == "cifar10" and a.sha256 == b.sha256
    one, other = (data.partition(pool, 40) for pool in (a, b))
    for part in ("train", "init", "held_out"):
        assert torch.equal(getattr(one, part).x, getattr(other, part).x)
        assert torch.equal(getattr(one, part).index, getattr(other, part).index)


def test_partitions_are_disjoint_balanced_and_in_file_order(subset_folder):
    drawn = data.partition(data.load_pool("cifar10", subset_folder), 500, n_held_out=200)
    parts = {"train": drawn.train, "init": drawn.init, "held_out": drawn.held_out}
    assert [len(p) for p in parts.values()] == [500, 500, 200]
    seen = torch.cat([p.index for p in parts.values()])
    assert len(seen.unique()) == len(seen)
    for name, part in parts.items():
        n = len(part) // 2
        assert torch.equal(part.y, torch.tensor([0.0, 1.0]).repeat_interleave(n))
        for half in (part.index[:n], part.index[n:]):
            assert (half.diff() > 0).all()
        assert all(any(int(i) in r for r in data.INDEX_RANGES[name]) for i in part.index)
        # pixel (0, 0) encodes the index: the right images came along
        assert torch.equal((part.x[:, :2, 0, 0] * 255).round().long() @ torch.tensor([1, 256]), part.index)


def test_real_subset_is_the_one_the_book_was_made_from():
    root = os.environ.get("RECON_DATA", "")
    if not os.path.isfile(os.path.join(root, data.SUBSET_FILE)):
        pytest.skip("no $RECON_DATA with the real subset file")
    pool = data.load_pool("cifar10")
    assert pool.sha256 == "940f4edc6006f159ce54fae9ce3e89ee1590c3de1cc752d0598313b65c954bc7"


def test_photos():
    pool = data.load_pool("photos")
    assert pool.images.dtype == np.uint8 and pool.images.shape[1:] == (3, 32, 32)
    assert pool.sha256 == data.load_pool("photos").sha256 and "not CIFAR-10" in pool.notice
    cut = data.partition(pool, 500)
    assert len(cut.train) == len(cut.init) < 500 and len(cut.train) >= 60
    assert cut.train.x.min() >= 0 and cut.train.x.max() <= 1
    rows = {name: {image.tobytes() for image in pool.images[pool.part == name]} for name in data.INDEX_RANGES}
    assert not rows["train"] & rows["init"] and not rows["train"] & rows["held_out"]


def test_centre_round_trip():
    x = torch.rand(4, 3072, dtype=torch.float64)
    mean = x.mean(0)
    assert data.centre(x, mean).mean(0).abs().max() < 1e-15
    assert torch.allclose(data.uncentre(data.centre(x, mean), mean), x, atol=1e-15)


def one_sentence(call, match):
    with pytest.raises(ReconError, match=match) as caught:
        call()
    assert "\n" not in str(caught.value).strip()


def test_bad_sources(tmp_path, subset_folder, torchvision_folder, monkeypatch):
    one_sentence(lambda: data.load_pool("imagenet"), "unknown data source 'imagenet'")
    one_sentence(lambda: data.load_pool("auto", tmp_path / "nowhere"), "does not exist")
    one_sentence(lambda: data.load_pool("cifar10", tmp_path), "holds neither")
    subset = subset_folder / data.SUBSET_FILE
    whole = subset.read_bytes()
    subset.write_bytes(whole[: len(whole) // 2])
    one_sentence(lambda: data.load_pool("cifar10", subset_folder), "damaged or is another file")
    monkeypatch.setattr(data, "SUBSET_SHA256", hashlib.sha256(subset.read_bytes()).hexdigest())
    one_sentence(lambda: data.load_pool("cifar10", subset_folder), "cannot be read")
    batch = torchvision_folder / data.TORCHVISION_FOLDER / "data_batch_3"
    batch.write_bytes(batch.read_bytes()[:1000])
    one_sentence(lambda: data.load_pool("cifar10", torchvision_folder), "missing, truncated or damaged")


def test_unreachable_network(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("RECON_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def refuse(self):
        raise urllib.error.URLError("no route")

    monkeypatch.setattr(CIFAR10, "download", refuse)
    one_sentence(lambda: data.load_pool("cifar10"), "could not be downloaded.*no route")
    pool = data.load_pool("auto")
    assert pool.name == "photos" and pool.notice
    assert "no route" in capsys.readouterr().err


def test_bad_counts():
    pool = data.load_pool("photos")
    for n in (0, 3, -2):
        one_sentence(lambda n=n: data.partition(pool, n), "even and positive")
