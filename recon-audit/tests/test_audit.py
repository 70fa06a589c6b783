"""The audit of a reader's own network: leak and no leak, both kinds of names and of data, resuming,
bad input.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import recon
from recon.images.partitions import partition
from recon.images.registry import load_pool
from recon.nets.mlp import MLP, three_layer
from recon.released import Weights
from recon.store.tensors import load_tensors
from recon_audit.attacks import RECONSTRUCTIONS, Task, attempts
from recon_audit.places import FOLDER
from recon_audit.scoring import DECISIVE, LEVEL, NULLS, blur_p, score

N, SIDE, WIDTH = 10, 8, 200
LOOKS = len(RECONSTRUCTIONS) * len(DECISIVE)
DIM = 3 * SIDE * SIDE
ARCH, PHOTO_ARCH = f"{DIM}-{WIDTH}-{WIDTH}-1", "3072-200-200-1"


def audit(weights, arch, data, out):
    """What report.json holds, of the attacks on images alone and without canaries."""
    quick = {"profile": "smoke", "device": "cpu", "canaries": 0}
    settings = {"arch": arch, "transform": "image", "attacks": RECONSTRUCTIONS, "out": out}
    return recon.audit(weights, data, **settings, **quick).data


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


def write(tensors, file):
    save_file({name: tensor.clone().contiguous() for name, tensor in tensors.items()}, file)
    return file


def test_an_untrained_net_does_not(network, start, data, tmp_path):
    report = audit(
        write(network.unflatten(start), tmp_path / "w.safetensors"), ARCH, data, tmp_path
    )
    assert not report["result"]["leak"] and report["result"]["targets"] <= 1
    assert report["verdict"] == "cannot tell" and "was not measured" in report["summary"]


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


@pytest.fixture(scope="module")
def leaking(tmp_path_factory):
    """A report of a network that Adam trained from the small start, and its folder: weights,
    photographs as bytes, report.
    """
    folder = tmp_path_factory.mktemp("leaking")
    photos = partition(load_pool("photos"), 30, n_held_out=30)
    network = three_layer(200, 3072)
    theta = adam(network, photos.train.flat - photos.train.flat.mean(0), photos.train.y, 1e-6)
    write(network.unflatten(theta), folder / "w.safetensors")
    parts = {
        name: (getattr(photos, name).x * 255).round().byte().numpy()
        for name in ("train", "held_out")
    }
    np.savez(folder / "d.npz", **parts)
    return audit(folder / "w.safetensors", PHOTO_ARCH, folder / "d.npz", folder / "a"), folder


def test_a_small_start_and_adam_leak_by_separation(leaking):
    report, _ = leaking
    result = report["result"]
    assert result["leak"] and result["attack"] == "separation"
    assert "by separation" in report["summary"]
    assert result["targets"] - result["decoys"] > result["null_max"]


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
def test_dull_weights_are_no_evidence(case, dull, data, tmp_path):
    file = write(dull[case], tmp_path / "w.safetensors")
    report = audit(file, ARCH, data, tmp_path)
    assert report["verdict"] == "cannot tell"
    assert ("no attack that does so applies" if case == "rank 0" else "No evidence") in report[
        "summary"
    ]
    silent = {
        name: about["why_not"]
        for name, about in report["result"]["attacks"].items()
        if about["why_not"]
    }
    expected = {
        "constant": {"separation"},
        "dead": {"separation"},
        "rank 0": {"separation", "rows"},
    }
    assert set(silent) == expected.get(case, set())


def test_images_one_pixel_wide_are_not_separated(network, start):
    task = Task(Weights(network, start), None, (3, 1, SIDE * SIDE), N, 0)
    (found,) = attempts(task, ["separation"])
    assert "no neighbouring pixels in both directions" in found.why_not and not len(found.x_hat)


def test_images_do_not_enter_the_attack(leaking):
    """Other images, the same number of them: the same candidates."""
    _, folder = leaking
    parts = np.load(folder / "d.npz")
    np.savez(folder / "other.npz", train=255 - parts["held_out"], held_out=255 - parts["train"])
    audit(folder / "w.safetensors", PHOTO_ARCH, folder / "other.npz", folder / "b")
    a, b = (sorted(file.name for file in (folder / name / FOLDER).iterdir()) for name in "ab")
    assert a == b == [f"{name}.safetensors" for name in sorted(RECONSTRUCTIONS)]
    for file in a:
        assert torch.equal(*(load_tensors(folder / name / FOLDER / file)["x_hat"] for name in "ab"))


def by_construction(n, m, seed=0, dim=3072):
    """Training and held-out images of white noise, and as many candidates of noise."""
    generator = torch.Generator().manual_seed(seed)
    train, held_out, noise = (torch.randn(k, dim, generator=generator) for k in (n, n, m))
    w1 = torch.randn(n, n, generator=generator) @ train
    return (w1, (train, held_out), LOOKS, seed), noise


def test_scoring_by_construction():
    """Some of ten training images are among the candidates, and no held-out one."""
    nulls, noise = by_construction(10, 7)
    for k, p in ((5, 252 / 15504), (8, 45 / 125970)):  # C(10, k) / C(20, k)
        x_hat = torch.cat([3 * nulls[1][0][:k] + 1, noise])
        found = score({"rows": noise, "separation": x_hat}, *nulls)
        assert (found["attack"], found["targets"], found["decoys"]) == ("separation", k, 0)
        assert found["leak"] == (k == 8) and found["p_value"] == pytest.approx(LOOKS * p)


def test_the_decision_is_paid_for_and_needs_both_nulls():
    nulls, noise = by_construction(40, 40)
    table = score({"separation": torch.cat([nulls[1][0][:20], noise])}, *nulls)["counts"]
    for row in table:
        assert row["p"] == max(row["p_value"], row["null_p"]) and row["null"] in NULLS
        assert row["null_mean"] <= row["null_max"] < row["targets"] - row["decoys"]
    assert (
        blur_p(5, torch.tensor([5.0, 1.0])) == 1
        and blur_p(6, torch.zeros(20)) > blur_p(9, torch.zeros(20)) > 0
    )


def test_blur_is_no_leak():
    """Mixtures of training images in the place of an attack: chance is ruled out at once, the
    verdict stays.
    """
    chance = leaks = 0
    for seed in range(20):
        nulls, _ = by_construction(20, 0, seed, dim=300)
        mixing = torch.randn(100, 20, generator=torch.Generator().manual_seed(1000 + seed))
        found = score({"separation": mixing @ nulls[1][0]}, *nulls)
        chance += min(row["p_value"] for row in found["counts"]) * LOOKS < LEVEL
        leaks += found["leak"]
    assert leaks == 0 < 15 < chance


@pytest.mark.parametrize("n", [1, 2, 6])
@pytest.mark.parametrize("m", [0, 1, 30])
def test_few_images_and_no_candidates_say_nothing(n, m):
    nulls, noise = by_construction(n, m)
    assert not score({"separation": noise[:0], "rows": noise}, *nulls)["leak"]


def test_the_page_shows_pictures_and_loads_nothing(leaking):
    _, out = leaking
    page = (out / "a" / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 1
    assert "<script" not in page and "<link" not in page and "http" not in page
