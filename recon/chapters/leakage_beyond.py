"""Chapter 16: noise on the gradient, batches, other activations, and both threat models side by side."""

from __future__ import annotations

import torch
from torch import Tensor

from recon.attacks.fully_connected import features_from_fully_connected
from recon.attacks.gradient_matching import cosine_tv_authors
from recon.attacks.recover import recover
from recon.attacks.rgap import rgap
from recon.chapters.base import Context, Experiment
from recon.chapters.decoreco_shared import Centred, best_text, nulls_of
from recon.chapters.leakage_shared import Attacked, Victims, pixels
from recon.chapters.plots import leakage as plots
from recon.chapters.profiles import LEAKAGE_BEYOND, LeakageBeyond
from recon.nets.conv import SEED, ConvNet
from recon.nets.mlp import MLP, Params, three_layer
from recon.released import Gradient
from recon.scoring.matching import one_to_one, rescale
from recon.scoring.metrics import mse, ncc, psnr
from recon.scoring.nulls import clears, null_curves, null_table
from recon.store.results import Claim, Outcome
from recon.training.kkt import log_logistic_loss, margins, train_to_kkt

SHOWN = 4
STAGES = (10, 20, 25, 30, 40, 50, 100, 200, 400)  # steps of training at which the gradient is attacked


def run(config: LeakageBeyond, context: Context) -> Outcome:
    """Four questions, one after the other.  The run's seed draws the images of the last only: those of the others are
    the paper's victims, the same at every seed."""
    found = Victims.of(context.pool)
    attacked = Attacked.of(config.network, context.pool)
    network, theta = attacked.network, attacked.theta
    arrays = {"truth": pixels(found.x)}
    metrics = {
        "network": config.network,
        "noise": noise(network, theta, found, config),
        "batches": batches(context, config, arrays),
        "activations": activations(network, theta, found, config, context, arrays),
        "threat_models": threat_models(context, config, arrays),
    }
    return Outcome(metrics, claims(metrics), arrays)


def noise(network: ConvNet, theta: Params, found: Victims, config: LeakageBeyond) -> dict:
    """PSNR (peak 1) of R-GAP, and of eq. (4)'s features, against N(0, σ²) on every gradient entry; (σ, images · draws).

    σ is relative to the root mean square of each tensor; the features' PSNR is relative to their own range [−1, 1].
    """
    clean = Gradient.of(network, theta, found.x, found.labels)
    features = features_from_fully_connected(clean)
    by_rgap, by_features = [], []
    for sigma in config.noise:
        image_rows, feature_rows = [], []
        for draw in range(config.draws):
            own = torch.Generator().manual_seed(draw)
            gradient = Gradient.of(network, theta, found.x, found.labels, sigma, own)
            x = torch.cat([rgap(victim, check=False) for victim in gradient.split()])
            image_rows += psnr(mse(x, found.x)).tolist()
            noisy = features_from_fully_connected(gradient, check=False)
            feature_rows += psnr(mse(noisy, features), peak=2.0).tolist()
        by_rgap.append(image_rows)
        by_features.append(feature_rows)
    grey = psnr(mse(torch.zeros_like(found.x), found.x)).mean().item()
    return {"sigma": list(config.noise), "rgap": by_rgap, "features": by_features, "grey": grey}


def batches(context: Context, config: LeakageBeyond, arrays: dict) -> dict:
    """Eq. (4) on batches: each row k of the layer gives its own mixture Σ_i w_ki x_i, w_ki = ∂ℓ_i/∂b_k / Σ_i ∂ℓ_i/∂b_k.

    share_of_own: |w_ki| over Σ_j |w_kj| for the label k = y_i of image i, mean over the rows shown.
    """
    found = Victims.of_each_class(context.pool, max(config.batches))
    arrays["batch truth"] = pixels(found.x)
    network = ConvNet(())
    theta = network.init(torch.Generator().manual_seed(SEED), torch.float64)
    weight, bias_name = network.last
    errors, mixture_errors, own = [], [], []
    for size in config.batches:
        x, labels = found.x[:size], found.labels[:size]
        each = network.gradients(theta, x, labels)[bias_name]  # ∂ℓ_i/∂b (size, classes)
        gradient = Gradient.averaged(network, theta, x, labels)
        bias, matrix = gradient.gradients[bias_name][0], gradient.gradients[weight][0]
        rows = labels[:SHOWN]  # ∂ℓ_i/∂b_k is negative for k = y_i only: the row of a label is mostly its image's
        recovered = matrix[rows] / bias[rows, None]
        shares = (each / each.sum(0))[:, rows].T
        mixture_errors.append((recovered - shares @ x.flatten(1)).abs().max().item())
        errors.append(mse(recovered.view(-1, *network.shape), x[: len(rows)]).mean().item())
        own.append((shares.diagonal().abs() / shares.abs().sum(1)).mean().item())
        arrays[f"batch {size}"] = pixels(recovered.view(-1, *network.shape))
    return {
        "sizes": list(config.batches),
        "mse_to_own_image": errors,
        "share_of_own": own,
        "mixture_error": mixture_errors,
        **convolutional_batch(config, context, found),
    }


def convolutional_batch(config: LeakageBeyond, context: Context, found: Victims) -> dict:
    """R-GAP on the mean gradient of two images, of different and of the same label: MSE to the nearer of the two."""
    attacked = Attacked.of(config.network, context.pool)
    network, theta = attacked.network, attacked.theta
    errors = {}
    for key, labels in (("different labels", found.labels[:2]), ("same label", found.labels[:1].expand(2))):
        gradient = Gradient.averaged(network, theta, found.x[:2], labels)
        x = rgap(gradient, check=False).expand(2, -1, -1, -1)
        errors[key] = mse(x, found.x[:2]).min().item()
    grey = mse(torch.zeros_like(found.x[:2]), found.x[:2]).min().item()
    return {"rgap_mse": errors, "grey_mse": grey}


def activations(
    network: ConvNet, theta: Params, found: Victims, config: LeakageBeyond, context: Context, arrays: dict
) -> dict:
    """The same layers with Tanh, LeakyReLU and ReLU: R-GAP where it is defined, gradient matching for all."""
    rows = {}
    for name in ("tanh", "leaky_relu", "relu"):
        other = network.with_activation(name)
        gradient = Gradient.of(other, theta, found.x, found.labels)
        if name != "relu":
            x = torch.cat([rgap(victim) for victim in gradient.split()])
            rows[f"{name}, R-GAP"] = mse(x, found.x).mean().item()
            arrays[f"activation {name}, R-GAP"] = pixels(x)
        file = context.checkpoints / f"activation-{name}.safetensors"
        matched = cosine_tv_authors(gradient.to(torch.float32), SEED, config.match_steps, file).x_hat.view_as(found.x)
        rows[f"{name}, matching"] = mse(matched.double(), found.x).mean().item()
        arrays[f"activation {name}, matching"] = pixels(matched)
    return rows


def first_layer_leak(network: MLP, theta: Params, x: Tensor, y: Tensor) -> Tensor:
    """Eq. (4) on the first layer of an MLP with bias, from the gradient of one image's logistic loss; (d,).

    x (d,), y () in {0, 1}.  Zeros where the gradient has underflowed: nothing is left to divide.
    """
    leaves = {name: value.clone().requires_grad_() for name, value in theta.items()}
    loss = torch.nn.functional.softplus(-margins(network, leaves, x[None], y[None])).sum()
    matrix, bias = torch.autograd.grad(loss, (leaves["w1"], leaves["b1"]))
    row = bias.abs().argmax()
    return matrix[row] / bias[row] if bias[row] != 0 else torch.zeros_like(x)


def threat_models(context: Context, config: LeakageBeyond, arrays: dict) -> dict:
    """One three-layer net, one training set: what one image's gradient gives away during training, and what the weights
    do.  Images are chosen by their place in the training set, not by how well they come out."""
    images = Centred.of(context, config.n_train)
    network = three_layer(config.width, images.train.shape[1])
    theta_init = network.flatten(network.init(context.generator(1), "small")).to(images.train)
    shown = torch.linspace(0, config.n_train - 1, 2 * SHOWN).round().long()
    stages: dict[int, Tensor] = {0: theta_init}
    steps = [k for k in STAGES if k < config.train_steps]
    start = train_to_kkt(
        *(network, images.train, images.y, theta_init, config.train_steps),
        observe=lambda k, theta: stages.update({k: theta.clone()}),
        observe_at=steps,
    )
    stages[config.train_steps] = start.theta_star
    by_stage = []
    for k, theta in stages.items():
        row: dict = {"step": k}
        for precision in (torch.float32, torch.float64):
            params = network.unflatten(theta.to(precision))
            x, y = images.train.to(precision), images.y.to(precision)
            read = torch.stack([first_layer_leak(network, params, x[i], y[i]) for i in shown])
            row[f"gradient_ncc_{str(precision)[-2:]}"] = ncc(read, x[shown]).diagonal().mean().item()
            if k in (0, config.train_steps) and precision == torch.float32:
                arrays[f"threat gradient, {'trained' if k else 'untrained'}"] = read + images.mean
        row["log_loss"] = log_logistic_loss(margins(network, network.unflatten(theta), images.train, images.y)).item()
        by_stage.append(row)
    attacked = []
    for k in sorted({*config.weights_at, config.train_steps}):
        found = recover(network, stages[k], config.attack, context.generator(2), context.checkpoints / f"weights-{k}")
        matched, null = one_to_one(images.train, found.x_hat), one_to_one(images.held_out, found.x_hat)
        nulls = nulls_of(context, images, network, stages[k], len(found.x_hat), found.basis)
        null_ncc = {name: curve.mean().item() for name, curve in null_curves(nulls, images.train).items()}
        null_ncc["held_out"] = null.score.mean().item()
        attacked.append(
            {
                "step": k,
                "above_0.6": int((matched.score > 0.6).sum()),
                "null_above_0.6": int((null.score > 0.6).sum()),
                "ncc": matched.score.mean().item(),
                "null_ncc": null.score.mean().item(),
                "best_null_ncc": max(null_ncc.values()),
                "best_null_ncc_name": max(null_ncc, key=lambda name: null_ncc[name]),
                **null_table(nulls, images.train, images.held_out, images.mean, found.x_hat),
            }
        )
        if k == config.train_steps:
            arrays["threat weights"] = rescale(found.x_hat[matched.index[shown]] + images.mean)
            weights_ncc = matched.score[shown].tolist()
    arrays["threat truth"] = images.train[shown] + images.mean
    by_key = {stage["step"]: stage["gradient_ncc_32"] for stage in by_stage}
    return {
        "n_train": config.n_train,
        "stages": by_stage,
        "weights": attacked,
        "ncc": {
            "gradient, untrained": by_key[0],
            "gradient, trained": by_key[config.train_steps],
            "weights": weights_ncc,
        },
    }


def claims(metrics: dict) -> list[Claim]:
    """One sentence each."""
    level = metrics["noise"]
    means = [sum(values) / len(values) for values in level["rgap"]]
    lost = next((s for s, v in zip(level["sigma"], means, strict=True) if v <= level["grey"]), None)
    error = max(metrics["batches"]["mixture_error"])
    rows, sizes = metrics["activations"], metrics["batches"]["sizes"]
    mixed = metrics["batches"]

    def harder(attack: str) -> str:
        leaky, tanh = rows[f"leaky_relu, {attack}"], rows[f"tanh, {attack}"]
        return "harder" if leaky > 1.1 * tanh + 1e-6 else "no harder"

    return [
        Claim(
            "leakage-noise",
            "C&C Appendix G",
            "Noise on the gradient is a defence left open; how much does R-GAP take?",
            "open",
            f"mean PSNR (peak 1) {means[0]:.0f} dB at σ = {level['sigma'][0]:g}, {means[-1]:.0f} dB at "
            f"{level['sigma'][-1]:g}; "
            + (f"no better than grey from σ = {lost:g}" if lost else "the mean is better than grey throughout")
            + f", single runs down to {min(map(min, level['rgap'])):.0f} dB",
            f"a grey image: {level['grey']:.0f} dB",
            "finding",
        ),
        Claim(
            "leakage-batches",
            "C&C 5, Appendix G",
            "For batches larger than one eq. (4) returns mixtures of the images.",
            "batch size 1 only",
            f"equal to Σ w_i x_i up to {error:.0e} in a pixel; share of the label's own image "
            + ", ".join(f"{s:.0%} (n = {n})" for n, s in zip(sizes, mixed["share_of_own"], strict=True))
            + f"; R-GAP through {metrics['network']} on two images: MSE {mixed['rgap_mse']['different labels']:.3g}, "
            f"with one label {mixed['rgap_mse']['same label']:.3g}",
            "equal shares " + ", ".join(f"{1 / n:.0%}" for n in sizes) + f"; grey: MSE {mixed['grey_mse']:.3g}",
            "finding",
        ),
        Claim(
            "leakage-activations",
            "",
            f"Without any constraint, LeakyReLU is {harder('matching')} than Tanh for gradient matching, and "
            f"{harder('R-GAP')} for R-GAP.",
            "LeakyReLU hard for constrained optimisation (Appendix G)",
            "MSE: " + ", ".join(f"{key} {value:.3g}" for key, value in rows.items()),
            "ReLU cannot be inverted: no R-GAP",
            "finding",
        ),
        threat_claim(metrics["threat_models"]),
    ]


def threat_claim(measured: dict) -> Claim:
    """When a gradient holds its image, and when the weights hold theirs.

    The gradient must do so at some step, and the weights' count clear the best null at some step.
    """
    stages, weights = measured["stages"], measured["weights"]
    early = [stage["log_loss"] for stage in stages if stage["gradient_ncc_32"] > 0.99]
    late = [stage["log_loss"] for stage in stages if stage["gradient_ncc_32"] < 0.01]
    held = f"NCC above 0.99 down to a loss of exp({min(early):.0f})" if early else "never above NCC 0.99"
    gone = f", below 0.01 from exp({max(late):.0f}) on, in float32" if late else ""
    counts = ", ".join(f"{row['above_0.6']} (step {row['step']})" for row in weights)
    cleared = [row["step"] for row in weights if clears(row["above_0.6"], row["best_null"]["ncc_0.6"])]
    clear = (
        f"clear of the best null at step {', '.join(map(str, cleared))}" if cleared else "never clear of the best null"
    )
    holds = (bool(early), bool(cleared))
    return Claim(
        "leakage-two-threat-models",
        "",
        "During training one gradient holds its image until it underflows, and the weights come to hold images.",
        "",
        f"gradient: {held}{gone}; weights: {counts} of {measured['n_train']} images above NCC 0.6, {clear}",
        "best null: "
        + ", ".join(best_text(row) for row in weights)
        + "; held out: "
        + ", ".join(str(row["null_above_0.6"]) for row in weights),
        "finding" if all(holds) else "partly" if any(holds) else "not reproduced",
    )


EXPERIMENT = Experiment(
    name="leakage-beyond",
    chapter="16-leakage-beyond",
    section="C&C 5",
    summary="noise, batches, activations, and what a gradient leaks against what weights leak",
    cost={"smoke": "10 s", "laptop": "6 min", "paper": "20 min"},
    configs=LEAKAGE_BEYOND,
    run=run,
    figures={
        "noise": plots.plot_noise,
        "batches": plots.plot_batches,
        "activations": plots.plot_activations,
        "threat-models": plots.plot_threat_models,
        "stages": plots.plot_stages,
    },
)
