# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The plan of forward's and backward's bodies: what is saved, what the backward kernel gets, what is returned."""

from __future__ import annotations

from ..spec.expression import Call, Expression, Name, calls_in, children
from ..spec.model import BackwardCall, Launch, LengthsArgument, Precomputed, Spec, TensorArgument
from .facts import visible_outputs
from .operator import BackwardPlan


def derive_backward(spec: Spec) -> BackwardPlan | None:
    if isinstance(spec.backward, Precomputed):
        return precomputed(spec, spec.backward)
    if isinstance(spec.backward, BackwardCall):
        return backward_call(spec, spec.backward)
    return None


def non_differentiable(spec: Spec) -> tuple[str, ...]:
    """The returned outputs through which no gradient flows."""
    outputs = [output.name for output in visible_outputs(spec)]
    if isinstance(spec.backward, Precomputed):
        flowing = {spec.backward.cotangent}
        if not spec.backward.cotangent:
            flowing = set(outputs) - set(spec.backward.gradients.values())
        return tuple(name for name in outputs if name not in flowing)
    if isinstance(spec.backward, BackwardCall):
        used = used_cotangents(spec.backward)
        refused = spec.backward.grads_unused == "error"
        integers = {output.name for output in spec.outputs if not is_differentiable(spec, output.name)}
        return tuple(name for name in outputs if name not in used and (name in integers or not refused))
    return tuple(outputs)


def is_differentiable(spec: Spec, output: str) -> bool:
    """Whether an output could have a gradient: it is floating, and a sum where it is combined."""
    from ..spec.check_kernel import may_have_gradient

    return may_have_gradient(spec, spec.output_by_name[output])


def used_cotangents(backward: BackwardCall) -> set[str]:
    """The names inside grad(...)."""
    return {
        inner.id
        for launch in backward.launches
        for argument in launch.call.arguments
        for call in calls_in(argument)
        if call.function == "grad" and isinstance(inner := call.arguments[0], Name)
    }


def cotangent(spec: Spec, output: str) -> str:
    """The name of the incoming gradient of an output."""
    return spec.fresh(f"grad_{output}")


def gradient(spec: Spec, argument: str) -> str:
    """The name of the gradient of an input."""
    return spec.fresh(f"d_{argument}")


def precomputed(spec: Spec, backward: Precomputed) -> BackwardPlan:
    outputs = visible_outputs(spec)
    used = backward.cotangent
    factor = cotangent(spec, used) if used else ""
    returns = []
    for argument in spec.arguments:
        saved = backward.gradients.get(argument.name)
        if saved is None:
            returns.append(("None", argument.name))
        else:
            returns.append((f"get_platform().scaled({saved}, {factor})" if used else saved, argument.name))
    doc = (
        f"Multiply the gradients of the forward kernel by the cotangent of {used}."
        if used
        else ("Return the gradients of the forward kernel; the incoming cotangent is ignored.")
    )
    return BackwardPlan(
        cotangents=tuple(
            cotangent(spec, output.name) if output.name == used else f"_{cotangent(spec, output.name)}"
            for output in outputs
        ),
        optional_cotangents=(),
        refused=(),
        saved=tuple(dict.fromkeys(backward.gradients.values())),
        kept=(),
        arguments=(),
        produced=(),
        returns=tuple(returns),
        doc=doc,
    )


def backward_call(spec: Spec, backward: BackwardCall) -> BackwardPlan:
    names = backward_names(spec, backward)
    used = used_cotangents(backward)
    saved = [name for name in names if is_tensor(spec, name)]
    kept = [name for name in names if name in spec.by_name and not is_tensor(spec, name)]
    produced = produced_gradients(spec, backward)
    conditional = [output for output in visible_outputs(spec) if output.when and output.name in used]
    saved += [output.name for output in conditional if output.name not in saved]
    returns = []
    for argument in spec.arguments:
        name = gradient(spec, argument.name)
        optional = isinstance(argument, TensorArgument) and argument.optional
        text = f"{name} if {argument.name} is not None else None" if optional else name
        returns.append((text if argument.name in produced else "None", argument.name))
    refused = [
        output.name
        for output in visible_outputs(spec)
        if backward.grads_unused == "error" and output.name not in used and is_differentiable(spec, output.name)
    ]
    return BackwardPlan(
        cotangents=tuple(
            cotangent(spec, output.name)
            if output.name in used or output.name in refused
            else f"_{cotangent(spec, output.name)}"
            for output in visible_outputs(spec)
        ),
        optional_cotangents=tuple((cotangent(spec, output.name), output.name) for output in conditional),
        refused=tuple((name, cotangent(spec, name)) for name in refused),
        saved=tuple(saved),
        kept=tuple(kept),
        arguments=tuple(argument_text(spec, name) for name in names),
        produced=tuple(gradient(spec, name) for name in produced),
        returns=tuple(returns),
        doc="Launch the backward kernel on local tensors.",
    )


def is_tensor(spec: Spec, name: str) -> bool:
    """Whether a saved name is a tensor to the autograd engine: tensors, outputs, and lengths on the device."""
    item = spec.by_name.get(name)
    on_device = isinstance(item, LengthsArgument) and item.where == "device"
    return isinstance(item, TensorArgument) or name in spec.output_by_name or on_device


def argument_text(spec: Spec, name: str) -> str:
    if name.startswith(COTANGENT):
        return cotangent(spec, name.removeprefix(COTANGENT))
    return name if is_tensor(spec, name) else f"ctx.{name}"


COTANGENT = "grad "
"""Marks the incoming gradient of an output in a list of names."""


def backward_names(spec: Spec, backward: BackwardCall) -> list[str]:
    """What the backward kernel's function takes: every name of its calls, in order of first appearance.

    The incoming gradient of an output is marked. A tensor whose gradient is written counts as named: its shape and dtype
    are those of the gradient. The attribute that names the format is added if the calls use dims, which need it.
    """
    names: dict[str, None] = {}
    dims_used = bool(backward.temporaries)
    for launch in backward.launches:
        for argument in launch.call.arguments:
            for name, is_grad in mentions(argument):
                if is_grad and name in spec.output_by_name:
                    names[f"{COTANGENT}{name}"] = None
                elif name in spec.by_name or name in spec.output_by_name:
                    names[name] = None
                dims_used = dims_used or name in spec.dim_docs
    if dims_used and spec.format.kind == "attribute" and len(spec.format.names) > 1:
        names[spec.format.selector] = None
    if dims_used and spec.format.kind == "rank" and len(spec.format.names) > 1:
        names[spec.format.selector] = None
    return list(names)


def mentions(node: Expression) -> list[tuple[str, bool]]:
    """Names in order, each with whether it stands inside grad(...)."""
    if isinstance(node, Call) and node.function == "grad" and isinstance(node.arguments[0], Name):
        return [(node.arguments[0].id, True)]
    if isinstance(node, Name):
        return [(node.id, False)]
    return [found for child in children(node) for found in mentions(child)]


def produced_gradients(spec: Spec, backward: BackwardCall) -> list[str]:
    """The inputs whose gradients the calls write, in order."""
    found: dict[str, None] = {}
    for launch in backward.launches:
        found |= dict.fromkeys(produced_by(spec, launch))
    return list(found)


def produced_by(spec: Spec, launch: Launch) -> list[str]:
    return [
        name
        for argument in launch.call.arguments
        for name, is_grad in mentions(argument)
        if is_grad and name in spec.by_name
    ]
