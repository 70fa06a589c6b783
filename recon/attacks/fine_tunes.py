"""Who was trained on, out of a whole fine-tune: its backbone was public, and has moved.

Two things hide what a head's matched filter finds (`recon.attacks.heads`). Training normalises a
batch by the batch's own statistics, and what is released holds running ones, which lag behind: the
features that the head was trained on are not those that the released network gives. Statistics of
public images are nearer to them (`re_estimated`). And a head knows more than how strongly it
answers: training has written each image into its first layer towards the image's own label
(`label_filter`). No initial weight of the head enters.
"""

from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.nn.modules.batchnorm import _BatchNorm

from recon.attacks.heads import Public, column_norms
from recon.errors import ReconError
from recon.nets.module import answers_of, watch_layers


def re_estimated(module: nn.Module, images: Tensor, batch: int = 25) -> nn.Module:
    """A copy, in evaluation mode, whose batch norms have the mean statistics of batches of public
    images (k, ...), as the module takes them. Only batch norm is in training mode meanwhile.
    """
    module = deepcopy(module).eval().requires_grad_(False)
    for part in module.modules():
        if isinstance(part, _BatchNorm):
            part.reset_running_stats()
            part.momentum = None  # which makes a mean of running statistics
            part.train()
    with torch.no_grad():
        for some in images.split(batch):
            module(some)
    return module.eval()


def first_of_head(module: nn.Module, x: Tensor) -> nn.Linear:
    """The first linear layer from which on every layer is given one vector of each of images x
    (n, ...); ReconError where there is none.
    """
    first = None
    for call in reversed(watch_layers(module, x[:2])[2]):
        if call.inputs.dim() != 2:
            break
        if isinstance(call.module, nn.Linear):
            first = call.module
    if first is None:
        raise ReconError("the network has no linear layer that is given one vector of each image")
    return first


def at_head(
    module: nn.Module, layer: nn.Module, x: Tensor, y: Tensor, batch: int = 25
) -> tuple[Tensor, Tensor]:
    """What a linear layer is given of images x (k, ...), (k, d), and the gradient, at its outputs,
    of the logit of label y (k,) less the mean of all logits, (k, h).
    """
    held: list[Tensor] = []
    hook = layer.register_forward_hook(
        lambda _, inputs, outputs: held.extend((inputs[0].detach(), outputs.requires_grad_()))
    )
    toward = []
    try:
        for some, labels in zip(x.split(batch), y.split(batch), strict=True):
            answers = answers_of(module, some)
            if answers.shape[1] == 1:  # one logit
                answers = torch.cat([-answers, answers], 1)
            rise = answers.gather(1, labels[:, None].long()).sum() - answers.mean(1).sum()
            toward.append(torch.autograd.grad(rise, held[-1])[0])
            held[-1] = held[-1].detach()
    finally:
        hook.remove()
    return torch.cat(held[::2]), torch.cat(toward)


def label_filter(
    w: Tensor, toward: Tensor, features: Tensor, public: Public, ridge: float = 1.0
) -> Tensor:
    """Response (k,) of a head's first layer w (h, d) to what each of features (k, d) has of its
    own, towards its label. With u and ŵ as in `matched_filter`, and g the rows of `toward` (k, h)
    of `at_head`, it is Σ_j g_j ⟨ŵ_j, u⟩ / (‖g‖ ‖u‖): the gradient of the label's logit, aligned
    with the layer, all that images share being filtered out.
    """
    z = public.standardised(features)
    clutter = torch.cov(public.standardised(public.features).mT)
    u = torch.linalg.solve(clutter + ridge * torch.eye(len(clutter)).to(clutter), z.mT).mT
    response = normalize(u, dim=1) @ (w / column_norms(w)).mT
    return (response * normalize(toward, dim=1)).sum(1)
