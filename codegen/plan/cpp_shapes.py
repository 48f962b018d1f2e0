# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Argument checks and shape inference in C++: per format, what is checked and the shapes of the tensors to allocate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..spec.dims import Dim
from ..spec.expression import Literal
from ..spec.model import Attribute, Dims, Launch, Output, Spec, Temporary
from ..text.cpp_expression import dtype_constant, dtype_of_attribute, string
from .backward_inputs import dims_outside
from .cpp_checks import ShapeChecks, may_be_negative
from .cpp_dtype_checks import DtypeChecks
from .cpp_formats import FormatTests
from .cpp_tensors import Given
from .operator import CppFormat


class Shapes:
    """One function's checks and shapes; `name` is the function's, `tensors` are those that it allocates."""

    def __init__(
        self, spec: Spec, name: str, given: Given, tensors: Sequence[Output | Temporary], launches: Iterable[Launch]
    ) -> None:
        self.spec = spec
        self.formats_of = FormatTests(spec, given)
        self.given = given if self.formats_of.forms else given.in_every_format(spec.format.names)
        self.checker = spec.fresh("checks")
        self.checks = DtypeChecks(spec, name, given, self.checker)
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
        return bool(self.formats_of.forms)

    def declarations(self) -> tuple[str, ...]:
        """What the branches set."""
        if not self.branches:
            return ()
        dims = [f"int64_t {name} = 0;" for name in self.launch_dims]
        return (*dims, *(f"ShapeVector {name};" for name in dict.fromkeys(self.variables.values())))

    def formats(self) -> tuple[CppFormat, ...]:
        if not self.branches:
            statements = self.statements(self.spec.format.names[0])
            return (CppFormat("", statements),) if statements else ()
        return tuple(CppFormat(test, self.statements(name)) for name, test in self.formats_of.forms.items())

    def unknown_format(self) -> str:
        """What happens behind the last branch."""
        return f"{self.checker}.{self.formats_of.unknown};" if self.branches else ""

    def statements(self, form: str) -> tuple[str, ...]:
        """Checks that bind dims on the way, then the shapes."""
        checks = ShapeChecks(self.spec, self.given, form, self.checker, self.formats_of.ranked)
        checks.use(*self.launch_dims)
        shapes = [line for item in self.distinct() for line in self.shape(checks, item, form)]
        return (*checks.lines(self.launch_dims if self.branches else ()), *shapes)

    def distinct(self) -> list[Output | Temporary]:
        """The first tensor of every shape that has a variable."""
        first: dict[str, Output | Temporary] = {}
        for item in self.tensors:
            if item.name in self.variables:
                first.setdefault(self.variables[item.name], item)
        return list(first.values())

    def shape(self, checks: ShapeChecks, item: Output | Temporary, form: str) -> list[str]:
        variable, dims = self.variables[item.name], item.dims.per_format[form]
        resize = item.resize if isinstance(item, Output) else {}
        lines = checks.shape(variable, variable if self.branches else f"ShapeVector {variable}", dims, resize)
        extents = [*(dim.expression for dim in dims if not dim.is_rest), *resize.values()]
        if any(may_be_negative(extent, self.spec.dim_docs.__contains__) for extent in extents):
            text = string(" ".join(dim.compact for dim in dims))
            lines.append(f"{self.checker}.NotNegative({string(item.name)}, {variable}, {text});")
        return lines


def literal_extent(dim: Dim) -> object:
    assert isinstance(dim.expression, Literal)
    return dim.expression.value
