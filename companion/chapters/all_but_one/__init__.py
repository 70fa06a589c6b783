"""Appendix H: all training images but one are known, and the released model: is the last one?  Would they know?"""

from companion.chapters.all_but_one import experiment_linear, experiment_reader, story_linear, story_reader
from companion.chapters.base import Experiment

CHAPTER = "h-all-but-one"
INFORMED_LINEAR = Experiment.of(
    experiment_linear,
    story_linear,
    name="informed-linear",
    chapter=CHAPTER,
    section="Balle et al. 2022",
    summary="the last training image of a linear model, in closed form, and its label",
    cost="2 s, 30 s, 2 min",
    on_gpu=False,
)
INFORMED_READER = Experiment.of(
    experiment_reader,
    story_reader,
    name="informed-reader",
    chapter=CHAPTER,
    section="Balle et al. 2022",
    summary="the last training digit of a small network: practice on shadow networks, or retraining",
    cost="3 s, 3 min, 6 min",
    on_gpu=False,
    paper_size={"shadows": 10000},
)
