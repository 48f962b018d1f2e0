# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""MindSpore's operators as ``__fallback__`` hands them over, in the form that the dispatcher takes."""

from __future__ import annotations

from typing import Any

from mindspore.ops import Primitive


class NativeOperator:
    """An operator of MindSpore under its native name ("AddExt"); equal to itself in every call.

    MindSpore makes a new object for each call, by which no kept plan would be found.
    """

    def __init__(self, call: Any, primitive: Any = None) -> None:
        self.name: str = call.name
        self._call = call
        self._primitive = primitive
        # One name may stand for a function and for a method, which take their arguments differently.
        self._key = (self.name, type(call), id(primitive))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._primitive is not None:
            return self._call(self._primitive, self.name, args, **kwargs)
        return self._call(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NativeOperator) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"<MindSpore operator {self.name}>"


def native_call(call: Any, args: Any) -> tuple[NativeOperator, tuple[Any, ...]]:
    """Return the operator and its arguments; older operators come packed as (primitive, name, arguments)."""
    if len(args) == 3 and isinstance(args[0], Primitive):
        primitive, _, packed = args
        return NativeOperator(call, primitive), tuple(packed)
    return NativeOperator(call), tuple(args)
