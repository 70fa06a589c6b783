"""Appendix H: all training images but one are known, and the released model: is the last one?  Would they know?"""

from companion.chapters.all_but_one.experiment_linear import LINEAR, LinearMetrics, compute_linear
from companion.chapters.all_but_one.experiment_reader import READER, ReaderMetrics, compute_reader
from companion.chapters.all_but_one.story_linear import LINEAR_FIGURES, linear_claims
from companion.chapters.all_but_one.story_reader import READER_FIGURES, reader_claims
from companion.chapters.base import Experiment

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
