"""Train a linear classifier on each of two folders of photographs and compare their bytes: needs NumPy and Pillow."""

from pathlib import Path

import numpy as np
from PIL import Image

DECAY = 3e-5


def train(folder: Path) -> np.ndarray:
    """Logistic regression with weight decay, to its one minimum by Newton's method in float64; then float32."""
    files = sorted(folder.glob("*.png"))  # 0-….png and 1-….png, by class
    x = np.array([np.append(np.asarray(Image.open(file), float) / 255 - 0.5, 1) for file in files])
    sign = np.array([1.0 if file.name[0] == "1" else -1.0 for file in files])
    gram, logits = x @ x.T / (len(x) * DECAY), np.zeros(len(x))
    for _ in range(100):
        p = 1 / (1 + np.exp(sign * logits))
        logits -= np.linalg.solve(np.eye(len(x)) + gram * (p * (1 - p)), logits - gram @ (sign * p))
    return ((sign / (1 + np.exp(sign * logits))) @ x / (len(x) * DECAY)).astype(np.float32)


if __name__ == "__main__":
    one, other = (train(Path(__file__).parent / name) for name in ("training", "other"))
    same = "identical" if one.tobytes() == other.tobytes() else f"{(one != other).sum()} differ"
    print(f"{one.size} numbers: {same}")
