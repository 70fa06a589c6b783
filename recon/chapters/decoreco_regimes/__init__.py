"""Chapter 9, beside Figs. 6 to 8: which networks give their images away, and how that can be told beforehand."""

from recon.chapters.base import Experiment
from recon.chapters.decoreco_regimes.claims import claims
from recon.chapters.decoreco_regimes.compute import compute
from recon.chapters.decoreco_regimes.figures import FIGURES
from recon.chapters.decoreco_regimes.metrics import Metrics
from recon.chapters.decoreco_regimes.sizes import SIZES

DECORECO_REGIMES = Experiment(
    name="decoreco-regimes",
    chapter="04-decoreco",
    section="",
    summary="weight decay or margin, noise or separated sources; and the truth's own residual as predictor",
    cost={"smoke": "10 s", "laptop": "2 min", "paper": "an hour"},
    sizes=SIZES,
    metrics=Metrics,
    compute=compute,
    claims=claims,
    figures=FIGURES,
)
