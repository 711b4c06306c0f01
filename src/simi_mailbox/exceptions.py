"""Errors and warnings that callers may want to catch by name."""


class NotFittedError(ValueError, AttributeError):
    """A calibrator was used before ``fit``.

    Like scikit-learn's, but not scikit-learn's: to name an error must not load all of that.
    """


class SolverError(RuntimeError):
    """A temperature could not be solved for; the message says why."""


class FileFormatError(ValueError):
    """A file is not a calibrator of this library, is damaged, or is of a newer format."""


class CalibrationWarning(UserWarning):
    """A fit succeeded, but not in the way that was asked for; the message says how."""
