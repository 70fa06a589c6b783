"""What was done to CIFAR-10 on disk, and what has to come of it: see toys.py."""

from __future__ import annotations

import hashlib
import io
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
from torchvision.datasets import CIFAR10
from toys import ANY, FOLDER, NAME, call, refused, stage  # noqa: F401  (stage is a fixture)

from recon.images import cifar as data

pytestmark = pytest.mark.slow

# ----------------------------------------------------------------------------------------- CIFAR-10

#: damage to the subset file, known to be damage by its checksum alone
SUBSETS = ANY | FOLDER


class Hostile:
    """Unpickling it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.fixture
def hostile(tmp_path):
    """A pickle that gives itself away when it is loaded, and whether it was."""
    content, marker = pickle.dumps(Hostile(tmp_path / "owned")), tmp_path / "owned"
    pickle.loads(content)
    assert marker.exists()  # so the tests below can fail
    marker.unlink()
    return content, marker


@pytest.mark.parametrize("source", ["auto", "cifar10"])
@pytest.mark.parametrize("how", SUBSETS)
def test_a_damaged_subset_is_one_sentence_and_never_the_photographs(tmp_path, how, source):
    (tmp_path / data.SUBSET_FILE).write_bytes(b"PK\x03\x04" + b"x" * 999)
    SUBSETS[how](tmp_path / data.SUBSET_FILE)
    arguments = ("run", NAME, "--profile", "smoke", "--data", source, "--data-root")
    for named in (tmp_path, tmp_path / data.SUBSET_FILE):
        code, _, err = call(*arguments, str(named))
        assert code == (1 if how == "huge" else 2), err
        assert not list(tmp_path.glob("default out/*"))


@pytest.mark.parametrize("array", ["images", "labels", "index", "is_test"])
def test_a_pickle_in_the_subset_is_not_loaded_even_with_the_right_checksum(
    tmp_path, monkeypatch, hostile, array
):
    content, marker = hostile
    arrays = {
        "images": np.zeros((1, 32, 32, 3), np.uint8),
        "labels": np.zeros(1, int),
        "index": np.zeros(1, int),
    }
    arrays["is_test"] = np.zeros(1, bool)
    arrays[array] = np.array([Hostile(marker)], dtype=object)
    path = tmp_path / data.SUBSET_FILE
    np.savez(path, **arrays)
    monkeypatch.setattr(data, "SUBSET_SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    refused(("run", NAME, "--profile", "smoke", "--data-root", str(tmp_path)), "cannot be read")
    assert not marker.exists()


@pytest.mark.parametrize(
    "name", ["data_batch_1", "data_batch_5", "test_batch", "batches.meta", "all"]
)
def test_a_pickle_with_the_wrong_checksum_is_never_loaded(tmp_path, monkeypatch, hostile, name):
    """All other files are as they should be; torchvision checks before it loads, and this makes
    sure that it does.
    """
    content, marker = hostile
    folder = tmp_path / data.TORCHVISION_FOLDER
    folder.mkdir()
    batch = pickle.dumps({"data": np.zeros((2, 3072), np.uint8), "labels": [0, 1]})
    meta = pickle.dumps({"label_names": ["a", "b"]})
    names = [f"data_batch_{k}" for k in range(1, 6)]
    right = {**dict.fromkeys((*names, "test_batch"), batch), "batches.meta": meta}
    sums = {file: hashlib.md5(content).hexdigest() for file, content in right.items()}
    monkeypatch.setattr(CIFAR10, "train_list", [[file, sums[file]] for file in names])
    monkeypatch.setattr(CIFAR10, "test_list", [["test_batch", sums["test_batch"]]])
    monkeypatch.setattr(
        CIFAR10,
        "meta",
        {"filename": "batches.meta", "key": "label_names", "md5": sums["batches.meta"]},
    )
    arguments = ("run", NAME, "--profile", "smoke", "--data-root", str(tmp_path))
    for file, whole in right.items():
        (folder / file).write_bytes(whole)
    refused(arguments, "lacks")  # everything is loaded, there is just not enough of it
    for file in right:
        if name in (file, "all"):
            (folder / file).write_bytes(content)
    refused(arguments, "missing, truncated or damaged")
    assert not marker.exists()


@pytest.mark.parametrize("how", {**ANY, **FOLDER})
def test_damaged_batches_are_one_sentence(tmp_path, how):
    folder = tmp_path / data.TORCHVISION_FOLDER
    folder.mkdir()
    (folder / "data_batch_1").write_bytes(b"x" * 999)
    if how in ("huge", "a link to /dev/zero"):
        pytest.skip("torchvision reads all of it to know its checksum")
    ({**ANY, **FOLDER})[how](folder / "data_batch_1")
    refused(
        ("run", NAME, "--profile", "smoke", "--data-root", str(tmp_path)),
        "missing, truncated or damaged",
    )


def test_an_archive_with_the_wrong_checksum_is_never_unpacked(tmp_path):
    with tarfile.open(tmp_path / "cifar-10-python.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("../escaped")
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
    refused(
        ("run", NAME, "--profile", "smoke", "--data-root", str(tmp_path)), "could not be downloaded"
    )
    assert (
        not (tmp_path.parent / "escaped").exists()
        and not (tmp_path / data.TORCHVISION_FOLDER).exists()
    )
