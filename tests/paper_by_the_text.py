"""Simi-Mailbox written from the paper's text alone (AAAI 2025, section 5.2 and appendix A.2).

Nothing of the library is used here: it is what the library's method is compared with.
"""

import numpy as np
import torch
from sklearn.cluster import KMeans


def groups_of(logits, edges, n_groups):
    """KMeans on min-max scaled [confidence, mailbox]; points in a fixed order, ties aside."""
    confidence = torch.softmax(logits, dim=1).max(dim=1).values
    row, column = edges
    similarity = torch.sigmoid((logits[row] * logits[column]).sum(dim=1))
    degree = torch.bincount(row, minlength=len(logits)).clamp(min=1)
    mailbox = torch.zeros(len(logits), dtype=logits.dtype).index_add(0, row, similarity) / degree
    points = torch.stack([confidence, mailbox], dim=1).numpy()
    points = (points - points.min(axis=0)) / np.ptp(points, axis=0)
    order = np.lexsort(points.T[::-1])
    found = KMeans(n_groups, n_init=1, random_state=0).fit(points[order])
    return torch.from_numpy(found.predict(points)).long()


def ece(confidence, right, bins=15):
    """Σ_b |B_b| / n · |accuracy − confidence| over equal-width bins."""
    cell = (confidence * bins).long().clamp(max=bins - 1)
    gaps = torch.zeros(bins, dtype=confidence.dtype).index_add(0, cell, right - confidence)
    return float(gaps.abs().sum() / len(cell))


def fit(logits, y, groups, validation, n_groups=15, weight=50.0, epochs=2000, patience=100):
    """Temperatures by Adam (learning rate .01): those of lowest validation ECE, and the last.

    The text preserves the order of classes, so that temperatures stay positive.
    """
    right = (logits.argmax(dim=1) == y).to(logits.dtype)
    member = torch.nn.functional.one_hot(groups, n_groups).to(logits.dtype)
    labelled = member[validation].sum(dim=0)
    accuracy = (right[validation] @ member[validation]) / labelled.clamp(min=1)
    parameter = torch.ones(n_groups, dtype=logits.dtype, requires_grad=True)
    optimiser = torch.optim.Adam([parameter], lr=0.01)
    best, least, since = None, np.inf, 0
    for _ in range(epochs):
        temperature = parameter.clamp(min=1e-8)
        log_probs = torch.log_softmax(logits / temperature[groups, None], dim=1)
        mean = (log_probs.max(dim=1).values.exp() @ member) / member.sum(dim=0)
        gap = torch.where(labelled > 0, accuracy - mean, 0.0)
        cross_entropy = torch.nn.functional.nll_loss(log_probs[validation], y[validation])
        optimiser.zero_grad()
        (cross_entropy + weight * (gap**2).sum()).backward()
        optimiser.step()
        temperature = parameter.detach().clamp(min=1e-8)
        scaled = logits[validation] / temperature[groups[validation], None]
        found = ece(torch.softmax(scaled, dim=1).max(dim=1).values, right[validation])
        since += 1
        if found <= least:
            best, least, since = temperature, found, 0
        elif since >= patience:
            break
    return best, temperature
