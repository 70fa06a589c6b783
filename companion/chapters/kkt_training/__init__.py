"""Appendix A: training to the KKT regime, where homogeneous networks hold their training data; and
the certificate.
"""

from companion.chapters.base import Experiment
from companion.chapters.kkt_training import experiment, story

KKT_TRAINING = Experiment.of(
    experiment,
    story,
    name="kkt-training",
    chapter="a-kkt-training",
    section="4.4",
    summary="training to the KKT point of the maximum-margin problem, and a certificate of arrival",
    cost="5 s, 30 s, 10 min",
)
