"""Chapter 18's last question: what one image's gradient gives away during training, and what the weights do."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recon.attacks.recover import recover
from recon.chapters.base import Context, Tensors
from recon.chapters.common import nulls_of
from recon.chapters.leakage_beyond.metrics import ReadOut, Stage, ThreatModels, WeightsAttacked
from recon.chapters.leakage_beyond.sizes import Sizes
from recon.chapters.tables import flat
from recon.images.bundle import Bundle
from recon.nets.mlp import MLP, Params, three_layer
from recon.released import Weights
from recon.scoring.matching import one_to_one, rescale
from recon.scoring.metrics import ncc
from recon.scoring.nulls import null_curves, null_table
from recon.training.kkt import KKTSettings, Observer, log_logistic_loss, margins, train_to_kkt

SHOWN = 4
STAGES = (10, 20, 25, 30, 40, 50, 100, 200, 400)  # steps of training at which the gradient is attacked


@dataclass(frozen=True)
class Training:
    """A network, its images, its parameters (p,) at every stage of training, and the images that are shown.

    Those are chosen by their place in the training set, not by how well they come out.
    """

    network: MLP
    images: Bundle
    stages: dict[int, Tensor]
    shown: Tensor

    @staticmethod
    def of(context: Context, sizes: Sizes) -> Training:
        """Of a three-layer net, from the start to `train_steps`."""
        images = context.images(sizes.n_train)
        network = three_layer(sizes.width, images.train.shape[1])
        theta_init = network.flatten(network.init(context.stream("kkt.weights"), "small")).to(images.train)
        stages: dict[int, Tensor] = {0: theta_init}
        seen = [k for k in STAGES if k < sizes.train_steps]
        observer = Observer(seen, lambda k, theta: stages.update({k: theta.clone()}))
        settings = KKTSettings(sizes.train_steps)
        end = train_to_kkt(network, images.train, images.y, theta_init, settings, observer=observer)
        stages[sizes.train_steps] = end.theta_star
        shown = torch.linspace(0, sizes.n_train - 1, 2 * SHOWN).round().long()
        return Training(network, images, stages, shown)

    def read(self, theta: Tensor, precision: torch.dtype) -> tuple[Tensor, float]:
        """The images shown, each from its own gradient at θ, (2 · SHOWN, d); and their mean NCC with the truth."""
        params = self.network.unflatten(theta.to(precision))
        x, y = self.images.train.to(precision), self.images.y.to(precision)
        found = torch.stack([first_layer_input(self.network, params, x[i], y[i]) for i in self.shown])
        return found, ncc(found, x[self.shown]).diagonal().mean().item()


def threat_models(context: Context, sizes: Sizes) -> tuple[ThreatModels, Tensors]:
    """One three-layer net, one training set: gradients at every stage, and the weights at some."""
    training, last = Training.of(context, sizes), sizes.train_steps
    mean, shown = training.images.mean, training.shown
    stages = [stage(training, k) for k in training.stages]
    weights = []
    for k in sorted({*sizes.weights_at, last}):
        row, x_hat, scores = weights_attacked(training, k, sizes, context)
        weights.append(row)
    arrays = {  # the loop ends at the last step
        "threat weights": x_hat,
        "threat truth": training.images.train[shown] + mean,
        "threat gradient, untrained": training.read(training.stages[0], torch.float32)[0] + mean,
        "threat gradient, trained": training.read(training.stages[last], torch.float32)[0] + mean,
    }
    by_step = {row.step: row.gradient_ncc_32 for row in stages}
    read_out = ReadOut(gradient_untrained=by_step[0], gradient_trained=by_step[last], weights=scores)
    return ThreatModels(n_train=sizes.n_train, stages=stages, weights=weights, ncc=read_out), arrays


def stage(training: Training, step: int) -> Stage:
    """One image's gradient at one step, the mean over those shown; and the loss there."""
    theta, images, network = training.stages[step], training.images, training.network
    return Stage(
        step=step,
        gradient_ncc_32=training.read(theta, torch.float32)[1],
        gradient_ncc_64=training.read(theta, torch.float64)[1],
        log_loss=log_logistic_loss(margins(network, network.unflatten(theta), images.train, images.y)).item(),
    )


def weights_attacked(
    training: Training, step: int, sizes: Sizes, context: Context
) -> tuple[WeightsAttacked, Tensor, list[float]]:
    """DecoReco on the weights of one step, and its nulls; the candidates matched with the images shown, rescaled, and
    their NCC."""
    images, network, theta = training.images, training.network, training.stages[step]
    checkpoints = context.checkpoints.inside(f"weights-{step}")
    found = recover(Weights(network, theta), sizes.attack, context.stream("kkt.attack"), checkpoints)
    matched, null = one_to_one(images.train, found.x_hat), one_to_one(images.held_out, found.x_hat)
    nulls = nulls_of(context, images, network, theta, len(found.x_hat), found.basis)
    null_ncc = {name: curve.mean().item() for name, curve in null_curves(nulls, images.train).items()}
    null_ncc["held_out"] = null.score.mean().item()
    best = max(null_ncc, key=lambda name: null_ncc[name])
    table = null_table(nulls, images.train, images.held_out, images.mean, found.x_hat, images.shape)
    row = WeightsAttacked(
        **flat(table),
        step=step,
        above_06=int((matched.score > 0.6).sum()),
        null_above_06=int((null.score > 0.6).sum()),
        ncc=matched.score.mean().item(),
        null_ncc=null.score.mean().item(),
        best_null_ncc=null_ncc[best],
        best_null_ncc_name=best,
    )
    x_hat = rescale(found.x_hat[matched.index[training.shown]] + images.mean)
    return row, x_hat, matched.score[training.shown].tolist()


def first_layer_input(network: MLP, theta: Params, x: Tensor, y: Tensor) -> Tensor:
    """Eq. (4) on the first layer of an MLP with bias, from the gradient of one image's logistic loss; (d,).

    x (d,), y () in {0, 1}.  Zeros where the gradient has underflowed: nothing is left to divide.
    """
    leaves = {name: value.clone().requires_grad_() for name, value in theta.items()}
    loss = torch.nn.functional.softplus(-margins(network, leaves, x[None], y[None])).sum()
    matrix, bias = torch.autograd.grad(loss, (leaves["w1"], leaves["b1"]))
    row = bias.abs().argmax()
    return matrix[row] / bias[row] if bias[row] != 0 else torch.zeros_like(x)
