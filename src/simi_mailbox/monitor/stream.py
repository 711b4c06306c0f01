"""Alarms over many days that are false with a fixed probability, however long one looks.

Labels: under "accuracy is not below confidence" every product Π (1 + λ (c_i − r_i)) of confidence c
and correctness r is a supermartingale that starts at 1. A weighted sum of such products, one for
every day that a drop may begin on and every bet λ, reaches 1 / α with a probability of at most α
(Ville). Looks: the p-value of day k is held against α · 6 / (π² k²), which adds up to α.
"""

import math
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from simi_mailbox._arrays import Floats

RATE = 0.05
SHARE_OF_LOOKS = 0.2
"""Of the rate of false alarms, for drift of what nodes look like; the rest is for labels."""
BETS = (0.1, 0.2, 0.4, 0.8)
DROPS = ("overconfident", "underconfident")


@dataclass
class Stream:
    """What has been seen so far, and whether it raises an alarm."""

    days: int = 0
    labels: int = 0
    alarm: str = ""
    """"overconfident", "underconfident", "drift", or "" for none."""
    since: int = 0
    """Day of the alarm."""
    wealth: Floats = field(default_factory=lambda: np.empty((0, 2, len(BETS))), repr=False)

    def add(self, confidence: Any, right: Any, *, p: float | None = None) -> Self:
        """One day: calibrated confidence and correctness of labelled nodes, p-value of drift."""
        off = np.asarray(confidence, dtype=np.float64) - np.asarray(right, dtype=np.float64)
        self.days += 1
        self.labels += len(off)
        sides = np.outer([1.0, -1.0], BETS)
        gains = np.log1p(off[:, None, None] * sides).sum(axis=0)
        self.wealth = np.concatenate([self.wealth, np.zeros((1, 2, len(BETS)))]) + gains
        if not self.alarm:
            self.alarm = self._alarm(p)
            self.since = self.days if self.alarm else 0
        return self

    def _alarm(self, p: float | None) -> str:
        starts = np.arange(1, self.days + 1)
        weights = np.log(6.0 / (math.pi * starts) ** 2 / (2 * len(BETS)))
        sides = np.logaddexp.reduce(self.wealth + weights[:, None, None], axis=(0, 2))
        # The two sides share one sum, so that its chance to reach 1 / α is at most α.
        if np.logaddexp.reduce(sides) >= -math.log(RATE * (1.0 - SHARE_OF_LOOKS)):
            return DROPS[int(sides.argmax())]
        allowed = RATE * SHARE_OF_LOOKS * 6.0 / (math.pi * self.days) ** 2
        return "drift" if p is not None and p <= allowed else ""

    @property
    def sentence(self) -> str:
        """What to tell of it."""
        seen = f"{self.days} days, {self.labels} labels"
        if not self.alarm:
            return f"no alarm ({seen})"
        what = "nodes no longer look like the calibration nodes"
        if self.alarm in DROPS:
            what = f"the probabilities are {self.alarm}"
        return f"alarm on day {self.since}: {what} ({seen})"

    def to_dict(self) -> dict[str, Any]:
        """Plain values; `from_dict` takes them back."""
        plain = {name: getattr(self, name) for name in ("days", "labels", "alarm", "since")}
        return {**plain, "sentence": self.sentence, "wealth": self.wealth.tolist()}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Self:
        """What `to_dict` gave, to go on tomorrow."""
        plain = {name: state[name] for name in ("days", "labels", "alarm", "since")}
        wealth = np.array(state["wealth"], dtype=np.float64).reshape(-1, 2, len(BETS))
        return cls(**plain, wealth=wealth)
