"""Every attack and every trainer on a device that is not there (`pretended`).

A case runs a few steps, and some more.  What it gives is on the device, and what the CPU gives; and
the host waits for the device no more often a step than the case allows.
"""

from __future__ import annotations

import inspect
import pkgutil
import sys
from importlib import import_module

import pytest
import torch
from pretended import DEVICE, DeviceError, Pretended, PretendedDevice, placed, tensors_in
from pretended_cases import CASES, DOORS, SHAPE, TRAINERS, dense, drawn, seeded, sent

from recon import attacks, cli, training
from recon.attacks.from_weights import Pool
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
            assert tensors and all(isinstance(tensor, Pretended) != case.host for tensor in tensors)
            results.append([tensor.detach().cpu() for tensor in tensors])
        devices.append(device)
    for what in ("looks", "sent"):
        few, more = (getattr(device, what) for device in devices)
        more.subtract(few)
        allowed = getattr(case, what) * (case.steps[1] - case.steps[0])
        assert more.total() <= allowed, f"{what} in the steps that are more: {more.most_common(9)}"
    if name != "train__private":
        expected = tensors_in(case.run(case.steps[0], lambda value: value))
        torch.testing.assert_close(results[0], expected, rtol=1e-3, atol=1e-5, equal_nan=True)


def test_every_attack_and_every_trainer_has_a_case():
    functions = set()
    for module in pkgutil.iter_modules(training.__path__):
        public = vars(import_module(f"recon.training.{module.name}"))
        own = {name for name, value in public.items() if inspect.isfunction(value)}
        functions |= {name for name in own if name.startswith(("train", "solve"))}
    assert {name.partition("__")[0] for name in TRAINERS} == functions
    doors = {name for name in attacks.__all__ if name.startswith("by_")}
    assert {name.partition("__")[0] for name in DOORS} == doors


# ----------------------------------------------------------------------------------- the instrument


def here() -> torch.Tensor:
    return torch.ones(3)


#: what CUDA refuses
REFUSED = {
    "a sum": lambda there: there + here(),
    "a sum the other way round": lambda there: here() + there.sum(),
    "a product": lambda there: there @ here(),
    "a change of what is on the CPU": lambda there: here().add_(there),
    "a number that is no operand": lambda there: torch.stack([there[0], torch.tensor(1.0)]),
    "an index into what is on the CPU": lambda there: here()[there.long()],
    "a draw": lambda there: torch.rand(3, generator=seeded(), device=there.device),
    "a draw in place": lambda there: there.uniform_(generator=seeded()),
}
ALLOWED = {
    "a number": lambda there: there * 2 + torch.tensor(1.0),
    "a factory": lambda there: there + torch.arange(3, device=there.device),
    "numbers": lambda there: there + torch.tensor([1.0, 2, 3], device=there.device),
    "more numbers": lambda there: there + there.new_tensor([1.0, 2, 3]),
    "a copy": lambda there: there + here().to(there.device),
    "an index from the CPU": lambda there: there[torch.arange(2)],
    "what is like it": lambda there: there + torch.randn_like(there),
    "a view": lambda there: there.view(3, 1).mT.add_(1),
}
WAITING = {
    "item": lambda there: there[0].item(),
    "float": lambda there: float(there[0]),
    "bool": lambda there: bool(there.sum() > 0),
    "cpu": lambda there: there.cpu(),
    "list": lambda there: there.tolist(),
    "mask": lambda there: there[there > 0],
    "nonzero": lambda there: there.nonzero(),
    "equal": lambda there: torch.equal(there, there),
    "cholesky": lambda there: torch.linalg.cholesky(torch.eye(3, device=there.device)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cuda_refuses_is_refused(name):
    with PretendedDevice(), pytest.raises(DeviceError):
        REFUSED[name](torch.zeros(3, device=DEVICE))


@pytest.mark.parametrize("name", ALLOWED)
def test_what_cuda_takes_is_taken_without_a_look(name):
    with PretendedDevice() as device:
        assert isinstance(ALLOWED[name](torch.zeros(3, device=DEVICE)), Pretended)
    assert not device.looks.total()


@pytest.mark.parametrize("name", WAITING)
def test_a_look_in_a_loop_is_counted_each_time(name):
    with PretendedDevice() as device:
        for _ in range(5):
            WAITING[name](torch.ones(3, device=DEVICE))
    assert device.looks.total() == 5


def test_numpy_takes_nothing_from_the_device():
    with PretendedDevice(), pytest.raises(RuntimeError, match="numpy"):
        torch.ones(3, device=DEVICE).numpy()


# ----------------------------------------------------------------------------------------- the rest


def test_what_is_released_moves_with_its_module():
    with PretendedDevice():
        weights = Weights.of(dense(128, 6, 1), dense(128, 6, 1, seed=1)).to(DEVICE)
        pool = Pool(placed(drawn(4, *SHAPE)), placed(torch.arange(4) % 2))
        assert isinstance(attacks.by_multipliers(weights, pool).score, Pretended)
        gradient = sent(lambda value: value).to(device=DEVICE)
        assert isinstance(gradient.at(placed(drawn(1, *SHAPE)))["0.weight"], Pretended)


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


def test_the_progress_bar_does_not_wait_for_the_device(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with PretendedDevice() as device:
        iterate(begin, descend, LoopSettings(200, device=DEVICE))
    assert device.looks.total() < 100  # as often as the bar is drawn, some ten times a second


def test_a_gpu_that_is_not_there_is_one_sentence(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert cli.main(["run", "linear", "--device", "cuda", "--data", "photos"]) == 2
    message = capsys.readouterr().err
    assert message == "recon: there is no usable GPU on this machine: choose --device cpu or auto\n"
