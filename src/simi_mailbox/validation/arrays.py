"""Arrays, tensors and lists as NumPy arrays; kinds of arrays that cannot be used are named."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from simi_mailbox._arrays import Array


def is_array(values: Any) -> bool:
    """Whether something is a NumPy array or a torch tensor, and not only a list of numbers."""
    # A tensor can only exist once torch was imported, so that this need not import it.
    torch = sys.modules.get("torch")
    return isinstance(values, np.ndarray) or (torch is not None and torch.is_tensor(values))


def as_numpy(values: Any, name: str = "the array") -> Array:
    """View an array, a tensor or a list as a NumPy array.

    Examples
    --------
    >>> as_numpy([1, 2]).tolist()
    [1, 2]
    >>> as_numpy(np.ma.array([1, 2], mask=[True, False]), "labels")
    Traceback (most recent call last):
        ...
    TypeError: labels is a masked array, whose mask would be lost: leave masked nodes out of the \
mask of nodes, and pass array.data
    """
    refuse_layout(values, name)
    if isinstance(values, np.ndarray) or not is_array(values):
        array = np.asarray(values)
        if array.dtype == np.longdouble and array.dtype != np.float64:
            raise TypeError(
                f"{name} is an array of {array.dtype}, wider than any model computes: pass "
                "array.astype(np.float64)"
            )
        # torch knows the byte order of this machine only.
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    tensor = values.detach().cpu()
    # NumPy has no bfloat16.
    return np.asarray((tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy())


def refuse_layout(values: Any, name: str) -> None:
    """Raise `TypeError` for masked, sparse and quantised arrays, and for tensors without data."""
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(
            f"{name} is a masked array, whose mask would be lost: leave masked nodes out of the "
            "mask of nodes, and pass array.data"
        )
    if isinstance(values, np.ndarray):
        return
    if hasattr(values, "tocsr"):
        raise TypeError(f"{name} is a SciPy sparse matrix: pass its .toarray()")
    if not is_array(values):
        return
    if str(values.layout) != "torch.strided":
        raise TypeError(f"{name} is a sparse tensor ({values.layout}): pass its .to_dense()")
    if values.is_quantized:
        raise TypeError(f"{name} is a quantised tensor ({values.dtype}): pass its .dequantize()")
    if values.is_meta:
        raise TypeError(f"{name} is a tensor on the meta device, which holds no numbers")
