"""One compiled look at every pair of neighbours: the limit that times are compared with.

Needs Numba (``pip install ./bench[speed]``), which the library does not use.
"""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import extending, types

Function = TypeVar("Function", bound=Callable[..., Any])

AHEAD = 8
"""Neighbours whose logits are on their way while one is multiplied."""
BUFFER = 256
LOWEST = -708.0
"""exp of less is not a normal number."""
LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10

# Sums may be taken in any order; not-a-number and infinity keep their meaning.
LOOSE = {"reassoc", "contract", "arcp", "nsz"}


_intrinsic: Any = extending.intrinsic  # numba's own type for it is that of the code it makes


def _compile(**options: Any) -> Callable[[Function], Function]:
    def compile_(function: Function) -> Function:
        try:
            compiled: Function = numba.njit(cache=True, nogil=True, **options)(function)
        except RuntimeError:  # no folder to keep the machine code in
            compiled = numba.njit(nogil=True, **options)(function)
        return compiled

    return compile_


@_intrinsic  # type: ignore[untyped-decorator]
def _as_float(context: Any, bits: Any) -> Any:
    """The float64 with these bits."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


@_intrinsic  # type: ignore[untyped-decorator]
def _fetch(context: Any, address: Any) -> Any:
    """Ask for the cache line at an address, without waiting for it."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        _prefetch(builder, builder.inttoptr(arguments[0], ir.IntType(8).as_pointer()))
        return context.get_dummy_value()

    return types.void(types.intp), generate


def _prefetch(builder: Any, where: Any) -> None:
    pointer, word = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [pointer, word, word, word])
    name = "llvm.prefetch.p0"
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    builder.call(function, [where, word(0), word(3), word(1)])  # read, keep, data


@_compile(inline="always", fastmath={"contract"})
def _exp(x: float) -> float:
    """exp(x) for −708 ≤ x ≤ 708, to the last digit; unlike the library's it can be vectorised."""
    k = math.floor(x * LOG2_E + 0.5)
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    p = 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    return p * _as_float(np.int64(np.int32(k) + np.int32(1023)) << np.int64(52))  # type: ignore[no-any-return]


@_compile(fastmath=LOOSE)
def add_similarities(
    rows: tuple[int, int],
    indptr: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    z: npt.NDArray[Any],
    totals: npt.NDArray[np.float64],
    both: bool,
) -> None:
    """Add sigmoid(z_i · z_j) of the entries (i, j) of some rows to the totals of i.

    With ``both`` only entries with j > i are looked at, and the totals of j are added to as well.
    """
    classes = z.shape[1]
    line = 64 // z.itemsize
    last = indices.shape[0] - 1
    values = np.empty(BUFFER)
    for i in range(rows[0], rows[1]):
        first, stop = indptr[i], indptr[i + 1]
        if both:
            first += np.searchsorted(indices[first:stop], i, side="right")
        total = 0.0
        for start in range(first, stop, BUFFER):
            count = min(BUFFER, stop - start)
            for q in range(count):
                ahead = indices[min(start + q + AHEAD, last)]
                for c in range(0, classes, line):
                    _fetch(z[ahead, c:].ctypes.data)
                j = indices[start + q]
                product = 0.0
                for c in range(classes):
                    product += np.float64(z[i, c]) * np.float64(z[j, c])
                values[q] = product
            for q in range(count):
                values[q] = 1.0 / (1.0 + _exp(min(max(-values[q], LOWEST), -LOWEST)))
            for q in range(count):
                total += values[q]
            if both:
                for q in range(count):
                    totals[indices[start + q]] += values[q]
        totals[i] += total
