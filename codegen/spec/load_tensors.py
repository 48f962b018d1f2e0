# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Arguments and outputs: from nodes to the model."""

from __future__ import annotations

import math
from typing import Any, cast

from ..diagnostics import Diagnostic, Findings, SpecError, suggestion
from .dims import Dim, parse_dims
from .expression import Expression, parse_expression
from .model import (
    Argument,
    Attribute,
    AttributeType,
    Combine,
    Dims,
    LengthsArgument,
    Output,
    Temporary,
    TensorArgument,
    Value,
)
from .names import LITERALS
from .node_access import entries_of, items_of, scalars_of, text_of, true, words
from .yaml_nodes import Mapping, Node, Scalar, Sequence

COMMON_KEYS = {"type", "doc", "optional", "positional"}
TENSOR_KEYS = COMMON_KEYS | {"dtype", "dims", "differentiable", "positions"}
LENGTHS_KEYS = COMMON_KEYS | {"of", "leading_zero", "where", "dtype", "missing", "count"}
ATTRIBUTE_KEYS = COMMON_KEYS | {"default", "choices", "axis"}


class TensorLoader:
    """Reads everything that has dims or stands among the arguments."""

    def __init__(self, formats: tuple[str, ...], args: Node | None, findings: Findings) -> None:
        self.formats = formats
        self.args = {key.text: (key, node) for key, node in entries_of(args)}
        self.findings = findings

    def arguments(self) -> tuple[Argument, ...]:
        built = (self.findings.attempt(lambda: self.argument(*item)) for item in self.args.values())  # noqa: B023
        return tuple(argument for argument in built if argument)

    def argument(self, key: Scalar, node: Node) -> Argument:
        body = node if isinstance(node, Mapping) else Mapping((), key.span, {})
        kind = text_of(body.get("type")) or ("tensor" if body.get("dims") else "")
        if not kind:
            hint = "give dims for a tensor, or a type: lengths, int, float, bool, str, dtype, ints"
            raise SpecError(Diagnostic("HP204", key.span, f"'{key.text}' has neither dims nor a type", hint))
        if kind == "tensor":
            return self.tensor(key, body)
        if kind == "lengths":
            return self.lengths(key, body)
        return self.attribute(key, body, cast(AttributeType, kind))

    def only(self, key: Scalar, body: Mapping, kind: str, known: set[str]) -> None:
        for name, _ in body.entries:
            if name.text not in known:
                message = f"'{name.text}' has no meaning for '{key.text}', which is a {kind} argument"
                raise SpecError(Diagnostic("HP021", name.span, message, suggestion(name.text, known)))

    def need(self, key: Scalar, body: Mapping, kind: str, name: str) -> Node:
        node = body.get(name)
        if node is None:
            message = f"'{key.text}' is a {kind} argument and needs '{name}'"
            raise SpecError(Diagnostic("HP204", key.span, message))
        return node

    def tensor(self, key: Scalar, body: Mapping) -> TensorArgument:
        self.only(key, body, "tensor", TENSOR_KEYS)
        dtype = self.need(key, body, "tensor", "dtype")
        differentiable = body.get("differentiable")
        return TensorArgument(
            name=key.text,
            doc=text_of(body.get("doc")),
            dtypes=tuple(words(dtype)) if isinstance(dtype, Sequence) else (text_of(dtype),),
            dims=self.dims(self.need(key, body, "tensor", "dims")),
            optional=true(body.get("optional")),
            positional=true(body.get("positional")),
            differentiable=differentiable is None or true(differentiable),
            positions=text_of(body.get("positions")),
            at=key.span,
            dtypes_at={item.text: item.span for item in scalars_of(dtype)},
        )

    def lengths(self, key: Scalar, body: Mapping) -> LengthsArgument:
        self.only(key, body, "lengths", LENGTHS_KEYS)
        of = self.need(key, body, "lengths", "of")
        return LengthsArgument(
            name=key.text,
            doc=text_of(body.get("doc")),
            of=text_of(of),
            optional=true(body.get("optional")),
            positional=true(body.get("positional")),
            leading_zero=true(body.get("leading_zero")),
            where=cast(Any, text_of(body.get("where")) or "host"),
            dtype=text_of(body.get("dtype")) or "int64",
            missing=cast(
                Any, text_of(body.get("missing")) or ("absent" if text_of(body.get("where")) == "device" else "empty")
            ),
            count=text_of(body.get("count")),
            at=key.span,
            of_at=of.span,
        )

    def attribute(self, key: Scalar, body: Mapping, kind: AttributeType) -> Attribute:
        self.only(key, body, kind, ATTRIBUTE_KEYS)
        default, choices = body.get("default"), body.get("choices")
        return Attribute(
            name=key.text,
            doc=text_of(body.get("doc")),
            type=kind,
            default=self.value(default, kind) if default else None,
            choices=tuple(self.value(item, kind) for item in items_of(choices)),
            optional=true(body.get("optional")),
            positional=true(body.get("positional")),
            axis=text_of(body.get("axis")),
            at=key.span,
            default_at=default.span if default else None,
            choices_at=choices.span if choices else None,
        )

    def value(self, node: Node, kind: AttributeType) -> Value:
        """A default or choice as a value of the attribute's type; INT64_MAX and inf are words for numbers."""
        if kind == "ints":
            items = items_of(node)
            found = [item.value for item in items if isinstance(item, Scalar) and type(item.value) is int]
            if not isinstance(node, Sequence) or len(found) != len(items):
                raise SpecError(Diagnostic("HP201", node.span, "not a list of integers", "such as: [1, 2]"))
            return tuple(found)
        if not isinstance(node, Scalar):
            raise SpecError(Diagnostic("HP201", node.span, f"a list is not of type {kind}"))
        value = node.value
        word = node.text.removeprefix("-")
        if kind in ("int", "float") and word in LITERALS and not (kind == "int" and word == "inf"):
            value = -LITERALS[word] if node.text.startswith("-") else LITERALS[word]
        elif isinstance(value, float) and not math.isfinite(value) and "inf" not in word.lower():
            raise SpecError(Diagnostic("HP201", node.span, f"'{node.text}' is not a finite number", "the word is inf"))
        if isinstance(value, int) and abs(value) > LITERALS["INT64_MAX"]:
            raise SpecError(Diagnostic("HP201", node.span, f"'{node.text}' has more than 64 bits"))
        fits = {
            "int": isinstance(value, int) and not isinstance(value, bool),
            "float": isinstance(value, int | float) and not isinstance(value, bool),
            "bool": isinstance(value, bool),
            "str": isinstance(value, str),
            "dtype": isinstance(value, str),
        }[kind]
        if not fits:
            raise SpecError(Diagnostic("HP201", node.span, f"'{node.text}' is not of type {kind}", QUOTE[kind]))
        return float(cast(float, value)) if kind == "float" else cast(Value, value)

    def dims(self, node: Node) -> Dims:
        """Dims per format; one text stands for all formats."""
        if isinstance(node, Scalar):
            parsed = parse_dims(node)
            return Dims(dict.fromkeys(self.formats, parsed), dict.fromkeys(self.formats, node))
        per_format: dict[str, tuple[Dim, ...]] = {}
        scalars: dict[str, Scalar] = {}
        for key, value in entries_of(node):
            if key.text not in self.formats:
                hint = suggestion(key.text, self.formats)
                raise SpecError(Diagnostic("HP105", key.span, f"unknown format '{key.text}'", hint))
            per_format[key.text], scalars[key.text] = parse_dims(cast(Scalar, value)), cast(Scalar, value)
        for missing in (name for name in self.formats if name not in per_format):
            message = f"the dims for format '{missing}' are missing"
            raise SpecError(Diagnostic("HP105", node.span, message, f"add {missing}: ..."))
        return Dims({name: per_format[name] for name in self.formats}, scalars)

    def outputs(self, node: Node | None) -> tuple[Output, ...]:
        built: dict[str, Output] = {}
        for key, value in entries_of(node):
            body = value if isinstance(value, Mapping) else Mapping((), key.span, {})
            output = self.findings.attempt(lambda: self.output(key, body, built))  # noqa: B023
            if output:
                built[key.text] = output
        return tuple(built.values())

    def output(self, key: Scalar, body: Mapping, built: dict[str, Output]) -> Output:
        like, dims, dtype = body.get("like"), body.get("dims"), text_of(body.get("dtype"))
        parsed: Dims | None = self.dims(dims) if dims else None
        if like:
            target = built.get(text_of(like)) or self.like_argument(cast(Scalar, like), built)
            parsed = parsed or target.dims
            dtype = dtype or (target.dtype if isinstance(target, Output) else target.name)
        if parsed is None or not dtype:
            missing = "dims" if parsed is None else "dtype"
            message = f"the output '{key.text}' needs '{missing}'"
            raise SpecError(Diagnostic("HP204", key.span, message, "give dims and dtype, or like: <tensor>"))
        return Output(
            name=key.text,
            doc=text_of(body.get("doc")),
            dtype=dtype,
            dims=parsed,
            like=text_of(like),
            resize=self.resize(body.get("resize")),
            combine=cast("Combine | None", text_of(body.get("combine")) or None),
            hidden=true(body.get("hidden")),
            when=text_of(body.get("when")),
            positions=text_of(body.get("positions")),
            at=key.span,
            dtype_at=(body.get("dtype") or key).span,
        )

    def resize(self, node: Node | None) -> dict[str, Expression]:
        return {key.text: parse_expression(cast(Scalar, value)) for key, value in entries_of(node)}

    def like_argument(self, like: Scalar, built: dict[str, Output]) -> TensorArgument:
        if like.text in self.args:
            argument = self.argument(*self.args[like.text])
            if isinstance(argument, TensorArgument):
                return argument
        tensors = [name for name, (_, node) in self.args.items() if isinstance(node, Mapping) and node.get("dims")]
        hint = suggestion(like.text, [*tensors, *built])
        raise SpecError(Diagnostic("HP103", like.span, f"'{like.text}' is no tensor defined so far", hint))

    def temporaries(self, node: Node | None) -> tuple[Temporary, ...]:
        built = []
        for key, value in entries_of(node):
            body = cast(Mapping, value)
            dims = self.findings.attempt(lambda: self.dims(cast(Node, body.get("dims"))))  # noqa: B023
            if dims:
                built.append(Temporary(key.text, text_of(body.get("dtype")), dims, key.span))
        return tuple(built)


QUOTE = {
    "int": "write an integer, or INT64_MAX",
    "float": "write a number, or inf",
    "bool": "write true or false",
    "str": "put it in quotes",
    "dtype": "write the name of a dtype",
}
