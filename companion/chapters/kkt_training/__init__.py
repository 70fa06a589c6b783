"""Appendix A: training to the KKT regime, where homogeneous networks hold their training data; and
the certificate.
"""

from companion.chapters.base import Experiment
from companion.chapters.kkt_training import experiment, story

KKT_TRAINING = Experiment.of(
    experiment,
    story,
    name="kkt-training",
)
