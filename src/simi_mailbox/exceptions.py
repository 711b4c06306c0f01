"""Errors and warnings that callers may want to catch by name."""


class NotFittedError(ValueError, AttributeError):
    """A calibrator was used before ``fit``. (Scikit-learn's would load all of scikit-learn.)"""


class SolverError(RuntimeError):
    """A temperature could not be solved for; the message says why."""


class FileFormatError(ValueError):
    """A file is not a calibrator of this library, is damaged, or is of a newer format."""


class CalibrationWarning(UserWarning):
    """A fit succeeded, but not in the way that was asked for; the message says how."""
