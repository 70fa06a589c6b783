"""How large chapter 22 is."""

from __future__ import annotations

from dataclasses import dataclass

from recon.attacks.separation import SeparationSettings
from recon.attacks.simulation import SimulationSettings


@dataclass(frozen=True, kw_only=True)
class DenseSizes:
    """Fully connected networks d-width-…-width-K on n_train images.

    depths: linear layers, each with two classes · classes: K, each with three linear layers; labels are CIFAR-10's,
    modulo K · steps: of training, at most · separation: settings · decoreco_steps: of each of its runs.
    """

    n_train: int
    width: int
    depths: tuple[int, ...]
    classes: tuple[int, ...]
    steps: int
    separation: SeparationSettings
    decoreco_steps: int


DENSE_SIZES = {
    "smoke": DenseSizes(
        n_train=10,
        width=64,
        depths=(3, 4),
        classes=(3,),
        steps=300,
        separation=SeparationSettings(first_rank=8, iterations=40),
        decoreco_steps=50,
    ),
    "laptop": DenseSizes(
        n_train=50,
        width=300,
        depths=(3, 4, 5, 6),
        classes=(3, 5, 10),
        steps=600,
        separation=SeparationSettings(),
        decoreco_steps=400,
    ),
    "paper": DenseSizes(
        n_train=100,
        width=1000,
        depths=(3, 4, 5, 6),
        classes=(3, 5, 10),
        steps=1000,
        separation=SeparationSettings(),
        decoreco_steps=3000,
    ),
}


@dataclass(frozen=True, kw_only=True)
class SmallNet:
    """A network whose training is simulated.

    kind: "convolutions", or "residual", one block with batch norm · activation · channels · pooled: whether the mean
    over positions comes before the last layer · by_batch: whether batch norm uses the batch's own means, as in
    training; else the running ones of public images, as Tian et al. have it · step_size: of its training.
    """

    kind: str
    activation: str
    channels: int
    pooled: bool = False
    by_batch: bool = False
    step_size: float = 0.2

    @property
    def name(self) -> str:
        """As figures and tables name it."""
        parts = [f"{self.kind}, {self.activation}", f"{self.channels} channels", "pooled" if self.pooled else "flat"]
        if self.kind == "residual":
            parts.append("norm by batch" if self.by_batch else "norm fixed")
        return ", ".join(parts)


@dataclass(frozen=True, kw_only=True)
class SimulatedSizes:
    """nets · side: of the images, averaged down · n_train: images of all classes · steps: of training, T · attack ·
    ranked: whether the joint rank is computed where the weights are explained: n·c·h·w simulated trainings · balanced:
    whether every class has as many images."""

    nets: tuple[SmallNet, ...]
    side: int
    n_train: int
    steps: int
    attack: SimulationSettings
    ranked: bool = True
    balanced: bool = False


#: the fifth has fewer parameters than eight images of 8 × 8 have pixels
NETS = (
    SmallNet(kind="convolutions", activation="tanh", channels=16, step_size=0.4),
    SmallNet(kind="convolutions", activation="silu", channels=16, step_size=0.8),
    SmallNet(kind="convolutions", activation="relu", channels=16, step_size=0.4),
    SmallNet(kind="convolutions", activation="tanh", channels=16, pooled=True, step_size=0.2),
    SmallNet(kind="convolutions", activation="tanh", channels=4, pooled=True, step_size=0.2),
    SmallNet(kind="residual", activation="relu", channels=32, pooled=True, step_size=0.02),
    SmallNet(kind="residual", activation="relu", channels=32, pooled=True, by_batch=True, step_size=0.1),
)

SIMULATED_SIZES = {
    "smoke": SimulatedSizes(
        nets=(
            SmallNet(kind="convolutions", activation="tanh", channels=4),
            SmallNet(kind="residual", activation="relu", channels=4, by_batch=True, step_size=0.05),
            SmallNet(kind="convolutions", activation="tanh", channels=1, pooled=True),
        ),
        side=4,
        n_train=4,
        steps=3,
        attack=SimulationSettings(steps=10, polish=15),
    ),
    "laptop": SimulatedSizes(nets=NETS, side=8, n_train=8, steps=5, attack=SimulationSettings(steps=200, polish=600)),
    "paper": SimulatedSizes(
        nets=(
            SmallNet(kind="convolutions", activation="tanh", channels=32, step_size=0.1),
            SmallNet(kind="convolutions", activation="relu", channels=32, step_size=0.1),
            SmallNet(kind="convolutions", activation="silu", channels=32, step_size=0.4),
        ),
        side=32,
        n_train=20,
        steps=10,
        attack=SimulationSettings(steps=400, polish=3000),
        ranked=False,
        balanced=True,
    ),
}
