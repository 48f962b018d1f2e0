# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of kernel calls and of the backward policy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..diagnostics import Findings, Note, suggestion
from ..text.fold import fold
from .expression import Call, Expression, Literal, Name, calls_in, children, names_in
from .model import (
    DTYPES,
    FLOATING,
    Attribute,
    BackwardCall,
    Kernel,
    Launch,
    LengthsArgument,
    Output,
    Precomputed,
    Spec,
    TensorArgument,
)
from .types import Typer
from .yaml_nodes import Scalar

FORWARD_FUNCTIONS = ("fact", "rank", "min", "max", "cdiv", "ints", "i32", "unflatten", "flatten", "unsqueeze")
BACKWARD_FUNCTIONS = (*FORWARD_FUNCTIONS, "transpose", "grad")


def check(spec: Spec, findings: Findings) -> None:
    """Every argument and output reaches a kernel, and every gradient is decided."""
    if spec.kernel is None:
        return
    check_forward(spec, spec.kernel, findings)
    findings.drop_consequences("HP103", ("HP402",))
    check_class_names(spec, spec.kernel, findings)
    for temporary in spec.temporaries:
        if temporary.dtype not in (*DTYPES, *(tensor.name for tensor in spec.tensors)):
            findings.add("HP203", temporary.at, f"'{temporary.dtype}' is neither a dtype nor a tensor")
        owner = spec.by_name.get(spec.dtype_owner(temporary.dtype))
        if isinstance(owner, TensorArgument) and owner.optional:
            findings.add("HP203", temporary.at, f"the dtype of '{owner.name}' is unknown where it is None")
    if isinstance(spec.backward, Precomputed):
        check_precomputed(spec, spec.backward, findings)
    elif isinstance(spec.backward, BackwardCall):
        check_backward_call(spec, spec.backward, findings)
    check_every_gradient(spec, findings)
    check_hidden(spec, findings)
    if isinstance(spec.backward, BackwardCall) and spec.reference and not spec.backward_reference:
        message = "the backward kernel has no reference"
        hint = "reference: {forward: module:function, backward: module:function}"
        findings.add("HP404", spec.backward.at, message, hint)
    if not isinstance(spec.backward, BackwardCall) and spec.backward_reference:
        findings.add("HP404", spec.op_at, "there is a backward reference but no backward kernel", "delete it")


def check_class_names(spec: Spec, kernel: Kernel, findings: Findings) -> None:
    """A launch before the last gives a C++ class named after its kernel, which must not be that of the backward."""
    for launch in kernel.launches[:-1]:
        if launch.call.kernel == "aclnnBackward" and isinstance(spec.backward, BackwardCall):
            place = launch.scalar.at(0, len(launch.call.kernel))
            findings.add("HP401", place, "the runner of 'aclnnBackward' would have the name of the backward's runner")


def check_forward(spec: Spec, kernel: Kernel, findings: Findings) -> None:
    known = {*spec.by_name, *spec.output_by_name, *spec.dim_docs, *(item.name for item in kernel.temporaries)}
    used: set[str] = set()
    for launch in kernel.launches:
        used |= check_launch(spec, launch, known, FORWARD_FUNCTIONS, findings)
    check_written(kernel.launches, {*spec.output_by_name, *(item.name for item in kernel.temporaries)}, findings)
    for unused, at in kernel.unused_at.items():
        if unused not in spec.by_name:
            findings.add("HP103", at, f"unknown argument '{unused}'", suggestion(unused, spec.by_name))
        elif unused in used:
            findings.add("HP402", at, f"'{unused}' is called unused, but the kernel call has it", "delete it here")
    needed = [*((item.name, item.at) for item in spec.arguments), *((item.name, item.at) for item in spec.outputs)]
    needed += [(item.name, item.at) for item in kernel.temporaries]
    last = kernel.launches[-1]
    for name, at in needed:
        if name not in used and name not in kernel.unused:
            hint = "add it to the call, or to 'unused'" if name in spec.by_name else "add it to the call"
            place = last.scalar.at(0, len(last.call.kernel))
            findings.add("HP402", place, f"'{name}' does not reach the kernel", hint, [Note(at, "defined here")])


def check_launch(spec: Spec, launch: Launch, known: set[str], functions: Iterable[str], findings: Findings) -> set[str]:
    """The names that a launch uses; unknown ones and functions without meaning are findings."""
    used: set[str] = set()
    uncertain = set().union(*(spec.uncertain(form) for form in spec.format.names))
    for argument in launch.call.arguments:
        for name in names_in(argument):
            used.add(name.id)
            if name.id in uncertain:
                place = launch.scalar.at(name.offset, len(name.id))
                findings.add("HP106", place, f"the dim '{name.id}' is unknown without optional arguments")
            if name.id not in known:
                place = launch.scalar.at(name.offset, len(name.id))
                hint = suggestion(name.id, known)
                findings.add("HP103", place, f"unknown name '{name.id}' in the kernel call", hint)
        for call in calls_in(argument):
            if call.function not in functions:
                place = launch.scalar.at(call.offset, len(call.function))
                findings.add("HP401", place, f"'{call.function}' has no meaning in this kernel call")
        check_none(argument, launch.scalar, findings)
        if all(name.id in known for name in names_in(argument)):
            Typer(spec, launch.scalar, findings).of(argument)
            check_bound(spec, argument, launch.scalar, findings)
    return used


def check_bound(spec: Spec, argument: Expression, scalar: Scalar, findings: Findings) -> None:
    """Every dim that a call names is known in every format, or stands behind a test of the format."""
    for form in spec.format.names:
        by_attribute = spec.format.kind == "attribute"
        told = spec.format.kind != "fixed"
        reached = fold(argument, spec.format.selector, spec.format_value(form)) if told else argument
        for name in names_in(reached):
            if name.id in spec.dim_docs and name.id not in spec.bound(form):
                message = f"format {form} has no dim '{name.id}'"
                hint = f'such as: {name.id} if {spec.format.selector} == "..." else 0' if by_attribute else ""
                findings.add("HP106", scalar.at(name.offset, len(name.id)), message, hint)


def check_written(launches: Iterable[Launch], written: set[str], findings: Findings) -> None:
    """What a launch writes is an argument as it is: only a later launch can take it in an expression."""
    ready: set[str] = set()
    for launch in launches:
        texts = [(argument, part) for argument in launch.call.arguments for part in parts_of(argument)]
        for argument, part in texts:
            text = shown(part)
            if part is not argument and text in written - ready:
                place = launch.scalar.at(part.offset, len(text))
                findings.add("HP401", place, f"the kernel writes '{text}', so it cannot stand in an expression")
        ready |= {shown(part) for _, part in texts} & written


def parts_of(node: Expression) -> Iterator[Expression]:
    """An expression and everything in it; grad(x) is one thing."""
    yield node
    if not (isinstance(node, Call) and node.function == "grad"):
        for child in children(node):
            yield from parts_of(child)


def shown(node: Expression) -> str:
    """`x` or `grad(x)`; empty for anything else."""
    match node:
        case Name(identifier):
            return identifier
        case Call("grad", (Name(identifier),)):
            return f"grad({identifier})"
        case _:
            return ""


def check_none(node: Expression, scalar: Scalar, findings: Findings) -> None:
    """None is a whole argument, or the one of ints(None)."""
    for child in children(node):
        if isinstance(child, Literal) and child.value is None:
            if isinstance(node, Call) and node.function == "ints" and len(node.arguments) == 1:
                continue
            findings.add("HP401", scalar.at(child.offset, 4), "None inside an expression has no meaning for a kernel")
        check_none(child, scalar, findings)


def is_floating(spec: Spec, tensor: TensorArgument | Output) -> bool:
    names = tensor.dtypes if isinstance(tensor, TensorArgument) else (tensor.dtype,)
    for dtype in names:
        source = spec.by_name.get(dtype)
        if dtype in FLOATING or (isinstance(source, TensorArgument) and is_floating(spec, source)):
            return True
        if isinstance(source, Attribute):  # any of its choices, if it has any
            return not source.choices or any(choice in FLOATING for choice in source.choices)
    return False


def gradients_of(spec: Spec) -> set[str]:
    """The inputs that the backward gives a gradient."""
    if isinstance(spec.backward, Precomputed):
        return set(spec.backward.gradients)
    if isinstance(spec.backward, BackwardCall):
        return {name for launch in spec.backward.launches for name in grad_names(launch) if name in spec.by_name}
    return set()


def grad_names(launch: Launch) -> list[str]:
    """The names inside grad(...) in a call, in order."""
    found = [call for argument in launch.call.arguments for call in calls_in(argument) if call.function == "grad"]
    return [call.arguments[0].id for call in found if isinstance(call.arguments[0], Name)]


def check_every_gradient(spec: Spec, findings: Findings) -> None:
    if spec.backward is None:
        return
    given = gradients_of(spec)
    for tensor in spec.tensors:
        if tensor.name in given and not tensor.differentiable:
            message = f"'{tensor.name}' says differentiable: false, but the backward gives its gradient"
            findings.add("HP403", tensor.at, message, "delete one of the two")
        elif tensor.name in given and not is_floating(spec, tensor):
            findings.add("HP403", tensor.at, f"'{tensor.name}' holds integers and has no gradient")
        elif tensor.name not in given and tensor.differentiable and is_floating(spec, tensor):
            message = f"the backward gives no gradient for '{tensor.name}'"
            findings.add("HP403", tensor.at, message, "add it to the backward, or say differentiable: false")


def check_precomputed(spec: Spec, backward: Precomputed, findings: Findings) -> None:
    for name, gradient in backward.gradients.items():
        tensor, output = spec.by_name.get(name), spec.output_by_name.get(gradient)
        if not isinstance(tensor, TensorArgument):
            hint = suggestion(name, [item.name for item in spec.tensors])
            findings.add("HP403", backward.places[name], f"'{name}' is no tensor argument", hint)
        elif output is None:
            hint = suggestion(gradient, spec.output_by_name)
            findings.add("HP403", backward.places[gradient], f"'{gradient}' is no output", hint)
        elif dim_texts(tensor) != dim_texts(output):
            message = f"the gradient '{gradient}' has other dims than '{name}'"
            findings.add("HP403", backward.places[gradient], message, f"say like: {name}")
    if not backward.cotangent:
        return
    output = spec.output_by_name.get(backward.cotangent)
    at = backward.places[backward.cotangent]
    if output is None:
        findings.add(
            "HP403", at, f"'{backward.cotangent}' is no output", suggestion(backward.cotangent, spec.output_by_name)
        )
        return
    check_differentiable(output, spec, findings)
    if any(dim.expression != Literal(1) for dims in output.dims.per_format.values() for dim in dims):
        message = f"the cotangent multiplies whole gradients, so '{output.name}' must hold one number"
        findings.add("HP403", at, message, 'dims: "1"')


def dim_texts(holder: TensorArgument | Output) -> dict[str, list[str]]:
    return {form: [dim.compact for dim in dims] for form, dims in holder.dims.per_format.items()}


def check_differentiable(output: Output, spec: Spec, findings: Findings) -> None:
    if output.combine in ("same", "max", "min"):
        message = f"'{output.name}' is combined by '{output.combine}', so it has no gradient"
        findings.add("HP403", output.at, message, "only sums have one")
    if not is_floating(spec, output):
        findings.add("HP403", output.at, f"'{output.name}' holds integers and has no gradient")
    if output.hidden:
        findings.add("HP403", output.at, f"'{output.name}' is hidden, so no gradient comes in for it")


def check_backward_call(spec: Spec, backward: BackwardCall, findings: Findings) -> None:
    known = {*spec.by_name, *spec.output_by_name, *spec.dim_docs, *(item.name for item in backward.temporaries)}
    used: set[str] = set()
    grads: list[str] = []
    for launch in backward.launches:
        used |= check_launch(spec, launch, known, BACKWARD_FUNCTIONS, findings)
        grads += grad_names(launch)
        check_grad_calls(spec, launch, findings)
    written = {f"grad({tensor.name})" for tensor in spec.tensors} | {item.name for item in backward.temporaries}
    check_written(backward.launches, written, findings)
    for temporary in backward.temporaries:
        if temporary.name not in used:
            findings.add("HP402", temporary.at, f"'{temporary.name}' does not reach the backward kernel")
    unused = [output for output in spec.outputs if output.name not in grads and may_have_gradient(spec, output)]
    for name in dict.fromkeys(grads):
        if name in spec.output_by_name:
            check_differentiable(spec.output_by_name[name], spec, findings)
    if unused and backward.grads_unused is None:
        names = ", ".join(output.name for output in unused)
        message = f"the backward does not use the gradients of {names}"
        findings.add(
            "HP403",
            backward.at,
            message,
            "grads_unused: ignored (no gradient flows through them) or error (a non-zero one raises)",
        )
    if not unused and backward.grads_unused is not None:
        findings.add("HP403", backward.at, "the backward uses every gradient", "delete 'grads_unused'")
    if not any(name in spec.output_by_name for name in grads):
        findings.add(
            "HP403", backward.at, "the backward uses no incoming gradient", "name one in the call: grad(<output>)"
        )


def may_have_gradient(spec: Spec, output: Output) -> bool:
    """Whether a gradient may come in for an output; that of one combined by same, max or min cannot be used."""
    return not output.hidden and is_floating(spec, output)


def check_grad_calls(spec: Spec, launch: Launch, findings: Findings) -> None:
    for argument in launch.call.arguments:
        for call in calls_in(argument):
            inner = call.arguments[0]
            place = launch.scalar.at(call.offset, len(call.function))
            if call.function == "grad" and not isinstance(inner, Name):
                findings.add("HP401", place, "grad takes the name of an output or of a tensor argument")
        for name in names_in(argument):
            if isinstance(spec.by_name.get(name.id), LengthsArgument) and f"grad({name.id})" in launch.scalar.text:
                findings.add("HP401", launch.scalar.at(name.offset, len(name.id)), "lengths have no gradient")


def check_hidden(spec: Spec, findings: Findings) -> None:
    """A hidden output is there for the backward; one that the backward does not read is a temporary."""
    read: set[str] = set()
    if isinstance(spec.backward, BackwardCall):
        read = {name.id for item in spec.backward.launches for part in item.call.arguments for name in names_in(part)}
    if isinstance(spec.backward, Precomputed):
        read = set(spec.backward.gradients.values())
    for output in spec.outputs:
        if output.hidden and output.name not in read:
            message = f"the output '{output.name}' is hidden, but the backward does not read it"
            findings.add("HP403", output.at, message, "make it a temporary of the kernel")
