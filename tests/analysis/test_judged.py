"""The nodes that are judged: chosen, read off, and nothing else looked at."""

import numpy as np
import pytest

from simi_mailbox.analysis import judge
from simi_mailbox.analysis.judged import per_node

PROBS = np.array([[0.9, 0.1], [0.4, 0.6], [0.5, 0.5], [2.0, 2.0]])


def test_confidence_and_correctness_of_the_chosen_nodes_alone():
    judged = judge(PROBS, [0, 0, np.nan, np.nan], nodes=[1, 0])
    assert judged.nodes.tolist() == [1, 0]
    assert judged.confidence.tolist() == [0.6, 0.9]
    assert judged.predicted.tolist() == [1, 0]
    assert judged.correct.tolist() == [0.0, 1.0]
    assert (len(judged), judged.num_nodes) == (2, 4)
    assert np.isnan(judge(PROBS, None, nodes=[0]).correct).all()


def test_no_node_is_judged_where_none_is_named():
    assert len(judge(PROBS, [0, 1, 0, 1], nodes=[])) == 0


def test_values_come_for_all_nodes_or_for_the_judged_ones():
    judged = judge(PROBS, None, nodes=[2, 0])
    assert per_node([5, 6, 7, 8], judged, "age").tolist() == [7.0, 5.0]
    assert per_node([7, 5], judged, "age").tolist() == [7.0, 5.0]
    with pytest.raises(ValueError, match=r"age has shape \[3\]; expected one value per node \(4\)"):
        per_node([1, 2, 3], judged, "age")
