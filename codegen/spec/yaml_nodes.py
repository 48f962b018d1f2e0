# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Text to YAML nodes that know where they stand, by the YAML 1.2 core schema.

Built on the C parser's events: no constructor runs, so a document can do nothing but be read. Anchors, aliases and
tags are refused, which also rules out alias bombs.
"""

from __future__ import annotations

import bisect
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import yaml

from ..diagnostics import Diagnostic, Findings, Note, Source, Span, SpecError

Plain: TypeAlias = "str | int | float | bool | None"

MOST_NESTED = 32
MOST_NODES = 20_000
MOST_ENTRIES = 400
MOST_DIGITS = 40

NULL = re.compile(r"(?:~|null|Null|NULL|)\Z")
BOOL = re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")
INT = re.compile(r"[-+]?[0-9]+\Z")
OCTAL = re.compile(r"0o[0-7]+\Z")
HEX = re.compile(r"0x[0-9a-fA-F]+\Z")
FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
OTHER_LINE_ENDS = re.compile(r"[\r\x85\u2028\u2029]")
WORDS_START = "nNtTfF"  # of null, true and false
INFINITE = re.compile(r"([-+]?)\.(?:inf|Inf|INF)\Z")
NAN = re.compile(r"\.(?:nan|NaN|NAN)\Z")
CONTROL = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
)


class Scalar(NamedTuple):
    """A value; `text` is what the spec says, `value` what the core schema makes of it."""

    value: Plain
    text: str
    span: Span
    start: int  # offset of the scalar in the source text
    block: bool  # a literal or folded block, whose text starts on the next line

    def at(self, offset: int, length: int = 1) -> Span:
        """The place of character `offset` of this scalar's text in the source.

        Folding and indentation change white space only, so the place is found by counting the other characters.
        """
        source = self.span.source
        before = sum(not char.isspace() for char in self.text[:offset])
        position = source.text.find("\n", self.start) if self.block else self.start
        for index in range(max(position, 0), len(source.text)):
            char = source.text[index]
            if char.isspace() or (index == self.start and char in "\"'"):
                continue
            if before == 0:
                return span_at(source, index, length)
            before -= 1
        return self.span


class Sequence(NamedTuple):
    items: tuple[Node, ...]
    span: Span


class Mapping(NamedTuple):
    entries: tuple[tuple[Scalar, Node], ...]
    span: Span
    places: dict[str, int]  # of the keys among the entries

    def get(self, key: str) -> Node | None:
        place = self.places.get(key)
        return None if place is None else self.entries[place][1]

    def key(self, key: str) -> Scalar:
        """The key itself, for messages about it."""
        return self.entries[self.places[key]][0]


Node: TypeAlias = "Scalar | Sequence | Mapping"


def plain(node: Node) -> Any:
    """The node as Python data, without places."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    return {key.text: plain(value) for key, value in node.entries}


def span_at(source: Source, index: int, length: int = 1) -> Span:
    """The span that starts at character `index` of the text."""
    line = bisect.bisect_right(source.starts, index)
    return Span(source, line, index - source.starts[line - 1] + 1, length)


def core_value(text: str) -> Plain:
    """A plain scalar's value by the YAML 1.2 core schema."""
    if text[:1].isalpha() and text[0] not in WORDS_START:
        return text  # most are words
    if NULL.match(text):
        return None
    if BOOL.match(text):
        return text.lower() == "true"
    if INT.match(text):
        return int(text) if len(text) <= MOST_DIGITS else text
    if OCTAL.match(text) or HEX.match(text):
        return int(text, 0) if len(text) <= MOST_DIGITS else text
    if FLOAT.match(text):
        return float(text)
    infinite = INFINITE.match(text)
    if infinite:
        return math.copysign(math.inf, -1 if infinite.group(1) == "-" else 1)
    return math.nan if NAN.match(text) else text


def read_nodes(source: Source) -> Mapping:
    """Parse one document whose top is a mapping.

    Raises:
        SpecError: HP002 to HP006 or HP020, at the place of the fault.
    """
    control = CONTROL.search(source.text)
    if control:
        place = span_at(source, control.start())
        name = f"U+{ord(control.group()):04X}"
        raise SpecError(Diagnostic("HP006", place, f"the character {name} is not allowed in a spec", "delete it"))
    try:
        return Reader(source).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = span_at(source, mark.index) if mark else Span(source, 1, 1)
        problem = " ".join(part for part in (error.context, error.problem) if part)
        raise SpecError(Diagnostic("HP002", place, f"not valid YAML: {problem}", yaml_hint(source, place))) from None
    except yaml.YAMLError as error:
        raise SpecError(Diagnostic("HP002", Span(source, 1, 1), f"not valid YAML: {error}")) from None


def yaml_hint(source: Source, place: Span) -> str:
    """What usually lies behind a syntax error at this place."""
    lines = source.lines
    line = lines[place.line - 1] if place.line <= len(lines) else ""
    if line[: len(line) - len(line.lstrip())].count("\t"):
        return "YAML is indented with spaces, not tabs"
    if line.count("{") != line.count("}") or line.count("[") != line.count("]"):
        return "a bracket is not closed on this line"
    before = line[: place.column - 1]
    if ": " in before and "{" not in before:
        return "quote a value that contains ': '"
    return "look at the indentation, colons and brackets here and on the line above"


class Reader:
    """Builds nodes from the parser's events."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.findings = Findings()
        self.count = 0
        # The parser ends lines at other characters too, such as a lone carriage return.
        self.usual_lines = not OTHER_LINE_ENDS.search(source.text)
        self.event: Callable[[], Any] = yaml.CLoader(source.text).get_event

    def document(self) -> Mapping:
        nodes: list[Node] = []
        while not isinstance(event := self.event(), yaml.StreamEndEvent):
            if isinstance(event, yaml.DocumentStartEvent):
                if nodes:
                    self.fail("HP020", event, "a second document in the file", "one file describes one operator")
                nodes.append(self.node(self.event(), 0))
        if not nodes or (isinstance(nodes[0], Scalar) and nodes[0].value is None):
            raise SpecError(
                Diagnostic("HP020", Span(self.source, 1, 1), "the file is empty", "a spec starts with 'op: <name>'")
            )
        if not isinstance(nodes[0], Mapping):
            raise SpecError(Diagnostic("HP020", nodes[0].span, "a spec is a mapping", "start with 'op: <name>'"))
        self.findings.raise_if_any()
        return nodes[0]

    def node(self, event: Any, depth: int) -> Node:
        self.count += 1
        if depth > MOST_NESTED:
            self.fail("HP005", event, f"nested more than {MOST_NESTED} deep")
        if self.count > MOST_NODES:
            self.fail("HP005", event, f"more than {MOST_NODES} values in one file")
        if isinstance(event, yaml.AliasEvent):
            self.fail("HP004", event, f"the alias '*{event.anchor}' is not part of the language", "write the value out")
        if event.anchor is not None:
            self.fail("HP004", event, f"the anchor '&{event.anchor}' is not part of the language", "delete it")
        if event.tag is not None:
            self.fail("HP004", event, f"the tag '{event.tag}' is not part of the language", "delete it")
        if isinstance(event, yaml.ScalarEvent):
            return self.scalar(event)
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Node] = []
            while not isinstance(item := self.event(), yaml.SequenceEndEvent):
                items.append(self.node(item, depth + 1))
                self.limit(event, len(items))
            return Sequence(tuple(items), self.span(event))
        return self.mapping(event, depth)

    def mapping(self, event: Any, depth: int) -> Mapping:
        entries: list[tuple[Scalar, Node]] = []
        places: dict[str, int] = {}
        while not isinstance(item := self.event(), yaml.MappingEndEvent):
            key = self.node(item, depth + 1)
            value = self.node(self.event(), depth + 1)
            if not isinstance(key, Scalar):
                raise SpecError(Diagnostic("HP020", key.span, "a key must be a word"))
            if key.text in places:
                first = Note(entries[places[key.text]][0].span, "first used here")
                self.findings.add("HP003", key.span, f"the key '{key.text}' occurs twice", "delete one", [first])
            places.setdefault(key.text, len(entries))
            entries.append((key, value))
            self.limit(event, len(entries))
        return Mapping(tuple(entries), self.span(event), places)

    def scalar(self, event: Any) -> Scalar:
        # Only an escape can bring in a character that the text has not.
        control = CONTROL.search(event.value) if event.style == '"' else None
        if control:
            self.fail(
                "HP006", event, f"the character U+{ord(control.group()):04X} is not allowed in a spec", "delete it"
            )
        quoted = event.style is not None and event.style != ""
        value = event.value if quoted else core_value(event.value)
        return Scalar(value, event.value, self.span(event), event.start_mark.index, event.style in ("|", ">"))

    def limit(self, event: Any, count: int) -> None:
        if count > MOST_ENTRIES:
            self.fail("HP005", event, f"more than {MOST_ENTRIES} entries in one list or mapping")

    def span(self, event: Any) -> Span:
        start, end = event.start_mark, event.end_mark
        length = end.index - start.index if end.line == start.line else 1
        if self.usual_lines:
            return Span(self.source, start.line + 1, start.column + 1, max(1, length))
        return span_at(self.source, start.index, max(1, length))

    def fail(self, rule: str, event: Any, message: str, hint: str = "") -> None:
        raise SpecError(*self.findings.diagnostics, Diagnostic(rule, self.span(event), message, hint))
