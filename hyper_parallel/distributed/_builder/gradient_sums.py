# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Adding gradients up over mesh axes, and sharing them out."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
from hyper_parallel.distributed._builder.gradient_flow import Axes
from hyper_parallel.platform import get_platform

if TYPE_CHECKING:

    class Function:
        """The platform's differentiable function."""

        @classmethod
        def apply(cls, *args: Any) -> Any: ...
else:
    Function = get_platform().Function


class GradientSum:
    """Adds a gradient up over mesh axes."""

    def __init__(self, mesh: DeviceMesh, axes: Axes) -> None:
        self.mesh = mesh
        self.axes = axes

    def run(self, gradient: Any) -> Any:
        """Return the sum over the axes, on every rank along them."""
        for axis in self.axes:
            gradient = get_platform().all_reduce(gradient, "sum", self.mesh, axis)
        return gradient

    def __call__(self, gradient: Any) -> Any:
        """Return the same, as the hook of a parameter."""
        return get_platform().modules.differentiated_once((self.run(gradient),), (gradient,))[0]


class _SumGradients(Function):
    """Passes tensors on, and sums their gradients. All in one, so that every rank makes the same calls in one order."""

    @staticmethod
    def forward(ctx: Any, mesh: DeviceMesh, axes: tuple[Axes, ...], *tensors: Any) -> Any:
        ctx.sums = [GradientSum(mesh, of_tensor) for of_tensor in axes]
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        sums = tuple(add.run(grad) for add, grad in zip(ctx.sums, grads, strict=True))
        return None, None, *get_platform().modules.differentiated_once(sums, grads)


def with_summed_gradients(mesh: DeviceMesh, tensors: list[Any], axes: list[Axes | None]) -> list[Any]:
    """Return the tensors, whose gradients are summed over the axes given for each (none: passed on as they come).

    None in the place of axes leaves a tensor out: it is returned itself.
    """
    may_have_gradient = get_platform().modules.may_have_gradient
    wanted = [place for place, tensor in enumerate(tensors) if axes[place] is not None and may_have_gradient(tensor)]
    if not wanted:
        return tensors
    passed = _SumGradients.apply(mesh, tuple(axes[place] for place in wanted), *(tensors[place] for place in wanted))
    result = list(tensors)
    for place, tensor in zip(wanted, passed, strict=True):
        result[place] = tensor
    return result


class _ShareGradient(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, count: int) -> Any:
        ctx.count = count
        return tensor

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad / ctx.count, None


def with_shared_gradient(tensor: Any, count: int) -> Any:
    """Return the tensor, whose gradient each of ``count`` ranks takes an equal share of."""
    if count == 1 or not get_platform().modules.may_have_gradient(tensor):
        return tensor
    return _ShareGradient.apply(tensor, count)


# Not on the parameter itself: copies and loaded ones would carry the mark, and not the framework's hook.
_SUMMED: dict[int, tuple[weakref.ref[Any], DeviceMesh, Axes]] = {}


def sum_gradient_of(parameter: Any, mesh: DeviceMesh, axes: Axes) -> None:
    """Have the gradient of a parameter (or None) summed over mesh axes, once however often this is called.

    Raises:
        ValueError: it is summed over other axes already.
    """
    modules = get_platform().modules
    if not axes or parameter is None or not modules.is_trainable(parameter):
        return
    number = id(parameter)
    found = _SUMMED.get(number)
    held = None if found is None else found[0]()
    if found is not None and held is not None and held is parameter:
        if found[1:] != (mesh, axes):
            raise ValueError(
                f"the gradient of a parameter of shape {tuple(parameter.shape)} is summed over the axes {axes} of "
                f"{mesh}, and over {found[2]} of {found[1]} in another region; a parameter has one gradient"
            )
        return
    modules.on_gradient(parameter, GradientSum(mesh, axes))
    reference: weakref.ref[Any] = weakref.ref(parameter, lambda gone: _forget(number, gone))
    _SUMMED[number] = (reference, mesh, axes)


def _forget(number: int, gone: Any) -> None:
    found = _SUMMED.get(number)
    if found is not None and found[0] is gone:
        del _SUMMED[number]
