"""Pictures of what `simi_mailbox.analysis` and `metrics` compute.

Every function takes what they return and describes a `Picture`, once; ``label`` names the method.
``picture.plot(ax)`` draws it with matplotlib (``pip install 'simi-mailbox[plot]'``) on the axes
given, or on those of a new figure, and returns them; it shows no window and changes no settings.
``picture.svg()`` is the same picture as the report shows it; it needs no extra.
"""

from simi_mailbox.plots.charts import (
    acceptance_bars,
    confidence_histogram,
    coverage_bars,
    group_scatter,
    heat_map,
    reliability_diagram,
    risk_coverage_curve,
    slice_dots,
    temperature_histogram,
)
from simi_mailbox.plots.picture import Picture

__all__ = [
    "Picture",
    "acceptance_bars",
    "confidence_histogram",
    "coverage_bars",
    "group_scatter",
    "heat_map",
    "reliability_diagram",
    "risk_coverage_curve",
    "slice_dots",
    "temperature_histogram",
]
