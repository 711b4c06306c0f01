"""Where a method stands, setting by setting, in words: for below a table."""

from __future__ import annotations

from collections.abc import Mapping

from simi_mailbox.experiments.compare import Paired, Standing
from simi_mailbox.experiments.tables.result import TableResult

HEADER = ("graph", "backbone", "lowest mean", "best rival", "difference to it", "verdict")
NOTHING = "–"


def title(method: str) -> str:
    """Heading of the standings of a method."""
    return f"Where {method} stands"


def cells(result: TableResult, method: str) -> list[list[str]]:
    """One row of text for each setting, under `HEADER`."""
    return [
        [dataset, backbone.upper(), *_cells(found, result.digits)]
        for (dataset, backbone), found in result.standings[method].items()
    ]


def sentences(result: TableResult, method: str) -> list[str]:
    """What the verdicts mean, their sum, and which methods could not be rivals.

    Examples
    --------
    >>> ours = Standing("ours", 1.0, 15, "theirs", 2.0, None, "best")
    >>> result = TableResult("t", "", "percent", 2, None, (), (), {"ours": {("Cora", "gcn"): ours}})
    >>> sentences(result, "ours")[1]
    'ours is best or tied in 1 of 1 settings: 1 best, 0 tied, 0 behind.'
    """
    standings = result.standings[method]
    verdicts = [found.verdict for found in standings.values()]
    best, tied, behind, unknown = (verdicts.count(v) for v in ("best", "tied", "behind", ""))
    told = [
        f"best: no other method has a lower mean than {method}. tied: the best rival's mean is "
        "lower, but the 95 % interval of the difference paired by split (Student's t over split "
        "means) holds zero. behind: it does not. Rivals are the methods shown that have as many "
        "runs of the setting"
        f"{', without ' + ', '.join(others) if (others := _others(result, method)) else ''}.",
        f"{method} is best or tied in {best + tied} of {best + tied + behind} settings: "
        f"{best} best, {tied} tied, {behind} behind.",
    ]
    if unknown:
        told.append(
            f"{unknown} {'setting is' if unknown == 1 else 'settings are'} not judged: {method} "
            "or every rival has too few runs there."
        )
    few = _few(standings)
    return [*told, f"Too few runs to be a rival: {few}."] if few else told


def difference(pair: Paired, digits: int, *, star: bool = False) -> str:
    """A paired difference with its interval; ``star`` marks an interval without zero.

    Examples
    --------
    >>> difference(Paired(-1.5, -2.25, -0.75, 0.01, 5, 5), 2, star=True)
    '-1.50* [-2.25, -0.75]'
    """
    mark = "*" if star and pair.clear else ""
    return f"{pair.difference:+.{digits}f}{mark} [{pair.low:+.{digits}f}, {pair.high:+.{digits}f}]"


def _others(result: TableResult, method: str) -> list[str]:
    return [name for name in result.standings if name != method]


def _cells(found: Standing, digits: int) -> list[str]:
    rival = f"{found.rival} {found.rival_mean:.{digits}f}" if found.rival else NOTHING
    if found.paired is None:
        return [NOTHING, rival, NOTHING, "not judged"]
    return [found.best, rival, difference(found.paired, digits), found.verdict]


def _few(standings: Mapping[tuple[str, str], Standing]) -> str:
    """Methods with too few runs, each with the settings where it has some."""
    where: dict[str, list[str]] = {}
    without: dict[str, int] = {}
    for (dataset, backbone), found in standings.items():
        for name, runs in found.few:
            places = where.setdefault(name, [])
            if runs:
                places.append(f"{runs} on {dataset} {backbone.upper()}")
            else:
                without[name] = without.get(name, 0) + 1
    return "; ".join(
        f"{name} ({', '.join([*places, *_none_in(without.get(name, 0), bool(places))])})"
        for name, places in where.items()
    )


def _none_in(settings: int, others: bool) -> list[str]:
    if not settings:
        return []
    kind = "other" if others else "setting"
    return [f"none in {settings} {kind}{'s' if settings > 1 else ''}"]
