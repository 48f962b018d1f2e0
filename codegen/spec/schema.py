# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The spec's JSON Schema: loading it, and its findings in our words at the spec's places."""

from __future__ import annotations

import functools
import json
import math
import operator
from collections.abc import Iterable
from typing import Any, NamedTuple

from jsonschema_rs import Draft7Validator

from .. import package
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


YES_AND_NO = {"yes": "true", "on": "true", "no": "false", "off": "false"}

SOMETHING = r"\S"
FORMS = {r"^[a-z0-9_]+\.h$": "a file name below csrc/cpu/, such as row_norm.h"}
"""The patterns of the schema in words."""
"""The pattern of texts that must not be blank."""


@functools.cache
def schema_text() -> str:
    """The JSON Schema (draft-07) as it lies in the package."""
    return (package.CODE / "spec" / "schema.json").read_text(encoding="utf-8")


@functools.cache
def schema() -> Any:
    return json.loads(schema_text())


@functools.cache
def validator() -> Draft7Validator:
    return Draft7Validator(schema())


class Violation(NamedTuple):
    """What does not hold: a keyword of the schema and its value, in the part `rules`, for the value at `path`."""

    path: list[str | int]
    keyword: str
    value: Any
    rules: dict[str, Any]


def violations(root: Mapping) -> list[Violation]:
    """Everything that the schema does not allow, in the order of the paths; unknown keys before missing ones."""
    instance = finite(plain(root))
    if validator().is_valid(instance):
        return []
    found = []
    for error in validator().iter_errors(instance):
        *way, keyword = error.schema_path
        rules = functools.reduce(operator.getitem, way, schema())
        found.append(Violation(list(error.instance_path), str(keyword), rules[keyword], rules))
    return sorted(found, key=lambda item: ([str(part) for part in item.path], item.keyword))


def finite(value: Any) -> Any:
    """The value as JSON can have it: any other number stands for infinity and nan."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    return 0.0 if isinstance(value, float) and not math.isfinite(value) else value


def check_schema(root: Mapping, findings: Findings) -> None:
    """Add a finding for everything that the schema does not allow."""
    for violation in violations(root):
        report(root, violation, findings)


def report(root: Mapping, violation: Violation, findings: Findings) -> None:
    path, keyword, value, rules = violation
    node = node_at(root, path)
    where = place_words(path)
    if keyword == "additionalProperties" and isinstance(node, Mapping):
        known = rules.get("properties", {})
        unquoted = any(")" in key.text for key, _ in node.entries)
        for key in [key for key, _ in node.entries if key.text not in known][: 1 if unquoted else None]:
            hint = suggestion(key.text, known) or f"known: {', '.join(known)}"
            if unquoted:
                hint = "put a kernel call into quotes inside { }"
            findings.add("HP021", key.span, f"unknown key '{key.text}'{where}", hint)
    elif keyword == "required" and isinstance(node, Mapping):
        missing = [name for name in value if node.get(name) is None]
        hint = rules.get("properties", {}).get(missing[0], {}).get("description", "") if missing else ""
        findings.add("HP022", key_span(root, path), f"'{missing[0]}' is missing{where}", hint)
    elif keyword == "enum":
        words = [str(word) for word in value]
        shown = node.text if isinstance(node, Scalar) else "this"
        findings.add("HP023", node.span, f"'{shown}' is not allowed{where}", suggestion(shown, words))
    elif keyword == "type":
        message = f"expected {wanted(value)}{where}, but got {kind_of(node)}"
        findings.add("HP020", node.span, message, type_hint(path, node, value))
    elif keyword == "uniqueItems":
        findings.add("HP104", node.span, f"an entry occurs twice{where}", "delete one")
    elif keyword == "pattern" and value == SOMETHING:
        findings.add("HP020", node.span, f"expected text{where}, but got nothing")
    elif keyword == "pattern":
        findings.add("HP020", node.span, f"'{plain(node)}' is not allowed{where}", FORMS[value])
    else:
        limit = f"{keyword}: {value}"
        findings.add("HP020", node.span, f"a value out of bounds{where} ({limit})")


def type_hint(path: list[Any], node: Node, types: str | list[str]) -> str:
    """How to write what was meant."""
    if types == "boolean" and isinstance(node, Scalar) and node.text.lower() in YES_AND_NO:
        return f"write {YES_AND_NO[node.text.lower()]}: in YAML 1.2 '{node.text}' is text"
    if types == "array" and isinstance(node, Scalar) and path[-1:] == ["require"]:
        return f"a list: [{node.text}]"
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
