# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The kernels and the backward of a random spec."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .expressions import extent
from .words import FLOATS, chance, name, pick, text

if TYPE_CHECKING:
    from .valid_specs import Builder

FLOATING = ("float16", "bfloat16", "float32", "float64")


def kernel(spec: Builder) -> dict[str, Any]:
    """`kernel`, `reference` and what goes with them."""
    draw = spec.draw
    arguments = [*spec.tensors, *spec.lengths, *spec.attributes]
    unused = [item for item in arguments if chance(draw, 12)]
    own = temporaries(spec)
    given = [argument(spec, item) for item in arguments if item not in unused]
    given += [extra(spec) for _ in range(draw.choice((0, 0, 1, 3)))]
    draw.shuffle(given)
    launches = []
    if own and draw.randrange(2):
        launches.append(call("Plan", [*draw.sample(given, min(2, len(given))), *own]))
    launches.append(call("Fuzz", [*given, *own, *spec.outputs]))
    found: dict[str, Any] = {"aclnn": launches if len(launches) > 1 or draw.randrange(2) else launches[0]}
    found |= ({"temporaries": own} if own else {}) | ({"unused": unused} if unused else {})
    if chance(draw, 10):
        found["cpu"] = pick(draw, ("dense_lightning_indexer.h",) * 9 + ("x_1.h", "../x.h"))
    called = "call" in spec_backward(spec)
    more: dict[str, Any] = {"reference": {"forward": "m:f", "backward": "m:g"} if called else "m:f"}
    more |= {"sample": "m:sample"} if chance(draw, 6) else {}
    more |= (
        {"platforms": {"torch": {"delegate": pick(draw, ("torch_npu",) * 9 + ("a.b", "class"))}}}
        if chance(draw, 10)
        else {}
    )
    return {"kernel": found} | more


def spec_backward(spec: Builder) -> dict[str, Any]:
    found = getattr(spec, "drawn_backward", {})
    return found if isinstance(found, dict) else {}


def call(kernel_name: str, arguments: list[str]) -> str:
    return f"aclnn{kernel_name}({', '.join(arguments)})"


def temporaries(spec: Builder) -> dict[str, Any]:
    draw = spec.draw
    found = {}
    for _ in range(draw.choice((0, 0, 0, 1, 2))):
        dims: Any = " ".join(dim for dim in spec.everywhere() if draw.randrange(2)) or "64"
        if draw.randrange(3) == 0:
            dims = {form: " ".join(spec.output_dims(form)) for form in spec.forms}
        found[name(draw, spec.taken)] = {"dtype": pick(draw, (spec.first, *FLOATING, "int32")), "dims": dims}
    return found


def argument(spec: Builder, item: str) -> str:
    """An argument as a kernel gets it, now and then by another shape."""
    draw = spec.draw
    if item in spec.tensors and chance(draw, 12) and not spec.tensors[item].get("optional"):
        return pick(draw, (f"unsqueeze({item}, 0)", f"unsqueeze({item}, -1)", f"flatten({item}, 0, -1)"))
    if item in spec.attributes and spec.attributes[item]["type"] == "int" and chance(draw, 8):
        return pick(draw, (f"i32({item})", f"{item} + 1", f"{item} * {item}"))
    return item


def extra(spec: Builder) -> str:
    """What a kernel gets besides: literals, extents, tests of the format."""
    draw = spec.draw
    integers = [*spec.everywhere(), *(item for item in spec.attributes if spec.attributes[item]["type"] == "int")]
    kind = draw.randrange(8)
    if kind == 0:
        return pick(draw, ("None", "ints(None)", "ints(1, 2)", "True", "False", "INT64_MAX", "inf", "-inf"))
    if kind == 1:
        return repr(text(draw))
    if kind == 2:
        return repr(pick(draw, FLOATS))
    if kind == 3:
        return f"rank({pick(draw, list(spec.tensors))})"
    if kind == 4 and spec.kind == "attribute":
        return (
            f"{extent(draw, integers)} if {spec.selector} == {pick(draw, spec.forms)!r} else {extent(draw, integers)}"
        )
    if kind == 5:
        return f"i32({extent(draw, integers)})"
    if kind == 6:
        return f"ints({extent(draw, integers)}, {extent(draw, integers)})"
    return extent(draw, integers)


def backward(spec: Builder) -> dict[str, Any]:
    """`backward` of the policy that the spec has; outputs and keys that it needs are added to the spec."""
    given = [item for item, entry in spec.tensors.items() if floating(spec, entry)]
    given = given[: spec.draw.randint(1, 3)] if spec.policy != "none" else []
    for item, entry in spec.tensors.items():
        if spec.policy != "none" and item not in given and floating(spec, entry):
            entry["differentiable"] = False
    if not given:
        found: Any = "none"
    else:
        found = precomputed(spec, given) if spec.policy == "precomputed" else called(spec, given)
    spec.drawn_backward = found  # type: ignore[attr-defined]
    return {"backward": found}


def floating(spec: Builder, entry: dict[str, Any]) -> bool:
    words = entry["dtype"] if isinstance(entry["dtype"], list) else [entry["dtype"]]
    return any(word in FLOATING or (word in spec.tensors and floating(spec, spec.tensors[word])) for word in words)


def precomputed(spec: Builder, given: list[str]) -> dict[str, Any]:
    draw = spec.draw
    gradients = {}
    always = not any("when" in entry for entry in spec.outputs.values())
    added: dict[str, Any] = {}
    for item in given:
        gradients[item] = found = name(draw, spec.taken)
        spec.bare[found] = spec.bare[item]
        added[found] = (
            {"like": item} | spec.combined(found, "sum") | ({"hidden": True} if chance(draw, 3) or not always else {})
        )
    loss = name(draw, spec.taken)
    spec.bare[loss] = {form: {"1"} for form in spec.forms}
    added[loss] = {"dtype": "float32", "dims": dict.fromkeys(spec.forms, "1")} | spec.combined(loss, "sum")
    spec.outputs = added | spec.outputs
    return {"precomputed": gradients, "cotangent": pick(draw, (loss, loss, "ignored"))}


def called(spec: Builder, given: list[str]) -> dict[str, Any]:
    draw = spec.draw
    flowing = [item for item, entry in spec.outputs.items() if flows(spec, entry)]
    if not flowing:
        added = name(draw, spec.taken)
        spec.bare[added] = spec.bare[spec.first]
        spec.outputs = {added: {"like": spec.first}} | spec.outputs
        flowing = [added]
    used = draw.sample(flowing, draw.randint(1, len(flowing)))
    saved = [item for item in (*spec.tensors, *spec.outputs, *spec.lengths, *spec.attributes) if draw.randrange(2)]
    own = temporaries(spec)
    arguments = [*(incoming(spec, item) for item in used), *saved, *own]
    arguments += [extra(spec) for _ in range(draw.choice((0, 0, 1, 2)))]
    draw.shuffle(arguments)
    cuts = draw.randint(1, len(given))
    launches = [call("FuzzGrad", [*arguments, *(f"grad({item})" for item in given[:cuts])])]
    if given[cuts:]:
        launches.append(call("FuzzGradMore", [f"grad({used[0]})", *(f"grad({item})" for item in given[cuts:])]))
    found: dict[str, Any] = {"call": launches if len(launches) > 1 else launches[0]}
    found |= {"temporaries": own} if own else {}
    if len(used) < len(flowing):
        found["grads_unused"] = pick(draw, ("ignored", "error"))
    return found


def flows(spec: Builder, entry: dict[str, Any]) -> bool:
    if entry.get("combine") in ("same", "max", "min") or entry.get("hidden"):
        return False
    dtype = entry.get("dtype", entry.get("like"))
    if dtype in spec.outputs:
        return flows(spec, {"dtype": spec.outputs[dtype].get("dtype", spec.outputs[dtype].get("like"))})
    if dtype in spec.tensors:
        return floating(spec, spec.tensors[dtype])
    return dtype in FLOATING or dtype in spec.attributes


def incoming(spec: Builder, item: str) -> str:
    """An incoming gradient, now and then by another shape."""
    given = f"grad({item})"
    if not chance(spec.draw, 5):
        return given
    dims = spec.everywhere() or ["2"]
    first = pick(spec.draw, [*dims, f"fact({dims[0]})", f"min({dims[0]}, INT64_MAX)", f"cdiv({dims[0]}, 2)"])
    by_extents = f"unflatten({given}, -1, {first}, {pick(spec.draw, dims)})"
    others = (f"flatten({given}, 0, 1)", f"unsqueeze({given}, -1)", f"transpose({given}, 0, -1)", by_extents)
    return pick(spec.draw, others)
