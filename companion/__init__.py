"""The companion: what makes the book of `recon` — experiments, claims, figures, results on disk,
pages.
"""

import recon  # noqa: F401  (sets how threads wait, before anything here imports torch)
