"""Appendix I: other sets of images with the same weights; and what an adversary can say who holds candidates."""

from companion.chapters.base import Experiment
from companion.chapters.candidates import compute_members, compute_sets
from companion.chapters.candidates.experiment_members import MEMBER_SIZES, MemberMetrics
from companion.chapters.candidates.experiment_sets import SET_SIZES, SetMetrics
from companion.chapters.candidates.story_members import MEMBER_FIGURES, member_claims
from companion.chapters.candidates.story_sets import SET_FIGURES, set_claims

CHAPTER = "i-candidates"
SETS = Experiment(
    name="counterfactual-sets",
    chapter=CHAPTER,
    section="",
    summary="other images with pixels in [0, 1] that satisfy the same KKT conditions: how many, how far, how natural",
    cost={"smoke": "5 s", "laptop": "3 min", "paper": "an hour"},
    sizes=SET_SIZES,
    metrics=SetMetrics,
    compute=compute_sets.compute,
    claims=set_claims,
    figures=SET_FIGURES,
    on_gpu=False,
)
MEMBERS = Experiment(
    name="candidate-membership",
    chapter=CHAPTER,
    section="",
    summary="KKT multipliers on a pool of candidates as membership, against shadow networks and one-line tests",
    cost={"smoke": "5 s", "laptop": "3 min", "paper": "an hour"},
    sizes=MEMBER_SIZES,
    metrics=MemberMetrics,
    compute=compute_members.compute,
    claims=member_claims,
    figures=MEMBER_FIGURES,
    on_gpu=False,
)
