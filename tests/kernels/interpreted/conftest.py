"""Triton's interpreter makes much anew that it has made before, and most of these tests' time was
that.

Whenever one function calls another, it goes through its whole language to prepare it, even where
the launch around has done so; for every number that a kernel computes it builds the type, the shape
and a table of types again.
"""

from collections.abc import Callable
from typing import Any

import pytest
from triton import language
from triton.language import core
from triton.runtime import interpreter


@pytest.fixture(autouse=True, scope="session")
def languages_prepared_once():
    prepare = interpreter._patch_lang

    def prepare_what_is_not(fn):
        seen = fn.__globals__.values()
        for each in (language, core):
            if core.is_builtin(each.load) and any(each is one for one in seen):
                return prepare(fn)
        return None  # which only a launch would use, and that always prepares

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter, "_patch_lang", prepare_what_is_not)
        yield


@pytest.fixture(autouse=True, scope="session")
def types_made_once():
    dtypes, dtype_of = {}, interpreter._get_np_dtype

    def known_dtype(kind):
        """Numpy's for a type, or for a block of such."""
        name = kind.scalar.name
        if name not in dtypes:
            dtypes[name] = dtype_of(kind)
        return dtypes[name]

    def block(element, shape):
        return (element.name, *map(core._unwrap_if_constexpr, shape))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter, "_get_np_dtype", known_dtype)
        patch.setattr(core.block_type, "__init__", made_once(core.block_type, block))
        tensor = made_once(core.tensor, lambda handle, kind: kind.name, "handle", "type")
        patch.setattr(core.tensor, "__init__", tensor)
        yield


def made_once(kind: type, key: Callable[..., Any], *own: str) -> Callable[..., None]:
    """An `__init__` that gives what has the same key the same attributes, but for its own ones,
    which are what it is given."""
    known: dict[Any, dict[str, Any]] = {}
    make = kind.__init__

    def init(self: Any, *given: Any) -> None:
        name = key(*given)
        if name in known:
            vars(self).update(known[name], **dict(zip(own, given, strict=False)))
        else:
            make(self, *given)
            known[name] = {each: vars(self)[each] for each in vars(self) if each not in own}

    return init
