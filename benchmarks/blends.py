"""What blends of photographs match, in one competition of training with held-out images: `python
benchmarks/blends.py`.

A blend knows nothing of a network. Blends of the training images themselves are the hardest null,
those of other photographs are what everybody has. Of the images that blends match above a
threshold, the share that was trained on says how much preference a blend has; an attack must have
more (`companion.chapters.yardstick`, which reads blends.json). On CIFAR-10, for each number of
images, over three image sets and several drawings, with twice as many candidates as images.
"""

from __future__ import annotations

from pathlib import Path

import torch
from timing import write

from companion.chapters.base import Context
from recon.images.registry import load_pool
from recon.scoring.matching import target_decoy

# of an image set; n -> drawings
SEEDS, DRAWS = (0, 1, 2), {20: 40, 50: 20, 100: 10, 200: 5, 500: 3}
THRESHOLDS = (0.6, 0.7, 0.8)


def main() -> None:
    """Write blends.json: n -> kind of blend -> threshold of NCC -> [targets, decoys], summed over
    all drawings.
    """
    pool, found = load_pool("cifar10"), {}
    for n, draws in DRAWS.items():
        counts = {name: {f"ncc_{t}": [0, 0] for t in THRESHOLDS} for name in ("training", "others")}
        for seed in SEEDS:
            images = Context(pool, torch.device("cpu"), seed, None, None).images(n)
            generator = torch.Generator().manual_seed(seed)
            for name, photographs in (("training", images.train), ("others", images.init)):
                for _ in range(draws):
                    blends = torch.randn(2 * n, len(photographs), generator=generator) @ photographs
                    for t in THRESHOLDS:
                        competition = target_decoy(blends, images.train, images.held_out, t)
                        both = counts[name][f"ncc_{t}"]
                        both[0] += competition.targets
                        both[1] += competition.decoys
        found[str(n)] = counts
        print(n, counts, flush=True)
    report = {"image_sets": len(SEEDS), "drawings": DRAWS, "by_n": found}
    write(report, str(Path(__file__).with_name("blends")))


if __name__ == "__main__":
    main()
