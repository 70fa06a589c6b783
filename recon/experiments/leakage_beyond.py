"""Chapter 14: noise on the gradient, batches, other activations, and both threat models side by side."""

from __future__ import annotations

import torch
from torch import Tensor

from recon.experiments.base import Context, Experiment
from recon.experiments.decoreco_shared import Centred, train_released
from recon.experiments.leakage_shared import FIRST_OF_CLASS, Victims, pixels
from recon.experiments.profiles import LEAKAGE_BEYOND, LeakageBeyond
from recon.kkt import margins
from recon.leakage.gradient_matching import cosine_tv_authors, victims
from recon.leakage.leak import Leak, averaged_gradient, features_from_fully_connected, mse, psnr
from recon.leakage.networks import SEED, TABLE_1, ConvNet
from recon.leakage.rgap import rgap
from recon.matching import one_to_one
from recon.metrics import ncc
from recon.networks import MLP, Params, three_layer
from recon.plots import leakage as plots
from recon.recover import recover
from recon.results import Claim, Outcome

SHOWN = 4


def run(config: LeakageBeyond, context: Context) -> Outcome:
    """Four questions, one after the other."""
    found = Victims.of(context.pool)
    network = TABLE_1[config.network]
    weights = [weight.double() for weight in network.init(SEED)]
    arrays = {"truth": pixels(found.x)}
    metrics = {
        "network": config.network,
        "noise": noise(network, weights, found, config),
        "batches": batches(context, config, arrays),
        "activations": activations(network, weights, found, config, context, arrays),
        "threat_models": threat_models(context, config, arrays),
    }
    return Outcome(metrics, claims(metrics), arrays)


def noise(network: ConvNet, weights: list[Tensor], found: Victims, config: LeakageBeyond) -> dict:
    """PSNR (peak 1) of R-GAP, and of eq. (4)'s features, against N(0, σ²) on every gradient entry; (σ, images · draws).

    σ is relative to the root mean square of each tensor; the features' PSNR is relative to their own range [−1, 1].
    """
    clean = Leak.of(network, weights, found.x, found.labels)
    features = features_from_fully_connected(clean)
    by_rgap, by_features = [], []
    for sigma in config.noise:
        image_rows, feature_rows = [], []
        for draw in range(config.draws):
            leak = Leak.of(network, weights, found.x, found.labels, sigma, seed=draw)
            x = torch.cat([rgap(victim, check=False) for victim in victims(leak)])
            image_rows += psnr(mse(x, found.x)).tolist()
            noisy = features_from_fully_connected(leak, check=False)
            feature_rows += psnr(mse(noisy, features), peak=2.0).tolist()
        by_rgap.append(image_rows)
        by_features.append(feature_rows)
    grey = psnr(mse(torch.zeros_like(found.x), found.x)).mean().item()
    return {"sigma": list(config.noise), "rgap": by_rgap, "features": by_features, "grey": grey}


def batches(context: Context, config: LeakageBeyond, arrays: dict) -> dict:
    """Eq. (4) on batches: each row k of the layer gives its own mixture Σ_i w_ki x_i, w_ki = ∂ℓ_i/∂b_k / Σ_i ∂ℓ_i/∂b_k.

    Also whether the check of a single image notices.
    """
    found = Victims.of(context.pool, tuple(FIRST_OF_CLASS.values())[: max(config.batches)])
    arrays["batch truth"] = pixels(found.x)
    network = ConvNet(())
    weights = [weight.double() for weight in network.init(SEED)]
    errors, mixture_errors = [], []
    for size in config.batches:
        x, labels = found.x[:size], found.labels[:size]
        each = network.gradients(weights, x, labels)[-1]  # ∂ℓ_i/∂b (size, classes)
        leak = averaged_gradient(network, weights, x, labels)
        bias, matrix = leak.gradients[-1][0], leak.gradients[-2][0]
        rows = bias.abs().argsort(descending=True)[:SHOWN]
        recovered = matrix[rows] / bias[rows, None]
        shares = (each / each.sum(0))[:, rows].T
        mixture_errors.append((recovered - shares @ x.flatten(1)).abs().max().item())
        errors.append(mse(recovered.view(-1, *network.shape), x[shares.abs().argmax(1)]).mean().item())
        arrays[f"batch {size}"] = pixels(recovered.view(-1, *network.shape))
    return {"sizes": list(config.batches), "mse_to_main_image": errors, "mixture_error": mixture_errors}


def activations(
    network: ConvNet, weights: list[Tensor], found: Victims, config: LeakageBeyond, context: Context, arrays: dict
) -> dict:
    """The same layers with Tanh, LeakyReLU and ReLU: R-GAP where it is defined, gradient matching for all."""
    rows = {}
    for name in ("tanh", "leaky_relu", "relu"):
        other = network.with_activation(name)
        leak = Leak.of(other, weights, found.x, found.labels)
        if name != "relu":
            x = torch.cat([rgap(victim) for victim in victims(leak)])
            rows[f"{name}, R-GAP"] = mse(x, found.x).mean().item()
            arrays[f"activation {name}, R-GAP"] = pixels(x)
        file = context.checkpoints / f"activation-{name}.safetensors"
        matched = cosine_tv_authors(leak.to(torch.float32), SEED, config.match_steps, file).x_hat.view_as(found.x)
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
    """One three-layer net, one training set: what one gradient gives away before and after training, and what the
    weights do.  The images shown are those that the weights give away best."""
    images = Centred.of(context, config.n_train)
    released = train_released(context, images, config.width, config.train_steps)
    network = three_layer(config.width, images.train.shape[1])
    untrained = network.init(context.generator(1), "small")
    found = recover(
        released.network, released.theta_star, config.attack, context.generator(2), context.checkpoints / "weights"
    )
    matched = one_to_one(images.train, found.x_hat)
    shown = matched.score.argsort(descending=True)[: 2 * SHOWN]
    trained = network.unflatten(released.theta_star)
    by_gradient = {
        key: torch.stack(
            [first_layer_leak(network, theta, images.train[i : i + 1], images.y[i : i + 1]) for i in shown.tolist()]
        )
        for key, theta in (("gradient, untrained", untrained), ("gradient, trained", trained))
    }
    rows = {**by_gradient, "weights": found.x_hat[matched.index[shown]]}
    arrays["threat truth"] = images.train[shown] + images.mean
    quality = {}
    for key, x in rows.items():
        arrays[f"threat {key}"] = x + images.mean
        quality[key] = ncc(x, images.train[shown]).diagonal().tolist()
    return {
        "n_train": config.n_train,
        "ncc": quality,
        "above_0.6": {
            "weights": int((matched.score > 0.6).sum()),
            "weights, held out": int((one_to_one(images.held_out, found.x_hat).score > 0.6).sum()),
        },
        "log_loss": released.trained.log_loss,
    }


def claims(metrics: dict) -> list[Claim]:
    """One sentence each."""
    level, quality = metrics["noise"], metrics["threat_models"]["ncc"]
    means = [sum(values) / len(values) for values in level["rgap"]]
    lost = next((s for s, v in zip(level["sigma"], means, strict=True) if v <= level["grey"]), None)
    error = max(metrics["batches"]["mixture_error"])
    rows = metrics["activations"]
    mean = {key: sum(values) / len(values) for key, values in quality.items()}
    return [
        Claim(
            "leakage-noise",
            "C&C 5",
            "Noise on the gradient is a defence left open; how much does R-GAP take?",
            "open",
            f"PSNR (peak 1) {means[0]:.0f} dB at σ = {level['sigma'][0]:g}, {means[-1]:.0f} dB at "
            f"{level['sigma'][-1]:g}; "
            + (f"no better than grey from σ = {lost:g}" if lost else "better than grey throughout"),
            f"a grey image: {level['grey']:.0f} dB",
            "finding",
        ),
        Claim(
            "leakage-batches",
            "C&C 5",
            "For batches larger than one eq. (4) still returns something: a known mixture of the images.",
            "batch size 1 only",
            f"equal to Σ w_i x_i up to {error:.0e} in a pixel, for batches of {metrics['batches']['sizes']}",
            "",
            "finding",
        ),
        Claim(
            "leakage-activations",
            "C&C 5",
            "LeakyReLU is hard for gradient matching, not for linear systems; ReLU closes R-GAP, not matching.",
            "LeakyReLU hard",
            ", ".join(f"{key} {value:.3g}" for key, value in rows.items()),
            "",
            "finding",
        ),
        Claim(
            "leakage-two-threat-models",
            "",
            "A gradient gives everything away before training and nothing after it; the weights do the reverse.",
            "",
            "mean NCC of the same images: " + ", ".join(f"{key} {value:.2f}" for key, value in mean.items()),
            f"held-out images above 0.6 from the weights: {metrics['threat_models']['above_0.6']['weights, held out']}",
            "finding",
        ),
    ]


EXPERIMENT = Experiment(
    name="leakage-beyond",
    chapter="14-leakage-beyond",
    section="C&C 5",
    summary="noise, batches, activations, and what a gradient leaks against what weights leak",
    cost={"smoke": "10 s", "laptop": "3 min", "paper": "20 min"},
    configs=LEAKAGE_BEYOND,
    run=run,
    figures={
        "noise": plots.plot_noise,
        "batches": plots.plot_batches,
        "activations": plots.plot_activations,
        "threat-models": plots.plot_threat_models,
    },
)
