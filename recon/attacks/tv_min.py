"""Of all images with the released gradient, the smoothest: what the gradient leaves open, a prior
fills.

    min_x TV(x)   subject to   h(x) = h*,     pixels in their range,

h the joint system of `recon.attacks.gradient_system`. From one solution (Gauss–Newton's) the image
moves along the kernel of the Jacobian to where its total variation is least, returns to h(x) = h*
by Gauss–Newton, and so on. The gradient is explained to rounding throughout; everything that is
chosen is chosen by the prior.
"""

import torch
from torch import Tensor

from recon.attacks.gauss_newton import Solved, gauss_newton, row_space
from recon.attacks.gradient_system import JointSystem

ROUNDED = 1e-3  # |d| of a pixel difference becomes √(d² + ROUNDED²)
OUTSIDE = 10.0  # weight of the squared distance from the pixels' range
BOX = (-0.5, 0.5)
SHARES = (1.0, 0.5, 0.2, 0.05)  # of a step along the kernel, until h(x) = h* can be had again
SETTLED = 0.01  # relative fall of the total variation in a round below which it stops


def tv_min(system: JointSystem, x: Tensor, rounds: int = 5, steps: int = 300) -> Solved:
    """From a solution x (c·h·w,); energy: ‖h(x) − h*‖² after every round, the start's first. A
    system of depth 0 has one solution, which is returned.

    Args:
        rounds: at most.
        steps: of L-BFGS in each.
    """
    if system.depth == 0:
        return Solved(x, torch.zeros(1, dtype=x.dtype))
    energies, best = [(system(x) - system.target).square().sum()], float(_roughness(system, x))
    explained = max(1e-20, 10 * float(energies[0]))
    for _ in range(rounds):
        move = _along_kernel(system, x, steps)
        for share in SHARES:
            back = gauss_newton(system, x + share * move, steps=20, damping=1e-6)
            rough = float(_roughness(system, back.x))
            if rough < best and back.energy[-1] <= explained:
                break
        else:
            break
        x, fall, best = back.x, 1 - rough / best, rough
        energies.append(back.energy[-1])
        # the same kernel everywhere: nothing is left
        if fall < SETTLED or (share == 1 and len(back.energy) == 1):
            break
    return Solved(x, torch.stack(energies))


def _along_kernel(system: JointSystem, x: Tensor, steps: int) -> Tensor:
    """The step from x to the smoothest of x + ker J, J the Jacobian at x."""
    basis = row_space(system.jacobian(x))
    move = torch.zeros_like(x).requires_grad_()
    optimiser = torch.optim.LBFGS(
        [move], max_iter=steps, max_eval=2 * steps, history_size=20, line_search_fn="strong_wolfe"
    )

    def unseen() -> Tensor:
        return move - basis @ (basis.mT @ move)

    def closure() -> Tensor:
        optimiser.zero_grad()
        value = _roughness(system, x + unseen())
        value.backward()
        return value

    optimiser.step(closure)  # type: ignore[no-untyped-call]
    return unseen().detach()


def _roughness(system: JointSystem, x: Tensor) -> Tensor:
    """TV of `recon.attacks.gradient_matching` with rounded absolute values, and a price for pixels
    out of range.
    """
    image = x.view(system.network.shape)
    sides = (image.diff(dim=dim).square().add(ROUNDED**2).sqrt().mean() for dim in (-1, -2))
    return sum(sides, OUTSIDE * (x - x.clamp(*BOX)).square().sum())
