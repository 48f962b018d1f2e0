# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What must hold of a spec beyond its grammar: every check that needs no run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from ..diagnostics import Findings, Note, Span, suggestion
from . import check_sharding
from .expression import Call, Expression, Literal, children, names_in
from .model import DTYPES, Attribute, LengthsArgument, Output, Requirement, Spec, TensorArgument
from .names import fault, op_fault
from .yaml_nodes import Scalar


def check_spec(spec: Spec) -> None:
    """Raise SpecError with every finding."""
    findings = Findings()
    check_names(spec, findings)
    check_format(spec, findings)
    check_order(spec, findings)
    for argument in spec.arguments:
        if isinstance(argument, TensorArgument):
            check_tensor(spec, argument, findings)
        elif isinstance(argument, LengthsArgument):
            check_dim_name(spec, argument.of, argument.of_at, findings)
        else:
            check_attribute(argument, findings)
    check_outputs(spec, findings)
    check_dims_used(spec, findings)
    for requirement in spec.requirements:
        check_requirement(spec, requirement, findings)
    findings.raise_if_any()
    check_sharding.check(spec, findings)
    check_kernel(spec, findings)
    findings.raise_if_any()


def check_names(spec: Spec, findings: Findings) -> None:
    reason = op_fault(spec.op)
    if reason:
        findings.add("HP101", spec.op_at, f"the operator's name '{spec.op}' {reason}")
    defined: dict[str, Span] = {}
    named: list[tuple[str, Span]] = [
        *spec.dims_at.items(),
        *((argument.name, argument.at) for argument in spec.arguments),
        *((output.name, output.at) for output in spec.outputs),
    ]
    for name, at in named:
        reason = fault(name)
        if reason:
            findings.add("HP101", at, f"the name '{name}' {reason}", "choose another")
        if name in defined:
            note = Note(defined[name], "first defined here")
            hint = "dims, arguments and outputs share one namespace"
            findings.add("HP104", at, f"the name '{name}' is defined twice", hint, [note])
        defined.setdefault(name, at)
    for name in spec.format.names:
        reason = fault(name)
        if reason:
            findings.add("HP101", spec.format.at, f"the format's name '{name}' {reason}")


def check_format(spec: Spec, findings: Findings) -> None:
    form = spec.format
    if not form.names:
        findings.add("HP105", form.at, "no tensor gives its dims, so there is no format", "give every tensor dims")
        return
    argument = spec.by_name.get(form.selector)
    if form.kind == "attribute" and isinstance(argument, Attribute):
        if argument.type != "str":
            findings.add("HP105", argument.at, f"'{argument.name}' names the format and must be of type str")
        elif argument.default is not None and argument.default not in form.names:
            at = argument.default_at or argument.at
            hint = suggestion(str(argument.default), form.names)
            findings.add("HP105", at, f"'{argument.default}' is no format of the operator", hint)
        if argument.choices and argument.choices_at:
            message = "the format's choices follow from the dims of the tensors"
            findings.add("HP105", argument.choices_at, message, "delete 'choices'")
    elif form.kind == "attribute":
        findings.add("HP105", form.at, f"'{form.selector}' is not an attribute of type str")
    elif form.kind == "rank":
        check_rank_format(spec, findings)


def check_rank_format(spec: Spec, findings: Findings) -> None:
    form = spec.format
    tensor = spec.by_name.get(form.selector)
    if not isinstance(tensor, TensorArgument) or tensor.optional:
        hint = suggestion(form.selector, [tensor.name for tensor in spec.tensors])
        findings.add("HP105", form.at, f"'{form.selector}' is not a required tensor", hint)
        return
    ranks = Counter(len(dims) for dims in tensor.dims.per_format.values())
    for rank, count in ranks.items():
        if count > 1:
            message = f"{count} formats give '{tensor.name}' {rank} dims, so its rank does not tell them apart"
            findings.add("HP105", form.at, message)


def check_order(spec: Spec, findings: Findings) -> None:
    """The order of the call is the order of the spec, which Python allows only with the required ones first."""
    defaulted = keyword = None
    for argument in spec.arguments:
        if argument.required:
            if defaulted is not None:
                message = f"'{argument.name}' has no default but stands behind '{defaulted.name}', which has one"
                findings.add("HP201", argument.at, message, "move it up, or give it a default")
            continue
        if argument.positional and keyword is not None:
            message = f"'{argument.name}' is positional but stands behind '{keyword.name}', which is keyword-only"
            findings.add("HP201", argument.at, message, "move it up")
        defaulted = defaulted or argument
        keyword = keyword or (None if argument.positional else argument)


def check_tensor(spec: Spec, tensor: TensorArgument, findings: Findings) -> None:
    earlier = [other.name for other in spec.tensors[: spec.tensors.index(tensor)]]
    for dtype in tensor.dtypes:
        check_dtype(dtype, earlier, tensor.at, findings)
    for scalar, dims in zip(tensor.dims.scalars.values(), tensor.dims.per_format.values(), strict=True):
        for dim in dims:
            check_dim_expression(spec, dim.expression, scalar, findings)


def check_dtype(dtype: str, tensors: list[str], at: Span, findings: Findings) -> None:
    if dtype not in DTYPES and dtype not in tensors:
        hint = suggestion(dtype, [*DTYPES, *tensors])
        findings.add("HP203", at, f"'{dtype}' is neither a dtype nor a tensor defined before", hint)


def check_dim_expression(spec: Spec, expression: Expression, scalar: Scalar, findings: Findings) -> None:
    attributes = {argument.name: argument for argument in spec.attributes}
    for name in names_in(expression):
        if name.id in spec.dim_docs or (name.id in attributes and attributes[name.id].type == "int"):
            continue
        place = scalar.at(name.offset, len(name.id))
        hint = suggestion(name.id, spec.dim_docs) or "declare it under 'dims:'"
        findings.add("HP102", place, f"unknown dim '{name.id}' in '{scalar.text}'", hint)


def check_dim_name(spec: Spec, name: str, at: Span, findings: Findings) -> None:
    if name not in spec.dim_docs:
        findings.add("HP102", at, f"unknown dim '{name}'", suggestion(name, spec.dim_docs))


def check_attribute(argument: Attribute, findings: Findings) -> None:
    if argument.choices and argument.default is not None and argument.default not in argument.choices:
        listed = ", ".join(str(choice) for choice in argument.choices)
        at = argument.default_at or argument.at
        findings.add("HP201", at, f"the default {argument.default} is not among the choices {listed}")


def bound_dims(spec: Spec, form: str) -> set[str]:
    """The dim names that some input has bare in this format: the ones whose extent is known."""
    return {dim.name for tensor in spec.tensors for dim in tensor.dims.per_format[form] if dim.name}


def check_outputs(spec: Spec, findings: Findings) -> None:
    tensors = [tensor.name for tensor in spec.tensors]
    for output in spec.outputs:
        check_dtype(output.dtype, tensors, output.at, findings)
        for form, dims in output.dims.per_format.items():
            scalar = output.dims.scalars[form]
            bound = bound_dims(spec, form) | {attribute.name for attribute in spec.attributes}
            for dim in dims:
                check_dim_expression(spec, dim.expression, scalar, findings)
                for name in dim.names:
                    if name in spec.dim_docs and name not in bound:
                        message = f"no input has the dim '{name}' of output '{output.name}' in format {form}"
                        findings.add("HP106", output.at, message, "an output's dims must follow from the inputs")


def all_dims(spec: Spec) -> Iterator[str]:
    holders: Iterable[TensorArgument | Output] = (*spec.tensors, *spec.outputs)
    for holder in holders:
        for dims in holder.dims.per_format.values():
            for dim in dims:
                yield from dim.names


def check_dims_used(spec: Spec, findings: Findings) -> None:
    used = set(all_dims(spec))
    for name, at in spec.dims_at.items():
        if name not in used:
            findings.add("HP107", at, f"the dim '{name}' is declared but no tensor has it", "delete it, or use it")


def check_requirement(spec: Spec, requirement: Requirement, findings: Findings) -> None:
    known = {*spec.dim_docs, *spec.by_name}
    parts = [requirement.condition] + ([requirement.applies] if requirement.applies else [])
    for part in parts:
        for name in names_in(part):
            if name.id not in known:
                place = requirement.scalar.at(name.offset, len(name.id))
                findings.add("HP103", place, f"unknown name '{name.id}'", suggestion(name.id, known))
        for call in calls_in(part):
            if call.function not in ("fact", "rank", "min", "max", "cdiv"):
                place = requirement.scalar.at(call.offset, len(call.function))
                findings.add("HP202", place, f"'{call.function}' has no meaning in 'require'")


def calls_in(node: Expression) -> Iterator[Call]:
    if isinstance(node, Call):
        yield node
    for child in children(node):
        yield from calls_in(child)


def check_kernel(spec: Spec, findings: Findings) -> None:
    """Every argument and output reaches the kernel, or stands under `unused`."""
    kernel = spec.kernel
    known = {*spec.by_name, *(output.name for output in spec.outputs)}
    used: set[str] = set()
    for argument in kernel.call.arguments:
        for name in names_in(argument):
            used.add(name.id)
            if name.id not in known and name.id not in spec.dim_docs:
                place = kernel.scalar.at(name.offset, len(name.id))
                hint = suggestion(name.id, known | set(spec.dim_docs))
                findings.add("HP103", place, f"unknown name '{name.id}' in the kernel call", hint)
        check_kernel_argument(argument, kernel.scalar, findings)
    for unused, at in kernel.unused_at.items():
        if unused not in spec.by_name:
            findings.add("HP103", at, f"unknown argument '{unused}'", suggestion(unused, spec.by_name))
        elif unused in used:
            findings.add("HP402", at, f"'{unused}' is called unused, but the kernel call has it", "delete it here")
    defined = [*((item.name, item.at) for item in spec.arguments), *((item.name, item.at) for item in spec.outputs)]
    for needed, at in defined:
        if needed not in used and needed not in kernel.unused:
            message = f"'{needed}' does not reach the kernel"
            hint = "add it to the call, or to 'unused'"
            call = kernel.scalar.at(0, len(kernel.call.kernel))
            findings.add("HP402", call, message, hint, [Note(at, "defined here")])


def check_kernel_argument(argument: Expression, scalar: Scalar, findings: Findings) -> None:
    for call in calls_in(argument):
        if call.function not in ("fact", "min", "max", "cdiv"):
            place = scalar.at(call.offset, len(call.function))
            findings.add("HP401", place, f"'{call.function}' has no meaning in this kernel call")
    if any(isinstance(part, Literal) and part.value is None for part in children(argument)):
        findings.add("HP401", scalar.at(argument.offset), "None inside an expression has no meaning for a kernel")
