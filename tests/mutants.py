# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Code with a mistake put into it, to see that tests find it: in a text, or in copies of modules while a block runs."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

FOUND = (AssertionError, IndexError, ValueError)
"""What a mistake may be seen by. Anything else says that the text is broken, not that the code is wrong."""


@dataclass(frozen=True)
class Mutant:
    """`old` replaced by `new` in a module, named by the last part of its path."""

    mistake: str
    module: str
    old: str
    new: str


def with_mistake(text: str, old: str, new: str) -> str:
    """The text with the mistake at the one place that it is meant for."""
    assert text.count(old) == 1, f"{text.count(old)} places, one expected: {old!r}"
    return text.replace(old, new)


@contextmanager
def copied_modules(names: Sequence[str], mutant: Mutant | None) -> Iterator[dict[str, Any]]:
    """Copies of loaded modules in their places, one of them with the mistake in it. They are gone after the block.

    Args:
        names: The modules' full names, each behind those that it imports.
        mutant: Its module is the last part of one of the names; None for copies without a mistake.

    Yields:
        The last part of a name -> the copy.
    """
    short = [name.rpartition(".")[2] for name in names]
    assert len(set(short)) == len(short)
    assert mutant is None or mutant.module in short, mutant
    copies: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        for name, last in zip(names, short, strict=True):
            path = Path(sys.modules[name].__file__ or "")
            text = path.read_text()
            if mutant is not None and mutant.module == last:
                text = with_mistake(text, mutant.old, mutant.new)
            copies[last] = types.ModuleType(name)
            patch.setitem(sys.modules, name, copies[last])
            exec(compile(text, str(path), "exec"), vars(copies[last]))
        yield copies


def assert_found(check: Callable[[], object]) -> None:
    """The check fails because of what it sees."""
    with pytest.raises(FOUND):
        check()
