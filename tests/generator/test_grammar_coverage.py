# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Every construct of the spec language is used by some operator: one of the library, or a fixture that is run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hpgen.spec.expression import (
    Binary,
    Call,
    Comparison,
    Conditional,
    Expression,
    IsNone,
    Literal,
    Logical,
    Membership,
    Name,
    Negative,
    Not,
    children,
)
from hpgen.spec.load import load_spec
from hpgen.spec.model import Attribute, BackwardCall, LengthsArgument, Spec, TensorArgument
from hpgen.spec.names import FUNCTIONS, LITERALS
from hpgen.spec.schema import schema_text
from hpgen.spec.source import read_source
from hpgen.spec.yaml_nodes import Mapping, Node, Scalar, Sequence, read_nodes
from tests.fixtures.library import SPECS as FIXTURES

from .spec_texts import SPECS

PATHS = {path.stem: path for path in sorted([*SPECS.glob("*.yaml"), *FIXTURES.glob("*.yaml")])}
SCHEMA: dict[str, Any] = json.loads(schema_text())
OPERATORS = {name: load_spec(read_source(path, path.name)) for name, path in PATHS.items()}


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    reference = schema.get("$ref")
    return SCHEMA["definitions"][reference.rsplit("/", 1)[1]] if reference else schema


def place_of(schema: dict[str, Any], place: str) -> str:
    """Definitions have one name wherever they are used."""
    reference = schema.get("$ref")
    return reference.rsplit("/", 1)[1] if reference else place


def in_schema(schema: dict[str, Any], place: str, seen: set[str]) -> Iterator[str]:
    """Every key and every enumerated word below a place in the schema."""
    own, schema = place_of(schema, place), resolved(schema)
    if own in seen:
        return
    seen.add(own)
    yield from (f"{own} = {word}" for word in schema.get("enum", ()))
    for key, inner in schema.get("properties", {}).items():
        yield f"{own}.{key}"
        yield from in_schema(inner, f"{own}.{key}", seen)
    for inner in (schema.get("items"), schema.get("additionalProperties")):
        if isinstance(inner, dict):
            yield from in_schema(inner, f"{own}.*", seen)


def in_node(node: Node, schema: dict[str, Any], place: str) -> Iterator[str]:
    """The same of a spec's node."""
    own, schema = place_of(schema, place), resolved(schema)
    if isinstance(node, Scalar):
        yield from (f"{own} = {word}" for word in schema.get("enum", ()) if str(word) == node.text)
    if isinstance(node, Sequence) and isinstance(schema.get("items"), dict):
        for item in node.items:
            yield from in_node(item, schema["items"], f"{own}.*")
    if isinstance(node, Mapping):
        for key, value in node.entries:
            known = schema.get("properties", {}).get(key.text)
            if known is not None:
                yield f"{own}.{key.text}"
                yield from in_node(value, known, f"{own}.{key.text}")
            elif isinstance(schema.get("additionalProperties"), dict):
                yield from in_node(value, schema["additionalProperties"], f"{own}.*")


def expressions(spec: Spec) -> Iterator[tuple[str, Expression]]:
    """Every expression of a spec with the kind of its place."""
    holders = [*spec.tensors, *spec.outputs, *spec.temporaries]
    for holder in holders:
        yield from (("dim", dim.expression) for dims in holder.dims.per_format.values() for dim in dims)
    yield from (("dim", extent) for output in spec.outputs for extent in output.resize.values())
    context = spec.context_parallel
    for item in (*spec.requirements, *(context.requirements if context else ())):
        yield from (("require", part) for part in (item.condition, item.applies) if part is not None)
    if spec.kernel:
        yield from (("kernel", part) for launch in spec.kernel.launches for part in launch.call.arguments)
    if isinstance(spec.backward, BackwardCall):
        yield from (("backward", part) for launch in spec.backward.launches for part in launch.call.arguments)


def parts(node: Expression) -> Iterator[Expression]:
    yield node
    for child in children(node):
        yield from parts(child)


def word(node: Expression) -> str:
    """What a node of an expression is called in the table."""
    match node:
        case Call("ints", (Literal(None),)):
            return "ints(None)"
        case Call(function):
            return f"{function}()"
        case Binary(operator):
            return operator
        case Comparison(operators):
            return "a chain of comparisons" if len(operators) > 1 else operators[0]
        case Membership(negated=negated):
            return "not in" if negated else "in"
        case IsNone(negated=negated):
            return "is not None" if negated else "is None"
        case Logical(operator):
            return operator
        case Not():
            return "not"
        case Negative():
            return "a negative"
        case Conditional():
            return "a if c else b"
        case Literal(value):
            return "None" if value is None else f"a literal of type {type(value).__name__}"
        case Name():
            return "a name"


DIM_WORDS = "a name|a literal of type int|+|-|*|//|%|fact()|min()|max()|cdiv()".split("|")
REQUIRED_WORDS = [*DIM_WORDS, *"== != < <= > >= in and or not".split(), "not in", "is None", "is not None", "rank()"]
REQUIRED_WORDS += ["a chain of comparisons", "a negative", "a literal of type float", "a literal of type str"]
REQUIRED_WORDS.remove("fact()")
KERNEL_WORDS = "a name|None|ints()|ints(None)|i32()|rank()|a if c else b|a negative|+|//".split("|")
KERNEL_WORDS += ["flatten()", "unsqueeze()"]
KERNEL_WORDS += [f"a literal of type {kind}" for kind in ("int", "float", "bool", "str")]
BACKWARD_WORDS = "a name|grad()|unflatten()|flatten()|unsqueeze()|transpose()".split("|")
BACKWARD_WORDS += ["a if c else b", "None", "ints(None)", "*"]
WORDS = {"dim": DIM_WORDS, "require": REQUIRED_WORDS, "kernel": KERNEL_WORDS, "backward": BACKWARD_WORDS}

Test = Callable[[Spec], bool]
TYPES = ("int", "float", "bool", "str", "dtype", "ints")


def some(spec: Spec, kind: type, holds: Callable[[Any], bool]) -> bool:
    return any(isinstance(item, kind) and holds(item) for item in spec.arguments)


FACTS: dict[str, Test] = {
    **{f"format: {kind}": lambda spec, kind=kind: spec.format.kind == kind for kind in ("attribute", "rank", "fixed")},
    **{f"{kind} with a default": lambda s, k=kind: some(s, Attribute, lambda a: a.type == k and a.default is not None) for kind in TYPES},
    **{f"choices of {kind}": lambda s, k=kind: some(s, Attribute, lambda a: a.type == k and a.choices) for kind in TYPES[:5]},
    "an attribute that is required": lambda s: some(s, Attribute, lambda a: a.required),
    "ints that are optional": lambda s: some(s, Attribute, lambda a: a.type == "ints" and a.optional),
    "a tensor that is optional": lambda s: some(s, TensorArgument, lambda t: t.optional),
    "several dtypes": lambda s: some(s, TensorArgument, lambda t: len(t.dtypes) > 1),
    "the dtype of another tensor": lambda s: some(s, TensorArgument, lambda t: t.dtypes[0] in s.by_name),
    "lengths that are required": lambda s: some(s, LengthsArgument, lambda t: t.required),
    "lengths on the host with a leading zero": lambda s: some(s, LengthsArgument, lambda t: t.leading_zero and t.where == "host"),
    "lengths on the device": lambda s: some(s, LengthsArgument, lambda t: t.where == "device"),
    "lengths that are absent when missing": lambda s: some(s, LengthsArgument, lambda t: t.missing == "absent" and t.where == "host"),
    "a tensor with a row for each document": lambda s: any(t.dims.bare(f) & set(s.counts) for t in s.tensors for f in s.format.names),
    "dims: ...": lambda s: any(t.dims.any_rank and len(dims) == 1 for t in s.tensors for dims in t.dims.per_format.values()),
    "dims: ... C": lambda s: any(t.dims.any_rank and len(dims) > 1 for t in s.tensors for dims in t.dims.per_format.values()),
    "an int attribute in a dim": lambda s: any(isinstance(s.by_name.get(name), Attribute) for o in s.outputs for dims in o.dims.per_format.values() for dim in dims for name in dim.names),
    "like with another dtype": lambda s: any(o.like in s.by_name and o.dtype != o.like for o in s.outputs),
    "like an output": lambda s: any(o.like in s.output_by_name for o in s.outputs),
    "the dtype of an attribute": lambda s: any(isinstance(s.by_name.get(o.dtype), Attribute) for o in s.outputs),
    "several launches": lambda s: s.kernel is not None and len(s.kernel.launches) > 1,
    "several launches backward": lambda s: isinstance(s.backward, BackwardCall) and len(s.backward.launches) > 1,
    "temporaries backward": lambda s: isinstance(s.backward, BackwardCall) and bool(s.backward.temporaries),
    "no backward": lambda s: s.kernel is not None and s.backward is None,
    "no kernel": lambda s: s.kernel is None,
    "a mask that depends on an attribute": lambda s: s.context_parallel is not None and isinstance(s.context_parallel.mask, Conditional),
    "a condition on a requirement": lambda s: any(r.applies is not None for r in s.requirements),
    **{f"cotangent: {kind}": lambda s, w=kind: getattr(s.backward, "cotangent", None) == w for kind in ("", "loss")},
}  # fmt: skip


def users() -> dict[str, set[str]]:
    """Construct -> the operators that use it; every construct has an entry."""
    table: dict[str, set[str]] = {key: set() for key in in_schema(SCHEMA, "spec", set())}
    table |= {f"{place}: {item}": set() for place, items in WORDS.items() for item in items}
    table |= {f"function {name}": set() for name in FUNCTIONS} | {f"literal {name}": set() for name in LITERALS}
    table |= {name: set() for name in FACTS}
    for op, path in PATHS.items():
        for used in uses(op, path):
            if used in table:
                table[used].add(op)
    return table


def uses(op: str, path: Path) -> Iterator[str]:
    yield from in_node(read_nodes(read_source(path, path.name)), SCHEMA, "spec")
    spec = OPERATORS[op]
    for place, expression in expressions(spec):
        for node in parts(expression):
            yield f"{place}: {word(node)}"
            if isinstance(node, Call):
                yield f"function {node.function}"
    text = path.read_text()
    yield from (f"literal {name}" for name in LITERALS if name in text)
    yield from (name for name, holds in FACTS.items() if holds(spec))


def test_every_construct_is_used_by_an_operator() -> None:
    table = users()
    lines = [f"{construct:<60} {len(found):>3}  {' '.join(sorted(found)[:4])}" for construct, found in table.items()]
    assert len(table) > 150
    assert [construct for construct, found in table.items() if not found] == [], "\n".join(lines)


def test_a_construct_that_nobody_uses_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(PATHS, "pad_and_cast")
    missing = {construct for construct, found in users().items() if not found}
    assert {"argument.type = dtype", "kernel: ints()", "spec.kernel.unused"} <= missing
