"""All images but one, the start and the recipe: training is a function of the one image, and can be
inverted.

θ(x) is what training gives with the image x besides the known ones. The released θ* = θ(x_t) is p
equations for d unknowns, and Gauss–Newton solves them: a column of the Jacobian is one more
network, trained with one pixel changed. The adversary sees whether it worked: ‖θ(x̂) − θ*‖ is at
rounding level, or it is not.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from recon.attacks.gauss_newton import Dense, Solved, gauss_newton

#: (images (S, d), labels (S,)) -> θ (S, p)
Train = Callable[[Tensor, Tensor], Tensor]
GAIN = 1e-3
EXACT = 1e-13
CHANGE = 1e-6  # of one pixel, for a column of the Jacobian


@dataclass(frozen=True)
class Retraining:
    """θ(x) = θ* for an image x (d,) of one label; a system of `recon.attacks.gauss_newton`.

    Attributes:
        target: θ* (p,).
        start (d,): a guess.
    """

    train: Train
    target: Tensor
    label: int
    start: Tensor

    def _train(self, x: Tensor) -> Tensor:
        return self.train(x, x.new_full((len(x),), self.label, dtype=torch.int64))

    def __call__(self, x: Tensor) -> Tensor:
        """θ(x) (p,)."""
        return self._train(x[None])[0]

    def linear(self, x: Tensor) -> Dense:
        """∂θ/∂x (p, d) by forward differences, from d + 1 trained networks."""
        moved = x + CHANGE * torch.eye(len(x)).to(x)
        theta = self._train(torch.cat([x[None], moved]))
        return Dense(((theta[1:] - theta[0]) / CHANGE).mT)


def invert_training(
    train: Train, theta_star: Tensor, guesses: Tensor, steps: int
) -> tuple[Solved, int]:
    """The image that training on would give θ* (p,), float64 for the differences, and its label:
    the one whose guess trains to the nearest θ. Pixels are kept in [0, 1]. Stops at a residual of
    `EXACT`, relative to ‖θ*‖, or once a step lowers its square by less than the share `GAIN`.

    Args:
        guesses (K, d): one image for each label 0 … K − 1, such as the mean of the known ones.
    """
    labels = torch.arange(len(guesses), device=guesses.device)
    label = int((train(guesses, labels) - theta_star).norm(dim=1).argmin())
    system = Retraining(train, theta_star, label, guesses[label])
    tol = float((EXACT * theta_star.norm()) ** 2)
    return gauss_newton(system, steps=steps, tol=tol, box=(0.0, 1.0), gain=GAIN), label
