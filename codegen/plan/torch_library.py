# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The plan of the torch.library operators: schemas, and what a kernel allocates, without its values.

An operator returns all that its kernel gives: hidden outputs too, and those that depend on an attribute.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence, Set

from ..spec.expression import Literal, names_in
from ..spec.model import Argument, Attribute, BackwardCall, LengthsArgument, Output, Spec, TensorArgument, Value
from ..text.python_code import several_from
from ..text.python_expression import laid_out
from ..text.python_layout import Group, Item, call, lay_out, prefixed, statement
from ..text.torch_code import IMPORTED, names_read
from .backward import refused_outputs
from .backward_inputs import BackwardInput, BackwardInputs, cotangent, gradient, gradient_models, produced_gradients
from .extents import format_test, places_of, shape_of
from .facts import takes_host_dtypes
from .operator import TorchBackwardPlan, TorchLibraryPlan

SCHEMA_TYPE = {
    "int": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
    "dtype": "ScalarType",
    "ints": "int[]",
}
PYTHON_TYPE = {
    "Tensor": "Tensor",
    "SymInt[]": "Lengths",
    "int": "int",
    "str": "str",
    "ScalarType": "str",
}
"""Types of what shapes and dtypes follow from, in Python."""


def derive_torch_library(spec: Spec, inputs: BackwardInputs) -> TorchLibraryPlan | None:
    if spec.kernel is None:
        return None
    body = Allocation(spec).text()
    called = backward(spec, spec.backward, inputs) if isinstance(spec.backward, BackwardCall) else None
    read = names_read(body) | (names_read(called.body) if called else set())
    return TorchLibraryPlan(
        arguments=tuple(schema_argument(item, symbolic_integers(spec)) for item in spec.arguments),
        outputs=tuple(output.name for output in spec.outputs),
        parameters=parameters(body, ((item.name, item) for item in spec.arguments)),
        body=body,
        used=tuple(name for name in IMPORTED if name in read),
        backward=called,
    )


def backward(spec: Spec, called: BackwardCall, inputs: BackwardInputs) -> TorchBackwardPlan | None:
    produced = produced_gradients(spec, called)
    if not produced:
        return None
    refused = refused_outputs(spec, called, inputs)
    arguments = [schema_input(spec, item) for item in inputs]
    models = gradient_models(spec, called)
    body = lay_out(returned([empty_gradient(spec, name, models.get(name, name)) for name in produced]), 4)
    return TorchBackwardPlan(
        arguments=(*arguments, *(f"Tensor {cotangent(spec, output.name)}" for output in refused)),
        outputs=tuple(gradient(spec, name) for name in produced),
        refused=tuple(output.name for output in refused),
        parameters=parameters(body, ((item.name, source(spec, item)) for item in inputs)),
        body=body,
    )


def parameters(body: str, arguments: Iterable[tuple[str, Argument | None]]) -> tuple[tuple[str, str], ...]:
    """The parameters of a function: those of the arguments that its body reads, with their types."""
    read = names_read(body)
    return tuple((name, PYTHON_TYPE[schema_type(item)]) for name, item in arguments if name in read)


def source(spec: Spec, item: BackwardInput) -> Argument | None:
    """The argument that a parameter of the backward kernel is; None for an incoming gradient and an output."""
    return None if item.is_cotangent else spec.by_name.get(item.source)


def schema_argument(argument: Argument, symbolic: Set[str]) -> str:
    """An argument as a schema declares it; where it has no words for a default, None stands for that."""
    kind = schema_type(argument, symbolic)
    if argument.required:
        return f"{kind} {argument.name}"
    given = argument.default if isinstance(argument, Attribute) else None
    text = None if argument.optional or given is None or kind == "ScalarType" else schema_value(given)
    return f"{kind}? {argument.name}=None" if text is None else f"{kind} {argument.name}={text}"


def schema_type(argument: Argument | None, symbolic: Set[str] = frozenset()) -> str:
    """The type in a schema; None is an output. Integers that are extents may be `symbolic`, as document ends are."""
    if isinstance(argument, LengthsArgument):
        return "Tensor" if argument.where == "device" else "SymInt[]"
    if isinstance(argument, Attribute):
        return "SymInt" if argument.name in symbolic else SCHEMA_TYPE[argument.type]
    return "Tensor"


def symbolic_integers(spec: Spec) -> frozenset[str]:
    """The attributes in the dims of tensors: a graph is not traced again for each value of one."""
    holders: tuple[TensorArgument | Output, ...] = (*spec.tensors, *spec.outputs)
    used = {name for item in holders for dims in item.dims.per_format.values() for dim in dims for name in dim.names}
    integers = {item.name for item in spec.attributes if item.type == "int" and not item.axis and not item.choices}
    return frozenset(used & integers)


def schema_value(value: Value) -> str | None:
    """A default in the language of schemas; None for what it has no words for."""
    if isinstance(value, tuple):
        return f"[{', '.join(str(item) for item in value)}]"
    if isinstance(value, str):
        return f'"{value}"' if value.isascii() and value.isprintable() and not set('"\\') & set(value) else None
    if isinstance(value, float) and value and not sys.float_info.min <= abs(value) < math.inf:
        return None  # infinite, or so small that the parser of schemas takes it for an overflow
    return repr(value)


def schema_input(spec: Spec, item: BackwardInput) -> str:
    """A parameter of the backward kernel, which gets attributes as `bind_arguments` leaves them."""
    argument = source(spec, item)
    kind = schema_type(argument, symbolic_integers(spec))
    absent = argument is not None and argument.optional
    return f"{'str' if kind == 'ScalarType' else kind}{'?' if absent else ''} {item.name}"


def empty_gradient(spec: Spec, name: str, model: str) -> Item:
    argument = spec.by_name[name]
    if isinstance(argument, TensorArgument) and argument.optional:
        return call("empty_if_absent", name)
    return call(f"{model}.new_empty", f"{model}.shape")


def returned(items: Sequence[Item]) -> Group:
    return Group("return (", tuple(items), ")", is_tuple=True)


class Allocation:
    """Writes the statements that allocate the outputs of one operator."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.first = next(tensor for tensor in spec.tensors if not tensor.optional)

    def text(self) -> str:
        """Every format but the last in a branch of its own."""
        *others, last = self.spec.format.names if self.branches else self.spec.format.names[:1]
        lines: list[str] = []
        for form in others:
            lines.append(statement("if ", format_test(self.spec, form, ""), ":", 4))
            lines += self.statements(form, 8)
        lines += [f"    # {last}"] if others else []
        return "\n".join([*lines, *self.statements(last, 4)])

    @property
    def branches(self) -> bool:
        """Whether there are shapes that may differ between the formats."""
        dims = [dim for item in self.spec.outputs for found in item.dims.per_format.values() for dim in found]
        several = len(self.spec.format.names) > 1
        return several and not all(isinstance(dim.expression, Literal) for dim in dims)

    def statements(self, form: str, indent: int) -> Iterator[str]:
        """Dims in the order of their declaration, shapes that take several statements, and the outputs."""
        used = {name for item in self.spec.outputs for name in extents_of(item, form)}
        yield from self.extents([name for name in self.spec.dim_docs if name in used], form, indent)
        for output in self.spec.outputs:
            if is_resized(output, form):
                yield from self.resized(output, form, indent)
        yield lay_out(returned([self.empty(output, form) for output in self.spec.outputs]), indent)

    def extents(self, names: Sequence[str], form: str, indent: int) -> Iterator[str]:
        """Extents by their names: several of one tensor are unpacked together."""
        done: set[str] = set()
        for name in names:
            owner = extent_owner(self.spec, name, form)
            targets = unpacked_dims(self.spec, owner, names, form) if owner else ()
            if owner and name not in done and len(set(targets) - {"_"}) > 1:
                done |= set(targets)
                yield several_from(targets, f"{owner.name}.shape", indent)
            elif name not in done:
                yield statement(f"{name} = ", extent(self.spec, name, form), "", indent)

    def resized(self, output: Output, form: str, indent: int) -> Iterator[str]:
        """A list of the extents, in which those of the axes that attributes choose are replaced."""
        variable, dims = self.shape_variable(output), output.dims.per_format[form]
        yield statement(f"{variable} = ", Group("[", self.entries(output, form), "]"), "", indent)
        for axis, size in output.resize.items():
            place = self.place(form, self.spec.axes[axis].name, next(i for i, dim in enumerate(dims) if dim.is_rest))
            yield statement(f"{variable}[{place}] = ", laid_out(size), "", indent)

    def shape_variable(self, output: Output) -> str:
        return self.spec.fresh(f"{output.name}_shape")

    def shape(self, output: Output, form: str) -> Item:
        if is_resized(output, form):
            return self.shape_variable(output)
        entries = self.entries(output, form)
        if len(entries) == 1 and output.dims.per_format[form][0].is_rest:
            return self.rest(form)
        return Group("(", entries, ")", is_tuple=True)

    def entries(self, output: Output, form: str) -> tuple[Item, ...]:
        dims = output.dims.per_format[form]
        return tuple(f"*{self.rest(form)}" if dim.is_rest else laid_out(dim.expression) for dim in dims)

    def rest(self, form: str) -> str:
        """The extents that `...` stands for."""
        source, before, after = rest_source(self.spec, form)
        cut = f"[{before or ''}:{-after if after else ''}]" if before or after else ""
        return f"{source}.shape{cut}"

    def place(self, form: str, attribute: str, first: int) -> str:
        """Where an axis that an attribute chooses lies in an output whose `...` starts at `first`."""
        source, before, after = rest_source(self.spec, form)
        same = first == before and not after
        return attribute if same else f"{attribute} % len({source}.shape) + {first - before}"

    def empty(self, output: Output, form: str) -> Item:
        owner = self.spec.dtype_owner(output.dtype)
        source, shape = self.spec.by_name.get(owner), self.shape(output, form)
        if isinstance(source, TensorArgument):
            return call(f"{owner}.new_empty", shape)
        dtype: Item = call("getattr", "torch", owner) if isinstance(source, Attribute) else f"torch.{owner}"
        if owner == "float32" and takes_host_dtypes(self.first) and "float64" not in self.first.dtypes:
            dtype = call("single_or_double", self.first.name)
        return call(f"{self.first.name}.new_empty", shape, prefixed("dtype=", dtype))


def extents_of(output: Output, form: str) -> list[str]:
    """The names in the shape of an output."""
    names = [name for dim in output.dims.per_format[form] for name in dim.names]
    sizes = output.resize.values() if is_resized(output, form) else ()
    return names + [name.id for size in sizes for name in names_in(size)]


def rest_source(spec: Spec, form: str) -> tuple[str, int, int]:
    """The tensor that tells what `...` is, and how many of its dims stand before and behind it."""
    tensor = spec.rest_owner(form)
    assert tensor is not None  # the checks see to it
    dims = tensor.dims.per_format[form]
    first = next(index for index, dim in enumerate(dims) if dim.is_rest)
    return tensor.name, first, len(dims) - first - 1


def is_resized(output: Output, form: str) -> bool:
    return bool(output.resize) and any(dim.is_rest for dim in output.dims.per_format[form])


def extent_owner(spec: Spec, name: str, form: str) -> TensorArgument | None:
    """The tensor that has a dim bare, required ones first."""
    if name in spec.axes:
        return None
    tensors = sorted(spec.tensors, key=lambda tensor: tensor.optional)
    return next((tensor for tensor in tensors if name in tensor.dims.bare(form)), None)


def unpacked_dims(spec: Spec, tensor: TensorArgument, names: Sequence[str], form: str) -> tuple[str, ...]:
    """The targets to which a tensor's shape is unpacked for the extents that are read of it; none if it cannot be."""
    dims = tensor.dims.per_format[form]
    own = [dim.name for dim in dims if dim.name in names and extent_owner(spec, str(dim.name), form) == tensor]
    if any(dim.is_rest for dim in dims) or len(set(own)) < len(own):
        return ()
    return tuple(dim.name if dim.name and dim.name in own else "_" for dim in dims)


def extent(spec: Spec, name: str, form: str) -> Item:
    """Where the extent of a dim is read: the axis that chooses it, a tensor that has it, or the documents it counts."""
    rest, owner = spec.rest_owner(form), extent_owner(spec, name, form)
    if name in spec.axes and rest:
        return shape_of(rest.name, spec.axes[name].name)
    if owner:
        return shape_of(owner.name, places_of(owner.dims.per_format[form], name)[0])
    lengths = spec.counts[name]
    count = call("len", lengths.name) if lengths.where == "host" else shape_of(lengths.name, 0)
    return f"{count.flat} - 1" if lengths.leading_zero else count
