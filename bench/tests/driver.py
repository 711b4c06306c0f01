"""The command `bench` with backbones that train for a moment only. Run as a script."""

import sys

import torch

from simi_mailbox_bench.backbones.settings import PUBLISHED, Settings

PUBLISHED["digits"] = Settings(epochs=12)
torch.set_num_threads(1)

if __name__ == "__main__":
    from simi_mailbox_bench.commands.bench import bench

    bench(sys.argv[1:])
