"""What all layers together determine, and what else has the same gradient."""

import torch
from matplotlib.figure import Figure

from companion.chapters.base import Tensors
from companion.chapters.claims import claim
from companion.chapters.leakage_common import TABLE_1
from companion.chapters.leakage_rank.experiment_identifiability import IdentifiabilitySizes, Metrics
from companion.chapters.pictures import image_rows, levels, photographs
from companion.store.record import Record
from companion.store.results import Claim, Result, graded
from recon.attacks.rgap import generic_deficiencies

LITTLE = 0.1  # of the equations that a layer lacks


def whole(row: Record) -> bool:
    """Whether the joint system lacks nothing but what the network does not read."""
    return row.joint_deficiency == -row.unread_pixels


def claims(metrics: Metrics, _: IdentifiabilitySizes) -> list[Claim]:
    """What is found and known, what layers say of one another, and two images with one gradient."""
    return [found_and_known(metrics), *made_up(metrics), *counterfactual(metrics)]


def made_up(metrics: Metrics) -> list[Claim]:
    """What the layer that lacks most lacks alone, and all together: of a first layer nothing is
    made up; of a later one those before supply what R-GAP's virtual constraints do, as we read
    them.
    """
    first = {}
    later = {}
    for name, row in metrics.networks.items():
        alone = [-lacking for lacking in generic_deficiencies(TABLE_1[name])]
        together = -row.joint_deficiency
        if alone[0] and alone[1:]:
            first[name] = {"alone": alone[0], "together": together}
        if alone[0] < max(alone):
            later[name] = {"alone": max(alone), "together": together}
    lost = [row["together"] >= row["alone"] for row in first.values()]
    much = any(row["together"] < (1 - LITTLE) * row["alone"] for row in later.values())
    of_virtual = "partly" if much else "reproduced"
    of_first = graded(*lost, best="reproduced")
    values = {"first": first, "later": later}
    return [
        claim("leakage-first-layer", values, verdict=of_first if first else "undecided"),
        claim("identifiability-virtual", values, verdict=of_virtual if later else "undecided"),
    ]


def counterfactual(metrics: Metrics) -> list[Claim]:
    """Another photograph with the same gradient, on the networks where there is room for it."""
    rows = {name: row.counterfactual for name, row in metrics.networks.items() if not whole(row)}
    if not rows:
        return []
    residuals = [row.residual for row in rows.values()]
    same = [residual <= 1e-8 for residual in residuals]
    elsewhere = [row.mse_to_victim > row.mse_to_start for row in rows.values()]
    everything = [row for row in metrics.networks.values() if whole(row) and not row.unread_pixels]
    closed = max((row.counterfactual.mse_to_victim for row in everything), default=None)
    start = next(iter(rows.values())).start_mse
    return [
        claim(
            "identifiability-counterfactual",
            {"rows": rows, "differ": max(residuals), "start": start, "closed": closed},
            verdict=graded(*same, *elsewhere) if any(same) else "not reproduced",
            value=min(row.mse_to_victim for row in rows.values()),
            null_value=closed,
        ),
    ]


def found_and_known(metrics: Metrics) -> Claim:
    """By all layers together, against layer by layer."""
    rows = metrics.networks.values()
    names = ("determined", "known", "falsely_known")
    counts = {name: sum(row.counts[name] for row in rows) for name in names}
    determined, known, false = counts.values()
    rgap = sum(row.rgap_found for row in rows)
    holds = graded(known == determined, false == 0) if known > rgap else "not reproduced"
    return claim(
        "identifiability-known",
        counts | {"total": metrics.n_images * len(rows), "rgap": rgap},
        verdict=holds if determined > rgap else "undecided",
        value=known,
        null_value=rgap,
    )


def selected(metrics: Metrics, arrays: Tensors) -> Tensors:
    """The first victim and another photograph; what networks give of the first, (networks, d)."""
    images = {"truth": arrays["truth"]}
    for kind in ("rgap", "x_hat", "counterfactual"):
        images[kind] = torch.stack([arrays[f"{kind} {name}"][0] for name in metrics.networks])
    return {name: levels(x) for name, x in images.items()}


@photographs
def plot_found(result: Result[Metrics]) -> Figure:
    """The first victim, and what R-GAP and all layers together find of it by every network; above
    R-GAP's the security metric, above the others what the gradient leaves open of the entries that
    are read.
    """
    networks = result.metrics.networks
    above = [f"{name}\n{row.c}".replace("-", "−") for name, row in networks.items()]
    rows = [
        ("the image", result.figure("truth")[:1], "training"),
        ("layer by layer\n(R-GAP);\nabove: c(M)", result.figure("rgap"), "recovered"),
        ("all layers\ntogether", result.figure("x_hat"), "recovered"),
    ]
    still = [f"{-row.joint_deficiency - row.unread_pixels} open" for row in networks.values()]
    return image_rows(rows, [[], above, still])


@photographs
def plot_moved(result: Result[Metrics]) -> Figure:
    """The first victim, another photograph, and that photograph moved until it has the victim's
    gradient, by every network; above each its errors to the victim and to what it was.
    """
    moved = {name: row.counterfactual for name, row in result.metrics.networks.items()}
    above = [
        f"{name}\n{each.mse_to_victim:.3f}\n{each.mse_to_start:.3f}" for name, each in moved.items()
    ]
    victim = "victim, and another\nphotograph" if len(result.figure("truth")) > 1 else "victim"
    rows = [
        (victim, result.figure("truth"), "training"),
        (
            "moved; above:\nerror to the victim,\nto what it was",
            result.figure("counterfactual"),
            "recovered",
        ),
    ]
    return image_rows(rows, [[], above])


FIGURES = {"found": plot_found, "moved": plot_moved}
