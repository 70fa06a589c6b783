"""Stand-ins for both CIFAR-10 sources, and the pools that most tests here draw from."""

from __future__ import annotations

import hashlib
import pickle
import shutil

import numpy as np
import pytest
from torchvision.datasets import CIFAR10

from recon.errors import ReconError
from recon.images import cifar, photos

N_TRAIN = 50000


@pytest.fixture(scope="session")
def fake_cifar():
    """Random labels, and a random texture in whose first pixel every image encodes its own
    index.
    """
    rng = np.random.default_rng(0)
    images = np.empty((N_TRAIN, 32, 32, 3), np.uint8)
    images[:] = rng.integers(0, 256, (32, 32, 3))  # one texture for all, without any symmetry
    images[:, 0, 0, :] = np.stack(
        [np.arange(N_TRAIN) % 256, np.arange(N_TRAIN) // 256, np.full(N_TRAIN, 7)], 1
    )
    return images, rng.integers(0, 10, N_TRAIN)


@pytest.fixture
def subset_folder(fake_cifar, tmp_path, monkeypatch):
    images, labels = fake_cifar
    index = np.concatenate(
        [np.arange(r.start, r.stop) for ranges in cifar.INDEX_RANGES.values() for r in ranges]
    )
    # in another order, and one test image that must not be taken for train image 5
    index = np.append(index[::-1], 5)
    is_test = np.zeros(len(index), bool)
    is_test[-1] = True
    folder = tmp_path / "subset folder ü"
    folder.mkdir()
    path = folder / cifar.SUBSET_FILE
    np.savez(path, images=images[index], labels=labels[index], index=index, is_test=is_test)
    monkeypatch.setattr(cifar, "SUBSET_SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    return folder


@pytest.fixture
def torchvision_folder(fake_cifar, tmp_path, monkeypatch):
    images, labels = fake_cifar
    folder = tmp_path / "tv" / cifar.TORCHVISION_FOLDER
    folder.mkdir(parents=True)

    def write(name, content):
        (folder / name).write_bytes(pickle.dumps(content))
        return name, hashlib.md5((folder / name).read_bytes()).hexdigest()

    flat = images.transpose(0, 3, 1, 2).reshape(N_TRAIN, -1)
    train = [
        write(
            f"data_batch_{k + 1}",
            {"data": flat[k * 10000 : (k + 1) * 10000], "labels": list(map(int, part))},
        )
        for k, part in enumerate(labels.reshape(5, 10000))
    ]
    meta = write("batches.meta", {"label_names": [str(k) for k in range(10)]})
    monkeypatch.setattr(CIFAR10, "train_list", [list(entry) for entry in train])
    monkeypatch.setattr(CIFAR10, "test_list", [])
    monkeypatch.setattr(
        CIFAR10, "meta", {"filename": meta[0], "key": "label_names", "md5": meta[1]}
    )
    yield folder.parent
    shutil.rmtree(folder)  # pytest keeps temporary folders, and this one weighs 150 MB


@pytest.fixture(scope="session")
def cifar_pool(fake_cifar):
    """The pool of either CIFAR-10 source, made from the fake images."""
    images, labels = fake_cifar
    return cifar.pool_of(images, labels, np.arange(N_TRAIN))


@pytest.fixture(scope="session")
def photo_pool():
    return photos.load()


@pytest.fixture
def one_sentence():
    """A check that a call raises a ReconError whose one line matches."""

    def check(call, match):
        with pytest.raises(ReconError, match=match) as error:
            call()
        assert "\n" not in str(error.value).strip()

    return check
