"""What tests of the wrapper share: a loader without a compiled sampler, a short training."""

from types import SimpleNamespace

import torch
from torch import nn
from torch_geometric.utils import k_hop_subgraph, mask_to_index


class AllNeighbours:
    """The documented interface of PyG's ``NeighborLoader``, for ``num_neighbors=[-1, …]``.

    Seeds come first in a batch, attributes of nodes are cut out with them, and of the edges those
    that a walk of so many hops toward the seeds goes along.
    """

    def __init__(self, data, num_neighbors, batch_size=1, input_nodes=None):
        assert set(num_neighbors) == {-1}
        self.data, self.batch_size = data, batch_size
        self.node_sampler = SimpleNamespace(num_neighbors=num_neighbors)
        everyone = torch.ones(data.num_nodes, dtype=torch.bool)
        self.dataset = mask_to_index(everyone if input_nodes is None else input_nodes)

    def __len__(self):
        return -(-len(self.dataset) // self.batch_size)

    def __iter__(self):
        hops, edges = len(self.node_sampler.num_neighbors), self.data.edge_index
        for seeds in self.dataset.split(self.batch_size):
            inner = k_hop_subgraph(seeds, hops - 1, edges, num_nodes=self.data.num_nodes)[0]
            outer = k_hop_subgraph(seeds, hops, edges, num_nodes=self.data.num_nodes)[0]
            rest = outer[~torch.isin(outer, seeds)]
            n_id = torch.cat([seeds, rest])
            place = torch.full((self.data.num_nodes,), -1)
            place[n_id] = torch.arange(len(n_id))
            walked = torch.isin(edges[1], inner)
            batch = self.data.clone()
            for name, value in self.data.items():
                if self.data.is_node_attr(name):
                    batch[name] = value[n_id]
            batch.edge_index = place[edges[:, walked]]
            batch.n_id, batch.batch_size = n_id, len(seeds)
            yield batch


def trained(model, data, epochs=40):
    """The model after some steps on the training nodes."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(epochs):
        optimizer.zero_grad()
        out = model(data.x, data.edge_index)
        nn.functional.cross_entropy(out[data.train_mask], data.y[data.train_mask]).backward()
        optimizer.step()
    return model


def same(found, expected, atol=0):
    torch.testing.assert_close(found, expected, rtol=0, atol=atol)
