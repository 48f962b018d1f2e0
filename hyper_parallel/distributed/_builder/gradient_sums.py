# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Adding gradients up over mesh axes, and sharing them out."""

from __future__ import annotations

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


class _SumParameterGradient(Function):
    @staticmethod
    def forward(ctx: Any, parameter: Any, mesh: DeviceMesh, axes: Axes, name: str) -> Any:
        ctx.add = GradientSum(mesh, axes)
        ctx.name = name
        return parameter

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        modules = get_platform().modules
        if modules.is_sparse(grad):
            axes = ", ".join(repr(ctx.add.mesh.axis_names[axis]) for axis in ctx.add.axes)
            raise ValueError(
                f"the gradient of the parameter {ctx.name!r} is sparse, but is to be summed over the mesh axes {axes}, "
                "which takes a dense one; make its module with sparse=False"
            )
        return *modules.differentiated_once((ctx.add.run(grad),), (grad,)), None, None, None


def with_summed_parameter_gradient(parameter: Any, mesh: DeviceMesh, axes: Axes, name: str) -> Any:
    """Return the parameter as a tensor whose gradient is summed over mesh axes on its way to the parameter.

    One function for each: a parameter that a call does not use gets no gradient, as without a mesh.
    """
    modules = get_platform().modules
    if not axes or not modules.is_trainable(parameter) or not modules.may_have_gradient(parameter):
        return parameter
    return _SumParameterGradient.apply(modules.as_tensor(parameter), mesh, axes, name)
