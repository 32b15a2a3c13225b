"""Whenever one function calls another, Triton's interpreter goes through its whole language to
prepare it, even where the launch around has done so.  That took half of these tests' time."""

import pytest
from triton import language
from triton.runtime import interpreter


@pytest.fixture(autouse=True, scope="session")
def languages_prepared_once():
    prepare = interpreter._patch_lang

    def prepare_what_is_not(fn):
        seen = fn.__globals__.values()
        for each in (language, language.core):
            if language.core.is_builtin(each.load) and any(each is one for one in seen):
                return prepare(fn)
        return None  # which only a launch would use, and that always prepares

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter, "_patch_lang", prepare_what_is_not)
        yield
