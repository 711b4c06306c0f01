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
from simi_mailbox.models.ops import dropout_mask
from simi_mailbox.models.plan import Layer, Plan


class GAT(Backbone):
    """Graph attention network: several heads side by side, the last layer one head.

    Dropout acts on the input of every layer, the features included, and on the attention
    coefficients, so that training and evaluation share nothing.
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
            product = hidden @ getattr(self, f"weight{depth}")
            hidden = self._attend(depth, product, steps.layers[depth], generator)
        return hidden

    def penultimate(self, hidden: Tensor, steps: Plan) -> Tensor:
        for depth in range(1, self.settings.layers - 1):
            product = hidden @ getattr(self, f"weight{depth}")
            hidden = F.elu(self._attend(depth, product, steps.layers[depth], None))
        return hidden

    def _attend(
        self, depth: int, product: Tensor, layer: Layer, generator: torch.Generator | None
    ) -> Tensor:
        heads = self._heads(depth)
        width = product.shape[1] // heads
        # Head-major: each head's rows lie together, where its sparse product finds them in cache.
        hidden = product.view(-1, heads, width).transpose(0, 1).contiguous()
        source = torch.bmm(hidden, getattr(self, f"source{depth}").unsqueeze(2)).flatten()
        target = torch.bmm(hidden, getattr(self, f"target{depth}").unsqueeze(2)).squeeze(2)
        if layer.own is not None:
            target = target.index_select(1, layer.own)
        pattern = layer.stacked(heads)
        rate = self.settings.attention_dropout
        mask = None
        if generator is not None and rate > 0:
            mask = dropout_mask(pattern.num_entries, rate, generator, dtype=product.dtype)
        out = attend(pattern, hidden.view(-1, width), source, target.flatten(), mask=mask)
        out = out.view(heads, -1, width).transpose(0, 1).reshape(-1, heads * width)
        return out + getattr(self, f"bias{depth}")
