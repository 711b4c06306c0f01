"""Whether fitted values that come from a file are such as a fit can leave."""

from typing import Any, get_args

import numpy as np

from simi_mailbox import parameters
from simi_mailbox.validation import InputType

Shapes = dict[str, tuple[str | int, ...]]
"""Of fitted values, by name; sides of one name are equally long."""
POSITIVE = frozenset({"temperature_", "temperatures_", "scale_", "spread_"})
BELOW_ONE = 1.0 - 1e-9
ENDLESS = frozenset({"widest_"})
"""Fitted values that may be infinite."""


def check_values(shapes: Shapes, state: dict[str, Any]) -> None:
    """Raise `ValueError` unless these are the values of a fit, with the ``shapes`` of a method."""
    wrong = [name for name in state if not name.endswith("_") or name.startswith("_")]
    if wrong:
        raise ValueError(f"{wrong[0]!r} is no fitted value")
    classes = state.get("num_classes_")
    if type(classes) is not int or classes < 2:
        raise ValueError(f"num_classes_ must be a whole number ≥ 2, got {classes!r}")
    missing = [name for name in ("classes_", "input_type_", "widest_") if name not in state]
    if missing:
        raise ValueError(f"{missing[0]} is missing")
    possible = np.asarray(state["classes_"])
    if possible.ndim != 1 or not np.isin(possible, np.arange(classes)).all():
        raise ValueError(f"classes_ must be some of 0..{classes - 1}")
    if state["input_type_"] not in get_args(InputType):
        raise ValueError(f"input_type_ must be one of {', '.join(get_args(InputType))}")
    parameters.check_numbers(state, ENDLESS)
    check_shapes(shapes, state, len(np.unique(possible)))
    for name in POSITIVE & set(state):
        if not np.min(state[name], initial=np.inf) > 0:
            raise ValueError(f"{name} must be positive, got {np.min(state[name]):.6g}")


def check_within(name: str, values: Any, low: float, high: float) -> None:
    """Raise `ValueError` unless all ``values`` lie in [low, high]."""
    array = np.ravel(np.asarray(values, dtype=np.float64))
    wrong = array[~((array >= low) & (array <= high))]
    if len(wrong):
        raise ValueError(f"{name} must lie in [{low:g}, {high:g}], got {wrong[0]:.6g}")


def check_shapes(shapes: Shapes, state: dict[str, Any], classes: int) -> None:
    """Raise `ValueError` if a value is missing, or of a shape that does not fit the others."""
    sizes: dict[str | int, int] = {"classes": classes}
    for name, shape in shapes.items():
        if name not in state:
            raise ValueError(f"{name} is missing")
        value = state[name]
        if not shape and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise ValueError(f"{name} must be a number, got {type(value).__name__}")
        if shape and not (isinstance(value, np.ndarray) and value.ndim == len(shape)):
            raise ValueError(f"{name} must be an array of {len(shape)} dimensions")
        found = np.shape(value)
        for side, length in zip(shape, found, strict=True):
            sizes.setdefault(side, length if isinstance(side, str) else side)
        expected = [sizes[side] for side in shape]
        if list(found) != expected:
            raise ValueError(f"{name} has shape {list(found)}, expected {expected}")
