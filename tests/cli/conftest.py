"""Fixtures of other rooms that the commands are tested with."""

from tests.data.conftest import folder, tiny, tiny_arrays
from tests.report.conftest import model

__all__ = ["folder", "model", "tiny", "tiny_arrays"]
