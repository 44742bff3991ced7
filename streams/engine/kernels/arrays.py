"""Array types of the kernels, and the check that an argument has exactly the layout a kernel was compiled for.

A float or an unsigned array where int64 is expected is an error, not a cast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
U64 = NDArray[np.uint64]
U16 = NDArray[np.uint16]
U8 = NDArray[np.uint8]
F64 = NDArray[np.float64]
Records = NDArray[np.void]

#: A constant as an argument of a helper has a type of its own, for which Numba compiles the helper once more, and an int32
#: of an array has, too; these have the one type that every other caller's has.
as_int64 = cast("Callable[[int], int]", np.int64)
as_flag = cast("Callable[[bool], bool]", np.bool_)

INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)

#: The end of an open interval, or an instant that never comes; sums with it cannot overflow int64.
#: Before every instant.

S = TypeVar("S", bound=np.generic)


def exact(values: ArrayLike, dtype: type[S]) -> NDArray[S]:
    """The values as a C-ordered, writable array of `dtype`; any other layout would compile a kernel again.

    Raises:
        TypeError: The values cannot be cast without loss.
    """
    array: NDArray[Any] = np.asarray(values)
    if array.dtype != dtype:
        # An empty list has no type of its own.
        array = array.astype(dtype, casting="unsafe" if array.size == 0 else "safe")
    if array.flags.carray:
        return array
    return np.require(array, requirements=["C", "W", "A"])


def equal_lengths(*arrays: NDArray[Any]) -> int:
    """The common length; kernels read without bounds checks.

    Raises:
        ValueError: The lengths differ.
    """
    lengths = {len(array) for array in arrays}
    if len(lengths) != 1:
        raise ValueError(f"arrays of unequal length: {sorted(lengths)}")
    return lengths.pop()


def check_pointers(pointers: I64, size: int) -> None:
    """Check that row pointers ascend from 0 to `size`, as a kernel would otherwise read past an array.

    Raises:
        ValueError: They do not.
    """
    if len(pointers) == 0 or pointers[0] != 0 or pointers[-1] != size or bool((np.diff(pointers) < 0).any()):
        raise ValueError(f"pointers do not rise from 0 to {size}")
