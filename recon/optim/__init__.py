"""Descent, the one loop, subspaces, random streams."""
