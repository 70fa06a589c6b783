"""How the networks that are attacked come about."""
