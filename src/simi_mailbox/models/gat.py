"""Graph attention network (Veličković et al. 2018)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from simi_mailbox.graph import Graph
from simi_mailbox.models import plan as planning
from simi_mailbox.models.attention import attend
from simi_mailbox.models.backbones import Backbone, drop, glorot
from simi_mailbox.models.features import Features
from simi_mailbox.models.ops import random_choice
from simi_mailbox.models.plan import Layer, Plan

# Four megabytes of float32. On Computers (505,474 entries, 8 heads) all heads at once took 1.6
# times as long as two at a time; on Cora, where everything fits, one call is faster than four.
_CACHED_ENTRIES = 1 << 20


class GAT(Backbone):
    """Graph attention network: several heads side by side, the last layer one head.

    Dropout acts on the input of every layer, the features included, and on the attention
    coefficients, so that training and evaluation share nothing.

    Examples
    --------
    >>> from simi_mailbox.models import Settings
    >>> model = GAT(5, 2, Settings(hidden=16), torch.Generator().manual_seed(0))
    >>> model(Features(torch.eye(3, 5)), Graph.from_edges([[0], [1]], 3)).shape
    torch.Size([3, 2])
    """

    name = "gat"
    shares_stem = False
    _symmetric = False  # the pattern is, the attention is not

    def reset(self, generator: torch.Generator) -> None:
        if self.settings.hidden % self.settings.heads:
            raise ValueError(
                f"gat: hidden={self.settings.hidden} must be a multiple of "
                f"heads={self.settings.heads}, each head has hidden / heads units"
            )
        for depth, (wide, narrow) in enumerate(zip(self.widths, self.widths[1:], strict=False)):
            heads = self._heads(depth)
            self._parameter(f"weight{depth}", glorot((wide, narrow), generator))
            for side in ("source", "target"):
                self._parameter(f"{side}{depth}", glorot((heads, narrow // heads), generator))
            self._parameter(f"bias{depth}", torch.zeros(narrow))

    def _heads(self, depth: int) -> int:
        return 1 if depth == self.settings.layers - 1 else self.settings.heads

    def _matrix(self, graph: Graph) -> Any:
        return planning.with_self_loops(graph)

    def stem(
        self, features: Features, steps: Plan, generator: torch.Generator | None = None
    ) -> Tensor:
        weight = self.get_parameter("weight0")
        if generator is None:
            product = features @ weight
        else:
            product = features.dropped(weight, self.settings.dropout, generator)
        return F.elu(self._attend(0, product, steps.layers[0], generator))

    def finish(
        self, hidden: Tensor, steps: Plan, generator: torch.Generator | None = None
    ) -> Tensor:
        for depth in range(1, self.settings.layers):
            if depth > 1:
                hidden = F.elu(hidden)
            hidden = drop(hidden, self.settings.dropout, generator)
            product = hidden @ self.get_parameter(f"weight{depth}")
            hidden = self._attend(depth, product, steps.layers[depth], generator)
        return hidden

    def penultimate(self, hidden: Tensor, steps: Plan) -> Tensor:
        for depth in range(1, self.settings.layers - 1):
            product = hidden @ self.get_parameter(f"weight{depth}")
            hidden = F.elu(self._attend(depth, product, steps.layers[depth], None))
        return hidden

    def _attend(
        self, depth: int, product: Tensor, layer: Layer, generator: torch.Generator | None
    ) -> Tensor:
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
        pattern = layer.stacked(together)
        parts = []
        # chunk() and not slices: its backward pass is one concatenation.
        count = heads // together
        groups = zip(hidden.chunk(count), source.chunk(count), target.chunk(count), strict=True)
        for some_hidden, some_source, some_target in groups:
            if generator is not None and rate > 0:
                scale = 1.0 / (1.0 - rate)
                signs = random_choice(
                    pattern.num_entries, rate, generator, drop=-1.0, keep=1.0, dtype=product.dtype
                )
            part = attend(
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
