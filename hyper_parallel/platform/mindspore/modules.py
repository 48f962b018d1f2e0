# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""MindSpore's modules, its cells."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
from mindspore import mint, nn

from hyper_parallel.core.shard.dfunction import DFunction
from hyper_parallel.platform.mindspore.host_arrays import to_array, to_tensor
from hyper_parallel.platform.modules import Modules


class MindSporeModules(Modules):
    """``mindspore.nn.Cell``."""

    Module: ClassVar[type] = nn.Cell
    forward_name: ClassVar[str] = "construct"

    def named_modules(self, module: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        waiting = [("", module)]
        while waiting:
            name, cell = waiting.pop()
            if cell is not None and name not in found:
                found[name] = cell
                below = [(f"{name}.{key}" if name else key, child) for key, child in cell._cells.items()]
                waiting += reversed(below)
        return found

    def module_table(self, module: Any) -> dict[str, Any]:
        table: dict[str, Any] = module._cells
        return table

    def parameter_table(self, module: Any) -> dict[str, Any]:
        table: dict[str, Any] = module._params
        return table

    def is_trainable(self, parameter: Any) -> bool:
        trainable: bool = parameter.requires_grad
        return trainable

    def has_gradient(self, parameter: Any) -> bool:  # noqa: ARG002 - gradients are returned, not kept
        return False

    def copied_part(self, part: Any) -> Any:
        return to_tensor(to_array(part))

    def set_value(self, parameter: Any, value: Any) -> None:
        parameter.set_data(value, slice_shape=True)

    def as_tensor(self, parameter: Any) -> Any:
        # A function would measure the gradient of a parameter that has been cut by the shape from before the cut.
        return mint.reshape(parameter, parameter.shape)

    def mark_stand_in(self, tensor: Any, parameter: Any) -> None:
        tensor.inited_param = parameter  # where a cell that is called, or lists its parameters, finds the parameter

    def may_have_gradient(self, tensor: Any) -> bool:
        floating: bool = tensor.is_floating_point()  # what is differentiated is known only later
        return floating

    def detached(self, tensor: Any) -> Any:
        return to_tensor(to_array(tensor))

    def to_array(self, tensor: Any) -> Any:
        array = to_array(tensor)
        return array.astype(np.float32) if array.dtype == ml_dtypes.bfloat16 else array

    def apply_function(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not kwargs or (isinstance(function, type) and issubclass(function, DFunction)):
            return function.apply(*args, **kwargs)
        # MindSpore's own apply takes no keywords.
        bound = inspect.signature(function.forward).bind(None, *args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            names = ", ".join(bound.kwargs)
            raise TypeError(f"{function.__name__}.forward should take {names} by position, not by keyword only")
        return function.apply(*bound.args[1:])
