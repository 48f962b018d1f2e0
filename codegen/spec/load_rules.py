# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Requirements, sharding, context parallelism, kernels and backward: from nodes to the model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from ..diagnostics import Diagnostic, Findings, SpecError
from ..text.spec_expression import spec_text
from .expression import parse_expression
from .kernel_call import parse_kernel_call
from .load_tensors import TensorLoader
from .model import (
    Backward,
    BackwardCall,
    ContextParallel,
    Kernel,
    Launch,
    Precomputed,
    Ratio,
    Requirement,
    Sharding,
)
from .node_access import get, items_of, pair_places, pairs, scalars_of, text_of, words
from .yaml_nodes import Mapping, Node, Scalar

MOST_CHARACTERS = 30_000


def refuse_long(scalars: Iterable[Scalar], what: str) -> None:
    """Each may be as long as an expression, but generated code has some of them once for each format."""
    total = 0
    for scalar in scalars:
        total += len(scalar.text)
        if total > MOST_CHARACTERS:
            raise SpecError(Diagnostic("HP005", scalar.span, f"{what} of more than {MOST_CHARACTERS} characters"))


def load_requirements(node: Node | None, findings: Findings) -> tuple[Requirement, ...]:
    texts = (cast(Scalar, item.get("then")) if isinstance(item, Mapping) else item for item in items_of(node))
    refuse_long(cast("Iterable[Scalar]", texts), "requirements")
    built = (findings.attempt(lambda: requirement(item)) for item in items_of(node))  # noqa: B023
    return tuple(found for found in built if found)


def requirement(node: Node) -> Requirement:
    if isinstance(node, Mapping):
        condition, applies = cast(Scalar, node.get("then")), cast(Scalar, node.get("if"))
        holds, where = parse_expression(condition), parse_expression(applies)
        return Requirement(holds, where, f"{spec_text(holds)} if {spec_text(where)}", condition)
    scalar = cast(Scalar, node)
    holds = parse_expression(scalar)
    return Requirement(holds, None, spec_text(holds), scalar)


def load_sharding(node: Node | None) -> Sharding:
    shard, reduced = words(get(node, "shard")), get(node, "reduce")
    linear, together = items_of(get(node, "linear")), items_of(get(node, "together"))
    places = shard | {name: span for name, span in pair_places(reduced).items() if name in pairs(reduced)}
    for group in (*linear, *together):
        places |= {name: span for name, span in words(group).items() if name not in places}
    return Sharding(
        shard=tuple(shard),
        linear=tuple(tuple(words(group)) for group in linear),
        reduce=cast(Any, pairs(reduced)),
        together=tuple(tuple(words(group)) for group in together),
        places=places,
    )


def load_context_parallel(node: Node | None, findings: Findings) -> ContextParallel | None:
    if not isinstance(node, Mapping):
        return None
    query, key, ratio = words(node.get("query")), words(node.get("key")), node.get("ratio")
    mask = cast(Scalar, node.get("mask"))
    return ContextParallel(
        query=tuple(query),
        key=tuple(key),
        mask=parse_expression(mask),
        lengths=pairs(node.get("lengths")),
        ratio=Ratio(text_of(get(ratio, "by")), text_of(get(ratio, "residual"))) if ratio else None,
        requirements=load_requirements(node.get("require"), findings),
        mask_scalar=mask,
        places=query | key | pair_places(node.get("lengths")) | pair_places(ratio),
    )


def load_kernel(node: Node | None, tensors: TensorLoader, findings: Findings) -> Kernel | None:
    if not isinstance(node, Mapping):
        return None
    unused = words(node.get("unused"))
    return Kernel(
        launches=launches(node.get("aclnn"), findings),
        temporaries=tensors.temporaries(node.get("temporaries")),
        cpu_header=text_of(node.get("cpu")),
        unused=tuple(unused),
        unused_at=unused,
    )


def launches(node: Node | None, findings: Findings) -> tuple[Launch, ...]:
    built = []
    refuse_long(scalars_of(node), "kernel calls")
    for scalar in scalars_of(node):
        call = findings.attempt(lambda: parse_kernel_call(scalar))  # noqa: B023
        if call:
            built.append(Launch(call, scalar))
    return tuple(built)


def load_backward(node: Node | None, tensors: TensorLoader, findings: Findings) -> Backward:
    if isinstance(node, Scalar):
        if node.text != "none":
            hint = "none, {precomputed: ...} or {call: ...}"
            raise SpecError(Diagnostic("HP023", node.span, f"'{node.text}' is not a backward policy", hint))
        return None
    if not isinstance(node, Mapping):
        return None
    call, precomputed = node.get("call"), node.get("precomputed")
    if (call is None) == (precomputed is None):
        message = "a backward has either 'call' or 'precomputed'"
        raise SpecError(Diagnostic("HP403", node.span, message, "or is none"))
    misplaced = ("cotangent",) if call else ("temporaries", "grads_unused")
    for key in misplaced:
        if node.get(key):
            message = f"'{key}' has no meaning beside '{'call' if call else 'precomputed'}'"
            raise SpecError(Diagnostic("HP403", node.key(key).span, message, "delete it"))
    if precomputed:
        return load_precomputed(node, precomputed)
    unused = cast(Any, text_of(node.get("grads_unused")) or None)
    return BackwardCall(launches(call, findings), tensors.temporaries(node.get("temporaries")), unused, node.span)


def load_precomputed(node: Mapping, precomputed: Node) -> Precomputed:
    cotangent = node.get("cotangent")
    if cotangent is None:
        message = "'precomputed' needs 'cotangent'"
        hint = "the output whose incoming gradient multiplies them, or ignored (which drops loss scaling)"
        raise SpecError(Diagnostic("HP403", node.key("precomputed").span, message, hint))
    word = text_of(cotangent)
    places = pair_places(precomputed) | {word: cotangent.span}
    return Precomputed(pairs(precomputed), "" if word == "ignored" else word, node.span, places)
