"""Every attack and every trainer on a device that is not there (`pretended`).

A case runs a few steps, and some more.  What it gives is on the device, and what the CPU gives; and
the host waits for the device no more often a step than the case allows.
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
from recon.optim.loop import LoopSettings, iterate
from recon.optim.tree import mapped
from recon.released import Weights
from recon.training import recipes


@pytest.mark.parametrize("name", CASES)
def test_it_runs_on_the_device_and_waits_no_more_than_it_must(name, monkeypatch):
    # PyTorch makes no generator of this device: the noise of private training comes from its own
    monkeypatch.setattr(recipes, "_on", lambda device, generator: None)
    case, devices, results = CASES[name], [], []
    for steps in case.steps:
        with PretendedDevice() as device:
            tensors = tensors_in(case.run(steps, placed))
            assert tensors and all(isinstance(tensor, Pretended) for tensor in tensors)
            results.append([tensor.detach().cpu() for tensor in tensors])
        devices.append(device)
    few, more = (device.looks for device in devices)
    more.subtract(few)
    allowed = case.looks * (case.steps[1] - case.steps[0])
    assert more.total() <= allowed, f"looks in the steps that are more: {more.most_common(9)}"
    if name != "train__private":
        expected = tensors_in(case.run(case.steps[0], lambda value: value))
        torch.testing.assert_close(results[0], expected, rtol=1e-3, atol=1e-5, equal_nan=True)


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
WAITING = {
    "item": lambda there: there[0].item(),
    "bool": lambda there: bool(there.sum() > 0),
    "mask": lambda there: there[there > 0],
    "nonzero": lambda there: there.nonzero(),
    "equal": lambda there: torch.equal(there, there),
    "cholesky": lambda there: torch.linalg.cholesky(torch.eye(3, device=there.device)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cuda_refuses_is_refused(name):
    with PretendedDevice(), pytest.raises(DeviceError):
        REFUSED[name](torch.zeros(3, device=DEVICE))


@pytest.mark.parametrize("name", WAITING)
def test_a_look_in_a_loop_is_counted_each_time(name):
    with PretendedDevice() as device:
        for _ in range(5):
            WAITING[name](torch.ones(3, device=DEVICE))
    assert device.looks.total() == 5


# ----------------------------------------------------------------------------------------- the rest


def test_what_is_released_moves_with_its_module():
    with PretendedDevice():
        weights = Weights.of(dense(128, 6, 1), dense(128, 6, 1, seed=1)).to(DEVICE)
        pool = Pool(placed(normal(4, *IMAGE)), placed(torch.arange(4) % 2))
        assert isinstance(attacks.by_multipliers(weights, pool).score, Pretended)
        gradient = sent(lambda value: value).to(device=DEVICE)
        assert isinstance(gradient.at(placed(normal(1, *IMAGE)))["0.weight"], Pretended)


class Memory:
    """A checkpoint on the host."""

    def __init__(self, state=None):
        self.state = state

    def load(self):
        return self.state

    def save(self, tree):
        self.state = mapped(lambda tensor: tensor.cpu(), tree)


def descend(state):
    x = state["accepted"]["x"] / 2
    return {"accepted": {"x": x, "energy": x.square().sum(1)}}


def begin():
    x = torch.ones(2, 3, device=DEVICE)
    return {"accepted": {"x": x, "energy": x.sum(1)}}


def test_an_interrupted_run_goes_on_on_the_device():
    with PretendedDevice():
        memory, settings = Memory(), LoopSettings(2, device=DEVICE, every_s=-1)
        iterate(begin, descend, settings, memory)
        state, history = iterate(begin, descend, LoopSettings(4, device=DEVICE), memory)
        assert isinstance(state["accepted"]["x"], Pretended) and history.shape == (4, 2)
