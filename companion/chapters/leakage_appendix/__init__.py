"""Appendix C: what the paper's appendices say beside their table, on the paper's two networks and
images.
"""

from companion.chapters.leakage_appendix import experiment, story
from companion.chapters.leakage_common import gradient_experiment

APPENDIX = gradient_experiment(
    experiment,
    story,
    name="leakage-appendix",
    chapter="c-gradients",
    section="C&C Appendices A, B, F",
    summary=(
        "no bias (5), a hard constraint by trust region (11), and what pre-training does to the"
        " gradient"
    ),
    cost="5 s, 2 min, half an hour",
    paper_size={"share": 1.0, "epochs": 300},
)
