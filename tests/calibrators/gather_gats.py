"""GATS written the obvious way, with gathers over the edges: slow, and easy to check by eye."""

import torch
import torch.nn.functional as F


def gather_temperatures(weights, logits, graph, distances):
    """T of every node; differentiable in the weights."""
    n, loops = graph.num_nodes, torch.arange(graph.num_nodes)
    i, j = torch.cat([graph.rows(), loops]), torch.cat([graph.indices, loops])
    gamma = torch.ones(n, dtype=logits.dtype)
    gamma = torch.where(distances == 0, weights["gamma"][0], gamma)
    gamma = torch.where(distances == 1, weights["gamma"][1], gamma)
    low, high = logits.amin(1, keepdim=True), logits.amax(1, keepdim=True)
    tau = ((logits - low) / (high - low)).sort(1).values @ weights["theta"].t()
    spread = logits / gamma[:, None]
    scores = F.leaky_relu((spread[i] * spread[j]).sum(1), 0.2)
    largest = torch.full((n,), -torch.inf, dtype=logits.dtype)
    largest = largest.scatter_reduce(0, i, scores.detach(), "amax")
    alpha = (scores - largest[i]).exp()
    alpha = alpha / torch.zeros(n, dtype=logits.dtype).index_add(0, i, alpha)[i]
    sent = (tau * gamma[:, None])[j] * alpha[:, None]
    heard = torch.zeros(n, tau.shape[1], dtype=logits.dtype).index_add(0, i, sent)
    sure = logits.softmax(1).amax(1)
    gap = torch.zeros(n, dtype=logits.dtype).index_add(0, i, sure[i] - sure[j])
    gap = gap / (graph.degree + 1)
    return weights["base"] + F.softplus(heard + weights["omega"] * gap[:, None]).mean(1)
