# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What the torch.library operators of all DFunctions share.

An operator `hyper_parallel::<op>` checks its arguments and runs the kernel that the DFunction runs. Its gradients are
those of the DFunction as well: `forward` is run on outputs that exist already, so that it saves what it always saves,
and `backward` is given the operator `hyper_parallel::<op>_backward` for its kernel, which a tracer can follow.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NoReturn

import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from hyper_parallel.core.shard.argument_checks import ArgumentChecks
from hyper_parallel.core.shard.dfunction import DFunction
from hyper_parallel.platform import get_platform
from hyper_parallel.platform.torch.custom_ops.custom_op_impl import load_kernel
from hyper_parallel.platform.torch.kernel_source import kernel_instead

NAMESPACE = "hyper_parallel"
LIBRARY: Any = torch.library.Library(NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]
"""What is defined lives as long as this."""
EVERY_DEVICE, NPU = "CompositeExplicitAutograd", "PrivateUse1"

Tensors = tuple[Any, ...]


@dataclass(frozen=True)
class BackwardKernel:
    """The operator of a backward kernel.

    Attributes:
        arguments: The arguments of its schema.
        outputs: The names of the gradients that it gives.
        empty_outputs: Makes them without values, from the arguments by keyword.
        refused: The outputs of the forward whose incoming gradients must be zero. These are its last arguments.
    """

    arguments: tuple[str, ...]
    outputs: tuple[str, ...]
    empty_outputs: Callable[..., Tensors]
    refused: tuple[str, ...] = ()


def define_operator(
    function: type[DFunction],
    arguments: tuple[str, ...],
    outputs: tuple[str, ...],
    empty_outputs: Callable[..., Tensors],
    backward: BackwardKernel | None = None,
    delegate: str = "",
) -> None:
    """Define the torch.library operators of a DFunction: that of its kernel, and that of its backward kernel.

    Args:
        function: The autograd function, with the operator's name, its `bind_arguments` and `check_arguments`.
        arguments: The arguments of the schema, in the order of the call. One whose type admits None although the call
            does not stands for its default then.
        outputs: The names of what the kernel returns.
        empty_outputs: Makes the outputs without values, from the bound arguments by keyword.
        backward: The backward kernel, if there is one.
        delegate: The module whose operator of that name runs on NPUs.
    """
    op = function._op_name
    assert op is not None
    forward = Forward(function, empty_outputs)
    define(op, arguments, outputs, forward.run, forward.empty, delegate)
    gradients = Gradients(function, forward, outputs, backward.refused if backward else ())
    register_autograd(op, gradients.backward, gradients.setup_context)
    if backward:
        kernel = Backward(op, backward)
        define(kernel.name, backward.arguments, backward.outputs, kernel.run, kernel.empty, delegate)
        register_autograd(kernel.name, kernel.differentiate)


def define(
    name: str,
    arguments: tuple[str, ...],
    outputs: tuple[str, ...],
    run: Callable[..., Any],
    empty: Callable[..., Any],
    delegate: str,
) -> None:
    """Declare an operator; it runs on every device that its kernel runs on, which NPUs are not."""
    returns = ", ".join(f"Tensor {output}" for output in outputs)
    schema = f"{name}({', '.join(arguments)}) -> ({returns})"
    LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    LIBRARY.impl(name, run, EVERY_DEVICE)
    LIBRARY.impl(name, refusal_on_npu(name, delegate), NPU)
    torch.library.register_fake(f"{NAMESPACE}::{name}", empty, lib=LIBRARY)


def register_autograd(name: str, backward: Callable[..., Any], setup_context: Callable[..., Any] | None = None) -> None:
    register: Any = torch.library.register_autograd
    register(f"{NAMESPACE}::{name}", backward, setup_context=setup_context, lib=LIBRARY)


def refusal_on_npu(name: str, delegate: str) -> Callable[..., NoReturn]:
    instead = f"call {delegate}.{name}(...)" if delegate else "it runs on tensors of the CPU"

    def refuse(*_args: Any) -> NoReturn:
        raise NotImplementedError(f"For {name}, {NAMESPACE}::{name} has no kernel for NPUs: {instead}.")

    return refuse


class Forward:
    """The kernel of an operator on real tensors, and its outputs without values."""

    def __init__(self, function: type[DFunction], empty_outputs: Callable[..., Tensors]) -> None:
        self.function = function
        self.op = str(function._op_name)
        self.empty_outputs = empty_outputs
        bind: Any = function.bind_arguments
        self.bind_arguments = bind
        parameters = inspect.signature(bind).parameters.values()
        self.names = tuple(parameter.name for parameter in parameters)
        self.defaults = tuple(
            None if parameter.default is parameter.empty else parameter.default for parameter in parameters
        )

    def bind(self, args: Tensors) -> Tensors:
        """The arguments as the kernel takes them."""
        # The dispatcher leaves trailing arguments out that have their default.
        given = tuple(default if value is None else value for value, default in zip_longest(args, self.defaults))
        bound: Tensors = self.bind_arguments(*given)
        for name, value, kept in zip(self.names, given, bound, strict=True):
            if isinstance(value, torch.Tensor) and kept is not value:
                # What is saved for the backward is what was given, so that it must be what the kernel takes.
                dtypes = [get_platform().dtype_name(tensor) for tensor in (kept, value)]
                raise TypeError(f"For {self.op}, {name} should have dtype {dtypes[0]}, but got {dtypes[1]}.")
        return bound

    def check(self, bound: Tensors) -> None:
        check: Any = self.function.check_arguments
        check(*bound)

    def run(self, *args: Any) -> Any:
        bound = self.bind(args)
        self.check(bound)
        with torch.no_grad():
            outputs: Tensors = load_kernel(self.op)(*bound)
        if any(isinstance(value, torch.Tensor) and value.dtype is torch.float64 for value in bound):
            models = self.empty_outputs(**dict(zip(self.names, bound, strict=True)))
            outputs = tuple(output.to(model.dtype) for output, model in zip(outputs, models, strict=True))
        return returned(outputs)

    def empty(self, *args: Any) -> Any:
        bound = self.bind(args)
        # What depends on an extent that nobody knows yet is checked when the operator runs.
        with contextlib.suppress(GuardOnDataDependentSymNode):
            self.check(bound)
        return returned(self.empty_outputs(**dict(zip(self.names, bound, strict=True))))


class Gradients:
    """The gradients of a DFunction for the operator of its kernel."""

    def __init__(
        self, function: type[DFunction], forward: Forward, outputs: tuple[str, ...], refused: tuple[str, ...]
    ) -> None:
        self.function: Any = function
        self.forward = forward
        self.refused = tuple(outputs.index(output) for output in refused)

    def setup_context(self, ctx: Any, inputs: Tensors, output: Any) -> None:
        """Let `forward` save what it saves. It returns a part of the outputs: the rest is not for the caller."""
        outputs = as_tuple(output)
        with kernel_instead(lambda *_args: outputs):
            found = as_tuple(self.function.forward(ctx, *self.forward.bind(inputs)))
        places = [next(place for place, item in enumerate(outputs) if item is tensor) for tensor in found]
        unseen = [tensor for place, tensor in enumerate(outputs) if place not in places]
        if unseen:
            ctx.mark_non_differentiable(*(ctx.non_differentiable or ()), *unseen)
        ctx._places = places

    def backward(self, ctx: Any, *cotangents: Any) -> Any:
        refused = [cotangents[place] for place in self.refused]
        kernel: Any = getattr(getattr(torch.ops, NAMESPACE), f"{self.forward.op}_backward", None)
        with kernel_instead(lambda *args: as_tuple(kernel(*args, *refused))):
            return self.function.backward(ctx, *(cotangents[place] for place in ctx._places))


class Backward:
    """A backward kernel on real tensors, and the gradients that it gives without values."""

    def __init__(self, op: str, kernel: BackwardKernel) -> None:
        self.op = op
        self.name = f"{op}_backward"
        self.kernel = kernel
        self.checks = ArgumentChecks(op)

    def run(self, *args: Any) -> Any:
        count = len(args) - len(self.kernel.refused)
        for output, cotangent in zip(self.kernel.refused, args[count:], strict=True):
            self.checks.no_cotangent(output, cotangent)
        with torch.no_grad():
            gradients = load_kernel(self.name)(*(tuple(arg) if isinstance(arg, list) else arg for arg in args[:count]))
        # An operator always returns tensors.
        like = next(value for value in args if isinstance(value, torch.Tensor))
        return returned(tuple(like.new_empty(0) if gradient is None else gradient for gradient in gradients))

    def empty(self, *args: Any) -> Any:
        names = (argument.split()[-1] for argument in self.kernel.arguments)
        return returned(self.kernel.empty_outputs(**dict(zip(names, args, strict=True))))

    def differentiate(self, _ctx: Any, *_cotangents: Any) -> NoReturn:
        raise RuntimeError(
            f"For {self.name}, there is no second derivative: autograd cannot differentiate what a kernel computes."
        )


def single_or_double(tensor: Any) -> torch.dtype:
    """The dtype of a float32 output: kernels on the host give float64 where the operator's first tensor is."""
    return torch.float64 if tensor.dtype is torch.float64 else torch.float32


def empty_if_absent(tensor: Any) -> Any:
    """The gradient of an optional tensor, without values: one without elements where the tensor is absent."""
    return torch.empty(0) if tensor is None else tensor.new_empty(tensor.shape)


def as_tuple(output: Any) -> Tensors:
    return tuple(output) if isinstance(output, tuple | list) else (output,)


def returned(outputs: Tensors) -> Any:
    """Outputs as an operator returns them: a single one stands alone."""
    return outputs[0] if len(outputs) == 1 else outputs
