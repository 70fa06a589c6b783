"""Executing, stamping, publishing."""
