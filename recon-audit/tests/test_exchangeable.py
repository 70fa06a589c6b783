"""Groups, near-copies and what sets differ in: seen where planted, silent where there is none."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits
from torch import nn

import recon
from recon.errors import ReconError
from recon_audit.exchange import (
    compare_sets,
    features,
    groups_of,
    near_copies,
    neighbours,
    two_sample,
    why_no_labels,
)
from recon_audit.images import Images
from recon_audit.shadows import Recipe


def drawn(seed, *shape):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def images():
    return drawn(0, 60, 3, 8, 8)


MOVED = {
    "brightness and noise": lambda x: 0.5 * x + 0.2 + 0.005 * drawn(1, *x.shape),
    "mirrored": lambda x: x.flip(-1),
    "shifted": lambda x: nn.functional.pad(x, (0, 1, 1, 0))[..., :-1, 1:],
    "mirrored and shifted": lambda x: nn.functional.pad(x.flip(-1), (1, 0))[..., :-1],
}


@pytest.mark.parametrize("move", MOVED)
def test_copies_are_found_under_motion_and_left_out(images, move):
    assert not near_copies(images)
    images[34:37] = MOVED[move](images[10:13])
    assert near_copies(images) == [(10, 34), (11, 35), (12, 36)]
    found = compare_sets(images[:30], images[30:], 0)
    assert found.why_not is None and len(found.held_out) == 27 and 4 not in found.held_out
    assert found.notes[0].startswith("3 of 30 held-out images are near-copies")
    images[30:50] = MOVED[move](images[:20])
    assert "20 of 30 held-out" in compare_sets(images[:30], images[30:], 0).why_not


def test_signals_volumes_and_features_are_not_moved_and_all_of_them_is_compared():
    volumes = drawn(0, 20, 2, 4, 16)
    volumes[3] = volumes[0].flip(-1)
    given = volumes, [""] * 20
    assert near_copies(Images(*given).flat) == [(0, 3)]
    assert not near_copies(Images(*given, form=(2, 4, 4, 4)).flat)
    # of copies of opposite sign in a second channel, the mean over channels is 0
    signals = drawn(1, 10, 1, 1, 40).repeat(2, 1, 1, 1) + 1e-3 * drawn(2, 20, 1, 1, 40)
    member = np.arange(20) % 10 < 5
    assert neighbours(torch.cat([signals, -signals], dim=1), member, 0) < 0.01


def test_copies_within_a_set_are_one_group_and_as_many_of_each_are_compared(images):
    images[45:] = images[30:45].flip(-1)
    found = compare_sets(images[:30], images[30:], 0)
    assert (found.train, found.held_out, found.size) == ([*range(30)], [*range(15)], 1)
    images[15:30] = images[:15]
    found = compare_sets(images[:30], images[30:], 0)
    assert found.groups.tolist() == [*range(15)] * 2 + [*range(15, 30)] * 2 and found.size == 2


def test_classes_are_matched(images):
    y = (torch.arange(60) % 30 < torch.tensor([24, 9]).repeat_interleave(30)).long()
    found = compare_sets(images[:30], images[30:], 0, y)
    for part, rows in zip(y.split(30), (found.train, found.held_out), strict=True):
        assert part[rows].bincount().tolist() == [6, 9]
    assert "mix of classes" in found.notes[0]
    assert len(compare_sets(images[:30], images[30:], 0, torch.arange(60) % 2).train) == 30


@pytest.mark.parametrize("test", [lambda x, *more: two_sample(features(x), *more), neighbours])
def test_tests_keep_their_level(test):
    p = [test(drawn(seed, 40, 1, 6, 6), np.arange(40) < 20, seed, 99) for seed in range(200)]
    assert sum(value < 0.1 for value in p) < 36 and min(p) >= 0.01


@pytest.mark.parametrize("classes", [2, 10])
def test_labels_that_answers_have_nothing_to_do_with_are_used_at_their_level_only(classes):
    used, y = 0, torch.arange(60) % classes
    for seed in range(100):
        noise, order = drawn(seed, 60, classes), drawn(seed, 60).argsort()
        for answers in (noise, noise + 3 * nn.functional.one_hot(y[order])):
            used += why_no_labels(answers, y, y) is None
    assert used < 9  # 2 of 200 are expected
    assert why_no_labels(noise + nn.functional.one_hot(y), y, y) is None


CHANGES = {
    "brightness": lambda x: 0.9 * x + 0.1,
    "blur": lambda x: nn.functional.avg_pool2d(x, 3, 1, 1),
    "colour": lambda x: x * torch.tensor([1, 1, 0.8]).view(3, 1, 1),
    # as bright and of the same contrast
    "frames": lambda x: torch.cat([x[:15], 0.85 * x[:15] + 0.53 * x[15:] - 0.19]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_other_brightness_texture_colour_and_frames_are_told(images, change):
    found = compare_sets(images[:30], CHANGES[change](images[30:]), 0)
    words = "nearest neighbours" if change == "frames" else "two-sample test"
    assert 0.001 <= found.p < 0.01 and words in found.why_not


# ------------------------------------------------------------------------------------------- groups


def test_groups_are_read(tmp_path):
    sets = [Images(np.zeros((2, 1, 8, 8)), [f"{part}/p{k}/a.png" for k in "12"]) for part in "ab"]
    (tmp_path / "g.csv").write_text("".join(f"{n},{n[0]}\n" for s in sets for n in s.names))
    assert groups_of(*sets, "folders") == ["p1", "p2", "p1", "p2"]
    assert groups_of(*sets, tmp_path / "g.csv") == ["a", "a", "b", "b"]
    assert groups_of(*sets, ([7, None], ["x", float("nan")])) == ["7", "", "x", ""]
    for wrong in (([1], [2, 3]), [1, 2, 3, 4], 3):
        with pytest.raises(ReconError, match="2 and 2 groups"):
            groups_of(*sets, wrong)


DIGITS = load_digits()
X, Y = torch.tensor(DIGITS.images / 16).float(), torch.tensor(DIGITS.target)
ORDER = torch.randperm(len(X), generator=torch.Generator().manual_seed(0))
OTHERS, POOL = ORDER[:1000], ORDER[1000:]


def fitted(x, y, steps=60):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10))
    optimiser = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(steps):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimiser.step()
    return net


def audit(net, train, held_out, **options):
    recipe = Recipe("adam", 1e-2, None, 60)
    quick = {"profile": "smoke", "canaries": 0, "attacks": "membership", "recipe": recipe}
    return recon.audit(net, train, held_out, **quick | options)


#: what held-out images and labels of a network become that saw none of the images
UNLIKE = {
    "numbered by themselves": lambda x, y: (x[y != 2], y[y != 2] - (y[y != 2] > 2).long()),
    "one too high": lambda x, y: (x, (y + 1) % 10),
    "shuffled": lambda x, y: (x, y.flip(0)),
    "two classes exchanged": lambda x, y: (x, torch.where(y < 2, 1 - y, y)),
    "some wrong": lambda x, y: (x, torch.where(torch.arange(len(y)) % 6 == 0, y.roll(1), y)),
    "twice": lambda x, y: (x[:60].repeat(2, 1, 1), y[:60].repeat(2)),
    "mirrored": lambda x, y: (torch.cat([x[:60], x[:60].flip(-1)]), y[:60].repeat(2)),
    "frames": lambda x, y: (torch.cat([x, x + 0.05 * torch.randn(x.shape)]), y.repeat(2)),
    "another mix": lambda x, y: tuple(part[(y < 5) | (y % 4 == 1)] for part in (x, y)),
}


@pytest.mark.parametrize("unlike", UNLIKE.values(), ids=UNLIKE)
def test_no_alarm_where_sets_differ_and_the_network_saw_neither(unlike):
    torch.manual_seed(1)
    train, held_out = ((X[rows], Y[rows]) for rows in POOL[:240].split(120))
    report = audit(fitted(X[OTHERS], Y[OTHERS]), train, unlike(*held_out)).data
    assert report["exchangeability"]["why_not"] is None
    assert report["membership"]["p_value"] > 0.01


def test_members_are_named_by_group_and_a_claim_is_refuted():
    """Twelve patients with five near-copies each: found as such, and as they are given."""
    rows = POOL[:24].repeat_interleave(5)
    x, y = X[rows] + 0.03 * torch.randn(120, 8, 8), Y[rows]
    net = fitted(x[:60], y[:60], 400)
    patients = [[f"patient {k // 5}" for k in part] for part in torch.arange(120).split(60)]
    for groups in (None, patients):
        data = zip(x.split(60), y.split(60), strict=True)
        report = audit(net, *data, groups=groups, shadows=4, claimed_epsilon=(0.01, 1e-6))
        assert report.membership == "inferred" and "of 12 groups identified" in report.lines[1]
        assert report.data["membership"]["epsilon"]["verdict"] in ("violated", "consistent")
        assert not groups or {image.image for image in report.leaked} <= set(patients[0])
        x[60:] += 0.1 * torch.randn(60, 8, 8)  # no near-copies any more


def test_a_goal_that_is_met_before_the_first_step_is_noticed():
    sets = [(X[rows], Y[rows]) for rows in POOL[:120].split(60)]
    recipe = Recipe("adam", 1e-2, None, 60, target_loss=20.0)
    report = audit(fitted(*sets[0]), *sets, recipe=recipe)
    assert report.membership == "cannot tell" and "was not trained yet" in report.lines[1]


def test_time_is_held_with_fewer_shadows_and_the_page_has_its_case_and_hashes(tmp_path, capsys):
    net = fitted(X[POOL[:60]], Y[POOL[:60]])
    for k, pixels in enumerate((X[POOL[:120]] * 255).byte().numpy()):
        folder = tmp_path / ("train", "held_out")[k // 60] / f"patient-{k // 2}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / f"{k}.png")
    options = {"groups": "folders", "labels": "predicted", "time": 1e-3, "shadows": 8}
    report = audit(net, tmp_path, None, claimed_epsilon="1,1e-5", **options)
    assert "There was time for 2 of 8 shadow networks." in report.data["power_words"]
    assert "the claim of ε = 1 an image, for groups of up to 2, is consistent" in report.lines[1]
    assert all(value in report.page for value in report.data["sha256"].values())
    assert "of 30 groups" in report.page
    assert "shadow network 1 of 8" in capsys.readouterr().err
