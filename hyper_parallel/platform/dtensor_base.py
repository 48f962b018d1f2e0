# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Why a DTensor is not an array: NumPy would otherwise wrap it into an array of objects and compute nonsense."""

from __future__ import annotations

from typing import Any, NoReturn


class DTensorBase:
    """Refuses NumPy functions; the base class of DTensor on the NumPy platform, and of the other platforms' bases."""

    __slots__ = ()

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            "a DTensor does not become a NumPy array by itself: take its part of this rank with .to_local(), "
            "or the whole with .full_tensor()"
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> NoReturn:
        _refuse(ufunc.__name__)

    def __array_function__(self, func: Any, *args: Any, **kwargs: Any) -> NoReturn:
        _refuse(func.__name__)


def _refuse(name: str) -> NoReturn:
    raise TypeError(
        f"numpy.{name} does not take a DTensor: only operators registered with hyper_parallel are distributed; "
        "compute on .to_local() or .full_tensor()"
    )
