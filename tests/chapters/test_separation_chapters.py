"""What the chapters on separation count and conclude: oracles for the counts, verdicts that turn in both directions."""

from __future__ import annotations

import copy
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from recon.attacks.separation import Released, Separated, Settings
from recon.chapters.base import Context
from recon.chapters.separation import claims
from recon.chapters.separation_shared import (
    NULL_STREAM,
    OTHERS,
    THRESHOLDS,
    Sets,
    attacked,
    count_table,
    counts,
    is_true,
    other_rows,
    others_of,
    packed,
    smears,
    unpacked,
)
from recon.chapters.weights_leak import (
    CHANGES,
    KNOWN_FOR,
    PATIENCE,
    by_sparsity,
    cell_of,
    disturbed,
    early_stop,
    file_name,
    motion,
    patch_table,
    patches_of,
    photograph_sets,
    recipe_claims,
    separated_of,
    size_claims,
)
from recon.images.photographs import at_side, patches
from recon.images.pools import ImagePool
from recon.scoring.metrics import ncc
from recon.scoring.nulls import null_candidates
from recon.training.recipes import Recipe, Trained

KEYS = {f"ncc_{threshold}" for threshold in (0.6, 0.7, 0.8)}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*size, seed=0):
    return torch.randn(*size, generator=seeded(seed))


def context(n=12, seed=0):
    """A pool of n images whose index is 100, 101, …, and nothing else."""
    images = np.random.default_rng(0).integers(0, 256, (n, 3, 32, 32), dtype=np.uint8)
    index, y = np.arange(100, 100 + n), np.arange(n) % 2
    pool = ImagePool("toy", images, y, y, index, np.full(n, "train"), ("a", "b"))
    return Context(pool, torch.device("cpu"), seed, Path())


def found_at(sources, mixing=None):
    """What `separate` would return, as far as its sources go."""
    r = len(sources)
    mixing = torch.zeros(3, r) if mixing is None else mixing
    return Separated(torch.cat([sources, -sources]), mixing, sources, *torch.zeros(3, r), torch.zeros(1))


# -------------------------------------------------------------------------------------------------------- the counts


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("m", "n"), [(5, 3), (3, 3), (2, 4)])
def test_counts_by_trying_every_assignment(m, n, seed):
    x_hat, images = normal(m, 5, seed=seed), normal(n, 5, seed=100 + seed)
    filled = torch.cat([x_hat, torch.zeros(max(n - m, 0), 5)])
    scores = torch.from_numpy(np.nan_to_num([[np.corrcoef(a, b)[0, 1] if b.any() else 0.0 for b in filled.numpy()]
                                             for a in images.numpy()]))  # fmt: skip
    best = max(permutations(range(len(filled)), n), key=lambda p: sum(scores[i, j].item() for i, j in enumerate(p)))
    pairs = [scores[i, j].item() for i, j in enumerate(best)]
    assert counts(x_hat, images) == {f"ncc_{t}": sum(s > t for s in pairs) for t in (0.6, 0.7, 0.8)}


def test_nobody_is_counted_twice():
    image = normal(1, 50)
    assert counts(image, torch.cat([image, image])) == dict.fromkeys(KEYS, 1)
    assert counts(torch.cat([image, image]), image) == dict.fromkeys(KEYS, 1)
    assert counts(-image, image) == dict.fromkeys(KEYS, 0)  # the sign is the candidates' affair


def test_count_table():
    sets = Sets(normal(6, 40, seed=1), normal(6, 40, seed=2), normal(9, 40, seed=3), (40,))
    w1 = normal(8, 6, seed=4) @ sets.train
    # four training images, one of them blurred beyond 0.8; one held-out
    mixed = 0.75 * sets.train[3] + 0.66 * normal(40, seed=5) * sets.train[3].std()
    x_hat = torch.cat([sets.train[:3], mixed[None], sets.held_out[:1]])
    table = count_table(x_hat, sets, w1, seeded(7))
    assert set(table) == {"matches", "null", "span_null", "best_null", "excess"}
    assert all(set(row) == KEYS == {f"ncc_{t}" for t in THRESHOLDS} for row in table.values())
    assert table["matches"]["ncc_0.8"] == 3 and table["matches"]["ncc_0.6"] == 4
    assert table["null"]["ncc_0.8"] == 1
    sets_of_nulls = null_candidates(w1, sets.train, sets.others, 6, seeded(7))
    for key in KEYS:
        each = {name: counts(x, sets.train)[key] for name, x in sets_of_nulls.items()}
        assert table["span_null"][key] == max(each["span"], each["mixtures"])
        assert table["best_null"][key] == max(table["null"][key], *each.values())
        assert table["excess"][key] == table["matches"][key] - table["best_null"][key]


@pytest.mark.parametrize("name", ["rows", "held_out", "means", "span"])
def test_any_null_can_be_the_best(name):
    """Weights whose rows are the images; candidates that are held out; others whose mean is an image; a span of one."""
    sets = Sets(normal(4, 60, seed=1), normal(4, 60, seed=2), normal(9, 60, seed=3), (60,))
    w1, x_hat = normal(5, 60, seed=4), normal(8, 60, seed=5)
    if name == "rows":
        w1 = sets.train.clone()
    if name == "held_out":
        x_hat = torch.cat([sets.held_out, x_hat[4:]])
    if name == "means":
        sets = Sets(sets.train, sets.held_out, sets.train[:1].expand(9, -1), sets.shape)
    if name == "span":
        w1 = normal(5, 1, seed=6) @ sets.train[:1]
    table = count_table(x_hat, sets, w1, seeded())
    assert table["matches"]["ncc_0.7"] == 0
    expected = 4 if name in ("rows", "held_out") else 1
    assert table["best_null"]["ncc_0.7"] >= expected and table["excess"]["ncc_0.7"] <= -expected
    assert (table["null"]["ncc_0.7"] == 4) == (name == "held_out")
    assert table["span_null"]["ncc_0.7"] == (1 if name == "span" else table["span_null"]["ncc_0.7"])


def test_null_of_the_span_is_the_larger_of_two():
    """Mixtures of two images are near them, whatever the layer; a layer of one image's span is near it, of many."""
    few = Sets(normal(2, 60, seed=1), normal(2, 60, seed=2), normal(9, 60, seed=3), (60,))
    assert count_table(normal(8, 60, seed=5), few, normal(5, 60, seed=4), seeded())["span_null"]["ncc_0.7"] >= 1
    many = Sets(normal(30, 200, seed=1), normal(30, 200, seed=2), normal(9, 200, seed=3), (200,))
    w1 = normal(5, 1, seed=6) @ many.train[:1]
    assert count_table(normal(8, 200, seed=5), many, w1, seeded())["span_null"]["ncc_0.8"] == 1


def test_as_many_nulls_as_candidates(monkeypatch):
    """Twice as many candidates as images get twice as many tries; so do the nulls."""
    asked = []
    real = null_candidates

    def watched(w1, train, others, m, generator):
        asked.append(m)
        return real(w1, train, others, m, generator)

    monkeypatch.setattr("recon.chapters.separation_shared.null_candidates", watched)
    sets = Sets(normal(4, 30, seed=1), normal(4, 30, seed=2), normal(5, 30, seed=3), (30,))
    for m in (2, 11):
        count_table(normal(m, 30, seed=4), sets, normal(5, 30, seed=5), seeded())
    assert asked == [4, 11]


def test_an_attack_and_its_table():
    """Sparse sources mixed, and found again."""
    uniform = torch.rand(30, 600, generator=seeded(1)) - 0.5
    x = -uniform.sign() * torch.log1p(-2 * uniform.abs())
    sets = Sets(x[:6], x[6:12], x[12:], (600,))
    released = Released(normal(20, 6, seed=2) @ sets.train)
    found, table = attacked(sets, released, context(), Settings(first_rank=None, restarts=2))
    assert table["rank"] == len(found.sources) == 6
    assert table["matches"]["ncc_0.8"] == 6 and table["null"]["ncc_0.6"] == 0
    assert table == {"rank": 6, **count_table(found.x_hat, sets, released.w1, context().generator(NULL_STREAM))}
    assert is_true(found, sets.train, sets.others).all()


def test_of_a_known_start_only_the_difference_is_looked_at():
    """By the attack, and by the nulls: here the differences' rows are the images."""
    uniform = torch.rand(30, 600, generator=seeded(1)) - 0.5
    x = -uniform.sign() * torch.log1p(-2 * uniform.abs())
    sets = Sets(x[:6], x[6:12], x[12:], (600,))
    start = 10 * normal(20, 600, seed=3)
    added = torch.cat([6 * sets.train, normal(14, 6, seed=2) @ sets.train])
    _, table = attacked(sets, Released(added + start, start), context(), Settings(first_rank=None, restarts=2))
    assert table["matches"]["ncc_0.8"] == table["best_null"]["ncc_0.8"] == 6


# ------------------------------------------------------------------------------------------------ what counts as true


def test_truth_is_near_a_training_image_and_nearer_than_any_stranger():
    train, strangers = normal(4, 200, seed=1), normal(6, 200, seed=2)
    near = train[0] + 0.3 * normal(200, seed=3)
    far = train[1] + 2.0 * normal(200, seed=4)
    sources = torch.stack([near, -near, far, strangers[2], train[3]])
    assert is_true(found_at(sources), train, strangers).tolist() == [True, True, False, False, True]
    nearer = torch.cat([strangers, near[None] + 0.1 * normal(1, 200, seed=5)])
    assert is_true(found_at(sources), train, nearer).tolist() == [False, False, False, False, True]
    assert is_true(found_at(sources), train, -nearer).tolist() == [False, False, False, False, True]


@pytest.mark.parametrize(("likeness", "expected"), [(0.69, False), (0.71, True)])
def test_truth_begins_at_a_likeness(likeness, expected):
    train = normal(1, 4000, seed=1)
    noise = normal(1, 4000, seed=2)
    train, noise = (x - x.mean() for x in (train, noise))
    noise = noise - (noise @ train.mT) / (train @ train.mT) * train
    x = likeness * train / train.norm() + (1 - likeness**2) ** 0.5 * noise / noise.norm()
    assert ncc(x, train).item() == pytest.approx(likeness, abs=1e-4)
    assert is_true(found_at(x), train, normal(3, 4000, seed=3)).item() is expected


def test_nothing_found_is_nothing_true():
    empty = is_true(found_at(torch.empty(0, 8)), normal(2, 8), normal(2, 8, seed=1))
    assert empty.shape == (0,) and empty.dtype == torch.bool


def test_strangers_are_not_among_the_used():
    used = torch.tensor([100, 103, 111, 7])
    rows = other_rows(context(), used)
    assert sorted(rows.tolist()) == [1, 2, *range(4, 11)]
    assert torch.equal(rows, other_rows(context(), used)) and not torch.equal(rows, other_rows(context(seed=1), used))
    mean = torch.linspace(0, 1, 3072)
    images = others_of(context(), used, mean)
    expected = torch.from_numpy(context().pool.images[rows.numpy()]).flatten(1) / 255 - mean
    assert torch.allclose(images, expected, atol=1e-6)


def test_strangers_are_not_too_many(monkeypatch):
    assert OTHERS == 3000
    monkeypatch.setattr("recon.chapters.separation_shared.OTHERS", 5)
    rows = other_rows(context(), torch.tensor([100]))
    assert len(rows.unique()) == 5 and 0 not in rows


def test_smears_are_the_largest_rows():
    w1 = torch.diag(torch.tensor([1.0, -5.0, 2.0, 3.0]))
    assert torch.allclose(smears(w1, 2), torch.tensor([[0.0, -1, 0, 0], [0, 0, 0, 1]]))


@pytest.mark.parametrize(
    "cell", [{}, {"a": None, "rows": [{"ä × ½": [1, 2.5, None, True]}], "text": "σ, κ and NCC"}, {"x": 1e-300, "y": -7}]
)
def test_packed_and_back(cell):
    tensors = packed(cell)
    assert tensors["json"].dtype == torch.uint8
    assert unpacked(tensors) == cell


# --------------------------------------------------------------------------------------------- chapter 7's ingredients


def test_photographs_for_training_alternate_and_are_not_held_out():
    sets, y = photograph_sets(20, 32)
    assert y.tolist() == [0.0, 1.0] * 10 and sets.train.shape == (20, 3072) and sets.shape == (3, 32, 32)
    assert torch.allclose(sets.train.mean(0), torch.zeros(3072), atol=1e-6)
    images, labels, held_out = patches()
    small = at_side(images, 32).flatten(1)
    mean = small[~held_out & (labels == 0)][:10].mean(0) / 2 + small[~held_out & (labels == 1)][:10].mean(0) / 2
    assert torch.allclose(sets.held_out, small[held_out] - mean, atol=1e-5)
    assert torch.cdist(sets.train, sets.held_out).min() > 0.1
    assert torch.equal(photograph_sets(20, 16)[1], y)  # the same scenes at every size
    larger = photograph_sets(20, 96)[0].train.unflatten(1, (3, 96, 96))
    assert torch.allclose(at_side(larger, 32).flatten(1), sets.train, atol=1e-5)


def test_file_names_and_back():
    cells = [f"{family}/{name}" for family, names in CHANGES.items() for name in names] + ["shadow/100"]
    stems = [file_name(cell) for cell in cells]
    assert len(set(stems)) == len(cells) and all(set(stem) <= set("abcdefghijklmnopqrstuvwxyz-0123456789")
                                                 for stem in stems)  # fmt: skip
    assert ["/".join(cell_of(stem)) for stem in stems] == cells


def test_every_cell_is_a_recipe():
    for names in CHANGES.values():
        for change in names.values():
            Recipe(**{**change, "steps": round(1500 * change.get("steps", 1))})
    assert set(KNOWN_FOR) <= set(CHANGES["decay"])


def test_motion_tells_what_is_left_from_what_was_added():
    start, added = normal(30, 100, seed=1), 5 * normal(30, 2, seed=2) @ normal(2, 100, seed=3)
    found = motion(Trained(nn.Sequential(), start, 0.25 * start + added, 0.0, 1.0, 1))
    assert found["start_left"] == pytest.approx(0.25, abs=0.03)
    assert found["added"] == pytest.approx((added.norm() / start.norm()).item(), rel=0.01)
    assert found["moved"] == pytest.approx(((added - 0.75 * start).norm() / start.norm()).item(), rel=1e-4)


def test_disturbed_by_a_share_of_the_root_mean_square():
    w1 = 0.01 * normal(60, 100)
    noise = disturbed(w1, 0.3, context()) - w1
    assert noise.std().item() == pytest.approx(0.003, rel=0.03) and abs(ncc(noise, w1).mean()) < 0.02


def test_early_stopping_waits():
    """Validation accuracies that rise, then stay: the last rise, and `PATIENCE` checks more."""
    x = torch.arange(20.0)[:, None] - 4.5
    sets = Sets(x, x, x, (1,))
    y = (x[:, 0] > 0).long()
    module = nn.Sequential(nn.Linear(1, 1))
    stop = early_stop(sets, y)
    answers = []
    for check in range(20):
        with torch.no_grad():
            module[0].weight.fill_(1.0)
            module[0].bias.fill_(min(check - 5.0, 0.0))  # right from check 5 on
        answers.append(stop(module))
        assert module.training
    assert answers.index(True) == 5 + PATIENCE


def test_patches_are_cut_from_the_images():
    images = normal(3, 3072)
    found = patches_of(images, seeded(), per_image=4)
    assert found.shape == (12, 75)
    windows = images.unflatten(1, (3, 32, 32)).unfold(2, 5, 1).unfold(3, 5, 1)  # (n, 3, 28, 28, 5, 5)
    for k, patch in enumerate(found):
        own = windows[k // 4].permute(1, 2, 0, 3, 4).reshape(-1, 75)
        assert (own == patch).all(1).any()


def test_patch_table_is_symmetric():
    train, held_out = normal(5, 75, seed=1), normal(5, 75, seed=2)
    sets = Sets(train, held_out, held_out, (3, 5, 5))
    sources = torch.cat([train[:3], -held_out[:2], normal(1, 75, seed=3)])
    table = patch_table(found_at(sources), sets)
    assert table["matches"] == dict.fromkeys(KEYS, 3)
    assert table["null"] == table["best_null"] == dict.fromkeys(KEYS, 2)
    assert table["excess"] == dict.fromkeys(KEYS, 1)


@pytest.mark.parametrize(("true", "auc"), [([1, 0, 1, 0], 0.625), ([1, 1, 1, 1], None), ([0, 0, 0, 0], None)])
def test_sparsity_alone(true, auc):
    found = replace(found_at(torch.eye(4)), sparsity=torch.tensor([3.0, 1.0, 1.0, 2.0]))
    table = by_sparsity(found, torch.tensor(true).bool())
    assert table == {"candidates": 4, "true": sum(true), "auc_of_sparsity": auc}


def test_stored_evidence():
    stored = {"evidence unknown": torch.tensor([[1.0, 2], [3, 4], [5, 6], [1, 0]])}
    found, true = separated_of(stored)
    assert found.sparsity.tolist() == [1, 2] and found.stability.tolist() == [3, 4] and found.share.tolist() == [5, 6]
    assert true.tolist() == [True, False]


# ------------------------------------------------------------------------------------------------------------- claims


def ncc_row(n7, n8=None):
    return {"ncc_0.6": n7, "ncc_0.7": n7, "ncc_0.8": n7 if n8 is None else n8}


def chapter_6():
    return {
        "n_train": 100,
        "matches": ncc_row(90, 80),
        "best_null": ncc_row(10, 2),
        "best_null_name": dict.fromkeys(KEYS, "span"),
        "simpler": {"FastICA": {"matches": ncc_row(30, 20)}, "one stage": {"matches": ncc_row(60, 50)}},
        "certainty": {
            "auc": 0.98,
            "precision_sure": 0.99,
            "recall_sure": 0.6,
            "true": 80,
            "candidates": 100,
        },
    }


def verdict_of(found, name):
    return next(claim for claim in found if claim.id == name).verdict


@pytest.mark.parametrize(
    ("matches", "null", "expected"),
    [(90, 10, "finding"), (90, 89, "not reproduced"), (5, 10, "not reproduced"), (5, 0, "finding"),
     (4, 0, "not reproduced")],
)  # fmt: skip
def test_unmixing_is_judged_by_the_best_null(matches, null, expected):
    metrics = chapter_6()
    metrics["matches"]["ncc_0.7"], metrics["best_null"]["ncc_0.7"] = matches, null
    claim = claims(metrics)[0]
    assert claim.id == "separation-unmixes" and claim.verdict == expected
    assert f"{matches} of 100" in claim.ours and f"{null} (" in claim.null


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, "not reproduced"),  # the adversary knows: the paper's claim does not hold
        ({"precision_sure": 0.95, "recall_sure": 0.21}, "not reproduced"),
        ({"precision_sure": 0.94}, "reproduced"),
        ({"recall_sure": 0.2}, "reproduced"),
        ({"precision_sure": None, "recall_sure": 0.0, "auc": None}, "reproduced"),
    ],
)
def test_knowing_needs_precision_and_recall(change, expected):
    metrics = chapter_6()
    metrics["certainty"] |= change
    claim = claims(metrics)[1]
    assert claim.id == "separation-would-know" and claim.verdict == expected
    assert ("not defined" in claim.ours) == (None in change.values()) and "0.80" in claim.null


@pytest.mark.parametrize(("one_stage", "expected"), [(50, "finding"), (80, "finding"), (81, "not reproduced")])
def test_stages_are_judged_against_one(one_stage, expected):
    metrics = chapter_6()
    metrics["simpler"]["one stage"]["matches"]["ncc_0.8"] = one_stage
    assert verdict_of(claims(metrics), "separation-stages") == expected


def size_cells(shares, side_shares, width=100):
    cells = [
        {"source": "cifar", "side": 32, "n_train": n, "width": w, "matches": ncc_row(n), "best_null": ncc_row(1),
         "excess": ncc_row(round(share * n) if w == width else 0)}
        for w in (20, width) for n, share in zip((20, 100, 400), shares, strict=True)
    ]  # fmt: skip
    cells.append({**cells[-1], "side": 16, "excess": ncc_row(400)})  # other sides do not decide
    for side, share in side_shares.items():
        cells.append({**cells[0], "source": "photographs", "side": side, "n_train": 50, "width": width,
                      "excess": ncc_row(round(share * 50))})  # fmt: skip
    return cells


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ((0.9, 0.8, 0.1), "finding"),
        ((0.3, 0.6, 0.1), "finding"),
        ((0.5, 0.4, 0.1), "not reproduced"),  # never more than half
        ((0.9, 0.8, 0.6), "not reproduced"),  # no end in sight
        ((0.1, 0.2, 0.9), "not reproduced"),
    ],
)
def test_size_has_an_end(shares, expected):
    assert verdict_of(size_claims(size_cells(shares, {16: 0.1, 96: 0.4})), "separation-size") == expected


@pytest.mark.parametrize(
    ("by_side", "expected"),
    [
        ({16: 0.1, 32: 0.0, 96: 0.4}, "finding"),
        ({96: 0.4, 16: 0.1}, "finding"),
        ({16: 0.4, 96: 0.4}, "not reproduced"),
        ({16: 0.4, 64: 1.0, 96: 0.2}, "not reproduced"),
    ],
)
def test_pixels_help_or_not(by_side, expected):
    claim = size_claims(size_cells((0.9, 0.5, 0.1), by_side))[1]
    assert claim.id == "separation-pixels" and claim.verdict == expected
    assert claim.ours.index("at 16 × 16") < claim.ours.index("at 96 × 96")


def cell(name, erased, found, family="decay", known="unknown", null=2):
    """The more is left of the start, the less is found; but not in those cells that the law leaves out."""
    left = 1 / (1 + found) if known == "unknown" and family != "task" else 0.5
    return {
        "family": family,
        "cell": name,
        "known": known,
        "erased": erased,
        "n_train": 100,
        "start_left": -left,
        "added": 1.0,
        "matches": ncc_row(found),
        "best_null": ncc_row(null),
        "excess": ncc_row(found - null),
    }


def chapter_7():
    return [
        cell("SGD, decay 0", 0.0, 3),
        cell("SGD, decay 0", 0.0, 60, known="known"),
        cell("SGD, decay 0", 0.0, 1, known="known up to 10 %"),
        cell("Adam, decay 0", 0.0, 0),
        cell("Adam, decay 0", 0.0, 2, known="known"),
        cell("SGD, decay 1e-3", 0.75, 0, known="known"),
        cell("SGD, decay 1e-2", 7.5, 80),
        cell("SGD, decay 5e-3", 3.0, 70),
        cell("SGD, decay 1e-3", 1.0, 9),
        cell("Adam, decay 1e-2", None, 40),
        cell("small start", 0.0, 90, family="start"),
        cell("base", 3.75, 0, family="task"),
    ]


def changed(name, found, known="unknown"):
    cells = copy.deepcopy(chapter_7())
    row = next(row for row in cells if (row["cell"], row["known"]) == (name, known))
    row["matches"], row["excess"] = ncc_row(found), ncc_row(found - 2)
    return cells


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (chapter_7(), "finding"),
        (changed("SGD, decay 1e-2", 4), "not reproduced"),  # erased, and nothing found
        (changed("SGD, decay 5e-3", 4), "not reproduced"),  # at the edge, erased
        (changed("SGD, decay 0", 50), "not reproduced"),  # not erased, and found
        (changed("Adam, decay 0", 50), "not reproduced"),
        (changed("SGD, decay 1e-3", 90), "finding"),  # between the two: no rule
        (changed("Adam, decay 1e-2", 90), "finding"),  # not defined: no rule
        ([row for row in chapter_7() if (row["erased"] or 0) < 3], "not reproduced"),  # none erased was run
    ],
)
def test_the_start_must_be_erased(cells, expected):
    claim = recipe_claims(cells)[0]
    assert claim.id == "leak-start-erased" and claim.verdict == expected


def test_what_is_listed_where_the_start_is_erased_and_where_it_stands():
    claim = recipe_claims(chapter_7())[0]
    assert "where erased: 80, 70; where it stands: 3, 0 of 100" in claim.ours
    assert "left of the start: -1.00" in claim.ours
    assert "nan" in recipe_claims(chapter_7()[:1])[0].ours


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (chapter_7(), "finding"),
        (changed("SGD, decay 0", 4, "known"), "not reproduced"),
        (changed("Adam, decay 0", 80, "known"), "finding"),  # Adam does not decide
        (changed("SGD, decay 0", 80, "known up to 10 %"), "finding"),
        ([row for row in chapter_7() if row["known"] == "unknown"], "not reproduced"),  # none was run
    ],
)
def test_a_known_start_is_enough_or_not(cells, expected):
    claim = recipe_claims(cells)[1]
    assert claim.id == "leak-known-start" and claim.verdict == expected
