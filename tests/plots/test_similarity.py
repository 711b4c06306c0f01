"""Heat maps show the gaps."""

import numpy as np

from simi_mailbox import plots


def test_heat_map_shows_the_gaps_and_leaves_empty_cells_blank(objects):
    table = objects["heat"]
    mesh = plots.heat_map(table, limit=0.5).collections[0]
    drawn = mesh.get_array()
    np.testing.assert_allclose(drawn.filled(np.nan).reshape(10, 10), table.gap)
    assert mesh.get_clim() == (-0.5, 0.5)
    mesh = plots.heat_map(table, fewest=5, numbers=True).collections[0]
    blank = mesh.get_array().mask.reshape(10, 10)
    np.testing.assert_array_equal(blank, table.counts < 5)
