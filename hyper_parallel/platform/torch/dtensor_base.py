# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""How torch functions treat a DTensor: they go to the dispatcher."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from hyper_parallel.platform.dtensor_base import DTensorBase

_REGISTERED_ONLY = "a DTensor runs registered operators only: use to_local(), or local_region (docs/modules.md)"


class TorchDTensorBase(DTensorBase):
    """A plain object that takes part in ``__torch_function__``; less costly than a tensor subclass."""

    __slots__ = ()

    @classmethod
    def __torch_function__(
        cls,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        # Imported here: the dispatcher needs the DTensor, whose base this is.
        from hyper_parallel.core.shard._op_dispatch import _OP_DISPATCHER

        return _OP_DISPATCHER.dispatch(func, args, kwargs or {})

    def __getattr__(self, name: str) -> Any:
        # Called where nothing was found. An AttributeError all the same: hasattr, copy and pickle ask for names.
        if name.startswith("_") or hasattr(type(self), name):
            return object.__getattribute__(self, name)  # raises what Python has to say, or a property itself
        raise AttributeError(f"'DTensor' object has no attribute {name!r}: {_REGISTERED_ONLY}", name=name, obj=self)


_UNARY = "neg pos abs invert".split()
_BINARY = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
_COMPARISONS = "lt le gt ge".split()  # == and != compare objects, as they do for any key of a dict


def _refused(name: str) -> Callable[..., Any]:
    def refuse(_self: Any, *operands: Any) -> Any:
        if any(isinstance(operand, torch.Tensor) for operand in operands):
            return NotImplemented  # the tensor's own operator goes to the dispatcher
        raise TypeError(f"unsupported operand for {name}: {_REGISTERED_ONLY}")

    refuse.__name__ = name
    return refuse


for _name in (*_UNARY, *_BINARY, *(f"r{_operator}" for _operator in _BINARY), *_COMPARISONS):
    setattr(TorchDTensorBase, f"__{_name}__", _refused(f"__{_name}__"))
