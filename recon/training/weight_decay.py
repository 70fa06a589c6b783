"""Training with weight decay to near stationarity: the other regime in which weights are a sum over training images.

    E(θ) = (1/n) Σ_i ℓ(y_i, Φ(x_i; θ)) + (wd/2) ‖θ‖²,
    ∇E = 0  ⇒  θ = Σ_i λ_i y_i ∇_θ Φ(x_i; θ),  λ_i = σ(−m_i)/(n·wd),

with logistic loss and margins m_i.  Unlike in the maximum-margin regime the random start fades in every layer.  The
minimiser's first layer lies in the span of the images, so for n < d everything happens there, in n coordinates.
"""

from dataclasses import dataclass

from torch import Tensor

from recon.errors import ReconError
from recon.nets.mlp import MLP
from recon.optim.descent import Adam, cosine
from recon.optim.loop import Checkpoint, LoopSettings, iterate
from recon.optim.subspace import in_span
from recon.optim.tree import State, unevaluated
from recon.training.inner_problem import Objective


@dataclass(frozen=True)
class DecaySettings:
    """weight_decay wd > 0 · steps of Adam, of size `step_size` at first, falling to `final` of it along a cosine."""

    weight_decay: float = 1e-3
    steps: int = 600
    step_size: float = 2e-3
    final: float = 1e-3

    def __post_init__(self) -> None:
        if not (self.weight_decay > 0 and self.steps > 0 and self.step_size > 0):
            raise ReconError("weight decay, steps and step size must be positive")


def train_with_decay(
    network: MLP,
    x: Tensor,
    y: Tensor,
    theta_init: Tensor,
    settings: DecaySettings,
    checkpoint: Checkpoint | None = None,
) -> Tensor:
    """θ* (p,) by full-batch Adam on E from theta_init (p,); x (n, d), y (n,) in {0, 1}.  What of the first layer lies
    outside the span of the images at the start is left out where n < d: the decay would remove it."""
    small, inputs, start, lift = in_span(network, theta_init, x, keep_outside=False)
    objective, adam = Objective(small, y, settings.weight_decay), Adam(settings.step_size)

    def step(state: State) -> State:
        theta, k = state["adam"]["x"], int(state["adam"]["taken"])
        value, grad = objective.value_and_grad(theta, inputs[None])
        moved = adam.step(state["adam"], value, grad, cosine(k, settings.steps, settings.final))
        return {"adam": moved, "accepted": {"x": theta, "energy": value}}

    loop = LoopSettings(settings.steps, device=x.device, label="training")
    begin: State = {"adam": adam.init(start[None]), "accepted": unevaluated(start[None])}
    state, _ = iterate(lambda: begin, step, loop, checkpoint)
    return lift(state["adam"]["x"][0])
