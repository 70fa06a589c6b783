"""The networks of the gallery at toy size: their trainings, what is said of them, and the file that
goes on.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from benchmarks import audit_gallery
from benchmarks.audit_gallery import NETWORKS, in_sequence, measured, trained, words
from recon.errors import ReconError
from recon.images.partitions import Dataset, Partition

SMALL = {
    name: replace(each, recipe=replace(each.recipe, width=8, steps=3))
    for name, each in NETWORKS.items()
}


def toy(n=6, side=8):
    """Noise, with classes in turn."""
    x = torch.rand(2 * n, 3, side, side, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(2 * n) % 10
    parts = [
        Partition(x[k], (labels[k] % 2).float(), labels[k], labels[k])
        for k in torch.arange(2 * n).split(n)
    ]
    return Dataset("toy", "", "", ("a", "b"), (), parts[0], parts[0], parts[1])


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_is_trained_and_without_hooks(name):
    module, done = trained(SMALL[name], toy())
    x = toy().train.x
    # batch norm of ResNet-18 alone
    assert done.steps == 3 and len(list(module.buffers())) in (0, 60)
    assert not module._forward_hooks and not any(
        hasattr(p, "grad_sample") for p in module.parameters()
    )
    again, _ = trained(SMALL[name], toy())
    with torch.no_grad():
        flat = in_sequence(module, x.shape[1:])(x.flatten(1))
        assert flat.shape == (6, 10 if name == "ResNet-18" else 1)
        if name == "ResNet-18":
            assert torch.equal(flat, module(x))  # its parts in a row are the network itself
    assert all(
        torch.equal(a, b) for a, b in zip(module.parameters(), again.parameters(), strict=True)
    )
    assert ("ε = 8 at δ = 1/60" in words(SMALL[name].recipe, done, 6)) == ("DP-SGD" in name)


def test_only_the_small_start_is_small():
    sizes = {
        name: trained(replace(each, recipe=replace(each.recipe, lr=1e-12, epsilon=None)), toy())[0]
        for name, each in SMALL.items()
    }
    first = {name: next(module.parameters()).std().item() for name, module in sizes.items()}
    assert all((value < 2e-4) == ("small start" in name) for name, value in first.items())


def test_the_file_goes_on_where_it_was_and_measures_other_sizes_anew(tmp_path, monkeypatch):
    asked = []

    def audited(network, data):
        asked.append(network.recipe.lr)
        return {"sizes": json.loads(json.dumps(network.sizes))}

    monkeypatch.setattr(audit_gallery, "audited", audited)
    file = tmp_path / "gallery.json"
    measured(SMALL, lambda n: toy(), file, ["CNN, two convolutions"])
    measured(SMALL, lambda n: toy(), file)
    assert len(asked) == len(SMALL)
    assert list(json.loads(file.read_text())["networks"]) == list(SMALL)
    changed = SMALL | {"ResNet-18": replace(SMALL["ResNet-18"], n=10)}
    measured(changed, lambda n: toy(), file)
    assert len(asked) == len(SMALL) + 1
    with pytest.raises(ReconError, match="no network 'VGG'"):
        measured(SMALL, lambda n: toy(), file, ["VGG"])


def test_what_is_said_of_an_audit(monkeypatch):
    """One whole audit of a toy: few shadows, no attack on images, which the network does not
    allow.
    """
    audit = audit_gallery.recon.audit
    monkeypatch.setattr(
        audit_gallery.recon, "audit", lambda *a, **k: audit(*a, **k | {"shadows": 2})
    )
    network = replace(SMALL["CNN, two convolutions"], profile="smoke")
    told = audit_gallery.audited(network, toy(10))
    assert told["verdict"] == "cannot tell" and set(told["did_not_apply"]) == {
        "separation",
        "rows",
        "decoreco",
    }
    assert told["leaked"] == 0 and told["power"] is None and told["by"] is None
    assert told["n"] == told["held_out"] == 10 and told["shadows"] == 2
    assert 0 <= told["accuracy"]["held_out"] <= 1 and told["seconds"] > 0
    json.dumps(told)
