"""Any module: which layer sees whole images, what is folded into one logit, and files that become
modules.
"""

from __future__ import annotations

import pickle

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from recon.errors import ReconError
from recon_audit.anatomy import examine
from recon_audit.files import load_state
from recon_audit.fine_tunes import Start, start_of
from recon_audit.networks import subject_of
from recon_audit.shadows import Recipe, fresh

SHAPE = (3, 8, 8)
DIM = 192


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


def dense(*tail, outputs=1, norm=False):
    body = [
        nn.Linear(DIM, 12),
        *([nn.BatchNorm1d(12)] if norm else []),
        nn.ReLU(),
        nn.Linear(12, 7),
        nn.ReLU(),
    ]
    return nn.Sequential(nn.Flatten(), *body, nn.Linear(7, outputs), *tail)


def shaken(module, generator):
    """With statistics and scales of batch norm that matter, in evaluation mode."""
    for part in module.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            for tensor in (part.running_mean, part.bias.data):
                tensor.copy_(torch.randn(tensor.shape, generator=generator))
            for tensor in (part.running_var, part.weight.data):
                tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.5)
    return module.eval()


@pytest.mark.parametrize(
    ("layers", "first"),
    [
        ((nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 2)), None),
        ((nn.Flatten(), nn.Linear(DIM, 9), nn.ReLU(), nn.Linear(9, 10)), "1"),
        ((nn.Linear(DIM, 9), nn.ReLU(), nn.Linear(9, 1)), "0"),  # takes flat images
        ((nn.AvgPool2d(2), nn.Flatten(), nn.Linear(48, 1)), None),
        ((nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(DIM, 1)), None),
        ((nn.Flatten(), nn.Linear(DIM, 1), nn.BatchNorm1d(1)), "1"),
    ],
)
def test_the_first_layer_is_what_is_given_whole_images(layers, first):
    assert examine(nn.Sequential(*layers).eval(), SHAPE).first == first


# -------------------------------------------------------------------------------------------- files


def test_every_kind_of_file_is_the_same_network(tmp_path, generator):
    module = dense(outputs=2)
    state = module.state_dict()
    # as Hugging Face writes it
    save_file(state, tmp_path / "a.safetensors", metadata={"format": "pt"})
    torch.save(state, tmp_path / "b.pt")
    torch.save({"epoch": 3, "optimizer": {}, "state_dict": state}, tmp_path / "c.pth")
    torch.save({"model": {f"module.{k}": v for k, v in state.items()}}, tmp_path / "d.pt")
    torch.save(state, tmp_path / "e.pt", _use_new_zipfile_serialization=False)
    x = torch.randn(5, *SHAPE, generator=generator)
    for path in tmp_path.iterdir():
        subject = subject_of(str(path))
        assert subject.arch == "192-12-7-2" and subject.expected.dim == DIM
        torch.testing.assert_close(subject.module(x), module(x))


class Stranger:
    def __reduce__(self):
        return (print, ("executed",))


def test_files_that_are_refused_say_why(tmp_path, capsys):
    script = torch.jit.trace(dense().eval(), torch.zeros(1, *SHAPE))
    script.save(str(tmp_path / "script.pt"))
    torch.save(dense(), tmp_path / "whole.pt")
    torch.save({"lr": 0.1}, tmp_path / "none.pt")
    (tmp_path / "evil.pt").write_bytes(pickle.dumps(Stranger()))
    (tmp_path / "junk.pt").write_bytes(b"junk")
    for name, words in {
        "script.pt": "TorchScript archive",
        "whole.pt": "holds more than tensors",
        "none.pt": "holds no state dict, but a dict with lr",
        "evil.pt": "state_dict|damaged",
        "junk.pt": "state_dict|damaged",
        "missing.pt": "there is no weights file",
    }.items():
        with pytest.raises(ReconError, match=words) as error:
            load_state(tmp_path / name)
        assert "\n" not in str(error.value)
    assert "executed" not in capsys.readouterr().out
    with pytest.raises(ReconError, match="compiled program"):
        subject_of(script)


def test_names_numbers_and_architectures_that_do_not_fit(tmp_path):
    w = {"w1": torch.ones(4, 6), "w2": torch.ones(1, 4)}
    cases = {
        "mean the same layer": {**w, "1.weight": torch.ones(4, 6)},
        "too large to square": {name: 1e30 * value for name, value in w.items()},
        "form no chain": {"a.weight": torch.ones(4, 6), "b.weight": torch.ones(5, 5)},
        "name it with --arch": {"a.weight": torch.ones(4, 3, 3, 3), "b.weight": torch.ones(2, 4)},
        "have no place for": {"a.bias": torch.ones(3)},
    }
    for words, state in cases.items():
        with pytest.raises(ReconError, match=words):
            save_file(state, tmp_path / "w.safetensors")
            subject_of(tmp_path / "w.safetensors")
    save_file(w, tmp_path / "w.safetensors")
    for arch, words in {"resnet18": "is no resnet18", "nonsense": "unknown architecture"}.items():
        with pytest.raises(ReconError, match=words):
            subject_of(tmp_path / "w.safetensors", arch)
    with pytest.raises(ReconError, match="must be an nn.Module or the path"):
        subject_of(3)


def test_a_module_is_copied():
    module = dense().double().train()
    subject = subject_of(module)
    assert module.training and next(module.parameters()).dtype == torch.float64
    assert not subject.module.training and next(subject.module.parameters()).dtype == torch.float32


def test_a_start_is_subtracted_or_refused():
    module = dense()
    subject = subject_of(module)
    assert torch.equal(
        start_of(subject, module.state_dict(), None).module[1].weight, module[1].weight
    )
    with pytest.raises(ReconError, match="does not fit"):
        start_of(subject, {"a": torch.ones(1)}, None)
    with pytest.raises(ReconError, match="does not fit"):
        start_of(subject, dense(outputs=2), None)


def test_a_fresh_network_is_drawn_from_the_generator_and_nothing_else(generator):
    module = shaken(dense(norm=True), generator)

    def draw(seed, start=None):
        return fresh(module, Recipe(), torch.Generator().manual_seed(seed), start)

    a, b, c = draw(1), draw(1), draw(2)
    assert torch.equal(a[1].weight, b[1].weight) and not torch.equal(a[1].weight, c[1].weight)
    assert not a[2].running_mean.any() and (a[2].running_var == 1).all()
    small = fresh(module, Recipe(first_scale=0.01), torch.Generator().manual_seed(1))
    torch.testing.assert_close(small[1].bias, 0.01 * a[1].bias)
    start = dense(norm=True)
    start[1].weight.data.mul_(1e-3)
    spread = start[1].weight.std().item()
    assert draw(1, Start(start))[1].weight.std().item() == pytest.approx(spread, rel=1e-3)
