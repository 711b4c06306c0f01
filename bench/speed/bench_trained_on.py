"""How often training nodes are recognised as such, and validation nodes mistaken for them.

Run ``python bench/speed/bench_trained_on.py``: reads the runs that the logit bank of this machine
holds (``simi-mailbox bench`` trains them) and asks `looks_trained_on` about the nodes that each
model was trained on and about those it was validated on.
"""

import re
from collections import Counter

import torch

from simi_mailbox.files import cache_folder
from simi_mailbox.validation import looks_trained_on, read_labels
from simi_mailbox_bench.backbones.cached_runs import read_run_file
from simi_mailbox_bench.datasets import load, make_split


def main() -> None:
    """Print, by graph and backbone, how many runs are suspected of how many."""
    seen: dict[str, Counter[str]] = {}
    for path in sorted(cache_folder("logits").rglob("*.safetensors")):
        name, backbone, protocol = path.parts[-4:-1]
        found = re.match(r"s(\d+)-f(\d+)-i\d+", path.name)
        if found is None:
            continue
        dataset = load(name)
        split = make_split(dataset, protocol, int(found[1]), int(found[2]))
        logits: torch.Tensor = read_run_file(path)[0]["logits"]
        count = seen.setdefault(f"{name} {backbone}", Counter())
        count["runs"] += 1
        for part, nodes in (("training", split.train), ("validation", split.val)):
            labelled = read_labels(dataset.y, nodes, *logits.shape, "mask")
            count[part] += bool(looks_trained_on(logits, labelled))
    total: Counter[str] = sum(seen.values(), Counter())
    for name, count in {**seen, "all": total}.items():
        print(
            f"{name:<18} {count['runs']:4} runs: training nodes suspected in {count['training']}, "
            f"validation nodes in {count['validation']}"
        )


if __name__ == "__main__":
    main()
