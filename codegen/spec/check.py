# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What must hold of a spec beyond its grammar: every check that needs no run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from ..diagnostics import Findings, Note, Span, suggestion
from . import check_kernel, check_sharding
from .dims import REST, Dim
from .expression import Expression, calls_in, names_in
from .model import DTYPES, Attribute, Dims, LengthsArgument, Output, Requirement, Spec, Temporary, TensorArgument
from .names import fault, op_fault
from .types import Typer
from .yaml_nodes import Scalar

OTHER_NAMES = {"fp16": "float16", "half": "float16", "bf16": "bfloat16", "fp32": "float32", "float": "float32"}
OTHER_NAMES |= {"fp64": "float64", "double": "float64", "int": "int64", "long": "int64", "uint1": "bool"}
REQUIRE_FUNCTIONS = ("fact", "rank", "min", "max", "cdiv")


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
            check_lengths(spec, argument, findings)
        else:
            check_attribute(spec, argument, findings)
    check_outputs(spec, findings)
    for temporary in spec.temporaries:
        check_dims(spec, temporary, "temporary", findings)
    if spec.has_any_rank and all(tensor.optional or not tensor.dims.any_rank for tensor in spec.tensors):
        at = next(tensor.at for tensor in spec.tensors if tensor.dims.any_rank)
        findings.add("HP204", at, "only optional tensors have '...', so its dims may be unknown", "a required one must")
    check_dims_used(spec, findings)
    context = spec.context_parallel
    for requirement in (*spec.requirements, *(context.requirements if context else ())):
        check_requirement(spec, requirement, findings)
    findings.drop_consequences("HP102", ("HP106", "HP107"))
    findings.raise_if_any()
    check_sharding.check(spec, findings)
    check_kernel.check(spec, findings)
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
        *((temporary.name, temporary.at) for temporary in spec.temporaries),
    ]
    for name, at in named:
        if name in defined:
            note = Note(defined[name], "first defined here")
            hint = "dims, arguments, outputs and temporaries share one namespace"
            findings.add("HP104", at, f"the name '{name}' is defined twice", hint, [note])
        defined.setdefault(name, at)
    for name in spec.format.names:
        reason = fault(name)
        if reason:
            findings.add("HP101", spec.format.at, f"the format's name '{name}' {reason}")
    for alias, at in spec.aliases_at.items():
        if not alias.isidentifier():
            findings.add("HP101", at, f"the alias '{alias}' is not an identifier")
        elif alias == spec.op:
            findings.add("HP104", at, f"'{alias}' is the operator's name already", "delete it")


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
    if not isinstance(tensor, TensorArgument) or tensor.optional or tensor.dims.any_rank:
        hint = suggestion(form.selector, [tensor.name for tensor in spec.tensors])
        findings.add("HP105", form.at, f"'{form.selector}' is not a required tensor of a known rank", hint)
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
        at = tensor.dtypes_at.get(dtype, tensor.at)
        check_dtype(dtype, earlier, at, findings)
        check_dtype_known(spec, dtype, at, findings)
    check_dims(spec, tensor, "argument", findings)
    check_positions(spec, tensor, findings)


def check_positions(spec: Spec, holder: TensorArgument | Output, findings: Findings) -> None:
    keys = spec.context_parallel.key if spec.context_parallel else ()
    if holder.positions and holder.positions not in keys:
        message = f"the positions of '{holder.name}' are of '{holder.positions}', which is not a key dim"
        findings.add(
            "HP303", holder.at, message, suggestion(holder.positions, keys) or "name it under context_parallel"
        )


def check_dtype(dtype: str, tensors: Iterable[str], at: Span, findings: Findings) -> None:
    if dtype not in DTYPES and dtype not in tensors:
        hint = f"write {OTHER_NAMES[dtype]}" if dtype in OTHER_NAMES else suggestion(dtype, [*DTYPES, *tensors])
        findings.add("HP203", at, f"'{dtype}' is neither a dtype nor a tensor defined before", hint)


def check_dtype_known(spec: Spec, dtype: str, at: Span, findings: Findings) -> None:
    """A dtype that is shared is known in every call."""
    owner = spec.by_name.get(spec.dtype_owner(dtype))
    if isinstance(owner, TensorArgument) and owner.optional:
        message = f"the dtype of '{owner.name}' is unknown where it is None"
        findings.add("HP203", at, message, "name a required tensor, or a dtype")


def check_dims(spec: Spec, holder: TensorArgument | Output | Temporary, role: str, findings: Findings) -> None:
    """Every name is declared, and every extent follows from what the inputs have bare."""
    for form, dims in holder.dims.per_format.items():
        scalar = holder.dims.scalars[form]
        for dim in dims:
            check_dim(spec, dim, scalar, findings)
            for name in dim.names:
                if name in spec.dim_docs and name not in spec.bound(form) and dim.name is None:
                    message = f"the dim '{dim.text}' of {role} '{holder.name}' needs '{name}' in format {form}"
                    findings.add("HP106", scalar.span, message, f"no input has the dim {name} there")
                elif name in spec.dim_docs and name not in spec.bound(form):
                    message = f"no input has the dim '{name}' of {role} '{holder.name}' in format {form}"
                    hint = f"{'an output' if role == 'output' else f'a {role}'}'s dims must follow from the inputs"
                    findings.add("HP106", scalar.span, message, hint)
                elif role != "argument" and name in spec.uncertain(form):
                    message = f"the dim '{name}' of {role} '{holder.name}' is unknown without optional arguments"
                    findings.add("HP106", scalar.span, message, "a required tensor must have it")
            if dim.is_rest and not spec.has_any_rank:
                findings.add("HP106", scalar.span, f"no input has '...', but {role} '{holder.name}' does")
            elif dim.is_rest and spec.rest_owner(form) is None:
                message = f"no required input has the '...' of {role} '{holder.name}' in format {form}"
                findings.add("HP106", scalar.span, message)


def check_dim(spec: Spec, dim: Dim, scalar: Scalar, findings: Findings) -> None:
    if dim.is_rest:
        return
    for name in names_in(dim.expression):
        if name.id not in spec.dim_docs and not is_integer(spec, name.id):
            place = scalar.at(name.offset, len(name.id))
            apart = split_words(name.id, list(spec.dim_docs))
            hint = f"dims are separated by spaces: {' '.join(apart)}" if apart else suggestion(name.id, spec.dim_docs)
            message = f"unknown dim '{name.id}' in '{scalar.text}'"
            findings.add("HP102", place, message, hint or "declare it under 'dims:'")


def is_integer(spec: Spec, name: str) -> bool:
    return any(attribute.name == name and attribute.type == "int" for attribute in spec.attributes)


def split_words(text: str, known: list[str]) -> list[str]:
    """A word as several known ones run together; empty if it is not."""
    if not text:
        return []
    for word in sorted(known, key=len, reverse=True):
        rest = text.removeprefix(word)
        if rest != text and (not rest or split_words(rest, known)):
            return [word, *split_words(rest, known)]
    return []


def check_lengths(spec: Spec, lengths: LengthsArgument, findings: Findings) -> None:
    for name in (lengths.of, lengths.count):
        if name and name not in spec.dim_docs:
            findings.add("HP102", lengths.of_at, f"unknown dim '{name}'", suggestion(name, spec.dim_docs))
    if lengths.where == "device" and all(tensor.optional for tensor in spec.tensors):
        message = f"'{lengths.name}' lies on the device of a tensor, but every tensor is optional"
        findings.add("HP204", lengths.at, message, "say where: host")
    if lengths.dtype not in ("int32", "int64"):
        findings.add("HP203", lengths.at, f"document ends are int32 or int64, not '{lengths.dtype}'")
    if lengths.where == "host" and lengths.dtype != "int64":
        findings.add("HP203", lengths.at, "document ends on the host are int64", "delete 'dtype', or say where: device")
    if lengths.where == "device" and lengths.missing == "empty":
        message = "lengths on the device that are missing are no tensor at all"
        findings.add("HP204", lengths.at, message, "say missing: absent, or nothing")


def check_attribute(spec: Spec, argument: Attribute, findings: Findings) -> None:
    at = argument.default_at or argument.at
    if argument.choices and argument.default is not None and argument.default not in argument.choices:
        listed = ", ".join(str(choice) for choice in argument.choices)
        findings.add("HP201", at, f"the default {argument.default} is not among the choices {listed}")
    if argument.type == "dtype":
        for value in (argument.default, *argument.choices):
            if value is not None:
                check_dtype(str(value), (), at, findings)
    if argument.optional and argument.type != "ints":
        message = f"'{argument.name}' is of type {argument.type}, which has no null value for a kernel"
        findings.add("HP204", argument.at, message, "only tensors, lengths and ints may be optional; give a default")
    if argument.optional and argument.default is not None:
        findings.add("HP201", at, f"'{argument.name}' is optional, so its default is None", "delete one of the two")
    if argument.axis:
        check_axis(spec, argument, findings)


def check_axis(spec: Spec, argument: Attribute, findings: Findings) -> None:
    if argument.type != "int":
        findings.add("HP204", argument.at, f"'{argument.name}' chooses an axis and must be of type int")
    if argument.axis not in spec.dim_docs:
        hint = suggestion(argument.axis, spec.dim_docs) or "declare it under 'dims:'"
        findings.add("HP102", argument.at, f"unknown dim '{argument.axis}'", hint)
    if not any(tensor.dims.any_rank for tensor in spec.tensors):
        message = f"'{argument.name}' chooses an axis, but no tensor has any number of dims"
        findings.add("HP204", argument.at, message, "dims: ...")


def check_outputs(spec: Spec, findings: Findings) -> None:
    tensors = [tensor.name for tensor in spec.tensors]
    tensors += [attribute.name for attribute in spec.attributes if attribute.type == "dtype"]
    for output in spec.outputs:
        check_dtype(output.dtype, tensors, output.dtype_at, findings)
        check_dtype_known(spec, output.dtype, output.dtype_at, findings)
        check_dims(spec, output, "output", findings)
        check_positions(spec, output, findings)
        for axis, extent in output.resize.items():
            if axis not in spec.axes or not output.dims.any_rank:
                hint = suggestion(axis, spec.axes) or "resize is for an axis that an attribute chooses"
                findings.add("HP204", output.at, f"'{axis}' is no axis of '{output.name}' that can be resized", hint)
            for name in names_in(extent):
                if name.id not in spec.dim_docs and name.id not in spec.by_name:
                    message = f"unknown name '{name.id}' in the extent of '{axis}'"
                    findings.add("HP102", output.at, message, suggestion(name.id, [*spec.dim_docs, *spec.by_name]))
        condition = spec.by_name.get(output.when)
        if output.when and not (isinstance(condition, Attribute) and condition.type == "bool"):
            message = f"'{output.when}' is not an attribute of type bool"
            hint = suggestion(output.when, [item.name for item in spec.attributes if item.type == "bool"])
            findings.add("HP103", output.at, message, hint)
        counted = {name for form in spec.format.names for name in output.dims.bare(form)} & set(spec.counts)
        if counted:
            message = (
                f"the output '{output.name}' has the number of documents as a dim, which no mesh axis can describe"
            )
            findings.add("HP301", output.at, message)
    check_conditional(spec, findings)
    check_when(spec, findings)
    if all(output.hidden or output.when for output in spec.outputs):
        findings.add(
            "HP204", spec.outputs[0].at, "some output must be returned always", "an operator returns something"
        )


def check_conditional(spec: Spec, findings: Findings) -> None:
    """What is returned with one attribute stands behind what is returned always: no output changes its place."""
    visible = [output for output in spec.outputs if not output.hidden]
    first = next((output for output in visible if output.when), None)
    for output in visible[visible.index(first) :] if first else ():
        if first and output.when != first.when:
            message = f"'{output.name}' stands behind '{first.name}', which is returned only with {first.when}"
            findings.add("HP204", output.at, message, "move it up, or return it with the same attribute")
    for output in spec.outputs:
        if output.hidden and output.when:
            findings.add("HP204", output.at, f"'{output.name}' is hidden, so it is never returned", "delete 'when'")


def check_when(spec: Spec, findings: Findings) -> None:
    """Outputs that are returned on a condition come last and share it, so that the others keep their places."""
    returned = [output for output in spec.outputs if not output.hidden]
    first = next((index for index, output in enumerate(returned) if output.when), len(returned))
    for output in returned[first:]:
        if output.when != returned[first].when:
            message = (
                f"'{output.name}' stands behind '{returned[first].name}', which is returned only with another condition"
            )
            hint = "outputs with 'when' come last, all with the same attribute"
            findings.add("HP204", output.at, message, hint)
    for output in spec.outputs:
        if output.hidden and output.when:
            findings.add("HP204", output.at, f"'{output.name}' is hidden, so it is never returned", "delete 'when'")


def all_dims(spec: Spec) -> Iterator[str]:
    holders: list[Dims] = [item.dims for item in spec.tensors]
    holders += [item.dims for item in spec.temporaries]
    holders += [output.dims for output in spec.outputs]
    for holder in holders:
        for dims in holder.per_format.values():
            for dim in dims:
                yield from dim.names
    yield from (*spec.axes, *spec.counts)


def check_dims_used(spec: Spec, findings: Findings) -> None:
    used = set(all_dims(spec))
    for name, at in spec.dims_at.items():
        if name not in used:
            findings.add("HP107", at, f"the dim '{name}' is declared but no tensor has it", "delete it, or use it")


def check_requirement(spec: Spec, requirement: Requirement, findings: Findings) -> None:
    known = {*spec.dim_docs, *spec.by_name}
    parts = [requirement.condition] + ([requirement.applies] if requirement.applies else [])
    for part in parts:
        check_expression_names(part, known, requirement.scalar, findings)
        for call in calls_in(part):
            if call.function not in REQUIRE_FUNCTIONS:
                place = requirement.scalar.at(call.offset, len(call.function))
                findings.add("HP202", place, f"'{call.function}' has no meaning in 'require'")
        if all(name.id in known for name in names_in(part)):
            Typer(spec, requirement.scalar, findings).condition(part)
        if not names_in(part):
            findings.add("HP202", requirement.scalar.span, "a condition that depends on nothing", "delete it")


def check_expression_names(node: Expression, known: set[str], scalar: Scalar, findings: Findings) -> None:
    for name in names_in(node):
        if name.id not in known and name.id != REST:
            place = scalar.at(name.offset, len(name.id))
            findings.add("HP103", place, f"unknown name '{name.id}'", suggestion(name.id, known))
