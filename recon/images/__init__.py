"""Pools of images and how they are drawn."""
