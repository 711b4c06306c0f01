"""Fixtures of other rooms that the commands are tested with."""

from tests.report.conftest import model

__all__ = ["model"]
