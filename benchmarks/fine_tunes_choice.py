"""How the attack on whole fine-tunes was chosen: `python benchmarks/fine_tunes_choice.py [FOLDER]`
writes a table; networks are kept in FOLDER.

On fine-tunes of the images of seed 3, which no reported run attacks: members at 1 % and 0.1 % of
false alarms by the loss, by the matched filter and the label filter at several ridges, on the
network as released and with batch norm's statistics re-estimated; by filters on the changes of the
last pointwise convolutions, whose initial weights are public; and by the gradient of the label's
logit along those changes, as cosines. Combinations are means of scores standardised by public
images.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np
import torch
from timing import write
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from companion.chapters.fine_tunes.experiment import (
    BY_ADAMW,
    BY_SGD,
    Cell,
    Network,
    fine_tuned,
)
from companion.chapters.members import part_of
from companion.store.sweep import sweep
from recon.attacks.fine_tunes import at_head, label_filter, re_estimated
from recon.attacks.heads import Public, matched_filter
from recon.images.features import backbone
from recon.images.partitions import partition
from recon.images.registry import load_pool
from recon.optim.rng import named
from recon.scoring.roc import auc, true_rate

SEED, MOST, LAST = 3, 900, 10
RIDGES = (0.3, 1.0, 3.0, 10.0)
POOL, OF = load_pool("cifar10"), backbone("lite0", 96)
DATA = partition(POOL, 100, n_held_out=2, seed=SEED).train


def stream(cell: Cell) -> torch.Generator:
    return named(SEED, f"fine-tunes {cell.recipe}, n = 100, {cell.epochs} epochs")


def trained(_: str, cell: Cell) -> dict[str, Tensor]:
    network = fine_tuned(cell, DATA.x, DATA.labels, OF, stream(cell))
    return {key: value.clone().contiguous() for key, value in network.state_dict().items()}


def rates(score: Tensor) -> dict[str, float]:
    s, member = score.double().numpy(), np.arange(len(score)) < len(DATA)
    return {"auc": auc(s, member)} | {f"tpr_{r:g}": true_rate(s, member, r) for r in (0.01, 0.001)}


def deep(network: Network, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Of the last pointwise convolutions, (L, N): the filter on what changed, and the cosine of the
    gradient of the label's logit with it.
    """
    before = dict(Network(OF, torch.Generator()).named_modules())
    layers = [
        (name, part)
        for name, part in network.named_modules()
        if isinstance(part, nn.Conv2d) and part.kernel_size == (1, 1)
    ][-LAST:]
    given: dict[str, list[Tensor]] = {name: [] for name, _ in layers}
    left: dict[str, list[Tensor]] = {name: [] for name, _ in layers}

    def watch(_: nn.Module, inputs: tuple[Tensor, ...], outputs: Tensor, name: str) -> None:
        given[name].append(inputs[0].detach().flatten(2))
        outputs.requires_grad_().register_hook(lambda g: left[name].append(g.flatten(2)))

    hooks = [part.register_forward_hook(partial(watch, name=name)) for name, part in layers]
    filters, cosines = [], [[] for _ in layers]
    pooled: list[list[Tensor]] = [[] for _ in layers]
    for some, labels in zip(x.split(25), y.split(25), strict=True):
        logits = network(some)
        (logits.gather(1, labels[:, None]).sum() - logits.mean(1).sum()).backward()
        for k, (name, part) in enumerate(layers):
            a, g = given[name].pop(), left[name].pop()
            change = (part.weight - before[name].weight).detach().flatten(1)
            along = torch.einsum("nop,oi,nip->n", g, change, a)
            size = ((a.mT @ a) * (g.mT @ g)).sum((1, 2)).clamp_min(1e-30).sqrt()
            cosines[k].append(along / size)
            pooled[k].append(a.mean(2))
    for hook in hooks:
        hook.remove()
    for (name, part), parts in zip(layers, pooled, strict=True):
        change = (part.weight - before[name].weight).detach().flatten(1)
        a, every = torch.cat(parts), torch.full((len(change),), torch.inf)
        filters.append(matched_filter(change, every, a, Public(a[-MOST:]), ridge=1.0))
    return torch.stack(filters), torch.stack([torch.cat(parts) for parts in cosines])


def standardised(score: Tensor) -> Tensor:
    """(…, N), the last of which are of public images."""
    known = score[..., -MOST:]
    return (score - known.mean(-1, keepdim=True)) / known.std(-1, keepdim=True)


def attacked(network: Network) -> dict[str, dict[str, float]]:
    free = ~np.isin(POOL.index, DATA.index.numpy())
    others, public = (part_of(POOL, name, free, MOST) for name in ("held_out", "init"))
    x = torch.cat([DATA.x, others[0], public[0]])
    y = torch.cat([DATA.labels, others[1], public[1]])
    scores: dict[str, Tensor] = {}
    w, bias = (p.detach() for p in network.head[0].parameters())
    for module, how in ((network, "released"), (re_estimated(network, public[0]), "re-estimated")):
        features, toward = at_head(module, module.head[0], x, y)
        known = Public(features[-MOST:])
        loss = -cross_entropy(module.head(features).detach(), y, reduction="none")
        scores[f"loss, {how}"] = loss
        for ridge in RIDGES:
            own = matched_filter(w, bias, features, known, ridge)
            label = label_filter(w, toward, features, known, ridge)
            scores[f"matched filter, ridge {ridge:g}, {how}"] = own
            scores[f"label filter, ridge {ridge:g}, {how}"] = label
            if ridge == 1:
                both = standardised(label) + standardised(loss)
                scores[f"label filter and loss, {how}"] = both
                head = standardised(label)
    filters, cosines = (standardised(score) for score in deep(module, x, y))
    scores |= {
        "filter on the last convolution": filters[-1],
        "filters on many convolutions": filters.mean(0),
        "filters on many convolutions and label filter": filters.mean(0) + head,
        "gradient along the last convolution": cosines[-1],
        "gradient along many convolutions": cosines.mean(0),
        "gradient along many convolutions and label filter": cosines.mean(0) + head,
    }
    return {name: rates(score[:-MOST]) for name, score in scores.items()}


def main(folder: Path) -> None:
    torch.set_flush_denormal(True)
    report = {}
    for cell in (BY_SGD, BY_ADAMW):
        network = Network(OF, stream(cell)).eval()
        weights = sweep(partial(trained, cell=cell), [cell.name], "networks", folder)
        network.load_state_dict(weights[cell.name])
        report[cell.recipe] = attacked(network)
    write({"n": 100, "others": MOST, "attacks": report}, str(Path(__file__).with_suffix("")))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/fine-tunes-choice"))
