"""Compiled functions that compiled callers find by name.

Numba makes the code of a function again for each that calls it, and for those that call these.
Products are long, and passes call them several levels deep: much of what was compiled were copies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from llvmlite.binding import add_symbol
from numba import carray, cfunc, config, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

DONE = 1
"""The answer of a function that did not fail."""

_INT = ir.IntType(64)
_KEPT: dict[str, Any] = {}
"""The compiled functions by name; their code is there as long as they are."""


def called_by_name(count: int) -> Callable[[Callable[[int], int]], Any]:
    """Compile a function of integers now; compiled callers call it with these in a tuple.

    count  of the integers: the function is given the address where `integers_at` finds them

    It returns `DONE`.  Where it raises, numba says so on stderr and gives back 0; a caller then
    raises MemoryError, for what these functions lack is room.
    """

    def made(function: Callable[[int], int]) -> Any:
        if config.DISABLE_JIT:  # nor would anything that calls it be compiled
            return function
        kind = types.int64(types.int64)
        compiled = cfunc(kind, cache=True, error_model="numpy")(function)
        name = f"{function.__module__}.{function.__qualname__}"
        _KEPT[name] = compiled
        add_symbol(name, compiled.address)

        def typed(typing_context: Any, numbers: Any) -> tuple[Any, Any]:
            def written(context: Any, builder: ir.IRBuilder, signature: Any, given: Any) -> Any:
                kind = ir.FunctionType(_INT, [_INT])
                called = cgutils.get_or_insert_function(builder.module, kind, name)
                place = cgutils.alloca_once_value(builder, given[0])
                done = builder.call(called, [builder.ptrtoint(place, _INT)])
                failed = builder.icmp_signed("!=", done, _INT(DONE))
                with builder.if_then(failed, likely=False):
                    context.call_conv.return_user_exc(builder, MemoryError, (f"{name} failed",))
                return context.get_dummy_value()

            return types.void(types.UniTuple(types.int64, count)), written

        return intrinsic(typed)

    return made


@intrinsic(prefer_literal=True)
def integers_at(typing_context: Any, address: Any, count: Any) -> Any:
    """The tuple of so many integers that an address leads to."""
    numbers = types.UniTuple(types.int64, count.literal_value)

    def written(context: Any, builder: ir.IRBuilder, signature: Any, given: Any) -> Any:
        kind = context.get_value_type(numbers)
        return builder.load(builder.inttoptr(given[0], ir.PointerType(kind)), typ=kind)

    return numbers(types.int64, count), written


@njit(cache=True)
def rows_at(address: int, num_rows: int, step: int) -> np.ndarray:
    """float [num_rows, step] from an address on; of rows that are shorter than what lies between
    their starts the first entries."""
    return carray(floats_at(address), (num_rows, step))


@intrinsic
def floats_at(typing_context: Any, address: Any) -> Any:
    """The pointer to floats of 32 bits that an address is."""

    def written(context: Any, builder: ir.IRBuilder, signature: Any, given: Any) -> Any:
        return builder.inttoptr(given[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.float32)(types.int64), written
