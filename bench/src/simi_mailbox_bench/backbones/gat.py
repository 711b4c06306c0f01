"""Graph attention network (Veličković et al. 2018)."""

from __future__ import annotations

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from simi_mailbox.graph import Graph
from simi_mailbox.sparse import Csr, attend_additively
from simi_mailbox_bench.backbones.backbones import Backbone, Input, Noise, Weights, glorot
from simi_mailbox_bench.backbones.dropout import random_choice
from simi_mailbox_bench.backbones.features import Features
from simi_mailbox_bench.backbones.plan import Layer

# Four megabytes of float32. On Computers (505,474 entries, 8 heads) all heads at once took 1.6
# times as long as two at a time; on Cora, where everything fits, one call is faster than four.
_CACHED_ENTRIES = 1 << 20


class GAT(Backbone):
    """Graph attention network: several heads side by side, the last layer one head.

    Dropout acts on the input of every layer, the features included, and on the attention
    coefficients, so that training and evaluation share nothing.

    Examples
    --------
    >>> from simi_mailbox_bench.backbones import Settings
    >>> model = GAT(5, 2, Settings(hidden=16), torch.Generator().manual_seed(0))
    >>> model(Features(torch.eye(3, 5)), Graph.from_edges([[0], [1]], 3)).shape
    torch.Size([3, 2])
    """

    name = "gat"
    shares_stem = False

    def _initial(self, depth: int, wide: int, narrow: int, random: Generator) -> Weights:
        if self.settings.hidden % self.settings.heads:
            raise ValueError(
                f"gat: hidden={self.settings.hidden} must be a multiple of "
                f"heads={self.settings.heads}, each head has hidden / heads units"
            )
        heads = self._heads(depth)
        return {
            f"weight{depth}": glorot((wide, narrow), random),
            f"source{depth}": glorot((heads, narrow // heads), random),
            f"target{depth}": glorot((heads, narrow // heads), random),
            f"bias{depth}": torch.zeros(narrow),
        }

    def _heads(self, depth: int) -> int:
        return 1 if depth == self.settings.layers - 1 else self.settings.heads

    def _matrix(self, graph: Graph) -> Csr:
        return Csr.closed(graph)

    @staticmethod
    def activation(x: Tensor) -> Tensor:
        return F.elu(x)

    def _layer(self, depth: int, x: Input, layer: Layer, noise: Noise = None) -> Tensor:
        weight = self.get_parameter(f"weight{depth}")
        if noise is not None and isinstance(x, Features):
            product = x.dropped(weight, self.settings.dropout, noise)
        else:
            product = x @ weight
        return self._attend(depth, product, layer, noise)

    def _attend(self, depth: int, product: Tensor, layer: Layer, noise: Noise) -> Tensor:
        heads = self._heads(depth)
        width = product.shape[1] // heads
        # Head-major: each head's rows lie together, where its sparse product finds them in cache.
        hidden = product.view(-1, heads, width).transpose(0, 1).contiguous()
        source = torch.bmm(hidden, self.get_parameter(f"source{depth}").unsqueeze(2)).squeeze(2)
        target = torch.bmm(hidden, self.get_parameter(f"target{depth}").unsqueeze(2)).squeeze(2)
        if layer.own is not None:
            target = target.index_select(1, layer.own)
        rate, signs, scale = self.settings.attention_dropout, None, 1.0
        together = _heads_together(heads, layer.matrix.num_entries)
        pattern = layer.matrix.stacked(together)
        parts = []
        # chunk() and not slices: its backward pass is one concatenation.
        count = heads // together
        groups = zip(hidden.chunk(count), source.chunk(count), target.chunk(count), strict=True)
        for some_hidden, some_source, some_target in groups:
            if noise is not None and rate > 0:
                scale = 1.0 / (1.0 - rate)
                signs = random_choice(
                    pattern.num_entries, rate, noise, drop=-1.0, keep=1.0, dtype=product.dtype
                )
            part = attend_additively(
                pattern,
                some_hidden.reshape(-1, width),
                some_source.flatten(),
                some_target.flatten(),
                signs=signs,
                scale=scale,
            )
            parts.append(part.view(together, -1, width))
        out = parts[0] if len(parts) == 1 else torch.cat(parts)
        out = out.transpose(0, 1).reshape(-1, heads * width)
        return out + self.get_parameter(f"bias{depth}")


def _heads_together(heads: int, entries: int) -> int:
    """How many heads to compute at a time: as many as keep the entries' arrays in cache."""
    fitting = max(1, _CACHED_ENTRIES // max(1, entries))
    return max(count for count in range(1, heads + 1) if heads % count == 0 and count <= fitting)
