"""The threads of a compiled pass: those that torch has already, asked through its own OpenMP.

Threads wait for work by spinning, so that two pools, torch's and another, would take the cores from
each other.  A team runs one function in all of its threads, each of which takes its share by its
number and waits for the others at barriers.
"""

from __future__ import annotations

import ctypes
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

FUNCTIONS = "GOMP_parallel", "GOMP_barrier", "omp_get_thread_num", "omp_get_num_threads"
"""GCC's OpenMP has them, and those of LLVM and Intel under the same names."""
LIBRARIES = re.compile(r"/.*/lib(gomp|omp|iomp5)[^/\n]*\.so[^/\n]*$", re.MULTILINE)

_INT, _INT32, _VOID = ir.IntType(64), ir.IntType(32), ir.VoidType()
_POINTER = ir.PointerType(ir.IntType(8))
_WORK, _NUMBER = ir.FunctionType(_VOID, [_POINTER]), ir.FunctionType(_INT32, [])


class Team(NamedTuple):
    """So many threads, and the addresses of `FUNCTIONS`, which a team of one does not use."""

    size: int
    parallel: int = 0
    barrier: int = 0
    own_number: int = 0
    num_threads: int = 0


ALONE = Team(1)


@cache
def _addresses() -> tuple[int, ...]:
    """Addresses of `FUNCTIONS` in the library that is loaded, torch's if there are several."""
    maps = Path("/proc/self/maps")
    paths = {found[0] for found in LIBRARIES.finditer(maps.read_text() if maps.exists() else "")}
    for path in sorted(paths, key=lambda path: "/torch/" not in path):
        try:
            library = ctypes.CDLL(path)
        except OSError:  # it was replaced on the disk since
            continue
        if all(hasattr(library, name) for name in FUNCTIONS):
            called = [getattr(library, name) for name in FUNCTIONS]
            return tuple(ctypes.cast(each, ctypes.c_void_p).value or 0 for each in called)
    return ()


def team_of(num_threads: int) -> Team:
    """A team of so many threads, or of one where torch's are out of reach."""
    addresses = _addresses() if num_threads > 1 else ()
    return Team(num_threads, *addresses) if addresses else ALONE


@njit(cache=True)
def wait_for_all(team: Team) -> None:
    """Go on when every thread of the team is here."""
    if team.size > 1:
        _call(team.barrier)


@njit(cache=True)
def own_part(size: int, unit: int, rank: int, team: Team) -> tuple[int, int]:
    """Start and end of a thread's share of `size` things, in pieces of `unit`."""
    pieces = (size + unit - 1) // unit
    return (
        min(size, pieces * rank // team.size * unit),
        min(size, pieces * (rank + 1) // team.size * unit),
    )


@intrinsic
def borrowed(typing_context: Any, what: Any) -> Any:
    """The same arrays, in tuples or alone, of which no references are counted.

    Numba counts one up and down for every part that is taken of an array.  Threads that share it
    then take a line of memory from each other all the time, which may take longer than what they
    compute.  Somebody else has to keep the arrays meanwhile.
    """

    def written(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        return _uncounted(context, builder, what, arguments[0])

    return what(what), written


def _uncounted(context: Any, builder: ir.IRBuilder, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        parts = zip(kind, cgutils.unpack_tuple(builder, value, len(kind)), strict=True)
        return context.make_tuple(
            builder, kind, [_uncounted(context, builder, *each) for each in parts]
        )
    return value


@intrinsic
def run_in_team(typing_context: Any, function: Any, work: Any, team: Any) -> Any:
    """Call `function(work, team, rank)` in all threads, with the team of those that came: OpenMP
    may give fewer than it is asked for.

    function  compiled by numba; it returns None, and must not raise: nobody would hear of it, and
              the others would wait
    work      a tuple of what it takes
    """
    takes = work, team, types.int64
    signature = types.void(function, work, team)
    compiled = function.dispatcher.get_compile_result(
        function.get_call_type(typing_context, takes, {})
    )

    def written(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> None:
        context.add_linking_libs([compiled.library])
        packed = cgutils.pack_struct(builder, arguments[1:])
        place = cgutils.alloca_once_value(builder, packed)
        share = ir.Function(builder.module, _WORK, builder.function.name + ".share")
        share.linkage = "internal"
        inner = ir.IRBuilder(share.append_basic_block())
        own = inner.load(inner.bitcast(share.args[0], place.type), typ=packed.type)
        shared, asked = cgutils.unpack_tuple(inner, own, 2)
        rank, size = (
            inner.sext(inner.call(inner.inttoptr(each, _NUMBER.as_pointer()), []), _INT)
            for each in (inner.extract_value(asked, at) for at in (3, 4))
        )
        came = inner.insert_value(asked, size, 0)
        context.call_internal_no_propagate(
            inner, compiled.fndesc, compiled.signature, [shared, came, rank]
        )
        inner.ret_void()
        called = ir.FunctionType(_VOID, [_WORK.as_pointer(), _POINTER, _INT32, _INT32])
        size, parallel = (builder.extract_value(arguments[2], each) for each in (0, 1))
        builder.call(
            builder.inttoptr(parallel, called.as_pointer()),
            [share, builder.bitcast(place, _POINTER), builder.trunc(size, _INT32), _INT32(0)],
        )
        return context.get_dummy_value()

    return signature, written


@intrinsic
def _call(typing_context: Any, address: Any) -> Any:
    """Call the function at an address, which takes nothing."""

    def written(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        builder.call(builder.inttoptr(arguments[0], ir.FunctionType(_VOID, []).as_pointer()), [])
        return context.get_dummy_value()

    return types.void(types.int64), written
