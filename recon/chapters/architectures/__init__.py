"""Chapter 22: deeper networks, convolutions, batch norm, more classes."""

from recon.chapters.architectures.claims import dense_claims, simulated_claims
from recon.chapters.architectures.compute_dense import compute_dense
from recon.chapters.architectures.compute_simulated import compute_simulated
from recon.chapters.architectures.figures import DENSE_FIGURES, SIMULATED_FIGURES
from recon.chapters.architectures.metrics import DenseMetrics, SimulatedMetrics
from recon.chapters.architectures.sizes import DENSE_SIZES, SIMULATED_SIZES
from recon.chapters.base import Experiment

DENSE = Experiment(
    name="architectures-dense",
    chapter="j-architectures",
    section="",
    summary="more layers and more classes: what a fully connected network then keeps to itself",
    cost={"smoke": "5 s", "laptop": "2 min", "paper": "20 min"},
    sizes=DENSE_SIZES,
    metrics=DenseMetrics,
    compute=compute_dense,
    claims=dense_claims,
    figures=DENSE_FIGURES,
)
SIMULATED = Experiment(
    name="architectures-simulated",
    chapter="j-architectures",
    section="Tian et al. 2025",
    summary="convolutions and batch norm, the start known: training is simulated and inverted",
    cost={"smoke": "10 s", "laptop": "2 min", "paper": "an hour"},
    sizes=SIMULATED_SIZES,
    metrics=SimulatedMetrics,
    compute=compute_simulated,
    claims=simulated_claims,
    figures=SIMULATED_FIGURES,
    paper_size={"side": 32, "n_train": 20},
)
