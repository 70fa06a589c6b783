"""x"""


def claims(metrics, sizes):
    return []


FIGURES = {}
