# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What verification has to know of a framework: tensors, arrays, and gradients of a loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import autograd
import autograd.numpy as anp
import numpy as np
from autograd.tracer import getval

Kernel = Callable[..., Any]


class Framework(NamedTuple):
    """One framework.

    Attributes:
        tensor: An array as a tensor of the same dtype.
        array: A tensor as an array; anything else as it is.
        total: The sum of the products of two tensors' elements, differentiable.
        gradients: A function of tensors, and tensors -> the gradient by each of them there.
        kernel: A kernel on arrays as one on tensors.
        recover: To be called when a call has failed, before the next one.
    """

    tensor: Callable[[Any], Any]
    array: Callable[[Any], Any]
    total: Callable[[Any, Any], Any]
    gradients: Callable[[Callable[..., Any], Sequence[Any]], Sequence[Any]]
    kernel: Callable[[Kernel], Kernel]
    recover: Callable[[], None] = lambda: None


def _tape_gradients(loss: Callable[..., Any], values: Sequence[Any]) -> Sequence[Any]:
    found: Sequence[Any] = autograd.grad(loss, argnum=tuple(range(len(values))))(*values)
    return found


NUMPY = Framework(
    tensor=np.asarray,
    array=lambda value: np.asarray(getval(value)),
    total=lambda first, second: anp.sum(first * second),
    gradients=_tape_gradients,
    kernel=lambda kernel: kernel,
)


def framework_of(platform: str) -> Framework:
    """The framework of the platform that this process runs on: numpy, torch or mindspore."""
    return {"numpy": lambda: NUMPY, "torch": _torch, "mindspore": _mindspore}[platform]()


def _torch() -> Framework:
    import torch

    from hyper_parallel.platform.torch.custom_ops.custom_op_impl import to_array, to_tensor

    def tensor(array: Any) -> Any:
        return to_tensor(np.require(array, requirements="W"), torch.device("cpu"))  # torch knows no read-only tensors

    def gradients(loss: Callable[..., Any], values: Sequence[Any]) -> Sequence[Any]:
        leaves = [value.detach().clone().requires_grad_() for value in values]
        # As elsewhere, the gradient by what the loss does not depend on is zero.
        return torch.autograd.grad(loss(*leaves), leaves, materialize_grads=True)

    return Framework(
        tensor=tensor,
        array=to_array,
        total=lambda first, second: (first * second).sum(),
        gradients=gradients,
        kernel=lambda kernel: on_arrays(kernel, to_array, tensor),
    )


def _mindspore() -> Framework:
    import mindspore as ms
    from mindspore.graph.api import _pynative_executor

    from hyper_parallel.platform.mindspore.host_arrays import to_array, to_tensor

    def gradients(loss: Callable[..., Any], values: Sequence[Any]) -> Sequence[Any]:
        found: Any = ms.grad(loss, tuple(range(len(values))))(*values)
        return found if isinstance(found, tuple) else (found,)

    return Framework(
        tensor=to_tensor,
        array=to_array,
        total=lambda first, second: (first * second).sum(),
        gradients=gradients,
        kernel=lambda kernel: on_arrays(kernel, to_array, to_tensor),
        recover=_pynative_executor.clear_res,  # else it goes on recording what has failed
    )


def on_arrays(kernel: Kernel, array: Callable[[Any], Any], tensor: Callable[[Any], Any]) -> Kernel:
    """A function of arrays as one of tensors. A gradient may be None, where its optional tensor is absent."""

    def run(*args: Any, **kwargs: Any) -> Any:
        made = kernel(*map(array, args), **{name: array(value) for name, value in kwargs.items()})
        if isinstance(made, tuple):
            return tuple(None if value is None else tensor(value) for value in made)
        return tensor(made)

    return run
