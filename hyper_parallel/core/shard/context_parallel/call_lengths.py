# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Integers of a call, document ends and residuals: read to the host for the cut, and rewritten in the form they had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hyper_parallel.platform import get_platform


class ReadIntegers(tuple[int, ...]):
    """The values of a device tensor, which `source` is: read once, for the checks and for the cut."""

    source: Any

    def __new__(cls, source: Any) -> ReadIntegers:
        """Read a 1-D tensor of integers.

        Raises:
            TypeError, ValueError: it is none.
            RuntimeError: it has no values, as while a computation is traced.
        """
        platform = get_platform()
        if not platform.has_values(source):
            raise RuntimeError(
                "document ends should have values where a sequence is cut for several ranks, but got a "
                f"{type(source).__name__} without: trace the call on local tensors instead"
            )
        integers = super().__new__(cls, platform.host_integers(source))
        integers.source = source
        return integers


def read(value: Any) -> Any:
    """A value whose integers are on the host: a tensor is read, by one copy, anything else stays as it is."""
    return ReadIntegers(value) if get_platform().is_tensor(value) else value


def rewritten(value: Any, integers: Sequence[int]) -> Any:
    """Other integers in the form of `value`: a list, a tuple, or a tensor of its dtype on its device."""
    source = value.source if isinstance(value, ReadIntegers) else value
    platform = get_platform()
    if platform.is_tensor(source):
        return platform.integer_tensor(integers, platform.dtype_name(source), source)
    return type(source)(integers)
