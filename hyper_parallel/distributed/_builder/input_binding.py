# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Where the inputs of a contract stand in a call of a module."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hyper_parallel.distributed._builder.contract import suggestion

_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class InputBinding:
    """Finds declared inputs by the names of the forward's parameters.

    The only input of a contract may have any name: if the forward has no parameter of it, it is positional argument 0.

    Args:
        where: for messages, such as "For module 'attn'".
        forward: the bound method that computes.
        names: the declared inputs.

    Raises:
        ValueError: a name that the forward does not have.
    """

    def __init__(self, where: str, forward: Callable[..., Any], names: Iterable[str]) -> None:
        self.where = where
        self.names = tuple(names)
        parameters = _parameters(forward)
        self._position = {
            name: place for place, name in enumerate(name for name, kind in parameters if kind in _BY_POSITION)
        }
        self._first_for: str | None = None
        known = {name for name, kind in parameters if not _is_variadic(kind)}
        takes_any_keyword = any(kind is inspect.Parameter.VAR_KEYWORD for _, kind in parameters)
        for name in self.names:
            if name in known:
                continue
            if len(self.names) == 1 and not _is_misspelt(name, known, self._position):
                self._first_for = name
            elif not takes_any_keyword or known:
                raise ValueError(
                    f"{where}, in_src declares {name!r}, which is no parameter of its forward: "
                    f"{suggestion(name, known)}{_advice(known)}"
                )

    def locate(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tuple[str, int | str]]:
        """Return for every declared input that a call has its name and its place: a position, or a keyword.

        Raises:
            TypeError: a call in which the input cannot be told.
        """
        found: list[tuple[str, int | str]] = []
        for name in self.names:
            if name in kwargs:
                found.append((name, name))
            elif self._position.get(name, len(args)) < len(args):
                found.append((name, self._position[name]))
            elif name == self._first_for:
                if not args:
                    raise TypeError(
                        f"{self.where}, the declared input {name!r} stands for the first positional argument, "
                        f"but the call has none; its keywords are {sorted(kwargs)}"
                    )
                found.append((name, 0))
            elif not self._position and args:
                raise TypeError(
                    f"{self.where}, the declared input {name!r} should be given by keyword: the forward has no names "
                    "for its positional arguments. A subclass with an explicit signature gives them names"
                )
        return found


def _parameters(forward: Callable[..., Any]) -> list[tuple[str, Any]]:
    try:
        signature = inspect.signature(forward)
    except (TypeError, ValueError):  # of a builtin
        return []
    return [(name, parameter.kind) for name, parameter in signature.parameters.items()]


def _is_variadic(kind: Any) -> bool:
    return kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _is_misspelt(name: str, known: Iterable[str], position: Mapping[str, int]) -> bool:
    """Whether a name is that of another parameter than the first, but for a slip."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.75)
    return bool(close) and position.get(close[0]) != 0


def _advice(known: set[str]) -> str:
    return "" if known else "; a subclass with an explicit signature gives its inputs names"
