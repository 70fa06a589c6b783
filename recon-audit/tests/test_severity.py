"""What a report opens with, and reports without names: lines by hand, counts beside guesses, no
name or picture.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
import torch
from PIL import Image
from torch import nn

import recon_audit
from recon import cli
from recon_audit.verdict import Verdict, lines

SCHEMA = json.loads(Path(recon_audit.__file__).with_name("report.schema.json").read_text())
N, SHAPE = 12, (3, 8, 8)


# -------------------------------------------------------------------------------------------- lines


def leaked(*rows):
    names = ("image", "index", "how", "score", "probability")
    return [dict(zip(names, row, strict=True)) for row in rows]


def test_the_worst_image_is_the_best_copy_and_the_surest_member():
    a, b = ("a", 0, "rows", 0.7, 0.9), ("b", 1, "rows", 0.95, 0.8)
    rows = a, b, ("c", 2, "membership", 3.0, 0.7), ("d", 3, "membership", 4.0, 0.6)
    report = {"leaked": leaked(*rows), "attacks_asked": ["rows"], "result": {"features": False}}
    *_, said = lines(report, Verdict("leaks", None, "2 came back."))
    assert "b, which came back at a likeness (NCC) of 0.95" in said and "and c, which" in said


def test_three_lines_whatever_was_asked():
    names = leaked(*((f"{k}\u202e.png", k, "rows", 0.9, 0.9) for k in range(5)))
    report = {"leaked": names, "attacks_asked": ["rows"], "result": {"features": True}}
    first, second, _ = lines(report, Verdict("leaks", None, "5 came back."))
    assert first.endswith("and 2 more.") and "\u202e" not in first
    assert second.endswith("was not asked.")


# --------------------------------------------------------------------------------------- aggregates


@pytest.fixture
def folders(tmp_path):
    """A network whose rows are its images, and those as files whose names name somebody, in classes
    that do.
    """
    x = torch.rand(2 * N, *SHAPE, generator=torch.Generator().manual_seed(0))
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 24), nn.ReLU(), nn.Linear(24, 1)).eval()
    with torch.no_grad():
        net[1].weight[:N] = 50 * x[:N].flatten(1)
        net[1].weight[N:] = 0
    torch.save(net.state_dict(), tmp_path / "Babbage.pt")
    for k, pixels in enumerate((x * 255).byte().permute(0, 2, 3, 1).numpy()):
        part = tmp_path / ("train" if k < N else "held_out") / f"Mrs Byron {k % 2}"
        part.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(part / f"Ada Lovelace {k}.png")
    (tmp_path / "train" / "Mrs Byron 0" / "Ada notes.txt").write_text("no image")
    return tmp_path


def command(folder, *more):
    paths = [f"--weights={folder / 'Babbage.pt'}", f"--data={folder}", f"--out={folder / 'out'}"]
    few = ["--attacks=rows,membership", "--canaries=0", "--shadows=2", "--mean=none"]
    return ["audit", *paths, *few, "--profile=smoke", "--device=cpu", *map(str, more)]


def test_aggregates_hold_no_name_and_no_picture(folders, capsys):
    assert cli.main(command(folders, "--aggregates-only")) == 0
    texts = [capsys.readouterr().out.replace(str(folders), "")]
    reports = list((folders / "out").iterdir())
    assert sorted(path.name for path in reports) == ["report.html", "report.json"]
    for text in texts + [path.read_text() for path in reports]:
        assert not re.search("Ada|Lovelace|Byron|Babbage|base64|<img|train/|held_out/", text)
    data = json.loads((folders / "out" / "report.json").read_text())
    jsonschema.validate(data, SCHEMA)
    assert data["aggregates_only"] and data["verdict"] == "leaks" and len(data["leaked"]) >= N
    assert [image["image"] for image in data["leaked"]][:2] == ["image 1", "image 2"]
    assert all(image["index"] is None for image in data["leaked"])
