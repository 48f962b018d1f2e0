# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The plan of the C++ file: a function for the operator and one for its backward kernel."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from ..spec.dims import Dim
from ..spec.expression import Literal, names_in
from ..spec.model import (
    Argument,
    Attribute,
    BackwardCall,
    Dims,
    Launch,
    LengthsArgument,
    Output,
    Spec,
    Temporary,
    TensorArgument,
)
from ..spec.names import camel_case
from ..text.cpp_expression import cpp, cpp_extent, dtype_constant, dtype_of_attribute, string
from .backward_inputs import (
    BackwardInput,
    BackwardInputs,
    dims_outside,
    gradient,
    gradient_models,
    produced_gradients,
)
from .cpp_launches import LaunchWriter
from .operator import CppFormat, CppFunction, CppPlan, CppTensor

ATTRIBUTE = {
    "int": "int64_t",
    "float": "double",
    "bool": "bool",
    "str": "const std::string&",
    "dtype": "const std::string&",
    "ints": "const std::vector<int64_t>&",
}
TENSOR = "const ms::Tensor&"
OPTIONAL_TENSOR = "const std::optional<ms::Tensor>&"


def derive_cpp(spec: Spec, inputs: BackwardInputs) -> CppPlan | None:
    if spec.kernel is None:
        return None
    functions = [forward_function(spec)]
    if isinstance(spec.backward, BackwardCall):
        functions.append(backward_function(spec, spec.backward, inputs))
    return CppPlan(tuple(functions), spec.kernel.cpu_header)


def parameter_type(argument: Argument) -> str:
    if isinstance(argument, TensorArgument):
        return OPTIONAL_TENSOR if argument.optional else TENSOR
    if isinstance(argument, LengthsArgument):
        if argument.where == "device":
            return OPTIONAL_TENSOR if argument.optional else TENSOR
        vector = "std::vector<int64_t>"
        return f"const std::optional<{vector}>&" if argument.optional else f"const {vector}&"
    if argument.optional:
        return "const std::optional<std::vector<int64_t>>&"
    return ATTRIBUTE[argument.type]


def forward_function(spec: Spec) -> CppFunction:
    assert spec.kernel is not None
    shapes = Shapes(spec, (*spec.outputs, *spec.kernel.temporaries), spec.kernel.launches)
    tensors = [CppTensor(item.name, *shapes.allocation(item)) for item in shapes.tensors]
    writer = LaunchWriter(spec, {item.name for item in shapes.tensors}, ())
    return CppFunction(
        name=spec.op,
        parameters=tuple(
            f"{'[[maybe_unused]] ' if item.name in spec.kernel.unused else ''}{parameter_type(item)} {item.name}"
            for item in spec.arguments
        ),
        declarations=shapes.declarations(),
        formats=shapes.formats(),
        unknown_format=shapes.unknown_format(),
        tensors=tuple(tensors),
        launches=writer.launches(spec.kernel.launches, camel_case(spec.op)),
        returns=tuple(output.name for output in spec.outputs),
    )


def backward_function(spec: Spec, backward: BackwardCall, inputs: BackwardInputs) -> CppFunction:
    given = {item.name for item in inputs if item.adapters is None}
    shapes = Shapes(spec, backward.temporaries, backward.launches, given)
    produced = produced_gradients(spec, backward)
    models = gradient_models(spec, backward)
    tensors = [gradient_tensor(spec, name, models.get(name, name)) for name in produced]
    tensors += [CppTensor(item.name, *shapes.allocation(item)) for item in backward.temporaries]
    written = {gradient(spec, name) for name in produced} | {item.name for item in backward.temporaries}
    writer = LaunchWriter(spec, written, inputs)
    returns = [gradient(spec, name) for name in produced]
    return CppFunction(
        name=f"{spec.op}_backward",
        parameters=tuple(backward_parameter(spec, item) for item in inputs),
        declarations=shapes.declarations(),
        formats=shapes.formats(),
        unknown_format=shapes.unknown_format(),
        tensors=tuple(tensors),
        launches=writer.launches(backward.launches, f"{camel_case(spec.op)}Backward"),
        returns=tuple(
            f"EmptyIfMissing({name})" if optional_tensor(spec, argument) else name
            for name, argument in zip(returns, produced, strict=True)
        ),
    )


def optional_tensor(spec: Spec, name: str) -> bool:
    argument = spec.by_name.get(name)
    return isinstance(argument, TensorArgument) and argument.optional


def gradient_tensor(spec: Spec, name: str, model: str) -> CppTensor:
    """A gradient has the shape and the dtype of its input, or of the `model` of it, and is missing where it is."""
    if optional_tensor(spec, name):
        return CppTensor(gradient(spec, name), "std::optional<ms::Tensor>", f"LikeIfPresent({name})")
    return CppTensor(gradient(spec, name), "ms::Tensor", f"{model}.data_type(), {model}.shape()")


def backward_parameter(spec: Spec, item: BackwardInput) -> str:
    argument = None if item.is_cotangent else spec.by_name.get(item.source)
    return f"{parameter_type(argument) if argument else TENSOR} {item.name}"


class Shapes:
    """Shape inference in C++: named dims from the inputs, per format, and the shapes of the tensors to allocate."""

    def __init__(
        self,
        spec: Spec,
        tensors: Sequence[Output | Temporary],
        launches: Iterable[Launch],
        given: Container[str] | None = None,
    ) -> None:
        self.spec = spec
        self.given = spec.by_name if given is None else given
        self.tensors = tuple(tensors)
        named = {name for launch in launches for item in launch.call.arguments for name in dims_outside(item)}
        self.launch_dims = [name for name in spec.dim_docs if name in named]
        self.variables = self.shape_variables()

    def shape_variables(self) -> dict[str, str]:
        """One variable for all tensors of one shape, named after the first; none for a shape of plain numbers."""
        variables: dict[str, str] = {}
        first: dict[tuple[object, ...], str] = {}
        for item in self.tensors:
            if not self.is_constant(item.dims):
                resized = tuple(item.resize.items()) if isinstance(item, Output) else ()
                key = (*item.dims.per_format.items(), *resized)
                variables[item.name] = self.spec.fresh(f"{first.setdefault(key, item.name)}_shape")
        return variables

    def is_constant(self, dims: Dims) -> bool:
        return all(isinstance(dim.expression, Literal) for found in dims.per_format.values() for dim in found)

    def allocation(self, item: Output | Temporary) -> tuple[str, str]:
        """The type of a tensor to allocate, and its dtype and shape."""
        owner = self.spec.dtype_owner(item.dtype)
        source = self.spec.by_name.get(owner)
        if isinstance(source, Attribute):
            dtype = dtype_of_attribute(owner)
        else:
            dtype = dtype_constant(owner, source is not None)
        shape = self.variables.get(item.name)
        if shape is None:
            dims = next(iter(item.dims.per_format.values()))
            shape = "ShapeVector{" + ", ".join(str(literal_extent(dim)) for dim in dims) + "}"
        return "ms::Tensor", f"{dtype}, {shape}"

    @property
    def branches(self) -> bool:
        """Whether the formats differ in what has to be inferred."""
        return len(self.spec.format.names) > 1 and bool(self.variables or self.launch_dims)

    def declarations(self) -> tuple[str, ...]:
        if not self.branches:
            return ()
        dims = [f"int64_t {name} = 0;" for name in self.launch_dims]
        return (*dims, *(f"ShapeVector {name};" for name in dict.fromkeys(self.variables.values())))

    def formats(self) -> tuple[CppFormat, ...]:
        names = self.spec.format.names if self.branches else self.spec.format.names[:1]
        if not (self.variables or self.launch_dims):
            return ()
        return tuple(CppFormat(self.test(name), self.statements(name)) for name in names)

    def test(self, form: str) -> str:
        if not self.branches:
            return ""
        if self.spec.format.kind == "attribute":
            return f"{self.spec.format.selector} == {string(form)}"
        dims = next(item.dims for item in self.spec.tensors if item.name == self.spec.format.selector)
        return f"{self.spec.format.selector}.shape().size() == {len(dims.per_format[form])}"

    def unknown_format(self) -> str:
        """What happens behind the last branch."""
        if not self.branches:
            return ""
        op, selector = string(self.spec.op), self.spec.format.selector
        if self.spec.format.kind == "attribute":
            words = string(", ".join(self.spec.format.names))
            return f"ThrowUnknownFormat({op}, {string(selector)}, {selector}, {words});"
        dims = next(item.dims for item in self.spec.tensors if item.name == selector)
        ranks = string(" or ".join(str(len(dims.per_format[form])) for form in self.spec.format.names))
        return f"ThrowUnknownRank({op}, {string(selector)}, {selector}, {ranks});"

    def statements(self, form: str) -> tuple[str, ...]:
        """Dims in the order of their declaration, then the shapes."""
        used = {name for item in self.tensors if item.name in self.variables for name in self.names_of(item, form)}
        lines = []
        for name in self.spec.dim_docs:
            known = name in used | set(self.launch_dims)
            source = extent_source(self.spec, form, name, self.given) if known else ""
            if source:
                hoisted = self.branches and name in self.launch_dims
                lines.append(f"{name} = {source};" if hoisted else f"const int64_t {name} = {source};")
        done: set[str] = set()
        for item in self.tensors:
            variable = self.variables.get(item.name)
            if variable and variable not in done:
                done.add(variable)
                lines += self.shape_lines(item, form, variable)
        return tuple(lines)

    def names_of(self, item: Output | Temporary, form: str) -> list[str]:
        names = [name for dim in item.dims.per_format[form] for name in dim.names]
        rest = any(dim.is_rest for dim in item.dims.per_format[form])
        resize = item.resize.values() if isinstance(item, Output) and rest else ()
        return names + [name.id for extent in resize for name in names_in(extent)]

    def shape_lines(self, item: Output | Temporary, form: str, variable: str) -> list[str]:
        dims = item.dims.per_format[form]
        declared = variable if self.branches else f"ShapeVector {variable}"
        if not any(dim.is_rest for dim in dims):
            return [f"{declared} = {{{', '.join(cpp_extent(dim.expression) for dim in dims)}}};"]
        first = next(index for index, dim in enumerate(dims) if dim.is_rest)
        source, before, after = rest_source(self.spec, form)
        parts = [braced(dims[:first]), f"Rest({source}, {before}, {after})", braced(dims[first + 1 :])]
        lines = [f"{declared} = Joined({', '.join(parts)});"]
        for axis, extent in item.resize.items() if isinstance(item, Output) else ():
            attribute = self.spec.axes[axis].name
            offset = f" - {before} + {first}" if before != first else ""
            lines.append(f"{variable}[AxisOf({attribute}, {source}){offset}] = {cpp(extent)};")
        return lines


def literal_extent(dim: Dim) -> object:
    assert isinstance(dim.expression, Literal)
    return dim.expression.value


def braced(dims: Sequence[Dim]) -> str:
    return "{" + ", ".join(cpp_extent(dim.expression) for dim in dims) + "}"


def rest_source(spec: Spec, form: str) -> tuple[str, int, int]:
    """The tensor that tells what the rest is, and how many of its dims stand before and behind it."""
    tensor = spec.rest_owner(form)
    assert tensor is not None  # the checks see to it
    dims = tensor.dims.per_format[form]
    first = next(index for index, dim in enumerate(dims) if dim.is_rest)
    return tensor.name, first, len(dims) - first - 1


def extent_source(spec: Spec, form: str, name: str, given: Container[str]) -> str:
    """Where a dim's extent is read: the axis that chooses it, the documents it counts, or a tensor that has it bare.

    Only what is `given` can be read.
    """
    if name in spec.axes and spec.rest_owner(form) is None:
        return ""
    if name in spec.axes:
        source = rest_source(spec, form)[0]
        return f"{source}.shape()[AxisOf({spec.axes[name].name}, {source})]"
    readable = [tensor for tensor in spec.tensors if tensor.name in given]
    for tensor in sorted(readable, key=lambda tensor: tensor.optional):
        dims = tensor.dims.per_format[form]
        for index, dim in enumerate(dims):
            if dim.name == name:
                access = f"{tensor.name}->shape()" if tensor.optional else f"{tensor.name}.shape()"
                rest = next((place for place, other in enumerate(dims) if other.is_rest), len(dims))
                return f"{access}[{access}.size() - {len(dims) - index}]" if index > rest else f"{access}[{index}]"
    lengths = spec.counts.get(name)
    if lengths and lengths.of in spec.bound(form):
        access = "->" if lengths.optional else "."
        size = f"{lengths.name}{access}shape()[0]" if lengths.where == "device" else f"{lengths.name}{access}size()"
        return f"static_cast<int64_t>({size}){' - 1' if lengths.leading_zero else ''}"
    return ""
