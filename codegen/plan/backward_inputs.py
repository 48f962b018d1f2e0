# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What a backward kernel's function takes: every tensor and value that its calls name, in order of first appearance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..spec.expression import ADAPTERS, Call, Expression, Name, children, names_in
from ..spec.model import BackwardCall, Launch, LengthsArgument, Spec, TensorArgument
from ..text.python_expression import python


@dataclass(frozen=True)
class BackwardInput:
    """One parameter of the backward kernel's function.

    `source` is the argument or output it comes from, `is_cotangent` tells that it is that output's incoming gradient.
    `adapters` is the expression that gives it the kernel's shape, or None if it goes in as it is.
    """

    name: str
    source: str
    is_cotangent: bool
    adapters: Expression | None


def cotangent(spec: Spec, output: str) -> str:
    """The name of the incoming gradient of an output."""
    return spec.fresh(f"grad_{output}")


def gradient(spec: Spec, argument: str) -> str:
    """The name of the gradient of an input."""
    return spec.fresh(f"d_{argument}")


def is_tensor(spec: Spec, name: str) -> bool:
    """Whether a name is a tensor to the autograd engine: tensors, outputs, and lengths on the device."""
    item = spec.by_name.get(name)
    on_device = isinstance(item, LengthsArgument) and item.where == "device"
    return isinstance(item, TensorArgument) or name in spec.output_by_name or on_device


def backward_inputs(spec: Spec, backward: BackwardCall) -> tuple[BackwardInput, ...]:
    """The parameters, in order.

    A tensor whose gradient is written counts as named: its shape and dtype are those of the gradient. What tells the
    format is added if the calls use dims, whose place depends on it.
    """
    found: dict[str, BackwardInput] = {}
    for launch in backward.launches:
        for argument in launch.call.arguments:
            for item in inputs_of(spec, argument, found):
                found.setdefault(item.name, item)
    selector = spec.format.selector
    if uses_dims(spec, backward) and len(spec.format.names) > 1 and selector not in found:
        found[selector] = BackwardInput(selector, selector, False, None)
    return tuple(found.values())


def uses_dims(spec: Spec, backward: BackwardCall) -> bool:
    """Whether C++ has to know extents: for temporaries, or for arguments of the calls outside of adapters."""
    named = {name for launch in backward.launches for item in launch.call.arguments for name in dims_outside(item)}
    return bool(backward.temporaries) or bool(named & set(spec.dim_docs))


def dims_outside(node: Expression) -> Iterator[str]:
    """Names outside of shape adapters, which are applied before the call."""
    if isinstance(node, Call) and node.function in ADAPTERS:
        return
    if isinstance(node, Name):
        yield node.id
    for child in children(node):
        yield from dims_outside(child)


def inputs_of(spec: Spec, node: Expression, found: dict[str, BackwardInput]) -> Iterator[BackwardInput]:
    """The inputs that one argument of a call needs."""
    base = tensor_base(spec, node)
    if base is not None:
        name, is_cotangent = base
        if isinstance(node, Call) and node.function in ADAPTERS:
            yield BackwardInput(adapted_name(spec, node, found), name, is_cotangent, node)
        else:
            yield BackwardInput(cotangent(spec, name) if is_cotangent else name, name, is_cotangent, None)
    elif isinstance(node, Name) and node.id in spec.by_name:
        yield BackwardInput(node.id, node.id, False, None)
    else:
        for child in children(node):
            yield from inputs_of(spec, child, found)


def tensor_base(spec: Spec, node: Expression) -> tuple[str, bool] | None:
    """The tensor below shape adapters, and whether its incoming gradient is meant; None if it is no tensor."""
    match node:
        case Name(identifier) if is_tensor(spec, identifier):
            return identifier, False
        case Call("grad", (Name(identifier),)):
            return identifier, identifier in spec.output_by_name
        case Call(function, arguments) if function in ADAPTERS:
            return tensor_base(spec, arguments[0])
        case _:
            return None


def adapted_name(spec: Spec, node: Call, found: dict[str, BackwardInput]) -> str:
    """The parameter of an adapted tensor: the tensor's own name, unless that goes in with another shape too."""
    base = tensor_base(spec, node)
    assert base is not None
    own = cotangent(spec, base[0]) if base[1] else base[0]
    for name in (own, spec.fresh(f"{own}_{node.function}ed"), *(f"{own}_{number}" for number in range(2, 100))):
        if name not in found or found[name].adapters == node:
            return name
    raise AssertionError(f"a hundred shapes of {own}")


def produced_gradients(spec: Spec, backward: BackwardCall) -> tuple[str, ...]:
    """The inputs whose gradients the calls write, in order."""
    return tuple(dict.fromkeys(name for launch in backward.launches for name in produced_by(spec, launch)))


def produced_by(spec: Spec, launch: Launch) -> Iterator[str]:
    for argument in launch.call.arguments:
        if isinstance(argument, Call) and argument.function == "grad" and isinstance(argument.arguments[0], Name):
            name = argument.arguments[0].id
            if name in spec.by_name:
                yield name


def adapter_dims(item: BackwardInput, spec: Spec) -> list[str]:
    """The dim names inside an input's adapters."""
    if item.adapters is None:
        return []
    return [name.id for name in names_in(item.adapters) if name.id in spec.dim_docs]


def python_argument(spec: Spec, item: BackwardInput) -> str:
    """The expression for an input in the body of backward()."""
    if item.adapters is not None:
        return python(renamed(spec, item.adapters), str)
    if item.is_cotangent or is_tensor(spec, item.source):
        return item.name
    return f"ctx.{item.source}"


def renamed(spec: Spec, node: Expression) -> Expression:
    """Adapters on the names that backward() has: grad(out) is a variable there."""
    match node:
        case Call("grad", (Name(identifier),)):
            return Name(cotangent(spec, identifier))
        case Call(function, arguments):
            return Call(function, tuple(renamed(spec, argument) for argument in arguments))
        case _:
            return node
