# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What a backward kernel's function takes: every tensor and value that its calls name, in order of first appearance."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..spec.dims import REST, Dim
from ..spec.expression import ADAPTERS, Call, Conditional, Expression, Name, calls_in, children, names_in
from ..spec.model import Attribute, BackwardCall, Launch, LengthsArgument, Output, Spec, Temporary, TensorArgument
from ..text.python_expression import laid_out
from ..text.python_layout import Item


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


BackwardInputs = tuple[BackwardInput, ...]
"""All parameters in order; none without backward kernels."""


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


def backward_inputs(spec: Spec, backward: BackwardCall) -> BackwardInputs:
    """The parameters, in order.

    A tensor whose gradient is written counts as named, for its shape and dtype, unless another input has the same. What
    C++ needs to know extents comes last.
    """
    extra = extent_inputs(spec, backward)
    plain = {*plain_inputs(spec, backward), *extra}
    found = all_inputs(spec, backward, plain)
    modelled = gradient_models(spec, backward)
    found = {name: item for name, item in found.items() if name not in modelled}
    for name in extra:
        found.setdefault(name, BackwardInput(name, name, False, None))
    return tuple(found.values())


def all_inputs(spec: Spec, backward: BackwardCall, plain: set[str]) -> dict[str, BackwardInput]:
    """Every tensor and value that the calls name, the tensors whose gradients they write included."""
    found: dict[str, BackwardInput] = {}
    for launch in backward.launches:
        for argument in launch.call.arguments:
            for item in inputs_of(spec, argument, found, plain):
                found.setdefault(item.name, item)
    return found


def gradient_models(spec: Spec, backward: BackwardCall) -> dict[str, str]:
    """The inputs that give the shape and dtype of a gradient, so that its tensor need not be saved.

    That is an incoming gradient, or a tensor that is saved anyway, with the same dims and the same dtype.
    """
    if cpp_dims(spec, backward):
        return {}
    read = read_tensors(spec, backward)
    needed = read | {spec.dtype_owner(item.dtype) for item in backward.temporaries}
    inputs = all_inputs(spec, backward, set(plain_inputs(spec, backward))).values()
    kept = [item for item in inputs if item.adapters is None and (item.is_cotangent or item.source in read)]
    tensors = [tensor for tensor in spec.tensors if not tensor.optional and tensor.name not in needed]
    models = {tensor.name: next((item.name for item in kept if is_like(spec, item, tensor)), "") for tensor in tensors}
    return {name: model for name, model in models.items() if model}


def is_like(spec: Spec, item: BackwardInput, tensor: TensorArgument) -> bool:
    """Whether what a backward input comes from is always there, with the dims and the dtype of a tensor."""
    source = spec.output_by_name.get(item.source) or spec.by_name.get(item.source)
    if not isinstance(source, TensorArgument | Output) or absent(source) or texts(source) != texts(tensor):
        return False
    return spec.dtype_source(source) == spec.dtype_source(tensor)


def absent(source: TensorArgument | Output) -> bool:
    """Whether a tensor may be missing from a call."""
    return source.optional if isinstance(source, TensorArgument) else bool(source.when)


def texts(holder: TensorArgument | Output) -> dict[str, list[str]]:
    return {form: [dim.compact for dim in dims] for form, dims in holder.dims.per_format.items()}


def read_tensors(spec: Spec, backward: BackwardCall) -> set[str]:
    """The tensors that the calls read themselves, not only as the gradient that they write."""
    return {
        name
        for launch in backward.launches
        for argument in launch.call.arguments
        for name in read_names(spec, argument)
    }


def read_names(spec: Spec, node: Expression) -> Iterator[str]:
    if isinstance(node, Call) and node.function == "grad":
        return
    if isinstance(node, Name):
        yield node.id
    for child in children(node):
        yield from read_names(spec, child)


def plain_inputs(spec: Spec, backward: BackwardCall) -> list[str]:
    """The parameters that go in as they are, so that no adapted tensor may have their name."""
    found: list[str] = []
    for launch in backward.launches:
        for argument in launch.call.arguments:
            items = inputs_of(spec, argument, {}, set())
            found += [item.name for item in items if item.adapters is None]
    return found


def extent_inputs(spec: Spec, backward: BackwardCall) -> list[str]:
    """What C++ has to be given to know the extents in the calls and of the temporaries, besides what they name."""
    needed = cpp_dims(spec, backward)
    given = plain_inputs(spec, backward)
    found = [spec.dtype_owner(item.dtype) for item in backward.temporaries if item.dtype in spec.by_name]
    found += [name for item in backward.temporaries for name in integers(spec, item)]
    for name in needed:
        for form in spec.format.names:
            found += extent_owners(spec, name, form, (*given, *found))
    if needed and len(spec.format.names) > 1 and spec.format.selector:
        found.append(spec.format.selector)
    return [name for name in dict.fromkeys(found) if name not in given]


def cpp_dims(spec: Spec, backward: BackwardCall) -> list[str]:
    """The dims whose extents C++ has to know, for the calls and for temporaries."""
    needed = [name for launch in backward.launches for item in launch.call.arguments for name in dims_outside(item)]
    needed += [name for item in backward.temporaries for dims in item.dims.per_format.values() for name in words(dims)]
    return [name for name in dict.fromkeys(needed) if name in spec.dim_docs or name == REST]


def words(dims: tuple[Dim, ...]) -> Iterator[str]:
    for dim in dims:
        yield from (REST,) if dim.is_rest else dim.names


def integers(spec: Spec, item: Temporary) -> Iterator[str]:
    """The attributes in a temporary's dims."""
    for dims in item.dims.per_format.values():
        yield from (name for name in words(dims) if isinstance(spec.by_name.get(name), Attribute))


def extent_owners(spec: Spec, name: str, form: str, given: Sequence[str]) -> list[str]:
    """The arguments that tell an extent in a format; none are added if one that is given does."""
    if name == REST or name in spec.axes:
        attribute = [spec.axes[name].name] if name in spec.axes else []
        owner = spec.rest_owner(form)
        return [owner.name, *attribute] if owner else []
    tensors = [tensor for tensor in spec.tensors if name in tensor.dims.bare(form)]
    required = [tensor.name for tensor in tensors if not tensor.optional]
    if any(owner in given for owner in required):
        return []
    lengths = spec.counts.get(name)
    counted = [lengths.name] if lengths and lengths.of in spec.bound(form) else []
    return required[:1] or [*(tensor.name for tensor in tensors), *counted]


def dims_outside(node: Expression) -> Iterator[str]:
    """Names outside of adapted tensors, whose shape is changed before the call."""
    if is_adapted(node):
        return
    if isinstance(node, Name):
        yield node.id
    for child in children(node):
        yield from dims_outside(child)


def is_adapted(node: Expression) -> bool:
    """Whether an expression is a tensor with another shape, perhaps only under a condition."""
    if isinstance(node, Conditional):
        return is_adapted(node.then) or is_adapted(node.otherwise)
    return isinstance(node, Call) and node.function in ADAPTERS


def inputs_of(
    spec: Spec, node: Expression, found: dict[str, BackwardInput], plain: set[str]
) -> Iterator[BackwardInput]:
    """The inputs that one argument of a call needs."""
    base = tensor_base(spec, node)
    if base is not None:
        name, is_cotangent = base
        if is_adapted(node):
            yield BackwardInput(adapted_name(spec, node, found, plain), name, is_cotangent, node)
        else:
            yield BackwardInput(cotangent(spec, name) if is_cotangent else name, name, is_cotangent, None)
    elif isinstance(node, Name) and node.id in spec.by_name:
        yield BackwardInput(node.id, node.id, False, None)
    else:
        for child in children(node):
            yield from inputs_of(spec, child, found, plain)


ADAPTED = {"unflatten": "unflattened", "flatten": "flattened", "unsqueeze": "unsqueezed", "transpose": "transposed"}


def tensor_base(spec: Spec, node: Expression) -> tuple[str, bool] | None:
    """The tensor below shape adapters, and whether its incoming gradient is meant; None if it is no tensor."""
    match node:
        case Name(identifier) if is_tensor(spec, identifier):
            return identifier, False
        case Call("grad", (Name(identifier),)):
            return identifier, identifier in spec.output_by_name
        case Call(function, arguments) if function in ADAPTERS:
            return tensor_base(spec, arguments[0])
        case Conditional(_, then, otherwise) if is_adapted(node):
            base = tensor_base(spec, then)
            return base if base == tensor_base(spec, otherwise) else None
        case _:
            return None


def adapted_name(spec: Spec, node: Expression, found: dict[str, BackwardInput], plain: set[str]) -> str:
    """The parameter of an adapted tensor: the tensor's own name, unless that goes in with another shape too."""
    base = tensor_base(spec, node)
    assert base is not None
    own = cotangent(spec, base[0]) if base[1] else base[0]
    word = next(ADAPTED[call.function] for call in calls_in(node) if call.function in ADAPTERS)
    others = (spec.fresh(f"{own}_{suffix}") for suffix in (word, *range(2, 100)))
    for name in itertools.chain([own], others):
        if name not in plain and (name not in found or found[name].adapters == node):
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


def adapter_names(item: BackwardInput) -> list[str]:
    """The names inside an input's adapters: dims, attributes, and tensors besides the one that is adapted."""
    return [] if item.adapters is None else [name.id for name in names_in(renamed(item.adapters))]


def python_argument(spec: Spec, item: BackwardInput) -> Item:
    """The expression for an input in the body of backward(), where attributes stand on the context."""

    def variable(name: str) -> str:
        argument = spec.by_name.get(name)
        return f"ctx.{name}" if argument is not None and not is_tensor(spec, name) else name

    if item.adapters is not None:
        return laid_out(renamed(item.adapters, lambda name: cotangent(spec, name)), variable)
    return item.name if item.is_cotangent else variable(item.source)


def renamed(node: Expression, name: Callable[[str], str] = str) -> Expression:
    """An expression with a plain name for every grad(x)."""
    match node:
        case Call("grad", (Name(identifier),)):
            return Name(name(identifier))
        case Call(function, arguments):
            return Call(function, tuple(renamed(argument, name) for argument in arguments))
        case Conditional(condition, then, otherwise):
            return Conditional(condition, renamed(then, name), renamed(otherwise, name))
        case _:
            return node
