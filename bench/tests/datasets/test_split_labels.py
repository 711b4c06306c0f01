"""Labels that may be read, as users pass them."""

import numpy as np
import pytest
import torch

from simi_mailbox.graph import Graph
from simi_mailbox.validation import read_classes
from simi_mailbox_bench import ood
from simi_mailbox_bench.backbones.gpn import train_gpn
from simi_mailbox_bench.datasets import Split
from simi_mailbox_bench.datasets.dataset import split_labels

SPLIT = Split([0, 1, 4, 5], [2, 6], [3, 7])
Y = np.repeat([0, 1], 4)


@pytest.mark.parametrize("y", [Y, Y.tolist(), Y[:, None], Y.astype(float), torch.tensor(Y)])
def test_all_forms_of_labels_mean_the_same(y):
    labels, classes = split_labels(y, SPLIT, 8)
    assert labels.tolist() == [0, 0, 0, -1, 1, 1, 1, -1]
    assert classes == 2


def test_labels_of_other_nodes_are_not_looked_at():
    spoiled = Y + np.where(np.isin(np.arange(8), SPLIT.test), 0.5, 0.0)
    spoiled[3] = np.nan
    assert split_labels(spoiled, SPLIT, 8)[0].tolist() == split_labels(Y, SPLIT, 8)[0].tolist()


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        (Y + 0.5, ValueError, "whole numbers, the classes 0, 1, …; node 0 has 0.5"),
        (Y[:5], ValueError, r"labels of shape \[5\]; expected one per node, \[8\]"),
        (np.full(8, "cat"), TypeError, "number the classes first"),
        (Y - 1, ValueError, "range over -1..0; expected 0..0"),
    ],
)
@pytest.mark.parametrize("use", ["split_labels", "detector", "gpn"])
def test_labels_that_make_no_sense_are_refused_everywhere(y, error, message, use):
    x, graph = np.eye(8), Graph.empty(8)
    calls = {
        "split_labels": lambda: split_labels(y, SPLIT, 8),
        "detector": lambda: ood.train_classifier(x, graph, y, SPLIT),
        "gpn": lambda: train_gpn(x, graph, y, SPLIT),
    }
    with pytest.raises(error, match=message):
        calls[use]()


def test_classes_to_leave_out_are_read_from_whole_numbers_only():
    with pytest.raises(ValueError, match=r"node 1 has 0\.5"):
        ood.leave_out_classes([0, 0.5, 2], Split([0], [1], [2]), unknown=[0])
    assert read_classes([2, 5], np.array([1]), 2, name="truth").tolist() == [5]
