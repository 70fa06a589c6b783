"""How much of its training set does your own network give away?"""

import recon

if not hasattr(recon, "FUNCTIONS"):
    raise ImportError(f"{recon.__file__} is another recon: uninstall it, and install ours again")
