"""The companion: what makes the book of `recon` — experiments, claims, figures, results on disk,
pages.
"""

import recon  # sets how threads wait, before anything here imports torch

if not hasattr(recon, "FUNCTIONS"):
    raise ImportError(f"{recon.__file__} is another recon: uninstall it, and install ours again")
