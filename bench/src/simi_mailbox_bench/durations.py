"""How long runs take: from recorded rows where there are any, else rough figures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import median

from simi_mailbox_bench.store import Row

# Seconds on one core for a graph of Cora's size and for each further million of (nodes + edge
# entries), measured while this package was written; used only before anything is recorded.
_FALLBACK = {
    "uncalibrated": (0.02, 0.2),
    "temperature": (0.03, 0.3),
    "vector": (1.0, 3.0),
    "ensemble-temperature": (0.1, 1.0),
    "cagcn": (2.0, 60.0),
    "gats": (4.0, 120.0),
    "gets": (10.0, 200.0),
    "dcgc": (10.0, 200.0),
    "simcalib": (10.0, 120.0),
}
_OTHER = (0.2, 2.0)
_BACKBONE = {"gcn": (2.0, 200.0), "gat": (8.0, 600.0)}
_OTHER_BACKBONE = (3.0, 250.0)


class Durations:
    """Expected seconds of calibrator fits and of backbone training.

    Examples
    --------
    >>> rows = [{"method": "gats", "dataset": "Cora", "backbone": "gcn", "seconds": {"fit": 6.0}}]
    >>> Durations(rows).fit("gats", "Cora", "gcn", size=13264)
    6.0
    >>> Durations([]).fit("gats", "Cora", "gcn", size=13264) > 1
    True
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        fits: dict[tuple[str, ...], list[float]] = defaultdict(list)
        trainings: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for row in rows:
            seconds = row.get("seconds", {})
            where = (row.get("dataset", ""), row.get("backbone", ""))
            if "fit" in seconds:
                total = seconds["fit"] + seconds.get("predict", 0.0) + seconds.get("metrics", 0.0)
                fits[(row.get("method", ""), *where)].append(total)
            if seconds.get("backbone"):
                trainings[where].append(seconds["backbone"])
        self._fits = {key: median(values) for key, values in fits.items()}
        self._trainings = {key: median(values) for key, values in trainings.items()}

    def fit(self, method: str, dataset: str, backbone: str, size: int) -> float:
        """Expected seconds to fit, apply and measure a method once.

        ``size`` is the graph's number of nodes and edge entries.
        """
        known = self._fits.get((method, dataset, backbone))
        if known is None:
            known = self._fits.get((method, dataset, "gcn"))
        base, slope = _FALLBACK.get(method, _OTHER)
        return known if known is not None else base + slope * size / 1e6

    def training(self, dataset: str, backbone: str, size: int) -> float:
        """Expected seconds to train a backbone once."""
        known = self._trainings.get((dataset, backbone))
        base, slope = _BACKBONE.get(backbone, _OTHER_BACKBONE)
        return known if known is not None else base + slope * size / 1e6


def in_words(seconds: float) -> str:
    """A duration for people.

    Examples
    --------
    >>> in_words(42.3), in_words(754), in_words(9300)
    ('42 s', '13 min', '2.6 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
