# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Which arguments of a call belong to which parameter of a function, by its signature."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from functools import partial
from inspect import Parameter
from typing import Any

from hyper_parallel.platform import get_platform

# One for all functions, so that what holds a signature can be pickled. Reading one may lead to reading another.
_READING = threading.RLock()


class Parameters:
    """The parameters of one function by name. The signature is read once, when it is first asked for.

    A signature that cannot be read (of some functions written in C) leaves the keywords: they carry their names.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._is_read = False
        self._positions: dict[str, int] = {}
        self._kinds: dict[str, Any] | None = None

    def places(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
        """Yield where a parameter's value stands: `args` or `kwargs`, and the place in it. Nothing if it is not passed.

        Of `*rest` all places are yielded. A parameter that is passed twice, by position and by keyword, keeps the
        keyword's value: that takes the position, and leaves `kwargs`.

        Raises:
            ValueError: The function has no such parameter.
        """
        kind = self._kind(name)
        position = self._positions.get(name, len(args))
        if kind is Parameter.VAR_POSITIONAL:
            yield from ((args, place) for place in range(position, len(args)))
            return
        if kind is Parameter.POSITIONAL_OR_KEYWORD and name in kwargs and position < len(args):
            args[position] = kwargs.pop(name)
        if position < len(args):
            yield args, position
        elif name in kwargs:
            yield kwargs, name

    def _kind(self, name: str) -> Any:
        """How the parameter is passed; a name without a parameter is that of a keyword, if any keyword is taken."""
        if not self._is_read:
            with _READING:
                if not self._is_read:
                    self._read()
                    self._is_read = True
        kinds = self._kinds
        if kinds is None:
            return Parameter.KEYWORD_ONLY
        kind = kinds.get(name)
        if kind is Parameter.VAR_KEYWORD:
            raise ValueError(
                f"For {name_of(self._function)}, **{name} collects keywords. List these by their own names, not "
                f"{name!r}."
            )
        if kind is None and Parameter.VAR_KEYWORD not in kinds.values():
            close = get_close_matches(name, kinds, n=1)
            suggestion = f"Did you mean {close[0]!r}?" if close else "List names of parameters."
            raise ValueError(
                f"For {name_of(self._function)}, a listed input should be one of the parameters "
                f"({', '.join(kinds)}), but got {name!r}. {suggestion}"
            )
        return kind or Parameter.KEYWORD_ONLY

    def _read(self) -> None:
        try:
            parameters = inspect.signature(get_platform().called_function(self._function)).parameters
        except (TypeError, ValueError):
            return
        self._kinds = {name: parameter.kind for name, parameter in parameters.items()}
        by_position = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.VAR_POSITIONAL)
        names = [name for name, kind in self._kinds.items() if kind in by_position]
        self._positions = {name: position for position, name in enumerate(names)}


def name_of(function: Callable[..., Any]) -> str:
    """The name of a function for messages; of a partial that of what it calls, of an object its class's."""
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__qualname__", None) or type(function).__name__
    return str(name).rpartition("<locals>.")[2]
