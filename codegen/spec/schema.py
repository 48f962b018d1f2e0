# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The spec's JSON Schema: loading it, and its findings in our words at the spec's places."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from importlib import resources
from typing import Any

from ..diagnostics import Findings, Span, suggestion
from .yaml_nodes import Mapping, Node, Scalar, Sequence, plain

TYPE_WORDS = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "number": "a number",
    "integer": "an integer",
    "boolean": "true or false",
}


SOMETHING = r"\S"
"""The pattern of texts that must not be blank."""


@functools.cache
def schema_text() -> str:
    """The JSON Schema (draft-07) as it lies in the package."""
    return resources.files(__package__).joinpath("schema.json").read_text(encoding="utf-8")


@functools.cache
def validator() -> Any:
    from jsonschema import Draft7Validator  # imported here: it costs as much as everything else at start

    return Draft7Validator(json.loads(schema_text()))


def check_schema(root: Mapping, findings: Findings) -> None:
    """Add a finding for everything that the schema does not allow."""
    for error in sorted(validator().iter_errors(plain(root)), key=lambda error: [str(part) for part in error.path]):
        report(root, error, findings)


def report(root: Mapping, error: Any, findings: Findings) -> None:
    path = list(error.absolute_path)
    node = node_at(root, path)
    where = place_words(path)
    if error.validator == "additionalProperties" and isinstance(node, Mapping):
        known = error.schema.get("properties", {})
        unquoted = any(")" in key.text for key, _ in node.entries)
        for key in [key for key, _ in node.entries if key.text not in known][: 1 if unquoted else None]:
            hint = suggestion(key.text, known) or f"known: {', '.join(known)}"
            if unquoted:
                hint = "put a kernel call into quotes inside { }"
            findings.add("HP021", key.span, f"unknown key '{key.text}'{where}", hint)
    elif error.validator == "required" and isinstance(node, Mapping):
        missing = [name for name in error.validator_value if node.get(name) is None]
        hint = error.schema.get("properties", {}).get(missing[0], {}).get("description", "") if missing else ""
        findings.add("HP022", key_span(root, path), f"'{missing[0]}' is missing{where}", hint)
    elif error.validator == "enum":
        words = [str(word) for word in error.validator_value]
        shown = node.text if isinstance(node, Scalar) else "this"
        findings.add("HP023", node.span, f"'{shown}' is not allowed{where}", suggestion(shown, words))
    elif error.validator == "type":
        message = f"expected {wanted(error.validator_value)}{where}, but got {kind_of(node)}"
        findings.add("HP020", node.span, message, type_hint(path, node, error.validator_value))
    elif error.validator == "uniqueItems":
        findings.add("HP104", node.span, f"an entry occurs twice{where}", "delete one")
    elif error.validator == "pattern" and error.validator_value == SOMETHING:
        findings.add("HP020", node.span, f"expected text{where}, but got nothing")
    elif error.validator == "pattern":
        findings.add("HP020", node.span, f"'{plain(node)}' has not the form {error.validator_value}{where}")
    else:
        limit = f"{error.validator}: {error.validator_value}"
        findings.add("HP020", node.span, f"a value out of bounds{where} ({limit})")


def type_hint(path: list[Any], node: Node, types: str | list[str]) -> str:
    """How to write what was meant."""
    if types == "array" and isinstance(node, Scalar):
        return f"a list: [{', '.join(node.text.replace(',', ' ').split())}]"
    if "dims" in path and isinstance(node, Sequence):
        words = " ".join(item.text for item in node.items if isinstance(item, Scalar))
        return f"dims are separated by spaces: {words}"
    return ""


def node_at(root: Mapping, path: Iterable[Any]) -> Node:
    node: Node = root
    for part in path:
        if isinstance(node, Sequence):
            node = node.items[part]
        elif isinstance(node, Mapping):
            node = node.get(part) or node
    return node


def key_span(root: Mapping, path: list[Any]) -> Span:
    """The place of the key under which a value stands; of the first key for the whole spec."""
    parent = node_at(root, path[:-1]) if path else root
    if path and isinstance(parent, Mapping):
        return parent.key(path[-1]).span
    node = node_at(root, path)
    return root.entries[0][0].span if not path and root.entries else node.span


def place_words(path: list[Any]) -> str:
    return " in '" + ".".join(str(part) for part in path) + "'" if path else ""


def wanted(types: str | list[str]) -> str:
    names = [types] if isinstance(types, str) else types
    return " or ".join(TYPE_WORDS[name] for name in names)


def kind_of(node: Node) -> str:
    if isinstance(node, Mapping):
        return "a mapping"
    if isinstance(node, Sequence):
        return "a list"
    if node.value is None:
        return "nothing"
    return f"'{node.text}'"
