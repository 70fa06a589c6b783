"""Descent, the one loop, subspaces, random numbers by name."""
