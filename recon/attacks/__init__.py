"""One attack a file; an attack sees only what is released."""
