# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The class of a platform whose static methods are the operators of all libraries."""

from __future__ import annotations

from typing import Any

from hyper_parallel import library


class OperatorsOf(type):
    """Makes classes that take each operator, when it is first asked for, from its library's class of the same name."""

    platform: str

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, platform: str) -> OperatorsOf:
        made = super().__new__(mcs, name, bases, namespace)
        made.platform = platform
        return made

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, platform: str) -> None:  # noqa: ARG002
        super().__init__(name, bases, namespace)

    def __getattr__(cls, op: str) -> Any:
        if op.startswith("__"):
            raise AttributeError(f"{cls.__name__} has no attribute {op!r}")
        try:
            entry = library.operator(op)
        except LookupError as error:
            raise AttributeError(str(error)) from None
        function = entry.load_entry_point(cls.platform, cls.__name__)
        setattr(cls, op, staticmethod(function))
        return function

    def __dir__(cls) -> list[str]:
        return sorted({*super().__dir__(), *library.operators()})
