"""What sets, recipes and scores are called, in tables, files and claims."""

#: the training images, and what stands in their place
TRUTH, NOISE, PHOTOGRAPH, NOT_BLIND = "training images", "pairs, noise", "pairs, photograph", "pairs, not blind"
RECIPES = ("small start", "default start", "weight decay")
#: scores of membership: by multipliers, by shadow networks, by what takes one line (the last one knows the start)
KKT = ("multipliers", "multipliers, start known")
SHADOWED = ("LiRA", "LiRA, same scale", "RMIA", "RMIA, same scale")
FREE = ("margin", "common margin", "row of W1", "span of W1", "span of W1, start known")
