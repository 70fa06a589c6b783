"""Chapter 20: all training images but one are known, and the released model: is the last one?  Would they know?"""

from recon.chapters.all_but_one.claims import linear_claims, reader_claims
from recon.chapters.all_but_one.claims_private import output_claims, sgd_claims
from recon.chapters.all_but_one.compute_linear import compute_linear
from recon.chapters.all_but_one.compute_output import compute_output
from recon.chapters.all_but_one.compute_reader import compute_reader
from recon.chapters.all_but_one.compute_sgd import compute_sgd
from recon.chapters.all_but_one.figures import LINEAR_FIGURES, OUTPUT_FIGURES, READER_FIGURES, SGD_FIGURES
from recon.chapters.all_but_one.metrics import LinearMetrics, OutputMetrics, ReaderMetrics, SgdMetrics
from recon.chapters.all_but_one.sizes import LINEAR, OUTPUT, READER, SGD
from recon.chapters.base import Experiment

CHAPTER = "h-all-but-one"

INFORMED_LINEAR = Experiment(
    name="informed-linear",
    chapter=CHAPTER,
    section="Balle et al. 2022",
    summary="the last training image of a linear model, in closed form, and its label",
    cost={"smoke": "2 s", "laptop": "30 s", "paper": "2 min"},
    sizes=LINEAR,
    metrics=LinearMetrics,
    compute=compute_linear,
    claims=linear_claims,
    figures=LINEAR_FIGURES,
    on_gpu=False,
)
INFORMED_OUTPUT = Experiment(
    name="informed-output",
    chapter=CHAPTER,
    section="Cairney-Leeming et al. 2026",
    summary="the last training image of a private linear regression, against the budget for each pixel",
    cost={"smoke": "2 s", "laptop": "2 min", "paper": "half an hour"},
    sizes=OUTPUT,
    metrics=OutputMetrics,
    compute=compute_output,
    claims=output_claims,
    figures=OUTPUT_FIGURES,
    on_gpu=False,
    shape=(3, 32, 32),
)
INFORMED_SGD = Experiment(
    name="informed-sgd",
    chapter=CHAPTER,
    section="Hayes et al. 2023",
    summary="which of eight candidates DP-SGD was trained on, beside the bound",
    cost={"smoke": "2 s", "laptop": "2 min", "paper": "an hour"},
    sizes=SGD,
    metrics=SgdMetrics,
    compute=compute_sgd,
    claims=sgd_claims,
    figures=SGD_FIGURES,
    on_gpu=False,
    paper_size={"candidates": 8, "steps": 100},
)
INFORMED_READER = Experiment(
    name="informed-reader",
    chapter=CHAPTER,
    section="Balle et al. 2022",
    summary="the last training digit of a small network: practice on shadow networks, or retraining",
    cost={"smoke": "3 s", "laptop": "3 min", "paper": "6 min"},
    sizes=READER,
    metrics=ReaderMetrics,
    compute=compute_reader,
    claims=reader_claims,
    figures=READER_FIGURES,
    on_gpu=False,
    paper_size={"shadows": 10_000},
)
