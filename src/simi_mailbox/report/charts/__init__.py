"""Pictures of the report: SVG written by hand, coloured by the page's style sheet."""

from simi_mailbox.report.charts.bars import gap_bar, histogram, score_strip
from simi_mailbox.report.charts.decisions import acceptance_chart, coverage_chart
from simi_mailbox.report.charts.groups import group_chart
from simi_mailbox.report.charts.heat import gap_limit, heat_chart
from simi_mailbox.report.charts.reliability import confidence_chart, reliability_chart
from simi_mailbox.report.charts.slices import slice_chart
from simi_mailbox.report.charts.svg import Svg

__all__ = [
    "Svg",
    "acceptance_chart",
    "confidence_chart",
    "coverage_chart",
    "gap_bar",
    "gap_limit",
    "group_chart",
    "heat_chart",
    "histogram",
    "reliability_chart",
    "score_strip",
    "slice_chart",
]
