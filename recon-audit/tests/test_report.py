"""The audit as an engineer calls it: modules and arrays in, a verdict out; exit codes, JSON, JUnit,
folders.
"""

from __future__ import annotations

import html
import json
import os
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import nn

import recon
import recon_audit
from recon import cli
from recon.errors import ReconError
from recon.scoring.membership import named
from recon.store.files import only_one
from recon_audit import attacks as attack_module
from recon_audit import audit as audit_module
from recon_audit import browser, membership
from recon_audit.anatomy import anatomy
from recon_audit.shadows import Recipe, trained
from recon_audit.verdict import decide

SCHEMA = json.loads(Path(recon_audit.__file__).with_name("report.schema.json").read_text())
N, SHAPE = 12, (3, 8, 8)
RECIPE = Recipe("adam", 1e-2, None, 120, 1e-2)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setitem(attack_module.BUDGETS, "smoke", (1, 5, 2))


@pytest.fixture(scope="module")
def x():
    return torch.rand(2 * N, *SHAPE, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def y():
    return torch.arange(2 * N) % 2


def fitted(module, x, y, seed=0, recipe=RECIPE):
    module.eval()
    return trained(
        module, anatomy(module, SHAPE), x, y, recipe, torch.Generator().manual_seed(seed)
    )


def dense(outputs=1):
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 24), nn.ReLU(), nn.Linear(24, outputs))


@pytest.fixture(scope="module")
def network(x, y):
    return fitted(dense(), x[:N], y[:N])


def audit(model, train, held_out=None, **options):
    options = {"profile": "smoke", "device": "cpu", "recipe": RECIPE, "shadows": 4} | options
    return recon.audit(model, train, held_out, **options)


@pytest.fixture(scope="module")
def report(network, x, y):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(attack_module.BUDGETS, "smoke", (1, 5, 2))
        return audit(network, x[:N], x[N:], labels=(y[:N], y[N:]))


def test_a_report_says_what_its_parts_say(report, tmp_path):
    assert report.verdict in ("leaks", "not by these attacks", "cannot tell") and report.lines[
        0
    ] in str(report)
    jsonschema.validate(json.loads(report.to_json()), SCHEMA)
    assert report.data["result"]["looks"] == report.data["membership"]["looks"] == 3 * 3 + 3
    assert list(report.data["membership"]["scores"]) == ["lira", "rmia", "multipliers"]
    assert 0 < report.data["membership"]["scores"]["multipliers"]["residual"] <= 1
    assert "Multipliers ask how much of the weights" in report.page
    assert report.data["power"]["canaries"] == 1 and report.data["membership"]["shadows"] == 4
    assert all(
        line in report._repr_html_() and line in report.page
        for line in map(html.escape, report.lines)
    )
    path = report.save(str(tmp_path / "a"))
    assert path.read_text(encoding="utf-8") == report.page
    assert json.loads((tmp_path / "a" / "report.json").read_text()) == json.loads(report.to_json())
    for words in (
        "Can membership be inferred?",
        "what it would have found",
        "Can the two sets be compared?",
    ):
        assert words in report.page


def test_multipliers_that_are_too_many_or_cannot_be_fitted_say_so(network, x, y, monkeypatch):
    quickly = {"labels": (y[:N], y[N:]), "attacks": ("membership",)}
    monkeypatch.setattr(membership, "MAX_NUMBERS", 100)
    told = audit(network, x[:N], x[N:], **quickly)
    table = told.data["membership"]
    assert table["looks"] == 2 and list(table["scores"]) == ["lira", "rmia"]
    assert table["multipliers_why_not"] in told.page and "at 24 images are too many" in told.page
    monkeypatch.undo()

    def refuse(*_):
        raise ReconError("nothing to fit")

    monkeypatch.setattr(membership, "multipliers", refuse)
    table = audit(network, x[:N], x[N:], **quickly).data["membership"]
    assert (
        table["looks"] == 3
        and table["multipliers_why_not"] == "Multipliers were not fitted: nothing to fit."
    )
    assert table["power"]["multipliers_auc"] is None


def test_members_of_a_convolution_are_named_though_no_image_is_read(x, y):
    net = fitted(
        nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 2)),
        x[:N],
        y[:N],
        recipe=RECIPE,
    )
    report = audit(net, x[:N].numpy(), x[N:].numpy(), labels=(y[:N].tolist(), y[N:].tolist()))
    assert report.verdict == "cannot tell" and "The first layer is a convolution" in report.sentence
    assert (
        report.membership == "inferred" and "Who was trained on can be inferred" in report.sentence
    )
    assert report.leaked and {each.how for each in report.leaked} == {"membership"}
    assert (
        all(0.5 < each.probability <= 1 for each in report.leaked)
        and "train[" in report._repr_html_()
    )
    assert report.data["power"] is None


def test_weights_that_are_images_leak_and_are_named(x, y):
    net = dense()
    start = {name: value.clone() for name, value in net.state_dict().items()}
    centred = x - x[:N].mean(0)
    with torch.no_grad():
        net[1].weight[:N] += 100 * centred[:N].flatten(1)
        net[1].weight[N:].mul_(0.01)
    report = audit(
        net, x[:N], x[N:], transform="image", attacks=("rows",), canaries=0, theta_init=start
    )
    assert report.verdict == "leaks" and report.membership is None
    assert {each.index for each in report.leaked} == set(range(N)) and report.leaked[
        0
    ].how == "rows"
    assert (
        min(each.probability for each in report.leaked) > 0.9
        and min(each.score for each in report.leaked) > 0.9
    )
    assert f"{N} of {N} training images came back" in report.sentence


def test_two_outputs_and_the_start_are_used(x, y):
    net = fitted(dense(2), x[:N], y[:N])
    kept = audit(net, x[:N], x[N:], attacks=("decoreco", "rows"), canaries=0)
    assert all(about["why_not"] is None for about in kept.data["result"]["attacks"].values())
    known = audit(
        net,
        x[:N],
        x[N:],
        attacks=("rows",),
        canaries=1,
        shadows=2,
        theta_init=dense(2).state_dict(),
    )
    assert known.data["power"]["canaries"] == 1


def test_sets_that_differ_are_not_compared(network, x):
    report = audit(network, x[:N], 0.8 * x[N:] + 0.2)
    assert report.verdict == report.membership == "cannot tell" and not report.leaked
    assert (
        "two-sample test" in report.sentence
        and report.data["result"] is None is report.data["membership"]
    )
    jsonschema.validate(json.loads(report.to_json()), SCHEMA)
    assert "two-sample test" in report.page


def test_near_copies_are_left_out_and_named(network, x, y):
    held_out = torch.cat([x[N:], 0.9 * x[:2] + 0.05])
    report = audit(
        network,
        x[:N],
        held_out,
        labels=(y[:N], torch.cat([y[N:], y[:2]])),
        canaries=0,
        attacks=("membership",),
    )
    assert report.data["exchangeability"]["near_copies"] == 2
    assert (
        "compared with 12 of 14 held-out images, because 2 are near-copies"
        in report.data["images"]["notes"][0]
    )
    assert report.data["membership"]["labels"] == "labels as given"


NO_INTERVALS = {"tpr_0.01": (0.0, 0.0), "tpr_0.001": (0.0, 0.0)}
RESULT = {"leak": False, "attacks": {"rows": {"why_not": None}}}


@pytest.mark.parametrize(
    ("power", "verdict", "words"),
    [
        (None, "cannot tell", "was not measured"),
        ((2, 0, 0.0), "cannot tell", "found nothing in 2 networks"),
        ((4, 1, 3.0), "cannot tell", "only 1 of 4 networks"),
        (
            (2, 1, 7.0),
            "not by these attacks",
            "would have found 7 of 20 images",
        ),
    ],
)
def test_silence_counts_for_what_the_canaries_say(power, verdict, words):
    table = (
        None
        if power is None
        else dict(zip(("canaries", "leaking", "found"), power, strict=True)) | {"n": 20}
    )
    found = decide(RESULT, 20, table, None, None)
    assert found.images == verdict and words in found.on_images


@pytest.mark.parametrize(
    ("lira", "multipliers", "verdict"),
    [
        (0.5, None, "cannot tell"),
        (None, 0.5, "cannot tell"),
        (0.8, None, "not by"),
        (0.5, 0.8, "not by"),
    ],
)
def test_silence_on_members_counts_for_what_either_kind_of_score_can_do(lira, multipliers, verdict):
    row = {"named": named({"tpr_0.01": 0.0, "tpr_0.001": 0.0, "intervals": NO_INTERVALS}, 10, 10)}
    power = {"auc": lira, "multipliers_auc": multipliers}
    found = decide(
        None,
        10,
        None,
        {"scores": {"lira": row}, "best": "lira", "p_value": 0.5, "power": power},
        None,
    )
    assert found.membership.startswith(verdict)
    assert (
        verdict == "cannot tell"
        or "though in networks trained in the same way it can" in found.on_membership
    )


def test_settings_that_cannot_be(network, x):
    for options, words in (
        ({"attacks": ("magic",)}, "unknown attack 'magic'"),
        ({"attacks": ()}, "unknown attack"),
        ({"shadows": 1}, "membership needs two shadows"),
        ({"canaries": -1}, "must not be negative"),
        ({"profile": "huge"}, "unknown profile"),
    ):
        with pytest.raises(ReconError, match=words):
            audit(network, x[:N], x[N:], **options)


class Answers(nn.Module):
    """A classifier whose answers come wrapped, from a parameter of its own."""

    def __init__(self, wrap):
        super().__init__()
        self.p, self.wrap = (
            nn.Parameter(torch.randn(192, 2, generator=torch.Generator().manual_seed(0))),
            wrap,
        )

    def forward(self, x):
        return self.wrap(x.flatten(1) @ self.p)


@pytest.mark.parametrize(
    "wrap",
    [lambda z: (z, None), lambda z: {"logits": z}, lambda z: z[:, 0]],
    ids=["tuple", "dict", "flat"],
)
def test_two_shadows_and_odd_modules_get_a_verdict(wrap, x, y):
    report = audit(
        Answers(wrap),
        x[:N],
        x[N:],
        recipe=Recipe(steps=5),
        shadows=2,
        canaries=0,
        attacks="rows,membership",
    )
    assert (
        report.membership in ("cannot tell", "inferred")
        and report.data["membership"]["power"]["auc"] is None
    )


def test_networks_that_cannot_be_asked(x):
    for model, words in (
        (nn.Sequential(nn.Flatten(), nn.LazyLinear(2)), "lazy layers"),
        (nn.Flatten(), "no weights"),
        (Answers(lambda z: z / 0), "not finite|does not classify"),
    ):
        with pytest.raises(ReconError, match=words):
            audit(model, x[:N], x[N:], attacks=("membership",))


# ------------------------------------------------------------------------------------- command line


@pytest.fixture
def files(network, x, tmp_path):
    save_file(network.state_dict(), tmp_path / "w.safetensors", metadata={"format": "pt"})
    images = (x * 255).byte().numpy()
    np.savez(
        tmp_path / "d.npz",
        train=images[:N],
        held_out=images[N:],
        train_labels=np.arange(N) % 2,
        held_out_labels=np.arange(N) % 2,
    )
    return tmp_path


def command(files, *more):
    arguments = [
        "audit",
        "--weights",
        str(files / "w.safetensors"),
        "--data",
        str(files / "d.npz"),
        "--mean",
        "none",
    ]
    return [*arguments, "--out", str(files / "out"), "--profile", "smoke", "--device", "cpu", *more]


QUICK = ("--attacks", "rows", "--canaries", "0")


def test_exit_codes_json_and_junit(files, capsys, monkeypatch):
    assert cli.main(command(files, *QUICK)) == 0
    assert capsys.readouterr().out.splitlines()[3] == str(files / "out" / "report.html")
    assert cli.main(command(files, *QUICK, "--fail-on", "leaks", "--json", "-")) == 0
    data = json.loads(capsys.readouterr().out)
    jsonschema.validate(data, SCHEMA)
    assert data["verdict"] == "cannot tell" and data["tensors"][0] == "w1 = 1.weight"
    more = (
        "--fail-on",
        "cannot-tell",
        "--junit",
        str(files / "j.xml"),
        "--json",
        str(files / "j.json"),
    )
    assert cli.main(command(files, *QUICK, *more)) == 4
    suite = ElementTree.parse(files / "j.xml").getroot()
    assert (
        suite.get("errors") == "1" and suite.get("failures") == "0" and suite[0][0].tag == "error"
    )
    assert json.loads((files / "j.json").read_text())["schema"] == "recon-audit/1"
    weights = load_file(files / "w.safetensors")
    images = np.load(files / "d.npz")["train"]
    weights["1.weight"][:N] = 50 * torch.from_numpy(images / 255.0).flatten(1).float()
    weights["1.weight"][N:] = 0
    save_file(weights, files / "w.safetensors")
    capsys.readouterr()
    for fail_on, code in ((), 0), (("leaks",), 3), (("cannot-tell",), 3), (("membership",), 3):
        chosen = [word for name in fail_on for word in ("--fail-on", name)]
        assert cli.main(command(files, *QUICK, *chosen)) == code
    assert "these weights leak training images" in capsys.readouterr().out


def test_folders_labels_and_the_start_on_the_command_line(files, network, x, capsys):
    images = (x * 255).byte().permute(0, 2, 3, 1).numpy()
    for part, rows in (("a", range(N)), ("b", range(N, 2 * N))):
        (files / part).mkdir()
        for row in rows:
            Image.fromarray(images[row]).save(files / part / f"{row}.png")
    table = "".join(f"{'a' if row < N else 'b'}/{row}.png,{row % 2}\n" for row in range(2 * N))
    (files / "labels.csv").write_text(table)
    torch.save(dense().state_dict(), files / "start.pt")
    more = [
        "--held-out",
        str(files / "b"),
        "--labels",
        str(files / "labels.csv"),
        "--start",
        str(files / "start.pt"),
    ]
    few = ["--attacks", "rows,membership", "--canaries", "0", "--shadows", "2", "--json", "-"]
    assert (
        cli.main(
            [
                *command(files, *more, *few),
                "--data",
                str(files / "a"),
                "--junit",
                str(files / "j.xml"),
            ]
        )
        == 0
    )
    data = json.loads(capsys.readouterr().out)
    assert (
        data["membership"]["labels"] == "labels of labels.csv"
        and data["membership"]["accuracy"]["train"] > 0.9
    )
    suite = ElementTree.parse(files / "j.xml").getroot()
    told = [data["verdict"], data["membership_verdict"]]
    assert int(suite.get("failures")) == sum(kind in ("leaks", "inferred") for kind in told)
    assert int(suite.get("errors")) == told.count("cannot tell") and suite.get("tests") == "2"


def test_mean_and_std_on_the_command_line(files, capsys):
    assert (
        cli.main([*command(files, *QUICK), "--mean", "0.5,0.5,0.5/0.2,0.2,0.2", "--json", "-"]) == 0
    )
    assert (
        json.loads(capsys.readouterr().out)["images"]["mean"]
        == "mean and standard deviation as given"
    )
    assert cli.main([*command(files, *QUICK), "--mean", "a/b"]) == 2


# ---------------------------------------------------------------------------------------------- PDF


@pytest.mark.skipif(
    not any(map(shutil.which, browser.BROWSERS)), reason="no Chromium on this machine"
)
def test_a_report_is_printed(report, tmp_path):
    pypdf = pytest.importorskip("pypdf", reason="pypdf is not installed: make env")
    assert report.save(tmp_path, pdf=True) == tmp_path / "report.html"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "report.html",
        "report.json",
        "report.pdf",
    ]
    found = pypdf.PdfReader(tmp_path / "report.pdf")
    text = "".join("".join(page.extract_text() for page in found.pages).split())
    assert all(
        "".join(line.split()) in unicodedata.normalize("NFKC", text) for line in report.lines
    )
    assert len({image.data for page in found.pages for image in page.images}) > 2 * N


def test_without_chromium_nothing_is_computed(files, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(audit_module, "audited", lambda *_: pytest.fail("computed"))
    assert cli.main([*command(files, *QUICK), "--pdf", str(tmp_path / "r.pdf")]) == 2
    said = capsys.readouterr().err
    assert "a PDF needs Chromium on the PATH" in said and said.count("\n") == 1


@pytest.mark.parametrize(
    ("script", "message"), [("echo broken >&2; exit 3", "broken"), ("true", "exit code 0")]
)
def test_a_browser_that_fails_is_one_sentence_and_leaves_nothing(
    report, tmp_path, monkeypatch, script, message
):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "chromium").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "bin" / "chromium").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin")
    with pytest.raises(ReconError, match=f"Chromium could not print .*: {message}"):
        report.print(tmp_path / "r.pdf")
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


def test_a_browser_that_hangs_is_one_sentence(report, tmp_path, monkeypatch):
    (tmp_path / "chromium").write_text("#!/bin/sh\nexec sleep 30\n")
    (tmp_path / "chromium").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setattr(browser, "LIMIT_S", 0.2)
    with pytest.raises(ReconError, match="did not print"):
        report.print(tmp_path / "r.pdf")


# ------------------------------------------------------------------------------------------ folders


def test_two_audits_do_not_share_a_folder(files, capsys):
    with only_one(files / "out"):
        assert cli.main(command(files, *QUICK)) == 2
    assert "another run is at work" in capsys.readouterr().err


def test_a_failed_audit_leaves_no_older_report(files):
    assert cli.main(command(files, *QUICK)) == 0
    assert (files / "out" / "report.json").is_file()
    (files / "out" / "report.pdf").touch()
    assert cli.main([*command(files, *QUICK), "--mean", "median"]) == 2
    assert (
        not (files / "out" / "report.json").exists()
        and not (files / "out" / "report.html").exists()
    )
    assert not (files / "out" / "report.pdf").exists()


def test_names_of_files_that_are_no_text(files, x):
    raw = os.fsencode(files) + b"/\xff\xe2\x80\xae.safetensors"
    os.rename(files / "w.safetensors", raw)
    path = os.fsdecode(raw)
    report = audit(path, files / "d.npz", attacks=("rows",), canaries=0, out=files / "out")
    assert report.data["weights"]["file"] == "\\xff\\u202e.safetensors"
    assert "\u202e" not in (files / "out" / "report.html").read_text(encoding="utf-8")


def test_shares_are_never_negative(report):
    share = report.data["first_layer"]
    assert all(
        share[name] is None or share[name] >= 0
        for name in ("by_attack", "by_training", "by_held_out")
    )


def test_import_of_the_package_does_not_import_torch():
    code = "import sys, recon; recon.audit; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert audit_module.audit.__doc__
