"""How much of its training set does *your* network give away?  Attack its weights, then compare with your images.

Three attacks (`recon.auditing.attacks`) are given the weights, the architecture, the shape and the number of the images,
never an image.  Only when they are done do images enter (`recon.auditing.scoring`): those the network was trained on, as
many that it never saw, and mixtures of the former, which nobody recovered.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recon.auditing.attacks import Attempt, attempts, check
from recon.auditing.inputs import Images, load_images, load_weights, mean_image
from recon.auditing.page import Picture, Row, page
from recon.auditing.scoring import Nulls, first_layer, matches, score
from recon.chapters.run import check_seed
from recon.errors import ReconError
from recon.nets.mlp import MLP
from recon.store.files import atomic_path
from recon.store.machine import device_name, resolve_device, versions

NEAR = 0.5  # share of what can be explained of layer 1: training images that reach it are "near stationarity"
SHOWN = 12
FOLDER = "audit-attack"  # in the output folder, whose own files (another program's checkpoints?) are left alone
PHRASES = {"separation": "by separation", "rows": "among the rows of the first layer", "decoreco": "by DecoReco"}


def audit(
    weights: Path,
    arch: str,
    data: Path,
    out: Path,
    *,
    profile: str = "laptop",
    seed: int = 0,
    device: str = "auto",
    mean: str = "image",
) -> dict[str, Any]:
    """Attack, score, write `out`/report.html and `out`/report.json; returns what the latter holds.

    Everything is checked before the attack starts.  ReconError for weights, images or settings that do not fit.
    """
    check_seed(seed)
    torch_device = resolve_device(device)
    network, theta_star, mapping = load_weights(weights, arch)
    train, held_out = load_images(data, network.dim)
    subtracted = mean_image(train, mean).to(torch_device)
    theta_star = theta_star.to(torch_device)
    check(theta_star, profile)
    torch.set_flush_denormal(True)
    with _writing(out):
        out.mkdir(parents=True, exist_ok=True)
        if not os.access(out, os.W_OK):
            raise PermissionError(0, "no permission to write there")
        shape = tuple(train.pixels.shape[1:])
        tried = attempts(network, theta_star, shape, len(train), profile, seed, out / FOLDER)
    report: dict[str, Any] = {
        "weights": {"file": weights.name, "sha256": hashlib.sha256(weights.read_bytes()).hexdigest(), "arch": arch},
        "tensors": mapping,
        "images": {"train": len(train), "held_out": len(held_out), "mean": mean},
        "seed": seed,
        "profile": profile,
        "device": device_name(torch_device),
        "versions": versions(),
        **_tried(network, theta_star, tried, train.flat - subtracted.cpu(), held_out.flat - subtracted.cpu()),
    }
    report["images"]["scored"] = n = min(len(train), len(held_out))
    parts = {"train": _subset(train, n, seed), "held_out": _subset(held_out, n, seed)}
    centred = {name: part.flat.to(torch_device) - subtracted for name, part in parts.items()}
    nulls = Nulls.of(network.unflatten(theta_star)["w1"], centred["train"], centred["held_out"], seed, shape)
    report["result"] = score({attempt.name: attempt.x_hat for attempt in tried}, nulls, subtracted)
    for attempt in tried:
        report["result"]["attacks"][attempt.name] |= _about(attempt)
    report["summary"] = summary(report)
    x_hat = next(attempt.x_hat for attempt in tried if attempt.name == report["result"]["attack"])
    pairs = {name: matches(x_hat, x, SHOWN) for name, x in centred.items()}
    report["matches"] = {
        name: [{"candidate": c, "image": parts[name].names[i], "ncc": value} for c, i, value in rows]
        for name, rows in pairs.items()
    }
    shown = [_pictures(x_hat, subtracted, parts[name], rows) for name, rows in pairs.items()]
    html = page(report, list(zip(*shown, strict=True)), regime(report["first_layer"]))
    with _writing(out):
        for name, text in (("report.html", html), ("report.json", json.dumps(report, indent=1) + "\n")):
            with atomic_path(out / name) as temporary:
                temporary.write_text(text, encoding="utf-8")
    return report


def _tried(network: MLP, theta_star: Tensor, tried: list[Attempt], train: Tensor, held_out: Tensor) -> dict[str, Any]:
    """What the report says of the attacks as a whole, and of DecoReco, the last of them; images centred, on the CPU."""
    decoreco = tried[-1]
    images = (train.to(theta_star), held_out.to(theta_star))
    return {
        "settings": asdict(decoreco.settings) if decoreco.settings else None,
        "seconds": round(sum(attempt.seconds for attempt in tried), 2),
        "multiplier_scale": decoreco.tensors["multiplier_scale"].item() if decoreco.tensors else None,
        "first_layer": first_layer(network, theta_star, decoreco.tensors, decoreco.settings, *images),
    }


def _about(attempt: Attempt) -> dict[str, Any]:
    """What the report says of one attack besides its counts."""
    about = {"how": attempt.how, "why_not": attempt.why_not, "seconds": round(attempt.seconds, 2)}
    return about | {"candidates": len(attempt.x_hat)}


def summary(report: dict[str, Any]) -> str:
    """The answer in one sentence: what the attack that decides has found."""
    result, n = report["result"], report["images"]["scored"]
    counted = (
        f"{result['targets']} of {n} training images came back above NCC {result['threshold']} "
        f"{PHRASES[result['attack']]}, and {result['decoys']} of {n} images that were never trained on "
        f"(p = {result['p_value']:.1g})"
    )
    return f"{counted}: " + (
        "these weights leak training images."
        if result["leak"]
        else "no evidence of leakage by any of three attacks, which is not a proof of privacy."
    )


def regime(explained: dict[str, Any]) -> str:
    """Whether the network is where DecoReco works, in words; shares as in `first_layer`."""
    true, ceiling = explained["by_training"], explained["searched"]
    if true is None or ceiling is None:
        return "Whether the network is where DecoReco works was not measured: too many images, or no active unit."
    start = (
        f"Only {ceiling:.0%} of the first layer stands out from its random start, and the attacks looked there alone. "
        if ceiling < NEAR
        else ""
    )
    if true >= NEAR * ceiling:
        near = (
            "The training images account for most of what can be explained: this is close to the stationarity "
            "condition that DecoReco inverts."
        )
        return start + near + (" What lies under the random start, they cannot see." if start else "")
    return start + (
        "The training images themselves account for less than half of what can be explained: the network is far from "
        "the stationarity condition that DecoReco inverts (short training, weight decay, another mean or scale of the "
        "inputs). Its silence here says little; separation does not need that condition."
    )


def _subset(images: Images, n: int, seed: int) -> Images:
    """n of them, drawn by `seed`, in their order: files are often sorted by class."""
    if len(images) == n:
        return images
    return images.take(sorted(torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))[:n].tolist()))


def _pictures(x_hat: Tensor, mean: Tensor, images: Images, rows: list[tuple[int, int, float]]) -> list[Row]:
    """What the page shows: candidates brought to the contrast of their image, plus the mean."""
    shown = []
    flat = images.flat.to(mean)
    for candidate, image, value in rows:
        centred = x_hat[candidate] - x_hat[candidate].mean()
        target = flat[image] - mean
        pixels = mean + target.mean() + centred * (target.std() / centred.std().clamp_min(1e-12))
        array = (pixels.clamp(0, 1) * 255).round().to(torch.uint8).cpu().numpy().reshape(images.pixels.shape[1:])
        reconstruction = Picture(array.transpose(1, 2, 0), f"Reconstruction {candidate}")
        shown.append(Row(reconstruction, Picture(images.picture(image), images.names[image]), value))
    return shown


@contextmanager
def _writing(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ReconError(f"the report cannot be written to {out}: {error.strerror or error}") from error
