# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Small readings of nodes that the schema has already found to be in form."""

from __future__ import annotations

from ..diagnostics import Span
from .yaml_nodes import Mapping, Node, Scalar, Sequence


def text_of(node: Node | None) -> str:
    """A scalar's text on one line; empty if there is none."""
    return " ".join(node.text.split()) if isinstance(node, Scalar) else ""


def block_of(node: Node | None) -> str:
    """A text of several lines, trailing space removed."""
    if not isinstance(node, Scalar):
        return ""
    return "\n".join(line.rstrip() for line in node.text.strip().splitlines())


def true(node: Node | None) -> bool:
    return isinstance(node, Scalar) and node.value is True


def items_of(node: Node | None) -> tuple[Node, ...]:
    return node.items if isinstance(node, Sequence) else ()


def scalars_of(node: Node | None) -> tuple[Scalar, ...]:
    """The scalars of a list, or the one scalar."""
    found = (node,) if isinstance(node, Scalar) else items_of(node)
    return tuple(item for item in found if isinstance(item, Scalar))


def entries_of(node: Node | None) -> tuple[tuple[Scalar, Node], ...]:
    return node.entries if isinstance(node, Mapping) else ()


def words(node: Node | None) -> dict[str, Span]:
    """A list of words with their places."""
    return {item.text: item.span for item in items_of(node) if isinstance(item, Scalar)}


def get(node: Node | None, key: str) -> Node | None:
    """The value under a key, if the node is a mapping that has it."""
    return node.get(key) if isinstance(node, Mapping) else None


def pairs(node: Node | None) -> dict[str, str]:
    """A mapping of words to words."""
    return {key.text: text_of(value) for key, value in entries_of(node)}


def pair_places(node: Node | None) -> dict[str, Span]:
    """The places of both sides of a mapping of words to words."""
    places: dict[str, Span] = {}
    for key, value in entries_of(node):
        places |= {key.text: key.span, text_of(value): value.span}
    return places
