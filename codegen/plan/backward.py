# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The plan of forward's and backward's bodies: what is saved, what the backward kernel gets, what is returned."""

from __future__ import annotations

from ..spec.check_kernel import may_have_gradient
from ..spec.expression import ADAPTERS, calls_in
from ..spec.model import BackwardCall, Output, Precomputed, Spec
from ..text.python_layout import Chain, Item, call
from .backward_inputs import (
    BackwardInputs,
    adapter_names,
    cotangent,
    gradient,
    is_tensor,
    produced_gradients,
    python_argument,
)
from .extents import extent_after, extent_before
from .facts import visible_outputs
from .operator import BackwardPlan


def derive_backward(spec: Spec, inputs: BackwardInputs) -> BackwardPlan | None:
    if isinstance(spec.backward, Precomputed):
        return precomputed(spec, spec.backward)
    if isinstance(spec.backward, BackwardCall):
        return backward_call(spec, spec.backward, inputs)
    return None


def non_differentiable(spec: Spec, inputs: BackwardInputs) -> tuple[str, ...]:
    """The returned outputs through which no gradient flows."""
    flowing: set[str] = set()
    if isinstance(spec.backward, Precomputed):
        gradients = set(spec.backward.gradients.values())
        sums = [output for output in spec.outputs if output.combine in (None, "sum")]
        others = {output.name for output in sums if may_have_gradient(spec, output)} - gradients
        flowing = {spec.backward.cotangent} if spec.backward.cotangent else others
    if isinstance(spec.backward, BackwardCall):
        flowing = {output.name for output in flowing_outputs(spec, inputs)}
        flowing |= {output.name for output in refused_outputs(spec, spec.backward, inputs)}
    return tuple(output.name for output in visible_outputs(spec) if output.name not in flowing)


def flowing_outputs(spec: Spec, inputs: BackwardInputs) -> list[Output]:
    """The outputs whose incoming gradient the calls use."""
    used = {item.source for item in inputs if item.is_cotangent}
    return [output for output in visible_outputs(spec) if output.name in used]


def refused_outputs(spec: Spec, backward: BackwardCall, inputs: BackwardInputs) -> list[Output]:
    """The outputs whose incoming gradient must be zero."""
    if backward.grads_unused != "error":
        return []
    flowing = flowing_outputs(spec, inputs)
    return [item for item in visible_outputs(spec) if item not in flowing and may_have_gradient(spec, item)]


def precomputed(spec: Spec, backward: Precomputed) -> BackwardPlan:
    used = backward.cotangent
    factor = cotangent(spec, used) if used else ""
    returns: list[tuple[Item, str]] = []
    for argument in spec.arguments:
        given = backward.gradients.get(argument.name)
        value: Item = call("get_platform().scaled", given, factor) if given and used else given or "None"
        returns.append((if_present(spec, argument.name, value) if given else value, argument.name))
    optionals = [name for name in backward.gradients if optional(spec, name)]
    doc = f"Multiply the gradients of the forward kernel by the cotangent of {used}."
    if not used:
        doc = "Return the gradients of the forward kernel; the incoming cotangent is ignored."
    names = (f"{'' if item.name == used else '_'}{cotangent(spec, item.name)}" for item in visible_outputs(spec))
    return BackwardPlan(
        cotangents=tuple(names),
        conditional_cotangents=tuple(cotangent(spec, item.name) for item in visible_outputs(spec) if item.when),
        optional_cotangents=(),
        refused=(),
        saved=tuple(dict.fromkeys([*backward.gradients.values(), *optionals])),
        kept=(),
        measured=(),
        dims=(),
        adapters=(),
        arguments=(),
        produced=(),
        returns=tuple(returns),
        doc=doc,
    )


def backward_call(spec: Spec, backward: BackwardCall, inputs: BackwardInputs) -> BackwardPlan:
    produced = produced_gradients(spec, backward)
    flowing, refused = flowing_outputs(spec, inputs), refused_outputs(spec, backward, inputs)
    conditional = [output.name for output in flowing if output.when]
    sources = [item.source for item in inputs if not item.is_cotangent]
    sources += [name for item in inputs for name in adapter_names(item) if name in spec.by_name]
    saved = [name for name in sources if is_tensor(spec, name)] + conditional
    dims = dict.fromkeys(name for item in inputs for name in adapter_names(item) if name in spec.dim_docs)
    readable = [name for name in saved if not optional(spec, name)]
    cotangents = {cotangent(spec, item.name): item.dims for item in flowing if not item.when}
    placed = {name: extent_after(spec, name, readable, cotangents) for name in dims}
    measured = {name: extent_before(spec, name) for name, found in placed.items() if found is None}
    kept = [name for name in sources if not is_tensor(spec, name)]
    if any(isinstance(found, Chain) for found in placed.values()) and spec.format.kind == "attribute":
        kept.append(spec.format.selector)
    taken = {*(output.name for output in flowing), *(output.name for output in refused)}
    return BackwardPlan(
        cotangents=tuple(
            f"{'' if output.name in taken else '_'}{cotangent(spec, output.name)}" for output in visible_outputs(spec)
        ),
        conditional_cotangents=tuple(cotangent(spec, item.name) for item in visible_outputs(spec) if item.when),
        optional_cotangents=tuple((cotangent(spec, name), name) for name in conditional),
        refused=tuple((output.name, cotangent(spec, output.name)) for output in refused),
        saved=tuple(dict.fromkeys(saved)),
        kept=tuple(dict.fromkeys(kept)),
        measured=tuple(measured.items()),
        dims=tuple((name, found or f"ctx.{name}") for name, found in placed.items()),
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


def optional(spec: Spec, name: str) -> bool:
    argument = spec.by_name.get(name)
    return argument is not None and not argument.required


def returned(spec: Spec, argument: str, produced: tuple[str, ...]) -> Item:
    """What backward() returns for an argument; an absent tensor has no gradient."""
    if argument not in produced:
        return "None"
    return if_present(spec, argument, gradient(spec, argument))


def if_present(spec: Spec, argument: str, value: Item) -> Item:
    if not optional(spec, argument):
        return value
    return Chain((value, Chain((argument, "None"), ("is not",)), "None"), ("if", "else"))
