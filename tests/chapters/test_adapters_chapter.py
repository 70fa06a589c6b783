"""The experiment on adapters: what is trained, when the certificate is true, and the two rules."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from companion.chapters.adapters import experiment, story
from companion.chapters.adapters.experiment import BLOCK, KNOWN, LINEAR, NEW, Adapted, Cell, Sizes
from companion.store.record import record


def test_an_adapter_begins_as_its_base_and_changes_its_factors_alone():
    base = nn.Linear(6, 4)
    layer = Adapted(base, 3, torch.Generator().manual_seed(0), 0.5)
    x, before = torch.randn(9, 6), base.weight.clone()
    assert torch.equal(layer(x), base(x)) and layer.a.abs().max() <= 6**-0.5
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(2):
        layer(x).square().sum().backward()
        optimiser.step()
    assert layer.b.any() and torch.equal(layer.weight, before)
    torch.testing.assert_close(layer.eval()(x), x @ (before + layer.b @ layer.a).mT + base.bias)


@pytest.mark.parametrize(
    ("layers", "classes", "rank", "most"),
    [(LINEAR, 10, 64, 8), (LINEAR, 10, 4, 3), (LINEAR, 2, 64, 0), (BLOCK, 2, 64, 63)],
)
def test_what_fits(layers, classes, rank, most):
    cells = [Cell(n=n, rank=rank, layers=layers, classes=classes) for n in range(1, 101)]
    assert sum(cell.fits for cell in cells) == most


def row(cell, tpr=1.0, simple=0.1, strangers=0.0, **more):
    rates = {"auc": tpr, "tpr_at_1pct": tpr, "tpr_at_0.1pct": tpr}
    scores = dict.fromkeys(("attack", "certificate", "filter", "merged"), rates)
    known = {"condition": False, "holds": False, "inside": 1e-7, "outside": 0.1}
    low = {"confidence": rates | {"tpr_at_1pct": simple}}
    return vars(cell) | scores | known | {"simple": low, "strangers": strangers} | more


EXACT = Cell(n=6)
ADAMW = [Cell(n=100, recipe="AdamW", public=public) for public in (NEW, KNOWN)]


@pytest.mark.parametrize(
    ("changed", "certificate", "adamw"),
    [
        ({}, "finding", "finding"),
        ({"exact": {"tpr": 0.99}}, "not reproduced", "finding"),
        ({"adamw": {"holds": True}}, "not reproduced", "not reproduced"),
        ({"adamw": {"tpr": 0.4}}, "finding", "not reproduced"),
        ({"adamw": {"simple": 0.45}}, "finding", "not reproduced"),
        ({"adamw": {"strangers": 0.05}}, "not reproduced", "not reproduced"),
    ],
)
def test_both_rules_can_fail(changed, certificate, adamw):
    cells = [row(EXACT, **{"condition": True, "holds": True} | changed.get("exact", {}))]
    cells += [row(cell, **{"tpr": 0.8} | changed.get("adamw", {})) for cell in ADAMW]
    metrics = experiment.Metrics(record({"cells": cells}))
    verdicts = [c.verdict for c in story.claims(metrics, Sizes(cells=(EXACT, *ADAMW)))]
    assert verdicts == [certificate, adamw]


def test_more_images_than_fit_are_no_exception():
    """A certificate that is believed of an adapter of too many images counts against the rule."""
    many = replace(EXACT, n=30)
    cells = [row(EXACT, condition=True, holds=True), row(many, holds=True)]
    metrics = experiment.Metrics(record({"cells": cells + [row(cell, tpr=0.8) for cell in ADAMW]}))
    first, _ = story.claims(metrics, Sizes(cells=(EXACT, many, *ADAMW)))
    assert first.verdict == "not reproduced"
