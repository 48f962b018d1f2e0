# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""How MindSpore treats a DTensor: operators go to the dispatcher, nothing else reads the local tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import mindspore as ms
from mindspore import mint

from hyper_parallel.platform.dtensor_base import NoArray
from hyper_parallel.platform.mindspore.graph_mode import check_not_traced, refusal
from hyper_parallel.platform.mindspore.host_arrays import to_array, to_tensor
from hyper_parallel.platform.mindspore.native_operator import native_call

if TYPE_CHECKING:
    from hyper_parallel.core.dtensor.layout import Layout
    from hyper_parallel.core.dtensor.tensor_spec import TensorSpec

Self = TypeVar("Self", bound="MindSporeDTensorBase")
_IN_GRAPH_MODE = refusal("take", "a DTensor, nor what works on one")


class MindSporeDTensorBase(NoArray, ms.Tensor):  # type: ignore[misc]
    """A MindSpore tensor: a plain object would give zeros as a gradient or as a loss, without an error.

    To MindSpore's C++ code the object *is* the local tensor, and the local tensor is the object under another class: so
    gradients flow through it, and with respect to it.
    """

    _layout: Layout
    _global_shape: tuple[int, ...] | None
    _spec: TensorSpec | None
    _parameter: Any

    def __new__(cls, *_args: Any, **_kwargs: Any) -> NoReturn:
        # Not called when a DTensor is made: this is Parameter(dtensor), or the class itself.
        raise TypeError(
            "make a DTensor with DTensor.from_local(local, mesh, placements) or distribute_tensor; a Parameter stays "
            "local: DTensor.from_local(parameter, mesh, placements)"
        )

    @classmethod
    def from_layout(cls: type[Self], local: Any, layout: Layout) -> Self:
        """Return the DTensor of which this rank holds ``local``, unchecked: for layouts that a rule has derived."""
        # Waits for the operator that computes the tensor: its failure would end the process in the next line.
        local.shape  # noqa: B018
        result: Self = ms.Tensor._make_subclass(cls, local)
        # Under another class a parameter has no gradient, and does not follow the optimizer: it is kept as it is.
        result._parameter = local if isinstance(local, ms.Parameter) else None
        result._layout = layout if layout._frozen else layout.freeze()
        result._global_shape = None
        result._spec = None
        return result

    @property
    def __ms_mutable__(self) -> NoReturn:
        # What MindSpore asks of each argument of a function that it compiles.
        raise RuntimeError(_IN_GRAPH_MODE)

    @property
    def _local(self) -> Any:
        check_not_traced(_IN_GRAPH_MODE)
        return ms.Tensor._make_subclass(ms.Tensor, self) if self._parameter is None else self._parameter

    def __fallback__(self, func: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        # Imported here: the dispatcher needs the DTensor, whose base this is.
        from hyper_parallel.core.shard._op_dispatch import _OP_DISPATCHER

        check_not_traced(_IN_GRAPH_MODE)
        operator, arguments = native_call(func, args)
        return _OP_DISPATCHER.dispatch(operator, arguments, kwargs or {})

    def __str__(self) -> str:
        return repr(self)

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __copy__(self: Self) -> Self:
        return self

    def __deepcopy__(self: Self, memo: dict[int, Any]) -> Self:
        # Through the host: MindSpore cannot copy a tensor that is not a leaf.
        return self.from_layout(to_tensor(to_array(self._local)), self._layout)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _loaded, (type(self), to_tensor(to_array(self._local)), self._layout)

    # A plain tensor on the left knows nothing of __fallback__, so Python has to ask this class first.

    def __radd__(self, other: Any) -> Any:
        return mint.add(other, self)

    def __rsub__(self, other: Any) -> Any:
        return mint.sub(other, self)

    def __rmul__(self, other: Any) -> Any:
        return mint.mul(other, self)

    def __rtruediv__(self, other: Any) -> Any:
        return mint.div(other, self)

    def __rfloordiv__(self, other: Any) -> Any:
        return mint.floor_divide(other, self)

    def __rmod__(self, other: Any) -> Any:
        return mint.remainder(other, self)

    def __rpow__(self, other: Any) -> Any:
        return mint.pow(other, self)

    def __rmatmul__(self, other: Any) -> Any:
        return mint.matmul(other, self)

    def __rand__(self, other: Any) -> Any:
        return mint.logical_and(other, self)

    def __ror__(self, other: Any) -> Any:
        return mint.logical_or(other, self)

    def __rxor__(self, other: Any) -> Any:
        return mint.logical_xor(other, self)


def _loaded(cls: type[Self], local: Any, layout: Layout) -> Self:
    return cls.from_layout(local, layout)


# Methods and properties of a MindSpore tensor that read or change the local one without asking __fallback__: as if it
# were the whole.
_LOCAL_METHODS = """
    __bool__ __complex__ __float__ __getitem__ __index__ __int__ __iter__ __len__ __pos__ __setitem__
    asnumpy assign_value assign_value_cpp cauchy contiguous data_ptr data_sync dim fill flush_from_cache get_bytes
    isreal item ndimension nelement numel numpy positive resize set_ storage storage_offset stride swapaxes swapdims
    to_dlpack tolist type_as untyped_storage value
""".split()
_LOCAL_PROPERTIES = "data nbytes size strides".split()


def _refused_method(name: str) -> Callable[..., NoReturn]:
    def refuse(_self: Any, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise TypeError(_of_the_whole(name))

    refuse.__name__ = name
    return refuse


def _refused_property(name: str) -> property:
    def refuse(_self: Any) -> NoReturn:
        raise TypeError(_of_the_whole(name))

    return property(refuse)


def _of_the_whole(name: str) -> str:
    return (
        f"a DTensor has no {name!r}: take its part of this rank with .to_local(), or the whole with .full_tensor(), "
        "and ask that"
    )


for _name in _LOCAL_METHODS:
    setattr(MindSporeDTensorBase, _name, _refused_method(_name))
for _name in _LOCAL_PROPERTIES:
    setattr(MindSporeDTensorBase, _name, _refused_property(_name))
