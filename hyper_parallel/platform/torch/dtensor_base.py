# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""How torch functions treat a DTensor: they go to the dispatcher."""

from __future__ import annotations

from typing import Any

from hyper_parallel.platform.dtensor_base import DTensorBase


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
