"""What a report opens with, and reports without names: lines by hand, counts beside guesses, no
name or picture.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import torch
import yaml
from PIL import Image
from torch import nn

import recon
import recon_audit
from recon import cli
from recon.errors import ReconError
from recon.scoring.membership import guessed, named, true_rate
from recon_audit import browser
from recon_audit.aggregates import hashed, salt_in
from recon_audit.audit import FOLDER
from recon_audit.comparison import SHOWN
from recon_audit.report import EDPB, LARGEST, Row, card, embedded, page
from recon_audit.shadows import Recipe
from recon_audit.verdict import Verdict, counted, enumerated, lines, worst

SCHEMA = json.loads(Path(recon_audit.__file__).with_name("report.schema.json").read_text())
N, SHAPE = 12, (3, 8, 8)
QUICK = {
    "profile": "smoke",
    "device": "cpu",
    "recipe": Recipe("adam", 1e-2, None, 120, 1e-2),
    "shadows": 2,
}
NAMES = [f"Ada Lovelace {k}.png" for k in range(2 * N)]
FEW, MANY, NONE = ({"tpr_0.01": rate, "tpr_0.001": rate} for rate in (0.02, 0.4, 0.0))


def row(rates, spread=0.1):
    return rates | {
        "intervals": {
            name: (max(0.0, r - spread), min(1.0, r + spread)) for name, r in rates.items()
        }
    }


# ------------------------------------------------------------------------------------------- counts


@pytest.mark.parametrize(
    ("n", "others", "rate"), [(40, 40, 0.01), (100, 200, 0.01), (30, 300, 0.01)]
)
def test_a_guess_is_what_scores_that_know_nothing_find(n, others, rate):
    random, member = np.random.default_rng(0), np.arange(n + others) < n
    found = n * np.array([true_rate(random.random(n + others), member, rate) for _ in range(4000)])
    mean, most = guessed(n, others, int(rate * others))
    assert found.mean() == pytest.approx(mean, rel=0.1)
    assert (found > most).mean() <= 0.06 and (found > most - 1).mean() > 0.04
    assert guessed(n, others, int(rate * others), 0.01)[1] > most


def test_counts_say_what_a_guess_would_and_what_cannot_be_told():
    many = counted(named(row(MANY), 500, 5000))
    assert many.startswith(
        "200 of 500 can be named at 1 % false alarms (95 % interval 150 to 250; guessing names 5, "
    )
    assert (
        "; 200 of 500 can be named at 0.1 % false alarms" in many
        and "no more than guessing" not in many
    )
    few = counted(named(row(FEW), 500, 500))
    assert (
        few.startswith("10 of 500 can be named at 1 % false alarms")
        and few.count("is no more than guessing") == 1
    )
    assert few.endswith("; a rate of 0.1 % cannot be told, since it needs 1,000 held-out images")
    none = counted(named(row(NONE), 20, 20))
    assert none.startswith("0 of 20 can be named without a false alarm among 20 held-out images (")
    assert none.endswith(
        "; a rate of 1 % and 0.1 % cannot be told, since it needs 100 and 1,000 held-out images"
    )
    assert (
        named(row(MANY), 500, 5000, 3)["0.01"]["guess_most"]
        > named(row(MANY), 500, 5000)["0.01"]["guess_most"]
    )


# -------------------------------------------------------------------------------------------- lines


def leaked(*each):
    return [
        dict(zip(("image", "index", "how", "score", "probability"), one, strict=True))
        for one in each
    ]


def test_the_worst_image_is_the_best_copy_and_the_surest_member():
    a, b = ("a", 0, "rows", 0.7, 0.9), ("b", 1, "rows", 0.95, 0.8)
    said = worst(leaked(a, b, ("c", 2, "membership", 3.0, 0.7), ("d", 3, "membership", 4.0, 0.6)))
    assert (
        "b, which came back at a likeness (NCC) of 0.95" in said
        and "and c, which" in said
        and "70%" in said
    )
    assert "none was found" in worst([])


def test_three_lines_whatever_was_asked():
    report = {"leaked": [], "attacks_asked": ["rows"]}
    told = lines(report, Verdict("cannot tell", None, "Nothing."))
    assert len(told) == 3 and told[0] == "Nothing." and told[1].endswith("was not asked.")
    asked = lines(
        report | {"attacks_asked": ["membership"]},
        Verdict("cannot tell", "cannot tell", "Nothing."),
    )
    assert asked[1] == "Nor can it be told who was trained on."
    came = leaked(*((f"{k}\u202e.png", k, "rows", 0.9, 0.9) for k in range(5)))
    first = lines(report | {"leaked": came}, Verdict("leaks", None, "5 came back."))[0]
    assert first.endswith("and 2 more.") and "\u202e" not in first
    assert enumerated(["a"]) == "a"


# --------------------------------------------------------------------------------------- aggregates


@pytest.fixture(scope="module")
def leaky():
    """A network whose rows are its images, and images (2N, 3, 8, 8), half of them its own."""
    x = torch.rand(2 * N, *SHAPE, generator=torch.Generator().manual_seed(0))
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 24), nn.ReLU(), nn.Linear(24, 1)).eval()
    with torch.no_grad():
        net[1].weight[:N] = 50 * x[:N].flatten(1)
        net[1].weight[N:] = 0
    return net, x


@pytest.fixture(scope="module")
def folders(leaky, tmp_path_factory):
    """The images as files whose names name somebody, in classes that do, labels in a file that
    does, and weights.
    """
    net, x = leaky
    folder = tmp_path_factory.mktemp("folders")
    pixels = (x * 255).byte().permute(0, 2, 3, 1).numpy()
    for k, name in enumerate(NAMES):
        part = folder / ("train" if k < N else "held_out") / f"Mrs Byron {k % 2}"
        part.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels[k]).save(part / name)
    (folder / "train" / "Mrs Byron 0" / "Ada notes.txt").write_text("no image")
    torch.save(net.state_dict(), folder / "Babbage.pt")
    return folder


def command(folder, *more):
    asked = [
        "audit",
        "--weights",
        folder / "Babbage.pt",
        "--data",
        folder,
        "--out",
        folder / "out",
        "--mean",
        "none",
    ]
    few = [
        "--attacks",
        "rows,membership",
        "--canaries",
        "0",
        "--shadows",
        "2",
        "--profile",
        "smoke",
        "--device",
        "cpu",
    ]
    return [str(each) for each in (*asked, *few, *more)]


def test_aggregates_hold_no_name_and_no_picture(folders, capsys):
    written = {name: folders / name for name in ("j.json", "j.xml", "card.md", "r.pdf")}
    more = [
        "--json",
        written["j.json"],
        "--junit",
        written["j.xml"],
        "--model-card",
        written["card.md"],
    ]
    printed = any(map(shutil.which, browser.BROWSERS))
    more += ["--pdf", written["r.pdf"]] if printed else []
    salt = folders / "salt"
    assert cli.main(command(folders, "--aggregates-only", "--salt", salt, *more)) == 0
    texts = [capsys.readouterr().out.replace(str(folders), "")]
    assert sorted(path.name for path in (folders / "out").iterdir()) == [
        "report.html",
        "report.json",
    ]
    texts += [path.read_text() for path in (folders / "out").iterdir()]
    texts += [path.read_text() for name, path in written.items() if name != "r.pdf"]
    if printed:
        pypdf = pytest.importorskip("pypdf", reason="pypdf is not installed: make env")
        pages = pypdf.PdfReader(written["r.pdf"]).pages
        assert not any(page.images for page in pages)
        texts.append("".join(page.extract_text() for page in pages))
    key = salt.read_text().strip()
    for text in texts:
        assert not re.search("Ada|Lovelace|Byron|Babbage|base64|<img|train/|held_out/", text)
        assert key not in text
    data = json.loads(written["j.json"].read_text())
    jsonschema.validate(data, SCHEMA)
    assert data["aggregates_only"] and data["verdict"] == "leaks" and len(data["leaked"]) >= N
    hashes = {hashed(f"train/Mrs Byron {k % 2}/{NAMES[k]}", key) for k in range(N)}
    assert {each["image"] for each in data["leaked"] if each["how"] == "rows"} == hashes
    assert all(each["index"] is None for each in data["leaked"])
    assert data["lines"][0].count(" and 9 more") == 1 and any(
        each in data["lines"][2] for each in hashes
    )


def test_a_whole_report_names_them(folders, capsys):
    assert cli.main(command(folders)) == 0
    assert "Lovelace" in capsys.readouterr().out
    text = (folders / "out" / "report.html").read_text()
    assert "Lovelace" in text and "base64" in text
    (folders / "out" / FOLDER).mkdir(exist_ok=True)
    # what that run recovered lies in the folder
    assert cli.main(command(folders, "--aggregates-only")) == 2
    assert "holds what an earlier audit recovered" in capsys.readouterr().err
    shutil.rmtree(folders / "out")


def test_salts(tmp_path, folders, capsys, leaky):
    salt = salt_in(tmp_path / "salt")
    assert salt_in(tmp_path / "salt") == salt and (tmp_path / "salt").stat().st_mode & 0o077 == 0
    assert hashed("a", salt) != hashed("b", salt) != hashed("b", salt + "0")
    (tmp_path / "short").write_text("1234\n")
    with pytest.raises(ReconError, match="16 characters"):
        salt_in(tmp_path / "short")
    with pytest.raises(ReconError, match="cannot be written"):
        salt_in(tmp_path / "no" / "salt")
    assert cli.main(command(folders, "--salt", tmp_path / "salt")) == 2
    assert "--aggregates-only" in capsys.readouterr().err
    net, x = leaky
    quick = QUICK | {
        "attacks": ("rows",),
        "canaries": 0,
        "transform": "none",
        "aggregates_only": True,
    }
    one, other = (recon.audit(net, x[:N], x[N:], **quick) for _ in range(2))
    assert one.salt and one.salt != other.salt and one.leaked[0].image != other.leaked[0].image
    assert {each.image for each in one.leaked} == {
        hashed(f"train[{k}]", one.salt) for k in range(N)
    }
    assert (
        "train["
        not in one.page + one.to_json() + one._repr_html_() + one.junit() + one.model_card()
    )
    with pytest.raises(ReconError, match="16 characters"):
        recon.audit(net, x[:N], x[N:], **quick, salt="1")


# --------------------------------------------------------------------------------------------- card


def test_a_model_card_holds_the_numbers_of_the_report(leaky):
    net, x = leaky
    y = torch.arange(2 * N) % 2
    report = recon.audit(
        net, (x[:N], y[:N]), (x[N:], y[N:]), canaries=0, attacks="rows,membership", **QUICK
    )
    text = report.model_card()
    told = yaml.safe_load(re.search(r"```yaml\n(.*?)```", text, re.DOTALL)[1])["privacy_audit"]
    assert (
        told["verdict"] == report.verdict
        and told["images_came_back"] == report.data["result"]["targets"]
    )
    # 12 images held out
    assert told["training_images"] == N and told["named_at_false_alarms_of_0.01"] is None
    assert EDPB in text and EDPB in report.page and "train[" not in text
    assert "all the means reasonably likely to be used" in EDPB
    differ = recon.audit(net, x[:N], 0.8 * x[N:] + 0.2, **QUICK)
    assert "images_came_back: null" in card(differ.data)
    assert {each["state"] for each in differ.data["tried"]} == {"nothing to compare"}


# --------------------------------------------------------------------------------------------- size


def test_pictures_are_small_whatever_the_images_are():
    noise = np.random.default_rng(0).integers(0, 256, (512, 400, 3), dtype=np.uint8)
    assert len(embedded(noise)) < 20_000 and embedded(noise).startswith("data:image/jpeg")
    assert max(Image.fromarray(noise).size) > LARGEST
    assert embedded(noise[:32, :32]).startswith("data:image/png")
    assert embedded(noise[..., :1]).startswith("data:image/jpeg")


def test_a_report_over_500_large_images_is_small(leaky):
    net, x = leaky
    report = recon.audit(net, x[:N], x[N:], canaries=0, attacks="rows", transform="none", **QUICK)
    data = json.loads(report.to_json())
    data["leaked"] = leaked(
        *((f"{k:03}.png", k, how, 0.9, 0.9) for k in range(500) for how in ("rows", "membership"))
    )
    data["result"] |= {"targets": 500}
    noise = np.random.default_rng(0).integers(0, 256, (224, 224, 3), dtype=np.uint8)
    row = Row(0, noise, noise, "image", 0.9)
    shown = page(data, [(row, row)] * SHOWN, "")
    assert shown.count("<img") == 4 * SHOWN and len(shown) < 5_000_000 > len(json.dumps(data))
    assert (
        "And 980 more lines, in report.json." in shown
        and f"And {500 - SHOWN} more that came back." in shown
    )
