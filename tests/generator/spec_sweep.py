# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Specs of every size, built to move each line break of the generated code over the width of a line."""

from __future__ import annotations

import random
from typing import Any

import yaml

from hpgen.diagnostics import Source
from hpgen.spec.check import check_spec
from hpgen.spec.load import load_spec
from hpgen.spec.model import Spec

from .drawn_conditions import Conditions
from .spec_sizes import LONGEST_TEXT, Names, Size


def prose(length: int) -> str:
    """A text of so many characters in words of seven, with quotes at some of its ends."""
    text = "".join(" " if index % 7 == 6 else "s" for index in range(length))
    text = f'"{text[1:]}' if length % 5 == 0 else text
    return text[:-1] + ('x"' if length % 3 == 0 else ".")


def dims_text(names: Names, more: str) -> dict[str, str]:
    return {form: " ".join([*names.leading(index), more]).strip() for index, form in enumerate(names.forms())}


def tensor_entries(names: Names, size: Size) -> dict[str, Any]:
    shared = " ".join(names.dims())
    entries: dict[str, Any] = {}
    for index, name in enumerate(names.tensors()):
        first = names.tensors()[0]
        more = shared if index % 3 != 2 else f"{names.dims()[0]}*{names.dims()[-1]}+1 3"
        dtype: Any = ["bfloat16", "float16"] if index == 0 else first if index % 2 else [first, "float32"]
        entries[name] = {"doc": f"Tensor number {index} of the sweep", "dtype": dtype, "dims": dims_text(names, more)}
        if size.rest:
            entries[name]["dims"] = dict.fromkeys(names.forms(), f"... {shared}")
        if size.optional and index > 1:
            # The last dims of the optional tensors are known only if these are given.
            entries[name] |= {"optional": True, "dims": dims_text(names, f"{shared} {names.own()} {names.own()}*2")}
        if size.backward != "none" and name not in differentiable(names):
            entries[name] |= {"differentiable": False}
    return entries


def lengths_entries(names: Names, size: Size) -> dict[str, Any]:
    if not size.packed:
        return {}
    query, key = names.leading(len(names.forms()) - 1)[0], names.dims()[0]
    first, second = names.lengths()
    return {
        first: {"type": "lengths", "of": query, "optional": True, "doc": "Ends of the queries"},
        second: {"type": "lengths", "of": key, "optional": True, "where": "device", "dtype": "int32"},
    }


def attribute_entries(names: Names, size: Size) -> dict[str, Any]:
    kinds: list[dict[str, Any]] = [
        {"type": "int", "default": 3, "choices": [3, *range(4, 3 + size.choices)]},
        {"type": "str", "default": "w" * size.word},
        {"type": "float", "default": "inf"},
        {"type": "int", "default": "INT64_MAX"},
        {"type": "bool", "default": True},
        {"type": "dtype", "default": "float32"},
        {"type": "ints", "default": [1, 2]},
    ]
    kinds[1]["choices"] = ["w" * size.word, *(f"v{number}".ljust(size.word, "v") for number in range(size.choices - 1))]
    entries = {name: kinds[index % len(kinds)] for index, name in enumerate(names.attributes())}
    if size.kind == "attribute":
        entries["layout"] = {"type": "str", "default": names.forms()[0]}
    return entries


def output_entries(names: Names, size: Size) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    shared = " ".join(names.dims())
    for index, name in enumerate(names.outputs()):
        more = shared if index % 2 == 0 else f"1 {names.dims()[-1]}"
        entries[name] = {"dtype": names.tensors()[0], "dims": dims_text(names, more)}
        if size.rest:
            entries[name] = {"like": names.tensors()[0]}
    if size.backward == "precomputed":
        for name in differentiable(names):
            entries[f"d{name}"] = {"like": name}
        entries["loss"] = {"dtype": "float32", "dims": "1", "combine": "sum"}
    return entries


def differentiable(names: Names) -> list[str]:
    """The tensors with a gradient: not every third, and none whose own dim may be unknown."""
    most = 2 if names.size.optional else len(names.tensors())
    return [name for index, name in enumerate(names.tensors()[:most]) if index % 3 != 2]


def requirements(names: Names, size: Size) -> list[Any]:
    dims = names.dims()
    terms = [f"{dims[index % len(dims)]} % {index + 2} == 0" for index in range(size.terms)]
    found: list[Any] = [
        " or ".join(terms),
        " and ".join(terms),
        f"{dims[0]} in [{', '.join(map(str, range(size.terms)))}]",
    ]
    found.append(f"max({', '.join(dims)}, {size.terms}) <= {' + '.join([dims[-1]] * size.terms)}")
    found.append(f"not ({dims[0]} == 1 and ({' or '.join(terms)}))")
    if names.attributes():
        found.append(f"{names.attributes()[0]} == 3")
        found.append({"if": f"{names.attributes()[0]} == 3", "then": f"{dims[0]} < {dims[-1]} + 1"})
    if own(size):
        found += [f"{own(size)[0]} % 2 == 0", f"{' + '.join([*own(size), dims[0]] * min(size.terms, 15))} == 0"]
    if size.seed:
        draw = random.Random(size.seed)
        conditions = Conditions(draw, [*dims, *own(size)])
        drawn = (conditions.condition(3) for _ in range(6))
        found += [condition for condition in drawn if len(condition) < LONGEST_TEXT]
    return found


def own(size: Size) -> list[str]:
    return [Names(size).own()] if size.optional and size.tensors > 2 else []


def build(size: Size) -> str:
    """The spec of a size as YAML text."""
    names = Names(size)
    forms = names.forms()
    arguments = tensor_entries(names, size)
    if not size.optional:
        arguments |= attribute_entries(names, size) | lengths_entries(names, size)
    else:
        # What has a default stands behind what has none.
        arguments |= lengths_entries(names, size) | attribute_entries(names, size)
    outputs = output_entries(names, size)
    selector = {"fixed": forms[0], "attribute": "layout", "rank": f"rank({names.tensors()[0]})"}[size.kind]
    leading = [] if size.rest else [dim for index in range(len(forms)) for dim in names.leading(index)]
    spec: dict[str, Any] = {
        "op": names.op(),
        "summary": prose(size.text),
        "doc": f"{prose(size.text + 3)}\n\n{prose(size.text)}",
        "format": selector,
        "dims": {name: f"extent {name}" for name in (*leading, *names.dims(), *own(size))},
        "args": arguments,
        "outputs": outputs,
        "require": requirements(names, size),
        "sharding": {"shard": leading},
    }
    if size.packed and len(forms) == 1:
        spec["sharding"] = {"shard": []}
    if size.layout_only:
        return dump(spec | {"aliases": [f"Alias{'A' * size.op}", "aclnn_alias"]})
    spec["backward"] = backward(names, size, outputs)
    spec["kernel"] = {"aclnn": f"aclnnSweep({', '.join([*arguments, *outputs])})"}
    spec["reference"] = "sweep:forward"
    if size.backward == "call":
        spec["reference"] = {"forward": "sweep:forward", "backward": "sweep:backward"}
    if size.delegate:
        spec["platforms"] = {"torch": {"delegate": "t" * size.delegate}}
    return dump(spec)


def backward(names: Names, size: Size, outputs: dict[str, Any]) -> Any:
    given = differentiable(names)
    if size.backward == "precomputed":
        return {"precomputed": {name: f"d{name}" for name in given}, "cotangent": "loss"}
    if size.backward == "call":
        first, *others = outputs
        adapted = f"unflatten(grad({first}), -1, {names.dims()[-1]}, 1)"
        used = [adapted, *others[:2], *names.tensors(), *names.attributes()[:2]]
        call = f"aclnnSweepGrad({', '.join([*used, *(f'grad({name})' for name in given)])})"
        return {"call": call} | ({"grads_unused": "error"} if others else {})
    return "none"


class PlainDumper(yaml.SafeDumper):
    """Writes a value that occurs twice out twice: the language has no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def dump(spec: dict[str, Any]) -> str:
    return yaml.dump(spec, Dumper=PlainDumper, sort_keys=False, width=100_000, allow_unicode=True)


def load(text: str, name: str) -> Spec:
    spec = load_spec(Source(f"specs/{name}.yaml", text))
    check_spec(spec)
    return spec
