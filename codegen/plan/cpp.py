# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The plan of the C++ runner."""

from __future__ import annotations

from ..spec.expression import Expression, Name, names_in
from ..spec.model import LengthsArgument, Spec
from ..spec.names import snake_case
from ..text.cpp_expression import cpp, dtype_constant, string
from .operator import CppFormat, CppPlan, CppShape


def derive_cpp(spec: Spec) -> CppPlan:
    shape_of = shape_variables(spec)
    shapes = tuple(dict.fromkeys(shape_of.values()))
    form = spec.format
    return CppPlan(
        formats=tuple(cpp_format(spec, name, shape_of) for name in form.names),
        launch_dims=tuple(launch_dims(spec)) if len(form.names) > 1 else (),
        shapes=shapes,
        outputs=tuple(
            CppShape(item.name, dtype_constant(item.dtype, item.dtype in spec.by_name), shape_of[item.name])
            for item in spec.outputs
        ),
        kernel=spec.kernel.call.kernel,
        cpu_kernel=snake_case(spec.kernel.call.kernel.removeprefix("aclnn")) if spec.kernel.cpu_header else "",
        cpu_header=spec.kernel.cpu_header,
        launch=tuple(launch_argument(spec, argument) for argument in spec.kernel.call.arguments),
        format_selector=form.selector if form.kind == "attribute" else "",
        format_words=", ".join(form.names),
    )


def shape_variables(spec: Spec) -> dict[str, str]:
    """One shape variable for all outputs of one shape, named after the first of them."""
    variables: dict[str, str] = {}
    first: dict[tuple[object, ...], str] = {}
    for output in spec.outputs:
        key = tuple(output.dims.per_format.items())
        variables[output.name] = spec.fresh(f"{first.setdefault(key, output.name)}_shape")
    return variables


def cpp_format(spec: Spec, form: str, shape_of: dict[str, str]) -> CppFormat:
    shapes: dict[str, tuple[str, ...]] = {}
    used: dict[str, None] = {}
    for output in spec.outputs:
        dims = output.dims.per_format[form]
        used |= dict.fromkeys(name for dim in dims for name in dim.names if name in spec.dim_docs)
        shapes[shape_of[output.name]] = tuple(cpp(dim.expression) for dim in dims)
    used |= dict.fromkeys(launch_dims(spec))
    hoisted = launch_dims(spec) if len(spec.format.names) > 1 else []
    sources = (
        (name if name in hoisted else f"const int64_t {name}", extent_source(spec, form, name))
        for name in spec.dim_docs
        if name in used
    )
    return CppFormat(
        name=form,
        test=format_test(spec, form),
        dims=tuple((target, source) for target, source in sources if source),
        shapes=tuple(shapes.items()),
    )


def format_test(spec: Spec, form: str) -> str:
    if len(spec.format.names) == 1:
        return ""
    if spec.format.kind == "attribute":
        return f"{spec.format.selector} == {string(form)}"
    tensor = next(tensor for tensor in spec.tensors if tensor.name == spec.format.selector)
    return f"{tensor.name}.shape().size() == {len(tensor.dims.per_format[form])}"


def launch_dims(spec: Spec) -> list[str]:
    """The dims that the kernel call names: the local extents, which it needs behind the branches."""
    names = {name.id for argument in spec.kernel.call.arguments for name in names_in(argument)}
    return [name for name in spec.dim_docs if name in names]


def extent_source(spec: Spec, form: str, name: str) -> str:
    """Where a dim's extent is read: the first required tensor that has it bare."""
    for tensor in spec.tensors:
        for index, dim in enumerate(tensor.dims.per_format[form]):
            if dim.name == name and not tensor.optional:
                return f"{tensor.name}.shape()[{index}]"
    return ""


def launch_argument(spec: Spec, argument: Expression) -> str:
    """One argument of the launch: outputs and missing lengths are marked, the rest is an expression."""
    if isinstance(argument, Name):
        if argument.id in {output.name for output in spec.outputs}:
            return f"Output({argument.id})"
        item = spec.by_name.get(argument.id)
        if isinstance(item, LengthsArgument) and item.optional:
            return f"EmptyIfMissing({argument.id})"
    return cpp(argument)
