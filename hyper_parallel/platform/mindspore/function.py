# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Differentiable functions on MindSpore: its own `_Function`, with what differs from other frameworks made equal.

``_Function`` believes what it is given: a list of outputs loses its gradients, a gradient too many or of another dtype
is taken, one of another shape is broadcast. Here each of these is an error or is put right.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from typing import Any

import mindspore as ms
from mindspore.common._grad_function import _Function
from mindspore.graph.api import _pynative_executor
from mindspore.ops.composite.base import _pynative_func_grad_forward

_lock = threading.Lock()


class Function(_Function):  # type: ignore[misc]
    """Base class: subclasses define static ``forward(ctx, *args)`` and ``backward(ctx, *grads)``.

    ``forward`` returns a tensor or a tuple; ``backward`` gets one gradient per output (zeros where none has come) and
    returns one per argument, None where there is none. ``ctx.needs_input_grad`` may be True for a tensor of which an
    earlier gradient was taken.
    """

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run ``forward``; under ``ms.grad`` or ``ms.value_and_grad``, record ``backward`` as its derivative.

        Raises:
            TypeError: a forward that returns a list, or a backward that returns something else than gradients.
            ValueError: a backward that returns too many or too few of them, or one of another shape.
        """
        # MindSpore's apply is a class method of the class that has the forward and backward to call.
        return _Function.apply.__func__(_checked(cls), *args)


def check_not_recorded(what: str, tensors: Iterable[Any]) -> None:
    """Raise RuntimeError if MindSpore would take the derivative of what runs now on the host: zero, without an error.

    Inside of a forward nothing is recorded. It is in a backward that is itself differentiated.
    """
    if any(isinstance(tensor, ms.Tensor) and tensor._requires_grad for tensor in tensors) and _is_recorded():
        raise RuntimeError(
            f"{what} has no derivative by itself: differentiate the operator (or DTensor.redistribute) that calls it, "
            "and once, not twice"
        )


def _is_recorded() -> bool:
    if not (_pynative_executor.enable_grad() and _pynative_executor.requires_grad()):
        return False
    # When a differentiated function has failed, MindSpore goes on as if it were still running; the stack tells.
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code is _pynative_func_grad_forward.__code__:
            return True
    return False


def _checked(function: type[Function]) -> type[Function]:
    """The function with a forward and a backward that check what the function's own return; made once per class."""
    found: type[Function] | None = function.__dict__.get("_checked_function")
    if found is None:
        with _lock:
            found = function.__dict__.get("_checked_function")
            if found is None:
                found = _with_checks(function)
                function._checked_function = found
    return found


def _with_checks(function: type[Function]) -> type[Function]:
    name = function.__name__

    def forward(ctx: Any, *args: Any) -> Any:
        ctx.saved_tensors = ()
        ctx._arguments = tuple((value.shape, value.dtype) if isinstance(value, ms.Tensor) else None for value in args)
        outputs = function.forward(ctx, *args)
        if isinstance(outputs, list):
            raise TypeError(f"{name}.forward should return a tensor or a tuple of tensors, but returned a list")
        return outputs

    def backward(ctx: Any, *grads: Any) -> Any:
        returned = function.backward(ctx, *grads)
        gradients = returned if isinstance(returned, tuple) else (returned,)
        if len(gradients) != len(ctx._arguments):
            raise ValueError(
                f"{name}.backward should return a gradient (or None) for each of the {len(ctx._arguments)} arguments "
                f"of forward, but returned {len(gradients)}"
            )
        return tuple(
            _checked_gradient(name, position, gradient, argument)
            for position, (gradient, argument) in enumerate(zip(gradients, ctx._arguments, strict=True))
        )

    return type(name, (function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})


def _checked_gradient(name: str, position: int, gradient: Any, argument: tuple[Any, Any] | None) -> Any:
    if gradient is None or argument is None:
        return None
    if not isinstance(gradient, ms.Tensor):
        raise TypeError(
            f"{name}.backward should return a tensor or None for argument {position}, but returned a "
            f"{type(gradient).__name__}"
        )
    shape, dtype = argument
    if gradient.shape != shape:
        raise ValueError(
            f"{name}.backward should return a gradient of shape {shape} for argument {position}, but returned "
            f"{gradient.shape}"
        )
    return gradient if gradient.dtype == dtype else gradient.astype(dtype)
