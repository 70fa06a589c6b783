"""The audit of a reader's own network: leak and no leak, both kinds of names and of data, resuming,
bad input.
"""

from __future__ import annotations

import json
import pickle
import tempfile
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

import recon
from recon import cli
from recon.attacks.door import Candidates
from recon.errors import ReconError
from recon.images.partitions import partition
from recon.images.registry import load_pool
from recon.nets.mlp import MLP, three_layer
from recon.scoring.matching import target_decoy
from recon.scoring.nulls import null_candidates
from recon.store.tensors import load_tensors
from recon.training.kkt import KKTSettings, train_to_kkt
from recon_audit import attacks as module
from recon_audit.anatomy import anatomy
from recon_audit.attacks import (
    KINDS,
    RECONSTRUCTIONS,
    Kind,
    Released,
    Task,
    attempts,
    by_rows,
    by_separation,
    of_door,
)
from recon_audit.audit import FOLDER
from recon_audit.fit import mean_image
from recon_audit.images import Expected
from recon_audit.inputs import load_images
from recon_audit.networks import parse_arch, subject_of
from recon_audit.report import NAMES
from recon_audit.scoring import (
    DECISIVE,
    DRAWS,
    LEVEL,
    NULLS,
    THRESHOLDS,
    Nulls,
    blur_p,
    excess,
    matches,
    score,
)

N, SIDE, WIDTH = 10, 8, 200
LOOKS = len(RECONSTRUCTIONS) * len(DECISIVE)
DIM = 3 * SIDE * SIDE
ARCH = f"{DIM}-{WIDTH}-{WIDTH}-1"


def audit(weights, arch, data, out, **options):
    """What report.json holds, of the attacks on images alone and without canaries."""
    options = {"transform": "image", "attacks": RECONSTRUCTIONS, "canaries": 0} | options
    return recon.audit(weights, data, arch=arch, out=out, **options).data


def load_weights(file, arch):
    """The network, θ*, and which tensor is which."""
    subject = subject_of(file, arch)
    widths = parse_arch(arch)
    seen = anatomy(subject.module, (1, 1, widths[0]))
    return seen.mlp, seen.theta, subject.tensors


@pytest.fixture(scope="module")
def pixels():
    return (
        torch.randint(0, 256, (2 * N, SIDE, SIDE, 3), generator=torch.Generator().manual_seed(0))
        .byte()
        .numpy()
    )


@pytest.fixture(scope="module")
def data(pixels, tmp_path_factory):
    file = tmp_path_factory.mktemp("data") / "images.npz"
    np.savez(file, train=pixels[:N], held_out=pixels[N:])
    return file


@pytest.fixture(scope="module")
def network():
    return MLP((DIM, WIDTH, WIDTH, 1), bias=(True, False, False))


@pytest.fixture(scope="module")
def start(network):
    return network.flatten(network.init(torch.Generator().manual_seed(1), "small"))


@pytest.fixture(scope="module")
def trained(network, start, data, tmp_path_factory):
    """A net in the KKT regime, at a training loss of e^-20."""
    train, _ = load_images(data, expected=Expected(DIM))
    x = (train.scaled - mean_image(train, "image")).flatten(1)
    theta = train_to_kkt(
        network, x, torch.arange(N).float() % 2, start, KKTSettings(300, -20.0)
    ).theta_star
    return write(
        network.unflatten(theta), tmp_path_factory.mktemp("weights") / "trained.safetensors"
    )


@pytest.fixture(scope="module")
def leaking(trained, data, tmp_path_factory):
    out = tmp_path_factory.mktemp("leaking")
    return audit(trained, ARCH, data, out, profile="smoke", device="cpu"), out


def write(tensors, file):
    save_file({name: tensor.clone().contiguous() for name, tensor in tensors.items()}, file)
    return file


class Page(HTMLParser):
    """Tags with their attributes, and the text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words.append(data)


def test_a_net_in_the_kkt_regime_leaks(leaking):
    report, _ = leaking
    result = report["result"]
    assert (
        result["leak"]
        and result["p_value"] < 0.01
        and result["targets"] >= 6
        and result["decoys"] == 0
    )
    assert (
        "leak training images" in report["summary"]
        and f"of {N} training images" in report["summary"]
    )
    share = report["first_layer"]
    assert share["by_training"] > 0.75 > 0.3 > share["by_held_out"] and share["by_attack"] > 0.8
    assert report["matches"]["train"][0]["ncc"] > 0.8 > report["matches"]["held_out"][0]["ncc"]


def test_an_untrained_net_does_not(network, start, data, tmp_path):
    report = audit(
        write(network.unflatten(start), tmp_path / "w.safetensors"),
        ARCH,
        data,
        tmp_path,
        profile="smoke",
        device="cpu",
    )
    assert not report["result"]["leak"] and report["result"]["targets"] <= 1
    assert report["verdict"] == "cannot tell" and "was not measured" in report["summary"]
    assert report["first_layer"]["by_training"] < 0.3
    assert "says little" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_net_trained_on_other_images_does_not(trained, pixels, tmp_path, monkeypatch):
    """The same weights, offered images that nobody trained on."""
    monkeypatch.setitem(module.BUDGETS, "smoke", (1, 60, 10))
    others = (
        torch.randint(0, 256, pixels.shape, generator=torch.Generator().manual_seed(5))
        .byte()
        .numpy()
    )
    np.savez(tmp_path / "d.npz", train=others[:N], held_out=others[N:])
    result = audit(trained, ARCH, tmp_path / "d.npz", tmp_path, profile="smoke", device="cpu")[
        "result"
    ]
    assert not result["leak"] and all(
        about["why_not"] is None for about in result["attacks"].values()
    )


def adam(network, x, y, goal):
    """Trained from the small start to a logistic loss of `goal`."""
    theta = network.flatten(
        network.init(torch.Generator().manual_seed(0), "small")
    ).requires_grad_()
    optimiser = torch.optim.Adam([theta], lr=1e-3)
    for _ in range(2000):
        optimiser.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            network(network.unflatten(theta), x), y
        )
        if loss < goal:
            return theta.detach()
        loss.backward()
        optimiser.step()
    raise AssertionError("did not train")


def test_a_small_start_and_adam_leak_by_separation(tmp_path, monkeypatch):
    """Adam leaves the span of the images: DecoReco finds next to nothing, and separation finds
    photographs.
    """
    monkeypatch.setitem(module.BUDGETS, "smoke", (1, 5, 2))
    photos = partition(load_pool("photos"), 30, n_held_out=30)
    network = three_layer(200, 3072)
    theta = adam(network, photos.train.flat - photos.train.flat.mean(0), photos.train.y, 1e-6)
    file = write(network.unflatten(theta), tmp_path / "w.safetensors")
    parts = {
        name: (getattr(photos, name).x * 255).round().byte().numpy()
        for name in ("train", "held_out")
    }
    np.savez(tmp_path / "d.npz", **parts)
    report = audit(
        file, "3072-200-200-1", tmp_path / "d.npz", tmp_path, profile="smoke", device="cpu"
    )
    result = report["result"]
    assert (
        result["leak"] and result["attack"] == "separation" and "by separation" in report["summary"]
    )
    assert result["targets"] - result["decoys"] > result["null_max"]
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Separation of the first layer, which found most" in text


@pytest.fixture(scope="module")
def dull(network, start):
    """Weights with nothing in them, or nothing to work with."""
    params = network.unflatten(start)
    row = torch.randn(DIM, generator=torch.Generator().manual_seed(3))
    return {
        "constant": {name: torch.full_like(value, 0.01) for name, value in params.items()},
        "dead": {name: torch.full_like(value, -0.01) for name, value in params.items()},
        "rank 0": {**params, "w1": torch.zeros_like(params["w1"])},
        "rank 1": {**params, "w1": torch.ones(WIDTH, 1) * row},
    }


@pytest.mark.parametrize("case", ["constant", "dead", "rank 0", "rank 1"])
def test_dull_weights_are_no_evidence(case, dull, data, tmp_path, monkeypatch):
    monkeypatch.setitem(module.BUDGETS, "smoke", (1, 5, 2))
    file = write(dull[case], tmp_path / "w.safetensors")
    report = audit(file, ARCH, data, tmp_path, profile="smoke", device="cpu")
    assert report["verdict"] == "cannot tell" and "No evidence" in report["summary"]
    text = unescape((tmp_path / "report.html").read_text(encoding="utf-8"))
    silent = {
        name: about["why_not"]
        for name, about in report["result"]["attacks"].items()
        if about["why_not"]
    }
    expected = {
        "constant": {"separation"},
        "dead": {"separation", "decoreco"},
        "rank 0": {"separation", "rows"},
    }
    assert set(silent) == expected.get(case, set())
    assert all(reason.count(".") == 1 and reason in text for reason in silent.values())


def test_images_one_pixel_wide_are_not_separated(network, trained):
    w1 = network.unflatten(load_weights(trained, ARCH)[1])["w1"]
    found = by_separation(Task(Released(w1), (3, 1, SIDE * SIDE), N, "smoke", 0))
    assert (
        found.why_not
        == "Images of 3 × 1 × 64 numbers have no neighbouring pixels in both directions."
    )
    assert not len(found.x_hat)


def test_attacks_offer_two_candidates_per_image(network, trained, monkeypatch):
    monkeypatch.setitem(module.BUDGETS, "smoke", (1, 5, 2))
    _, theta, _ = load_weights(trained, ARCH)
    released = Released(network.unflatten(theta)["w1"], network=network, theta=theta)
    task = Task(released, (3, SIDE, SIDE), N - 4, "smoke", 0)
    found = attempts(task, RECONSTRUCTIONS)
    assert [attempt.name for attempt in found] == list(RECONSTRUCTIONS)

    def by_guess(weights, shape, settings, generator):
        assert weights.n_train == N - 4
        return Candidates(
            torch.rand(weights.n_train, *shape, generator=generator),
            torch.ones(N - 4),
            "nothing",
            {},
        )

    monkeypatch.setitem(KINDS, "guess", Kind("A guess", "by a guess", "theta", of_door(by_guess)))
    (guess,) = attempts(task, ["guess"])
    assert guess.name == "guess" and guess.x_hat.shape == (N - 4, 3 * SIDE * SIDE)
    (without,) = attempts(replace(task, released=Released(released.w1)), ["guess"])
    assert without.why_not and not len(without.x_hat)
    assert [len(attempt.x_hat) for attempt in found] == [2 * (N - 4)] * 3
    w1 = network.unflatten(theta)["w1"]
    images = torch.randn(N, DIM, generator=torch.Generator().manual_seed(0))
    null = null_candidates(w1, images, images, 12, torch.Generator().manual_seed(0))["rows"]
    assert torch.equal(by_rows(replace(task, n_train=6)).x_hat, null)


def test_html_agrees_with_json_and_stands_alone(leaking):
    report, out = leaking
    assert json.loads((out / "report.json").read_text()) == json.loads(json.dumps(report))
    html = (out / "report.html").read_text(encoding="utf-8")
    page = Page(html)
    text = " ".join(page.words)
    assert all(line in text for line in report["lines"]) and report["weights"]["sha256"] in text
    for name, about in report["result"]["attacks"].items():
        assert NAMES[name] in text and about["how"] in text and f"{about['seconds']:.1f} s" in text
        for row in about["counts"]:
            assert f"{row['metric']} > {row['threshold']}" in text
            assert "null" not in row or f"{row['null_mean']:.1f} ({row['null_max']})" in text
    assert html.count("<tr class=decisive>") == 1
    for pairs in report["matches"].values():
        assert all(pair["image"] in text and f"NCC {pair['ncc']:.2f}" in text for pair in pairs)
    images = [attrs for tag, attrs in page.tags if tag == "img"]
    assert len(images) == 4 * N and all(
        i["alt"] and i["src"].startswith("data:image/png;base64,") for i in images
    )
    assert ("html", {"lang": "en"}) in page.tags and "prefers-color-scheme: dark" in html
    assert [tag for tag, _ in page.tags if tag in ("h1", "h2", "h3")] == ["h1"] + ["h2"] * 8
    assert not {tag for tag, _ in page.tags} & {"script", "link", "iframe"} and "http" not in html


def test_images_do_not_enter_the_attack(network, trained, data, pixels, tmp_path, monkeypatch):
    """Other images, the same number of them: the same candidates."""
    monkeypatch.setitem(module.BUDGETS, "smoke", (1, 20, 5))
    np.savez(tmp_path / "other.npz", train=255 - pixels[N:], held_out=pixels[:N])
    for name, file in (("a", data), ("b", tmp_path / "other.npz")):
        audit(trained, ARCH, file, tmp_path / name, profile="smoke", device="cpu")
    a, b = (sorted(file.name for file in (tmp_path / name / FOLDER).iterdir()) for name in "ab")
    assert a == b == [f"{name}.safetensors" for name in sorted(RECONSTRUCTIONS)]
    for file in a:
        assert torch.equal(
            *(load_tensors(tmp_path / name / FOLDER / file)["x_hat"] for name in "ab")
        )


@pytest.mark.parametrize(
    "names",
    [
        ("0.weight", "0.bias", "2.weight", "4.weight"),
        ("fc1.weight", "fc1.bias", "fc2.weight", "fc3.weight"),
        ("module.net.8.weight", "module.net.8.bias", "module.net.9.weight", "module.net.10.weight"),
        # by shape: alphabetical order is wrong
        ("input.weight", "input.bias", "hidden.weight", "output.weight"),
    ],
)
def test_names_of_a_state_dict(names, network, trained, tmp_path):
    _, theta, _ = load_weights(trained, ARCH)
    params = network.unflatten(theta)
    file = write(
        dict(zip(names, (params[k] for k in ("w1", "b1", "w2", "w3")), strict=True)), tmp_path / "s"
    )
    found, same, mapping = load_weights(file, ARCH)
    assert found == network and torch.equal(same, theta)
    assert mapping[0] == f"w1 = {names[0]}" and mapping[1] == f"b1 = {names[1]}"


def test_a_sequential_of_torch_is_the_same_function(tmp_path):
    layers = torch.nn.Sequential(
        torch.nn.Linear(12, 7), torch.nn.ReLU(), torch.nn.Linear(7, 1)
    ).double()
    network, theta, _ = load_weights(write(layers.state_dict(), tmp_path / "s"), "12-7-1")
    x = torch.randn(5, 12, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(network(network.unflatten(theta), x), layers.float()(x)[:, 0])


def test_grey_images(tmp_path, pixels):
    np.savez(tmp_path / "d.npz", train=pixels[:N, ..., 0], held_out=pixels[N:, ..., 0])
    train, _ = load_images(tmp_path / "d.npz", expected=Expected(SIDE * SIDE))
    assert train.pixels.shape == (N, 1, SIDE, SIDE)


def test_means(data):
    train, _ = load_images(data, expected=Expected(DIM))
    by_channel = mean_image(train, "channel")
    torch.testing.assert_close(by_channel[:, 0, 0], train.scaled.mean((0, 2, 3)))
    assert (by_channel == by_channel[:, :1, :1]).all() and not mean_image(train, "none").any()
    torch.testing.assert_close(mean_image(train, "image"), train.scaled.mean(0))


def by_construction(n, m, seed=0, dim=3072):
    """Training and held-out images of white noise, and as many candidates of noise."""
    generator = torch.Generator().manual_seed(seed)
    train, held_out, noise = (torch.randn(k, dim, generator=generator) for k in (n, n, m))
    shape = (3, 32, 32) if dim == 3072 else ()
    return (
        Nulls.of(torch.randn(n, n, generator=generator) @ train, train, held_out, seed, shape),
        noise,
    )


def test_scoring_by_construction():
    """Some of ten training images are among the candidates, and no held-out one."""
    nulls, noise = by_construction(10, 7)
    mean = torch.zeros(3072)
    for k, p in ((5, 252 / 15504), (8, 45 / 125970)):  # C(10, k) / C(20, k)
        x_hat = torch.cat([3 * nulls.train[:k] + 1, noise])
        found = score({"rows": noise, "decoreco": x_hat}, nulls, LOOKS, mean)
        assert (found["attack"], found["targets"], found["decoys"], found["leak"]) == (
            "decoreco",
            k,
            0,
            k == 8,
        )
        assert found["counts"][0]["p_value"] == pytest.approx(p) and found[
            "p_value"
        ] == pytest.approx(LOOKS * p)
        assert found["counts"] == found["attacks"]["decoreco"]["counts"]
    assert {row["metric"] for row in found["counts"]} == {"NCC", "SSIM"}
    best = matches(x_hat, nulls.train, 3)
    assert all(candidate == image and value > 0.999 for candidate, image, value in best)
    assert [pair[2] for pair in matches(x_hat[:4], nulls.train, 12)] == pytest.approx(
        [1.0] * 4, abs=1e-5
    )


def test_the_decision_is_paid_for_and_needs_both_nulls():
    nulls, noise = by_construction(40, 40)
    table = score(
        {"separation": torch.cat([nulls.train[:20], noise])}, nulls, LOOKS, torch.zeros(3072)
    )["counts"]
    for row in table[: len(THRESHOLDS)]:
        assert row["p"] == max(row["p_value"], row["null_p"]) and row["null"] in NULLS
        assert row["null_mean"] <= row["null_max"] < row["targets"] - row["decoys"]
    assert (
        blur_p(5, torch.tensor([5.0, 1.0])) == 1
        and blur_p(6, torch.zeros(20)) > blur_p(9, torch.zeros(20)) > 0
    )


def test_excess_counts_as_the_competition_does():
    nulls, noise = by_construction(6, 4)
    for m in (2, 20):  # fewer candidates than images, and more
        x_hat = torch.cat([nulls.train[:3] + nulls.held_out[:3], noise]).repeat(5, 1)[:m]
        for count, threshold in zip(
            excess(x_hat, nulls.train, nulls.held_out), THRESHOLDS, strict=True
        ):
            found = target_decoy(x_hat, nulls.train, nulls.held_out, threshold)
            assert count == found.targets - found.decoys


def test_blur_is_no_leak():
    """Mixtures of training images in the place of an attack: chance is ruled out at once, the
    verdict stays.
    """
    chance = leaks = 0
    for seed in range(20):
        nulls, _ = by_construction(20, 0, seed, dim=300)
        mixing = torch.randn(100, 20, generator=torch.Generator().manual_seed(1000 + seed))
        found = score({"separation": mixing @ nulls.train}, nulls, LOOKS, torch.zeros(300))
        chance += min(row["p_value"] for row in found["counts"]) * LOOKS < LEVEL
        leaks += found["leak"]
    assert leaks == 0 < 15 < chance


@pytest.mark.parametrize("n", [1, 2, 6])
@pytest.mark.parametrize("m", [0, 1, 30])
def test_few_images_and_no_candidates_say_nothing(n, m):
    nulls, noise = by_construction(n, m)
    assert not score({"separation": noise[:0], "rows": noise}, nulls, LOOKS, torch.zeros(3072))[
        "leak"
    ]


def test_nulls_are_drawn_anew_where_they_are_random():
    nulls, _ = by_construction(6, 0)
    drawn = nulls.excess(12)
    assert set(drawn) == set(NULLS) and all(
        x.shape == (DRAWS, len(THRESHOLDS)) for x in drawn.values()
    )
    assert (drawn["directions"] == drawn["directions"][0]).all() and (
        drawn["mixtures"] != drawn["mixtures"][0]
    ).any()


def test_fewer_held_out_images_cut_what_is_compared(trained, data, pixels, tmp_path, monkeypatch):
    monkeypatch.setitem(module.BUDGETS, "smoke", (1, 5, 2))
    np.savez(tmp_path / "d.npz", train=pixels[:N], held_out=pixels[N : N + 6])
    report = audit(trained, ARCH, tmp_path / "d.npz", tmp_path, profile="smoke", device="cpu")
    assert report["images"] == {
        "train": N,
        "held_out": 6,
        "scored": 6,
        "mean": "the mean of the training images",
        "notes": [
            "the file does not say which activations stand between its layers: ReLU is assumed"
        ],
    }
    assert (
        report["first_layer"]["by_held_out"] is None and report["first_layer"]["by_training"] > 0.75
    )
    assert "not measured" in (tmp_path / "report.html").read_text(encoding="utf-8")


# ---------------------------------------------------------------------------------------- bad input


def save_images(folder, pixels, name="0.png"):
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(folder / name)


@pytest.fixture
def files(tmp_path, network, trained, data, pixels):
    """What can be wrong, by name."""
    params = network.unflatten(load_weights(trained, ARCH)[1])
    made = {"good": trained, "data": data, "missing": tmp_path / "no such file"}
    for name, tensors in {
        "misshapen": {**params, "w2": params["w2"][:-1]},
        "short bias": {**params, "b1": params["b1"][:-1]},
        "nan": {**params, "w3": params["w3"] * torch.nan},
        "integers": {**params, "w3": params["w3"].int()},
        "extra": {**params, "bn.running_mean": params["b1"]},
        "spare": {**params, "w4": params["w3"]},
        "lacking": {name: value for name, value in params.items() if name != "w3"},
        "no weights": {"b1": params["b1"]},
        "empty": {},
        "zero": {name: 0 * value for name, value in params.items()},
    }.items():
        made[name] = write(tensors, tmp_path / f"{name}.safetensors")
    made["pickle"] = tmp_path / "pickle.safetensors"
    made["pickle"].write_bytes(pickle.dumps({"w1": [1.0]}))
    for name, arrays in {
        "only train": {"train": pixels},
        "only held out": {"held_out": pixels},
        "few": {"train": pixels[:4], "held_out": pixels[4:]},
        "float": {"train": np.full(pixels.shape, np.nan), "held_out": pixels},
        "objects": {"train": np.array([{}]), "held_out": pixels},
        "both": {"train": pixels[:N], "held_out": pixels[: N + 3]},
        "size": {"train": pixels[:, :4], "held_out": pixels},
    }.items():
        made[name] = tmp_path / f"{name}.npz"
        np.savez(made[name], **arrays)
    made["not npz"] = tmp_path / "a.npz"
    made["not npz"].write_bytes(b"PK\x03\x04 junk")
    for name in ("no images", "small", "mixed", "broken", "folder without held out", "no data"):
        made[name] = tmp_path / "folders" / name
        made[name].mkdir(parents=True)
    (made["no images"] / "train").mkdir()
    save_images(made["small"] / "train", pixels[0, :4])
    for image in ("0.png", "1.png"):
        save_images(made["folder without held out"] / "train", pixels[0], image)
    save_images(made["mixed"] / "train", pixels[0])
    save_images(made["mixed"] / "train", pixels[0].reshape(4, 16, 3), "1.png")
    save_images(made["mixed"] / "held_out", pixels[1])
    save_images(made["broken"] / "train", pixels[0])
    whole = (made["broken"] / "train" / "0.png").read_bytes()
    (made["broken"] / "train" / "1.png").write_bytes(whole[: len(whole) // 2])
    made["a file"] = tmp_path / "a file"
    made["a file"].write_text("")
    return made


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": "missing"}, "there is no weights file"),
        ({"weights": "pickle"}, "not a safetensors file"),
        ({"weights": "misshapen"}, "no weight of shape (200, 200) for layer 2"),
        ({"weights": "short bias"}, "the bias b1 of"),
        ({"weights": "nan"}, "not finite"),
        ({"weights": "integers"}, "not finite floats"),
        ({"weights": "extra"}, "has no place for: bn.running_mean"),
        ({"weights": "spare"}, "has no place for: w4"),
        ({"weights": "lacking"}, "for layer 3"),
        ({"weights": "no weights"}, "for layer 1"),
        ({"weights": "empty"}, "no weights at all"),
        ({"weights": "zero"}, "nothing to attack"),
        ({"arch": "192-200-1"}, "has no place for"),
        ({"arch": "192-200-200-2"}, "no weight of shape (2, 200) for layer 3"),
        ({"arch": "192"}, "must be widths like"),
        ({"arch": "192-1"}, "no weight of shape (1, 192)"),
        ({"arch": "192-x-1"}, "must be widths like"),
        ({"arch": "192-0-1"}, "must be widths like"),
        ({"data": "missing"}, "there is no data at"),
        ({"data": "only train"}, "likeness by chance cannot be told from leakage"),
        ({"data": "folder without held out"}, "likeness by chance cannot be told from leakage"),
        ({"data": "only held out"}, "has no array train"),
        ({"data": "no data"}, "with the training images"),
        ({"data": "few"}, "only 4 training images"),
        ({"data": "float"}, "numbers that are not finite"),
        ({"data": "objects"}, "cannot be read as an .npz of plain arrays"),
        ({"data": "not npz"}, "cannot be read as an .npz"),
        ({"data": "a file"}, "cannot be read as an .npz"),
        ({"data": "both"}, "is the training image train[0]"),
        ({"data": "size"}, "do not make 192 inputs"),
        ({"data": "no images"}, "there are no images"),
        ({"data": "small"}, "does not make 192 inputs"),
        (
            {"data": "mixed"},
            (
                "only 1 training images, and with fewer than 6 nothing is significant (used 1 of 2"
                " files"
            ),
        ),
        ({"data": "broken"}, "cannot be read"),
        ({"out": "/dev/null/x"}, "cannot be written"),
        ({"out": "a file"}, "cannot be written"),
        ({"seed": "-1"}, "must not be negative"),
        ({"mean": "median"}, "unknown mean 'median'"),
        ({"device": "tpu"}, "unknown device 'tpu'"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(change, message, files, tmp_path, capsys):
    given = {
        "weights": "good",
        "arch": ARCH,
        "data": "data",
        "out": str(tmp_path / "out"),
        "profile": "smoke",
    } | change
    for name in ("weights", "data", "out"):
        given[name] = str(files.get(given[name], given[name]))
    arguments = [word for name, value in given.items() for word in (f"--{name}", value)]
    assert cli.main(["audit", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1 and "Traceback" not in error
    assert not (tmp_path / "out" / "report.json").exists()


def test_command_prints_the_answer_and_the_report(trained, data, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(module.BUDGETS, "smoke", (1, 5, 2))
    out = tmp_path / "ü out"
    arguments = [
        "audit",
        "--weights",
        str(trained),
        "--arch",
        ARCH,
        "--data",
        str(data),
        "--out",
        str(out),
    ]
    images = ["--attacks", "separation,rows,decoreco", "--canaries", "0"]
    assert cli.main([*arguments, *images, "--profile", "smoke", "--device", "cpu"]) == 0
    *lines, path = capsys.readouterr().out.splitlines()
    summary = " ".join(lines).removeprefix("cannot tell: ")
    assert (
        path == str(out / "report.html")
        and json.loads((out / "report.json").read_text())["summary"] == summary
    )


def test_a_folder_without_permission(trained, data, tmp_path, monkeypatch):
    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    with pytest.raises(ReconError, match="cannot be written"):
        audit(trained, ARCH, data, tmp_path, profile="smoke")


def test_arch():
    assert parse_arch("3072-1000-1000-1") == (3072, 1000, 1000, 1)
