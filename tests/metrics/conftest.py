"""Hypothesis without a deadline: a busy machine is not a wrong metric."""

from hypothesis import settings

settings.register_profile("metrics", deadline=None, derandomize=True)
settings.load_profile("metrics")
