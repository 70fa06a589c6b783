"""The numbers that Chen & Campbell (2022) published, to compare ours with."""

LABELS = {
    "rgap": "R-GAP",
    "dlg": "DLG",
    "cosine_tv": "CosineTV",
    "hybrid": "Hybrid",
}
METHODS = ("rgap", "dlg", "cosine_tv", "hybrid")  # the paper's; labels may be of more
PRE_TRAINED = " pre-trained"  # ends the name of such a row
#: Table 1: rank deficiencies rd_1 … rd_d and c(M)
PUBLISHED_RANK = {
    "CNN2 V1": ((0,), 0),
    "CNN2 V2": ((-1470,), -1470),
    "CNN3 V1": ((0, -4533), -2266),
    "CNN3 V2": ((-1470, -1050), -1995),
    "CNN3 V3": ((0, 0), 0),
    "CNN3 V4": ((-2146, 0), -2146),
    "CNN4 V1": ((0, -3965, -386), -2772),
    "CNN4 V2": ((0, -9316, 0), -6211),
}
#: Appendix E, mean over both images: network -> method -> (MSE, PSNR with peak 255)
PUBLISHED = {
    network: dict(zip(METHODS, values, strict=True))
    for network, values in {
        "CNN2 V1": ((0.0, 197.00), (2.0181, 45.08), (0.2290, 54.54), (0.0008, 79.82)),
        "CNN2 V2": ((0.0346, 62.75), (2.15e8, -9.32), (0.3257, 53.01), (0.0051, 71.69)),
        "CNN3 V1": ((0.0531, 60.90), (0.9279, 48.46), (0.4086, 52.03), (0.0478, 61.48)),
        "CNN3 V2": ((0.0518, 60.99), (0.9900, 48.17), (0.4739, 51.37), (0.0322, 63.78)),
        "CNN3 V3": ((0.0, 181.26), (3.75e17, -59.49), (0.2302, 54.51), (0.0020, 75.79)),
        "CNN3 V4": ((0.0429, 61.83), (5.11e13, -29.17), (0.5082, 51.07), (0.0417, 61.96)),
        "CNN4 V1": ((0.0547, 60.81), (0.8585, 48.79), (0.4255, 51.86), (0.0610, 60.28)),
        "CNN4 V2": ((0.0406, 62.05), (0.0951, 58.35), (0.2177, 54.82), (0.0139, 67.72)),
        "CNN4 V1 pre-trained": ((0.2174, 54.90), (7.58e8, -3.07), (0.8048, 49.25), (0.3449, 53.33)),
        "CNN4 V2 pre-trained": ((0.0341, 62.81), (406.2, 26.98), (0.7353, 49.71), (0.0288, 63.63)),
    }.items()
}
DIVERGED = 100.0  # mean squared error beyond this: the attack ran away
