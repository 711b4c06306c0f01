"""Groups and temperatures."""

import numpy as np

from simi_mailbox import plots


def test_group_scatter_places_groups_and_sizes(objects):
    groups = objects["groups"]
    marks = plots.group_scatter(groups).collections[0]
    np.testing.assert_allclose(
        marks.get_offsets(), np.stack([groups.similarity, groups.confidence], axis=1)
    )
    assert len(set(marks.get_sizes().tolist())) == 1  # five groups of 80 nodes each


def test_temperatures_are_counted(objects):
    made = objects
    ax = plots.temperature_histogram(made["temperatures"])
    assert [bar.get_height() for bar in ax.patches] == made["temperatures"].counts.tolist()
