"""Both CIFAR-10 sources give the same experiments; every bad input is one sentence."""

from __future__ import annotations

import dataclasses
import hashlib
import http.client
import os
import pickle
import shutil
import socket
import urllib.error
from importlib.resources import as_file, files
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torchvision.datasets import CIFAR10

from recon.chapters import decoreco_adversary
from recon.chapters.base import Context
from recon.chapters.landscape_shared import SeedImages
from recon.chapters.profiles import DECORECO_ADVERSARY, LANDSCAPE
from recon.errors import ReconError
from recon.images import pools as data

N_TRAIN = 50000
PARTS = ("train", "init", "held_out")


@pytest.fixture(scope="module")
def fake_cifar():
    """Random labels, and a random texture in whose first pixel every image encodes its own index."""
    rng = np.random.default_rng(0)
    images = np.empty((N_TRAIN, 32, 32, 3), np.uint8)
    images[:] = rng.integers(0, 256, (32, 32, 3))  # one texture for all, without any symmetry
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
    yield folder.parent
    shutil.rmtree(folder)  # pytest keeps temporary folders, and this one weighs 150 MB


def test_download_and_subset_give_identical_experiments(subset_folder, torchvision_folder, monkeypatch):
    a = data.load_pool("cifar10", subset_folder)
    monkeypatch.setenv("RECON_DATA", str(torchvision_folder))
    b = data.load_pool("auto")
    assert a.name == b.name == "cifar10" and a.sha256 == b.sha256
    for name in ("images", "y", "index", "part"):
        assert np.array_equal(getattr(a, name), getattr(b, name))
    one, other = (data.partition(pool, 40) for pool in (a, b))
    for part in ("train", "init", "held_out"):
        for name in ("x", "y", "index"):
            assert torch.equal(getattr(getattr(one, part), name), getattr(getattr(other, part), name))


def test_partitions_are_disjoint_balanced_and_in_file_order(subset_folder, fake_cifar):
    images, labels = fake_cifar
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
        expected = torch.from_numpy(images[part.index.numpy()]).permute(0, 3, 1, 2)
        assert torch.equal((part.x * 255).round().to(torch.uint8), expected)
        assert torch.equal(part.flat.reshape(part.x.shape), part.x) and part.x.dtype == torch.float32
        vehicle = np.isin(labels[part.index.numpy()], (0, 1, 8, 9))
        assert np.array_equal(part.y.numpy(), (~vehicle).astype(np.float32))
        for label in (0, 1):  # the first of their class in the range, none left out
            whole = [i for r in data.INDEX_RANGES[name] for i in r if (labels[i] not in data.VEHICLES) == bool(label)]
            assert part.index[part.y == label].tolist() == whole[:n]


def test_real_subset_is_the_one_the_book_was_made_from():
    root = os.environ.get("RECON_DATA", "")
    if not os.path.isfile(os.path.join(root, data.SUBSET_FILE)):
        pytest.skip("no $RECON_DATA with the real subset file")
    pool = data.load_pool("cifar10")
    assert pool.sha256 == "940f4edc6006f159ce54fae9ce3e89ee1590c3de1cc752d0598313b65c954bc7"
    small, large = data.partition(pool, 6, n_held_out=6), data.partition(pool, 500, n_held_out=1000)
    drawn = [getattr(small, part).index.tolist() for part in PARTS]
    assert drawn == [
        [1, 2, 4, 0, 3, 6],
        [10000, 10003, 10004, 10001, 10002, 10005],
        [30000, 30002, 30006, 30001, 30003, 30004],
    ]
    sums = [hashlib.sha256(getattr(large, part).index.numpy().astype("<i8").tobytes()).hexdigest() for part in PARTS]
    assert [digest[:12] for digest in sums] == ["e879b4a9739a", "f291796df373", "240612d6fc6d"]


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
    assert pool.name == "photos" and "not CIFAR-10" in pool.notice
    assert "no route" in capsys.readouterr().err


def test_bad_counts():
    pool = data.load_pool("photos")
    for n in (0, 3, -2):
        one_sentence(lambda n=n: data.partition(pool, n), "even and positive")
        one_sentence(lambda n=n: data.partition(pool, 20, n_held_out=n), "even and positive")


def photo_grids():
    """photograph -> {patch: column}, found by cutting it up once more."""
    for name, (_, package, folder) in data.PHOTOGRAPHS.items():
        with as_file(files(package) / folder / name) as path, Image.open(path) as file:
            photo = file.convert("RGB")
        half = np.asarray(photo.resize((photo.width // 2, photo.height // 2), Image.Resampling.BOX))
        rows, columns = half.shape[0] // 32, half.shape[1] // 32
        grid = half[: rows * 32, : columns * 32].reshape(rows, 32, columns, 32, 3).transpose(0, 2, 4, 1, 3)
        yield name, {grid[r, c].tobytes(): c for r in range(rows) for c in range(columns)}


def test_photos_of_two_partitions_never_share_a_column():
    pool = data.load_pool("photos")
    found = 0
    for name, grid in photo_grids():
        columns = {part: set() for part in data.INDEX_RANGES}
        for image, part, label in zip(pool.images, pool.part, pool.y, strict=True):
            if image.tobytes() in grid:
                columns[str(part)].add(grid[image.tobytes()])
                assert label == data.PHOTOGRAPHS[name][0]
                found += 1
        train, init, held_out = columns.values()
        assert train and init and held_out and max(train) < min(init) and max(init) < min(held_out)
    assert found == len(pool.images) == len({image.tobytes() for image in pool.images})
    assert (pool.images.mean(axis=1).std(axis=(1, 2)) >= data.MIN_CONTRAST).all()


def test_photos_are_cut_and_rows_of_train_and_init_share_their_labels():
    pool = data.load_pool("photos")
    cut = data.partition(pool, 500)
    assert torch.equal(cut.train.y, cut.init.y) and torch.equal(cut.train.y, cut.train.y.sort().values)
    assert cut.describe()["n"] == len(cut.train) and cut.describe()["notice"] == pool.notice
    per_class = [((pool.part == part) & (pool.y == label)).sum() for part in ("train", "init") for label in (0, 1)]
    assert len(cut.train) == 2 * min(per_class)  # nothing that could be used was thrown away
    small = data.partition(pool, 20, n_held_out=10)
    assert [len(small.train), len(small.init), len(small.held_out)] == [20, 20, 10]
    assert torch.equal(small.train.index[:10], cut.train.index[:10])  # more images, the same first ones


def test_checksum_sees_pixels_labels_and_order(subset_folder):
    pool = data.load_pool("cifar10", subset_folder)
    other = pool.images.copy()
    other[0, 0, 0, 0] ^= 1
    sums = {pool.sha256}
    for changed in ({"images": other}, {"y": 1 - pool.y}, {"index": pool.index[::-1]}):
        sums.add(dataclasses.replace(pool, **changed).sha256)
    assert len(sums) == 4


@pytest.mark.parametrize("source", ["auto", "cifar10"])
@pytest.mark.parametrize("content", [b"", b"\x00\xff\n\xfe" * 999, b"PK\x03\x04 not a zip"])
def test_junk_named_like_the_subset(tmp_path, monkeypatch, source, content):
    path = tmp_path / "my data µ" / data.SUBSET_FILE
    path.parent.mkdir()
    path.write_bytes(content)
    for named in (path.parent, path):  # the folder, or the file itself; never silently the photographs
        monkeypatch.setenv("RECON_DATA", str(named))
        one_sentence(lambda: data.load_pool(source), "damaged or is another file")
    assert data.load_pool("photos").name == "photos"  # which needs none of it


@pytest.mark.parametrize("missing", ["index", "labels"])
def test_subset_without_an_array_or_an_image(subset_folder, monkeypatch, missing):
    path = subset_folder / data.SUBSET_FILE
    with np.load(path) as whole:
        arrays = dict(whole)

    def write(content):
        np.savez(path, **content)
        monkeypatch.setattr(data, "SUBSET_SHA256", hashlib.sha256(path.read_bytes()).hexdigest())

    write({name: array for name, array in arrays.items() if name != missing})
    one_sentence(lambda: data.load_pool("cifar10", subset_folder), f"cannot be read.*{missing}")
    write({name: array[10:] for name, array in arrays.items()})
    one_sentence(lambda: data.load_pool("cifar10", subset_folder), "lacks 10 of the images")


def test_missing_batch_of_the_download(torchvision_folder):
    (torchvision_folder / data.TORCHVISION_FOLDER / "data_batch_5").unlink()
    one_sentence(lambda: data.load_pool("auto", torchvision_folder), "missing, truncated or damaged")


def test_a_captive_portal_is_an_unreachable_network(tmp_path, monkeypatch):
    """Something answers, but not HTTP as it should be."""

    def portal(*_, **__):
        raise http.client.BadStatusLine("welcome to our hotel")

    monkeypatch.delenv("RECON_DATA", raising=False)
    monkeypatch.setattr(data, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(CIFAR10, "download", portal)
    one_sentence(lambda: data.load_pool("cifar10"), "could not be downloaded.*welcome")
    assert data.load_pool("auto").name == "photos"


def test_timeout_of_the_download_does_not_stay(tmp_path, monkeypatch):
    monkeypatch.delenv("RECON_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    seen = []

    def stall(self):
        seen.append(socket.getdefaulttimeout())
        raise TimeoutError("timed out")

    monkeypatch.setattr(CIFAR10, "download", stall)
    before = socket.getdefaulttimeout()
    one_sentence(lambda: data.load_pool("cifar10"), "could not be downloaded.*timed out")
    assert seen == [data.DOWNLOAD_TIMEOUT_S] and socket.getdefaulttimeout() == before


def test_impossible_paths(monkeypatch):
    one_sentence(lambda: data.load_pool("cifar10", "~no-such-user-here/data"), "cannot be read")
    one_sentence(lambda: data.load_pool("cifar10", "x" * 5000), "cannot be read")


# ------------------------------------------------------------------------------------------- the seed draws images

SEEDED = settings(max_examples=40, deadline=None)


@pytest.fixture(scope="module")
def cifar(fake_cifar):
    """The pool of either CIFAR-10 source, made from the fake images."""
    images, labels = fake_cifar
    return data._cifar10_pool(images, labels, np.arange(N_TRAIN))


@pytest.fixture(scope="module")
def photos():
    return data.load_pool("photos")


def sets(drawn):
    return [set(getattr(drawn, part).index.tolist()) for part in PARTS]


def all_disjoint(indices):
    return len(set().union(*indices)) == sum(map(len, indices))


@pytest.mark.parametrize("n", [2, 20, 100, 500, 5000])
def test_seed_0_takes_the_first_of_each_part_and_class(cifar, photos, n):
    for pool in (cifar, photos):
        drawn = data.partition(pool, n, n_held_out=n)
        for part in PARTS:
            index = getattr(drawn, part).index
            first = [pool.index[(pool.part == part) & (pool.y == label)][: len(index) // 2] for label in (0, 1)]
            assert np.array_equal(index, np.concatenate(first))


def test_other_seeds_train_on_other_images(cifar, photos):
    for pool, n, seeds in ((cifar, 100, 8), (cifar, 200, 3), (cifar, 500, 4), (photos, 20, 3)):
        drawn = [sets(data.partition(pool, n, seed=seed)) for seed in range(seeds)]
        assert all_disjoint([train for train, _, _ in drawn])
    for part in range(3):  # as long as no seed has used up its part, all parts are disjoint
        assert all_disjoint([sets(data.partition(cifar, 100, seed=seed))[part] for seed in range(4)])


def test_training_images_come_from_other_ranges_only_when_their_own_are_used_up(cifar):
    own = set(data.INDEX_RANGES["train"][0])
    first = sets(data.partition(cifar, 500))
    seen = set()
    for seed in range(4):
        train = sets(data.partition(cifar, 500, seed=seed))[0]
        seen |= train
        assert seed > 0 or train <= own
        assert not train & (first[1] | first[2])  # the start and held-out images of seed 0 are never trained on
        for label in (0, 1):  # nothing is borrowed while a whole image is left
            of_class = set(cifar.index[cifar.y == label].tolist())
            assert own & of_class <= seen or train & of_class <= own
    assert seen - own


def check_partition(pool, n, seed):
    drawn, first = (data.partition(pool, n, seed=s) for s in (seed, 0))
    assert all_disjoint(sets(drawn))
    label = dict(zip(pool.index.tolist(), pool.y.tolist(), strict=True))
    for part in PARTS:
        found = getattr(drawn, part)
        assert len(found) == len(getattr(first, part))  # the same number at every seed
        assert found.y.tolist() == [label[i] for i in found.index.tolist()] == sorted(found.y.tolist())
        assert found.y.mean() == 0.5
        assert all((half.diff() > 0).all() for half in found.index.chunk(2))
    assert torch.equal(drawn.train.y, drawn.init.y)  # row i of init stands for row i of train
    again = data.partition(pool, n, seed=seed)
    assert all(torch.equal(getattr(drawn, part).x, getattr(again, part).x) for part in PARTS)


@pytest.mark.parametrize("n", [20, 100, 200, 500])
@pytest.mark.parametrize("seed", range(6))
def test_sets_of_one_seed_are_disjoint_balanced_and_the_same_again(cifar, photos, n, seed):
    check_partition(cifar, n, seed)
    check_partition(photos, n, seed)


@SEEDED
@given(st.integers(1, 600), st.integers(0, 2**62 - 1) | st.integers(0, 60), st.booleans())
def test_sets_of_any_seed_are_disjoint_balanced_and_the_same_again(cifar, photos, half, seed, bundled):
    check_partition(photos if bundled else cifar, 2 * half, seed)


def test_photos_keep_to_their_bands_and_other_seeds_are_other_subsets(photos):
    part_of = dict(zip(photos.index.tolist(), photos.part.tolist(), strict=True))
    for seed in range(6):
        drawn = data.partition(photos, 60, seed=seed)
        for part, indices in zip(PARTS, sets(drawn), strict=True):
            assert {part_of[i] for i in indices} == {part}
    assert sets(data.partition(photos, 60, seed=1))[0] != sets(data.partition(photos, 60, seed=2))[0]


@pytest.mark.parametrize(("n", "count"), [(100, 3), (300, 3), (500, 2)])
@pytest.mark.parametrize("seed", range(4))
def test_several_training_sets_are_disjoint_from_each_other_and_from_what_they_share(cifar, n, count, seed):
    drawn = data.partitions(cifar, n, count, n_held_out=n, seed=seed)
    trained = [sets(one)[0] for one in drawn]
    assert all_disjoint([*trained, *sets(drawn[0])[1:]])
    assert all(torch.equal(one.init.x, drawn[0].init.x) for one in drawn)
    if seed == 0:
        assert torch.equal(drawn[0].train.index, data.partition(cifar, n, n_held_out=n).train.index)
    if n == 100:
        before = [sets(one)[0] for one in data.partitions(cifar, n, count, n_held_out=n, seed=seed + 1)]
        assert all_disjoint(trained + before)


def test_several_training_sets_where_images_are_few(photos):
    drawn = data.partitions(photos, 500, 3)
    assert len({len(one.train) for one in drawn}) == 1
    assert torch.equal(drawn[0].train.index, data.partition(photos, 500).train.index)
    assert len({frozenset(sets(one)[0]) for one in drawn}) == 3


def test_an_experiment_draws_by_its_seed(cifar, tmp_path):
    for seed in (0, 1, 5):
        context = Context(cifar, torch.device("cpu"), seed, tmp_path)
        assert torch.equal(context.dataset(40).train.index, data.partition(cifar, 40, seed=seed).train.index)
        for one, other in zip(context.datasets(40, 2), data.partitions(cifar, 40, 2, seed=seed), strict=True):
            assert torch.equal(one.train.index, other.train.index)


def test_every_network_of_the_adversary_has_images_of_its_own(cifar, tmp_path, monkeypatch):
    """And the shadow net has the start partition, the same for all."""
    seen = []

    def record(config, context, images, offset):
        seen.append((context.seed, offset, images))
        return (
            {},
            torch.zeros(2, dtype=torch.bool),
            SimpleNamespace(x_hat=torch.zeros(2, 3072)),
            {"span": torch.zeros(2, 3072)},
        )

    monkeypatch.setattr(decoreco_adversary, "attack_once", record)
    for seed in (0, 1):
        context = Context(cifar, torch.device("cpu"), seed, tmp_path)
        decoreco_adversary.run_adversary(DECORECO_ADVERSARY["laptop"], context)
    assert [(seed, k) for seed, k, _ in seen] == [(seed, k) for seed in (0, 1) for k in range(4)]
    assert all_disjoint([set(images.train_index.tolist()) for *_, images in seen])
    first = data.partition(cifar, 100, n_held_out=100)
    assert torch.equal(seen[0][2].train_index, first.init.index)
    assert torch.equal(seen[1][2].train_index, first.train.index)


def test_every_seed_of_a_landscape_has_images_of_its_own_whatever_the_seed_of_the_run(cifar, tmp_path):
    config, cpu = LANDSCAPE["laptop"], torch.device("cpu")
    drawn = [
        SeedImages.of(Context(cifar, cpu, seed, tmp_path), config, k, torch.float32)
        for seed in (0, 1)
        for k in range(config.seeds)
    ]
    assert all(len(images.truth) == config.n_train for images in drawn)
    assert all_disjoint([set(images.train_index.tolist()) for images in drawn])


def test_a_negative_seed_is_refused(photos):
    one_sentence(lambda: data.partition(photos, 20, seed=-1), "must not be negative")
