"""One image by Gauss–Newton with its certificate, against another project's attack with the same
processor time: `python benchmarks/against_breaching.py` prints and writes
benchmarks/against_breaching.json.

The rival is the package `breaching` 0.1.2 of Geiping et al. (2020), which is not among ours: `pip
install --no-deps breaching==0.1.2 lpips hydra-core omegaconf "antlr4-python3-runtime==4.9.*"`
first. Its attack "invertinggradients" has its own settings but for the number of steps; it is given
the label, the range of the pixels and the same gradient. For every network of Table 1 and the
paper's two images: as many of its steps as fit into Gauss–Newton's time (its learning rate decays
within them), and as many as CosineTV takes in the book. Errors are over the entries that a network
reads.
"""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from collections.abc import Callable
from types import SimpleNamespace

import torch
from identifiability import compare
from timing import write
from torch import Tensor, nn

from companion.chapters.leakage_common import Attacked
from recon.nets.conv import ConvNet
from recon.nets.network import Params
from recon.released import Gradient


def module_of(network: ConvNet, theta: Params) -> nn.Module:
    """The network as PyTorch's own layers, holding θ."""
    layers: list[nn.Module] = []
    channels = network.shape[0]
    for conv in network.convs:
        layers += [
            nn.Conv2d(channels, conv.channels, conv.kernel, conv.stride, conv.padding, bias=False),
            nn.Tanh(),
        ]
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
        settings = breaching.get_attack_config(
            "invertinggradients", overrides=[f"optim.max_iterations={steps}"]
        )
    setup = {"dtype": torch.float32, "device": torch.device("cpu")}
    attacker = breaching.attacks.prepare_attack(module, nn.CrossEntropyLoss(), settings, setup)
    about = SimpleNamespace(shape=(3, 32, 32), mean=[0.5] * 3, std=[1.0] * 3, modality="vision")
    sent = {
        "gradients": [g[0].float() for g in gradient.gradients.values()],
        "buffers": None,
        "metadata": {"num_data_points": 1, "labels": gradient.labels, "local_hyperparams": None},
    }
    payload = {
        "parameters": [p.detach() for p in module.parameters()],
        "buffers": [],
        "metadata": about,
    }
    torch.manual_seed(0)
    found, _ = attacker.reconstruct([payload], [sent], {})
    return found["data"].flatten()


def breaching_attack(attacked: Attacked, gradient: Gradient, x: Tensor) -> Callable[[int], Tensor]:
    """Its attack by the number of its steps; AssertionError unless its gradient of the image x (3,
    32, 32) is ours.
    """
    module = module_of(attacked.network, attacked.theta)
    loss = nn.functional.cross_entropy(module(x[None].float()), gradient.labels)
    ours = [g[0].float() for g in gradient.gradients.values()]
    for theirs, same in zip(
        torch.autograd.grad(loss, list(module.parameters())), ours, strict=True
    ):
        torch.testing.assert_close(theirs, same, rtol=1e-3, atol=1e-5)
    return lambda steps: invert(module, gradient, steps)


def main() -> None:
    try:
        import breaching  # noqa: F401
    except ImportError as error:
        sys.exit(f"install breaching first, as the head of this file says ({error})")
    write(compare(breaching_attack, "breaching"), __file__)


if __name__ == "__main__":
    main()
