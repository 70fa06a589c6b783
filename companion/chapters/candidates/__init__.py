"""Appendix I: other sets of images with the same weights; and what an adversary can say who holds candidates."""

from companion.chapters.base import Experiment
from companion.chapters.candidates import experiment_members, experiment_sets, story_members, story_sets

CHAPTER = "h-candidates"
SETS = Experiment.of(
    experiment_sets,
    story_sets,
    name="counterfactual-sets",
    chapter=CHAPTER,
    summary="other images with pixels in [0, 1] that satisfy the same KKT conditions: how many, how far, how natural",
    cost="5 s, 3 min, an hour",
    on_gpu=False,
)
MEMBERS = Experiment.of(
    experiment_members,
    story_members,
    name="candidate-membership",
    chapter=CHAPTER,
    summary="KKT multipliers on a pool of candidates as membership, against shadow networks and one-line tests",
    cost="5 s, 3 min, an hour",
    on_gpu=False,
)
