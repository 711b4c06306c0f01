"""One file per calibrator: tensors as safetensors, the rest as JSON in its header. No pickle."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from simi_mailbox import states
from simi_mailbox.exceptions import FileFormatError

if TYPE_CHECKING:
    from simi_mailbox.calibrators.base import Calibrator

KIND = states.Kind("calibrator", version=1)


def save(
    path: str | os.PathLike[str], name: str, params: dict[str, Any], state: dict[str, Any]
) -> None:
    """Write a calibrator; the file appears whole or not at all."""
    states.save(path, KIND, name, params, state)


def load(path: str | os.PathLike[str]) -> Calibrator:
    """Read a calibrator that ``save`` wrote.

    Raises
    ------
    FileFormatError
        If the file is damaged, is no calibrator, or was written in a newer format.

    Examples
    --------
    >>> import numpy as np, tempfile, simi_mailbox
    >>> logits = np.random.default_rng(0).normal(size=(50, 3))
    >>> cal = simi_mailbox.TemperatureScaling().fit(logits, logits.argmax(1), mask=np.arange(50))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cal.save(f"{folder}/cal.safetensors")
    ...     again = simi_mailbox.load(f"{folder}/cal.safetensors")
    >>> bool((again.predict_proba(logits) == cal.predict_proba(logits)).all())
    True
    """
    from simi_mailbox.calibrators import registry

    name, params, state = states.load(path, KIND)
    try:
        calibrator = registry.get(name)(**params)
    except (TypeError, ValueError) as error:
        raise FileFormatError(f"{path} does not describe a calibrator: {error}") from error
    for attribute, value in state.items():
        setattr(calibrator, attribute, value)
    return calibrator
