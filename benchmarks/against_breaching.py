"""One image by Gauss–Newton with its certificate, against another project's attack with the same processor time:
`python benchmarks/against_breaching.py` prints and writes benchmarks/against_breaching.json.

The rival is the package `breaching` 0.1.2 of Geiping et al. (2020), which is not among ours: `pip install --no-deps
breaching==0.1.2 lpips hydra-core omegaconf "antlr4-python3-runtime==4.9.*"` first.  Its attack "invertinggradients" has
its own settings but for the number of steps; it is given the label, the range of the pixels and the same gradient.  For
every network of Table 1 and the paper's two images: as many of its steps as fit into Gauss–Newton's time (its learning
rate decays within them), and as many as CosineTV takes in the book.  Errors are over the entries that a network reads.
"""

from __future__ import annotations

import contextlib
import io
import sys
import time
import warnings
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import torch
from timing import write
from torch import Tensor, nn

from recon.analysis.identifiability import determined
from recon.attacks.gauss_newton import gauss_newton
from recon.attacks.gradient_matching import COSINE_STEPS
from recon.attacks.joint import JointSystem, relative_residual
from recon.chapters.leakage_common import Attacked, Victims
from recon.images.registry import load_pool
from recon.nets.conv import TABLE_1, ConvNet
from recon.nets.network import Params
from recon.released import Gradient

TRIAL = 100  # steps from which the pace is taken


def module_of(network: ConvNet, theta: Params) -> nn.Module:
    """The network as PyTorch's own layers, holding θ."""
    layers: list[nn.Module] = []
    channels = network.shape[0]
    for conv in network.convs:
        layers += [nn.Conv2d(channels, conv.channels, conv.kernel, conv.stride, conv.padding, bias=False), nn.Tanh()]
        channels = conv.channels
    features = theta[network.last[0]].shape[1]
    module = nn.Sequential(*layers, nn.Flatten(), nn.Linear(features, network.classes)).eval()
    with torch.no_grad():
        for parameter, value in zip(module.parameters(), theta.values(), strict=True):
            parameter.copy_(value)
    return module


def invert(module: nn.Module, gradient: Gradient, steps: int) -> Tensor:
    """`breaching`'s image (3072,) minus 0.5, after so many of its steps."""
    import breaching

    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = breaching.get_attack_config("invertinggradients", overrides=[f"optim.max_iterations={steps}"])
    setup = {"dtype": torch.float32, "device": torch.device("cpu")}
    attacker = breaching.attacks.prepare_attack(module, nn.CrossEntropyLoss(), settings, setup)
    about = SimpleNamespace(shape=(3, 32, 32), mean=[0.5] * 3, std=[1.0] * 3, modality="vision")
    sent = {
        "gradients": [g[0].float() for g in gradient.gradients.values()],
        "buffers": None,
        "metadata": {"num_data_points": 1, "labels": gradient.labels, "local_hyperparams": None},
    }
    payload = {"parameters": [p.detach() for p in module.parameters()], "buffers": [], "metadata": about}
    torch.manual_seed(0)
    found, _ = attacker.reconstruct([payload], [sent], {})
    return found["data"].flatten()


def spent(function: Callable[[], Tensor]) -> tuple[Tensor, float]:
    """Its result and the processor's seconds."""
    began = time.process_time()
    return function(), time.process_time() - began


def one(victims: Victims, k: int, attacked: Attacked) -> dict[str, float]:
    """Errors of one image on one network, and what they cost."""
    gradient = Gradient.of(attacked.network, attacked.theta, victims.x[k : k + 1], victims.labels[k : k + 1])
    truth, module = victims.x[k].flatten(), module_of(attacked.network, attacked.theta)
    loss = nn.functional.cross_entropy(module(victims.x[k : k + 1].float()), gradient.labels)
    for theirs, ours in zip(
        torch.autograd.grad(loss, list(module.parameters())), gradient.gradients.values(), strict=True
    ):
        torch.testing.assert_close(theirs, ours[0].float(), rtol=1e-3, atol=1e-5)

    def with_certificate() -> Tensor:
        system = JointSystem.of(gradient)
        x = gauss_newton(system).x
        relative_residual(gradient, x)
        determined(system, x)
        return x

    x_hat, seconds = spent(with_certificate)
    there = determined(JointSystem.of(gradient), truth)
    _, trial = spent(lambda: invert(module, gradient, TRIAL))
    steps = max(1, round(TRIAL * seconds / trial))
    same_time, took = spent(lambda: invert(module, gradient, steps))
    longer, long = spent(lambda: invert(module, gradient, COSINE_STEPS))

    def error(x: Tensor) -> float:
        return (x.double() - truth)[~there.unread].square().mean().item()

    return {
        "determined": float(there.whole),
        "steps_in_that_time": steps,
        "time_of_these_steps": took / seconds,
        "time_of_4800_steps": long / seconds,
        "mse": error(x_hat),
        "breaching_mse_same_time": error(same_time),
        "breaching_mse_4800": error(longer),
    }


def main() -> None:
    try:
        import breaching  # noqa: F401
    except ImportError as error:
        sys.exit(f"install breaching first, as the head of this file says ({error})")
    torch.set_num_threads(1)
    pool = load_pool("auto")
    victims = Victims.of(pool)
    report: dict = {"data": pool.name, "determined": {}, "open": {}}
    for name in TABLE_1:
        rows = [one(victims, k, Attacked.of(name, pool)) for k in range(len(victims.x))]
        means = {key: float(np.exp(np.mean(np.log([max(row[key], 1e-32) for row in rows])))) for key in rows[0]}
        report["determined" if means.pop("determined") == 1 else "open"][name] = means
        print(name, means, file=sys.stderr)
    write(report, __file__)


if __name__ == "__main__":
    main()
