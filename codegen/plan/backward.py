# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The plan of forward's and backward's bodies: what is saved, what the backward kernel gets, what is returned."""

from __future__ import annotations

from ..spec.check_kernel import may_have_gradient
from ..spec.expression import ADAPTERS, calls_in
from ..spec.model import BackwardCall, Output, Precomputed, Spec, TensorArgument
from ..text.python_expression import quoted
from .backward_inputs import (
    adapter_dims,
    backward_inputs,
    cotangent,
    gradient,
    is_tensor,
    produced_gradients,
    python_argument,
)
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
    flowing: set[str] = set()
    if isinstance(spec.backward, Precomputed):
        gradients = set(spec.backward.gradients.values())
        others = {output.name for output in spec.outputs if may_have_gradient(spec, output)} - gradients
        flowing = {spec.backward.cotangent} if spec.backward.cotangent else others
    if isinstance(spec.backward, BackwardCall):
        flowing = {output.name for output in flowing_outputs(spec, spec.backward)}
        flowing |= {output.name for output in refused_outputs(spec, spec.backward)}
    return tuple(output.name for output in visible_outputs(spec) if output.name not in flowing)


def flowing_outputs(spec: Spec, backward: BackwardCall) -> list[Output]:
    """The outputs whose incoming gradient the calls use."""
    used = {item.source for item in backward_inputs(spec, backward) if item.is_cotangent}
    return [output for output in visible_outputs(spec) if output.name in used]


def refused_outputs(spec: Spec, backward: BackwardCall) -> list[Output]:
    """The outputs whose incoming gradient must be zero."""
    if backward.grads_unused != "error":
        return []
    flowing = flowing_outputs(spec, backward)
    return [item for item in visible_outputs(spec) if item not in flowing and may_have_gradient(spec, item)]


def precomputed(spec: Spec, backward: Precomputed) -> BackwardPlan:
    used = backward.cotangent
    factor = cotangent(spec, used) if used else ""
    returns = []
    for argument in spec.arguments:
        saved = backward.gradients.get(argument.name)
        text = f"get_platform().scaled({saved}, {factor})" if used else saved
        returns.append(("None" if saved is None else str(text), argument.name))
    doc = f"Multiply the gradients of the forward kernel by the cotangent of {used}."
    if not used:
        doc = "Return the gradients of the forward kernel; the incoming cotangent is ignored."
    names = (f"{'' if item.name == used else '_'}{cotangent(spec, item.name)}" for item in visible_outputs(spec))
    return BackwardPlan(
        cotangents=tuple(names),
        optional_cotangents=(),
        refused=(),
        saved=tuple(dict.fromkeys(backward.gradients.values())),
        kept=(),
        dims=(),
        adapters=(),
        arguments=(),
        produced=(),
        returns=tuple(returns),
        doc=doc,
    )


def backward_call(spec: Spec, backward: BackwardCall) -> BackwardPlan:
    inputs = backward_inputs(spec, backward)
    produced = produced_gradients(spec, backward)
    flowing, refused = flowing_outputs(spec, backward), refused_outputs(spec, backward)
    conditional = [output.name for output in flowing if output.when]
    sources = [item.source for item in inputs if not item.is_cotangent]
    saved = [name for name in sources if is_tensor(spec, name)] + conditional
    dims = dict.fromkeys(name for item in inputs for name in adapter_dims(item, spec))
    placed = [(name, *extent(spec, name, saved, flowing)) for name in dims]
    kept = [name for name in sources if not is_tensor(spec, name)]
    kept += [selector for _, _, selector in placed if selector]
    taken = {*(output.name for output in flowing), *(output.name for output in refused)}
    return BackwardPlan(
        cotangents=tuple(
            f"{'' if output.name in taken else '_'}{cotangent(spec, output.name)}" for output in visible_outputs(spec)
        ),
        optional_cotangents=tuple((cotangent(spec, name), name) for name in conditional),
        refused=tuple((output.name, cotangent(spec, output.name)) for output in refused),
        saved=tuple(dict.fromkeys(saved)),
        kept=tuple(dict.fromkeys(kept)),
        dims=tuple((name, text) for name, text, _ in placed),
        adapters=tuple(
            sorted(
                {call.function for item in inputs if item.adapters for call in calls_in(item.adapters)} & set(ADAPTERS)
            )
        ),
        arguments=tuple(python_argument(spec, item) for item in inputs),
        produced=tuple(gradient(spec, name) for name in produced),
        returns=tuple((returned(spec, argument.name, produced), argument.name) for argument in spec.arguments),
        doc="Launch the backward kernel on local tensors.",
    )


def returned(spec: Spec, argument: str, produced: tuple[str, ...]) -> str:
    """What backward() returns for an argument; an absent tensor has no gradient."""
    if argument not in produced:
        return "None"
    item = spec.by_name[argument]
    absent = isinstance(item, TensorArgument) and item.optional
    return f"{gradient(spec, argument)} if {argument} is not None else None" if absent else gradient(spec, argument)


def extent(spec: Spec, name: str, saved: list[str], flowing: list[Output]) -> tuple[str, str]:
    """Where backward() reads a dim: a saved tensor or an incoming gradient that has it, and the attribute to know.

    Counted from the right if that is the same in every format.
    """
    tensors = {item.name: (item.name, item.dims) for item in spec.tensors if item.name in saved and not item.optional}
    tensors |= {item.name: (item.name, item.dims) for item in spec.outputs if item.name in saved}
    tensors |= {f"grad {item.name}": (cotangent(spec, item.name), item.dims) for item in flowing if not item.when}
    for variable, dims in tensors.values():
        places = {}
        for form, found in dims.per_format.items():
            index = next((index for index, dim in enumerate(found) if dim.name == name), None)
            if index is not None:
                places[form] = (index, index - len(found))
        if len(places) < len(spec.format.names):
            continue
        if len({right for _, right in places.values()}) == 1:
            return f"{variable}.shape[{next(iter(places.values()))[1]}]", ""
        first, *others = places.items()
        text = f"{variable}.shape[{others[-1][1][0]}]"
        for form, (index, _) in reversed([first, *others[:-1]]):
            text = f"{variable}.shape[{index}] if {format_test(spec, form)} else {text}"
        return text, spec.format.selector if spec.format.kind == "attribute" else ""
    return f"ctx.{name}", ""


def format_test(spec: Spec, form: str) -> str:
    if spec.format.kind == "attribute":
        return f"ctx.{spec.format.selector} == {quoted(form)}"
    dims = next(item.dims for item in spec.tensors if item.name == spec.format.selector)
    return f"len({spec.format.selector}.shape) == {len(dims.per_format[form])}"
