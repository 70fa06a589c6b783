"""Every attack and every trainer on a device that is not there (`pretended`).

A case runs a few steps.  What it gives is on the device, and what the CPU gives.
"""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module

import pytest
import torch
from pretended import DEVICE, DeviceError, Pretended, PretendedDevice, placed, tensors_in
from pretended_cases import ATTACKS, CASES, TRAINERS, sent
from small_networks import IMAGE, dense, normal, seeded

from recon import attacks, training
from recon.attacks.from_weights import Pool
from recon.attacks.registry import NEEDS
from recon.released import Weights
from recon.training import recipes


@pytest.mark.parametrize("name", CASES)
def test_it_gives_on_the_device_what_it_gives_on_the_cpu(name, monkeypatch):
    # PyTorch makes no generator of this device: the noise of private training comes from its own
    monkeypatch.setattr(recipes, "_on", lambda device, generator: None)
    with PretendedDevice():
        tensors = tensors_in(CASES[name](2, placed))
        assert tensors and all(isinstance(tensor, Pretended) for tensor in tensors)
        results = [tensor.detach().cpu() for tensor in tensors]
    if name != "train__private":
        expected = tensors_in(CASES[name](2, lambda value: value))
        torch.testing.assert_close(results, expected, rtol=1e-3, atol=1e-5, equal_nan=True)


def test_every_attack_and_every_trainer_has_a_case():
    functions = set()
    for module in pkgutil.iter_modules(training.__path__):
        public = vars(import_module(f"recon.training.{module.name}"))
        names = [name for name, value in public.items() if inspect.isfunction(value)]
        functions |= {name for name in names if name.startswith(("train", "solve"))}
    assert {name.partition("__")[0] for name in TRAINERS} == functions
    assert {name.partition("__")[0] for name in ATTACKS} == set(NEEDS)


# ----------------------------------------------------------------------------------- the instrument


def here() -> torch.Tensor:
    return torch.ones(3)


#: what CUDA refuses
REFUSED = {
    "a sum": lambda there: there + here(),
    "a product": lambda there: there @ here(),
    "a change of what is on the CPU": lambda there: here().add_(there),
    "a number that is no operand": lambda there: torch.stack([there[0], torch.tensor(1.0)]),
    "an index into what is on the CPU": lambda there: here()[there.long()],
    "a draw": lambda there: torch.rand(3, generator=seeded(), device=there.device),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cuda_refuses_is_refused(name):
    with PretendedDevice(), pytest.raises(DeviceError):
        REFUSED[name](torch.zeros(3, device=DEVICE))


# ----------------------------------------------------------------------------------------- the rest


def test_what_is_released_moves_with_its_module():
    with PretendedDevice():
        weights = Weights.of(dense(128, 6, 1), dense(128, 6, 1, seed=1)).to(DEVICE)
        pool = Pool(placed(normal(4, *IMAGE)), placed(torch.arange(4) % 2))
        assert isinstance(attacks.by_multipliers(weights, pool).score, Pretended)
        gradient = sent(lambda value: value).to(device=DEVICE)
        assert isinstance(gradient.at(placed(normal(1, *IMAGE)))["0.weight"], Pretended)
