"""The pair to download: its script trains both sets and finds the same bytes."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

STATIC = Path(__file__).parents[2] / "book" / "_static"


def said(folder: Path) -> str:
    """What the script prints there, in a process of its own."""
    command = [sys.executable, str(folder / "train_both.py")]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd="/").stdout


def pictures(folder: Path) -> np.ndarray:
    return np.stack([np.asarray(Image.open(file)) for file in sorted(folder.glob("*.png"))])


@pytest.fixture(scope="module")
def download(tmp_path_factory):
    with zipfile.ZipFile(STATIC / "twins.zip") as file:
        file.extractall(folder := tmp_path_factory.mktemp("download"))
    return folder / "twins"


def test_the_download_is_two_sets_with_one_classifier(download):
    assert said(download) == "3073 numbers: identical\n"
    one, other = pictures(download / "training"), pictures(download / "other")
    assert one.shape == other.shape == (80, 32, 32, 3) and one.dtype == np.uint8
    assert not {image.tobytes() for image in one} & {image.tobytes() for image in other}
    assert (STATIC / "twins.zip").stat().st_size < 1e6
    assert "CC BY 2.0" in (download / "LICENCES.txt").read_text(encoding="utf-8")


def test_one_grey_level_is_seen(download, tmp_path):
    """Of a heavy image; so equality is no accident of a coarse comparison."""
    for name in ("training", "other"):
        (tmp_path / name).mkdir()
        for file in (download / name).glob("*.png"):
            (tmp_path / name / file.name).write_bytes(file.read_bytes())
    (tmp_path / "train_both.py").write_bytes((download / "train_both.py").read_bytes())
    file = min((tmp_path / "training").glob("*.png"))
    image = np.asarray(Image.open(file)).copy()
    image[0, 0, 0] += 1
    Image.fromarray(image).save(file)
    assert "identical" not in said(tmp_path) and "differ" in said(tmp_path)
