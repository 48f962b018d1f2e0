# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Differentiable functions with a backward of their own on NumPy arrays, in the shape of ``torch.autograd.Function``.

The tape is that of the ``autograd`` package, whose traced arrays are boxes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from autograd.extend import defvjp_argnums, primitive
from autograd.tracer import isbox


class FunctionContext:
    """What forward leaves for backward. Further attributes may be set freely."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        """For every argument of ``apply``, whether it takes part in differentiation."""
        self.saved_tensors: tuple[Any, ...] = ()
        """What ``save_for_backward`` has kept."""
        self._without_gradient: tuple[int, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors (or None) for the backward."""
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Declare outputs of the forward through which no gradient flows."""
        self._without_gradient = tuple(id(tensor) for tensor in tensors)

    def is_differentiable(self, output: Any) -> bool:
        """Return whether a gradient flows through this output: it is a floating-point array and not marked."""
        floating = isinstance(output, np.ndarray) and output.dtype.kind not in "iubOSU"
        return floating and id(output) not in self._without_gradient


class Function:
    """Base class: subclasses define static ``forward(ctx, *args)`` and ``backward(ctx, *grads)``.

    ``forward`` gets plain arrays and returns an array or a tuple; ``backward`` gets one gradient per output (zeros
    where none has come) and returns one per argument, None where there is none.
    """

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        """Compute the outputs."""
        raise NotImplementedError("a Function should define a static method forward(ctx, *args)")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Compute the gradients of the arguments."""
        raise NotImplementedError("a Function should define a static method backward(ctx, *grads) to be differentiated")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run ``forward``; with traced arguments, record ``backward`` as its derivative.

        Raises:
            TypeError: a traced array inside a list or tuple, or a forward that returns a list.
        """
        traced = tuple(position for position, value in enumerate(args) if isbox(value))
        _check_containers(cls, args)
        ctx = FunctionContext(tuple(isbox(value) for value in args))
        if not traced:
            return cls.forward(ctx, *args)
        values = tuple(_plain(value) for value in args)
        outputs = cls.forward(ctx, *values)
        if isinstance(outputs, list):
            raise TypeError(f"{cls.__name__}.forward should return an array or a tuple of arrays, but returned a list")
        call = _Call(cls, ctx, values, traced, outputs if isinstance(outputs, tuple) else (outputs,))
        results = call.attach([args[position] for position in traced])
        return results if isinstance(outputs, tuple) else results[0]


@dataclass(frozen=True)
class _Call:
    """One differentiated call: what is needed to turn gradients of the outputs into gradients of the arguments."""

    function: type[Function]
    ctx: FunctionContext
    values: tuple[Any, ...]
    traced: tuple[int, ...]
    outputs: tuple[Any, ...]

    def attach(self, boxes: list[Any]) -> tuple[Any, ...]:
        """Return the outputs, those with a gradient hung onto the tape behind ``boxes``."""
        recorded = _record(self, *boxes) if self.tracked_outputs() else ()
        results = list(self.outputs)
        for index, position in enumerate(self.tracked_outputs()):
            results[position] = recorded[index]
        return tuple(results)

    def tracked_outputs(self) -> list[int]:
        return [position for position, output in enumerate(self.outputs) if self.ctx.is_differentiable(output)]

    def gradients(self, recorded: Any) -> list[Any]:
        """Return the gradients of the traced arguments, given those of the tracked outputs."""
        incoming = [np.zeros_like(output) if isinstance(output, np.ndarray) else None for output in self.outputs]
        for index, position in enumerate(self.tracked_outputs()):
            if isbox(recorded[index]):
                raise TypeError(f"{self.function.__name__} can be differentiated once, not twice")
            incoming[position] = np.asarray(recorded[index], dtype=self.outputs[position].dtype)
        returned = self.function.backward(self.ctx, *incoming)
        grads = returned if isinstance(returned, tuple) else (returned,)
        if len(grads) != len(self.values):
            raise ValueError(
                f"{self.function.__name__}.backward should return a gradient (or None) for each of the "
                f"{len(self.values)} arguments of forward, but returned {len(grads)}"
            )
        return [self._checked(position, grads[position]) for position in self.traced]

    def _checked(self, position: int, grad: Any) -> Any:
        value = np.asarray(self.values[position])
        if grad is None:
            return np.zeros_like(value)
        if np.shape(grad) != value.shape:
            raise ValueError(
                f"{self.function.__name__}.backward should return a gradient of shape {value.shape} for argument "
                f"{position}, but returned {np.shape(grad)}"
            )
        return np.asarray(grad, dtype=value.dtype)


@primitive  # type: ignore[untyped-decorator]
def _record(call: _Call, *_boxes: Any) -> tuple[Any, ...]:
    """Stand for the call on the tape. One primitive for all calls, since ``autograd`` keeps primitives for ever."""
    return tuple(call.outputs[position] for position in call.tracked_outputs())


def _vjp(argnums: tuple[int, ...], _outputs: Any, args: tuple[Any, ...], _kwargs: Any) -> Any:
    call: _Call = args[0]
    if any(isbox(value) for value in args[1:]):
        raise TypeError(f"{call.function.__name__} can be differentiated once, not inside of another differentiation")

    def gradients(recorded: Any) -> tuple[Any, ...]:
        grads = call.gradients(recorded)
        return tuple(grads[argnum - 1] for argnum in argnums)

    return gradients


defvjp_argnums(_record, _vjp)


def _plain(value: Any) -> Any:
    while isbox(value):
        value = value._value
    return value


def _check_containers(function: type, args: tuple[Any, ...]) -> None:
    for position, value in enumerate(args):
        if isinstance(value, list | tuple) and any(isbox(element) for element in value):
            raise TypeError(
                f"argument {position} of {function.__name__} is a {type(value).__name__} of traced arrays, whose "
                "gradients would be lost; pass the arrays as arguments of their own"
            )
