"""Where a model is calibrated and where not: the arrays behind every picture.

Everything here computes and nothing draws; `simi_mailbox.plots` and the report draw what these
functions return. Definitions: ``docs/pictures.md``.
"""

from simi_mailbox.analysis.groups import (
    GroupMap,
    TemperatureHistogram,
    group_map,
    temperature_histogram,
)
from simi_mailbox.analysis.judged import (
    Judged,
    SimilarityConfidence,
    distance_to,
    judge,
    neighbour_agreement,
    reliability_curve,
    similarity_confidence,
)
from simi_mailbox.analysis.slices import (
    Breakdown,
    CoverageBreakdown,
    by_agreement,
    by_class,
    by_degree,
    by_distance,
    covered_by,
)

__all__ = [
    "Breakdown",
    "CoverageBreakdown",
    "GroupMap",
    "Judged",
    "SimilarityConfidence",
    "TemperatureHistogram",
    "by_agreement",
    "by_class",
    "by_degree",
    "by_distance",
    "covered_by",
    "distance_to",
    "group_map",
    "judge",
    "neighbour_agreement",
    "reliability_curve",
    "similarity_confidence",
    "temperature_histogram",
]
