"""Where a model can be trusted and where not: the arrays behind every picture.

Everything here computes and nothing draws; `simi_mailbox.plots` and the report draw what these
functions return. Definitions: ``docs/pictures.md``.
"""

from simi_mailbox.analysis.breakdown import (
    Breakdown,
    by_agreement,
    by_class,
    by_degree,
    by_distance,
)
from simi_mailbox.analysis.comparison import (
    MethodComparison,
    Sensitivity,
    compare_methods,
    sensitivity,
)
from simi_mailbox.analysis.coverage import (
    CoverageBreakdown,
    covered_by_class,
    covered_by_degree,
    covered_by_mailbox,
    covered_by_size,
)
from simi_mailbox.analysis.groups import (
    GroupMap,
    TemperatureHistogram,
    group_map,
    temperature_histogram,
)
from simi_mailbox.analysis.judged import Judged, judge
from simi_mailbox.analysis.neighbourhood import distance_to, neighbour_agreement
from simi_mailbox.analysis.reliability import reliability_curve
from simi_mailbox.analysis.similarity import (
    CalibrationErrorVariance,
    SimilarityBar,
    SimilarityConfidence,
    similarity_bar,
    similarity_confidence,
    variance_of_calibration_error,
)

__all__ = [
    "Breakdown",
    "CalibrationErrorVariance",
    "CoverageBreakdown",
    "GroupMap",
    "Judged",
    "MethodComparison",
    "Sensitivity",
    "SimilarityBar",
    "SimilarityConfidence",
    "TemperatureHistogram",
    "by_agreement",
    "by_class",
    "by_degree",
    "by_distance",
    "compare_methods",
    "covered_by_class",
    "covered_by_degree",
    "covered_by_mailbox",
    "covered_by_size",
    "distance_to",
    "group_map",
    "judge",
    "neighbour_agreement",
    "reliability_curve",
    "sensitivity",
    "similarity_bar",
    "similarity_confidence",
    "temperature_histogram",
    "variance_of_calibration_error",
]
