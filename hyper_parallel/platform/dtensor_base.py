# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What a DTensor is to its framework: how it holds the local tensor, and why it is not an array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

if TYPE_CHECKING:
    from hyper_parallel.core.dtensor.layout import Layout
    from hyper_parallel.core.dtensor.tensor_spec import TensorSpec

Self = TypeVar("Self", bound="DTensorBase")


class NoArray:
    """Refuses NumPy functions: NumPy would wrap the object into an array of objects and compute nonsense."""

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


class DTensorBase(NoArray):
    """A plain object with the local tensor beside its layout; the base class of DTensor where that is enough."""

    __slots__ = ("__weakref__", "_global_shape", "_layout", "_local", "_spec")

    _local: Any
    _layout: Layout
    _global_shape: tuple[int, ...] | None
    _spec: TensorSpec | None

    @classmethod
    def from_layout(cls: type[Self], local: Any, layout: Layout) -> Self:
        """Return the DTensor of which this rank holds ``local``, unchecked: for layouts that a rule has derived."""
        result = cls.__new__(cls)
        result._local = local
        result._layout = layout if layout._frozen else layout.freeze()
        result._global_shape = None
        result._spec = None
        return result


def _refuse(name: str) -> NoReturn:
    raise TypeError(
        f"numpy.{name} does not take a DTensor: only operators registered with hyper_parallel are distributed; "
        "compute on .to_local() or .full_tensor()"
    )
