"""Solution sets, identifiability, landscapes."""
