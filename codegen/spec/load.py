# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""From marked nodes, already valid by the schema, to the model."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, cast

from ..diagnostics import Diagnostic, Findings, Source, Span, SpecError, suggestion
from .dims import Dim, parse_dims
from .expression import parse_expression
from .kernel_call import parse_kernel_call
from .model import (
    Argument,
    Attribute,
    AttributeType,
    Combine,
    ContextParallel,
    Dims,
    Format,
    Kernel,
    LengthsArgument,
    Output,
    Reference,
    Requirement,
    Sharding,
    Spec,
    TensorArgument,
    Value,
)
from .names import LITERALS
from .schema import check_schema
from .yaml_nodes import Mapping, Node, Scalar, Sequence, read_nodes

MOST_BYTES = 1_000_000
RANK_FORMAT = re.compile(r"rank\(\s*([A-Za-z_][A-Za-z0-9_]*)\s*\)\Z")
REFERENCE = re.compile(r"([a-z_][a-z0-9_]*):([a-z_][a-z0-9_]*)\Z")
TENSOR_KEYS = {"type", "doc", "dtype", "dims", "optional", "positional"}
LENGTHS_KEYS = {"type", "doc", "of", "optional", "positional"}
ATTRIBUTE_KEYS = {"type", "doc", "default", "choices", "positional"}


def read_source(path: Path, shown: str) -> Source:
    """The text of a spec file; `shown` is the path in messages. SpecError HP001 or HP005 if it cannot be read."""
    nowhere = Span(Source(shown, ""), 1, 1)
    try:
        data = path.read_bytes() if path.stat().st_size <= MOST_BYTES else None
    except OSError as error:
        raise SpecError(Diagnostic("HP001", nowhere, f"cannot be read: {error.strerror or error}")) from None
    if data is None:
        raise SpecError(Diagnostic("HP005", nowhere, f"larger than {MOST_BYTES} bytes"))
    try:
        return Source(shown, data.decode("utf-8"))
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", errors="replace")
        line = before.count("\n") + 1
        place = Span(Source(shown, before), line, len(before) - (before.rfind("\n") + 1) + 1)
        raise SpecError(Diagnostic("HP001", place, "not UTF-8 text", "save the file as UTF-8")) from None


def load_spec(source: Source) -> Spec:
    """Parse one spec. Raises SpecError with everything that was found."""
    root = read_nodes(source)
    findings = Findings()
    check_schema(root, findings)
    findings.raise_if_any()
    return Loader(root, source).load()


def text_of(node: Node | None) -> str:
    return " ".join(node.text.split()) if isinstance(node, Scalar) else ""


def block_of(node: Node | None) -> str:
    """A text of several lines, trailing space removed."""
    if not isinstance(node, Scalar):
        return ""
    return "\n".join(line.rstrip() for line in node.text.strip().splitlines())


def true(node: Node | None) -> bool:
    return isinstance(node, Scalar) and node.value is True


def words(node: Node | None) -> dict[str, Span]:
    """A list of words with their places."""
    items = node.items if isinstance(node, Sequence) else ()
    return {item.text: item.span for item in items if isinstance(item, Scalar)}


class Loader:
    """Builds the model piece by piece, collecting what it finds."""

    def __init__(self, root: Mapping, source: Source) -> None:
        self.root = root
        self.source = source
        self.findings = Findings()
        self.formats: tuple[str, ...] = ()

    def load(self) -> Spec:
        root = self.root
        op = self.scalar(root, "op")
        form = self.format()
        self.formats = form.names
        spec = Spec(
            op=op.text,
            summary=text_of(root.get("summary")),
            doc=block_of(root.get("doc")),
            format=form,
            dim_docs={key.text: text_of(value) for key, value in self.entries("dims")},
            arguments=tuple(
                argument for key, node in self.entries("args") if (argument := self.attempt(self.argument, key, node))
            ),
            outputs=self.outputs(),
            requirements=self.requirements(),
            sharding=self.sharding(),
            context_parallel=self.context_parallel(),
            kernel=self.kernel(),
            reference=self.reference(),
            torch_delegate=self.torch_delegate(),
            source=self.source,
            op_at=op.span,
            dims_at={key.text: key.span for key, _ in self.entries("dims")},
        )
        self.findings.raise_if_any()
        return spec

    def attempt(self, build: Any, *arguments: Any) -> Any:
        """Build one part; what is wrong with it is collected and the part left out."""
        try:
            return build(*arguments)
        except SpecError as error:
            self.findings.extend(error)
            return None

    def scalar(self, parent: Mapping, key: str) -> Scalar:
        return cast(Scalar, parent.get(key))

    def entries(self, key: str, parent: Mapping | None = None) -> tuple[tuple[Scalar, Node], ...]:
        node = (parent or self.root).get(key)
        return node.entries if isinstance(node, Mapping) else ()

    def format(self) -> Format:
        """The formats are what most tensors give dims for, so that one misspelt format is one message."""
        scalar = self.scalar(self.root, "format")
        given = [
            [key.text for key, _ in dims.entries]
            for _, node in self.entries("args")
            if isinstance(node, Mapping) and isinstance(dims := node.get("dims"), Mapping)
        ]
        seen = Counter(name for names in given for name in names)
        names = tuple(name for name, count in seen.items() if 2 * count >= len(given))
        args = {key.text: node for key, node in self.entries("args")}
        rank = RANK_FORMAT.match(scalar.text)
        if rank:
            return Format("rank", rank.group(1), names, scalar.span)
        if scalar.text in args:
            return Format("attribute", scalar.text, names, scalar.span)
        if names in ((), (scalar.text,)):
            return Format("fixed", "", (scalar.text,), scalar.span)
        message = f"'{scalar.text}' is neither an argument, nor rank(x), nor the only format"
        self.findings.add("HP105", scalar.span, message, suggestion(scalar.text, [*args, *names]))
        return Format("fixed", "", names, scalar.span)

    def argument(self, key: Scalar, node: Node) -> Argument:
        body = node if isinstance(node, Mapping) else Mapping((), key.span)
        kind = text_of(body.get("type")) or ("tensor" if body.get("dims") else "")
        if not kind:
            hint = "give dims for a tensor, or a type: lengths, int, float, bool, str"
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
        return TensorArgument(
            name=key.text,
            doc=text_of(body.get("doc")),
            dtypes=tuple(words(dtype)) if isinstance(dtype, Sequence) else (text_of(dtype),),
            dims=self.dims(self.need(key, body, "tensor", "dims")),
            optional=true(body.get("optional")),
            positional=true(body.get("positional")),
            at=key.span,
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
            at=key.span,
            of_at=of.span,
        )

    def attribute(self, key: Scalar, body: Mapping, kind: AttributeType) -> Attribute:
        self.only(key, body, kind, ATTRIBUTE_KEYS)
        default, choices = body.get("default"), body.get("choices")
        items = choices.items if isinstance(choices, Sequence) else ()
        return Attribute(
            name=key.text,
            doc=text_of(body.get("doc")),
            type=kind,
            default=self.value(cast(Scalar, default), kind) if default else None,
            choices=tuple(self.value(cast(Scalar, item), kind) for item in items),
            positional=true(body.get("positional")),
            at=key.span,
            default_at=default.span if default else None,
            choices_at=choices.span if choices else None,
        )

    def value(self, scalar: Scalar, kind: AttributeType) -> Value:
        """A default or choice as a value of the attribute's type; INT64_MAX and inf are words for numbers."""
        value = scalar.value
        if kind in ("int", "float") and scalar.text.lstrip("-") in LITERALS:
            number = LITERALS[scalar.text.lstrip("-")]
            value = -number if scalar.text.startswith("-") else number
        fits = {
            "int": isinstance(value, int) and not isinstance(value, bool),
            "float": isinstance(value, int | float) and not isinstance(value, bool),
            "bool": isinstance(value, bool),
            "str": isinstance(value, str),
        }[kind]
        if not fits:
            raise SpecError(Diagnostic("HP201", scalar.span, f"'{scalar.text}' is not of type {kind}", QUOTE[kind]))
        return float(cast(float, value)) if kind == "float" else cast(Value, value)

    def dims(self, node: Node) -> Dims:
        """Dims per format; one text stands for all formats."""
        if isinstance(node, Scalar):
            parsed = parse_dims(node)
            return Dims(dict.fromkeys(self.formats, parsed), dict.fromkeys(self.formats, node))
        per_format: dict[str, tuple[Dim, ...]] = {}
        scalars: dict[str, Scalar] = {}
        for key, value in cast(Mapping, node).entries:
            if key.text not in self.formats:
                hint = suggestion(key.text, self.formats)
                raise SpecError(Diagnostic("HP105", key.span, f"unknown format '{key.text}'", hint))
            per_format[key.text], scalars[key.text] = parse_dims(cast(Scalar, value)), cast(Scalar, value)
        for missing in (name for name in self.formats if name not in per_format):
            message = f"the dims for format '{missing}' are missing"
            raise SpecError(Diagnostic("HP105", node.span, message, f"add {missing}: ..."))
        ordered = {name: per_format[name] for name in self.formats}
        return Dims(ordered, scalars)

    def outputs(self) -> tuple[Output, ...]:
        built: dict[str, Output] = {}
        for key, node in self.entries("outputs"):
            body = node if isinstance(node, Mapping) else Mapping((), key.span)
            output = self.attempt(self.output, key, body, built)
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
        combine = cast("Combine | None", text_of(body.get("combine")) or None)
        return Output(key.text, text_of(body.get("doc")), dtype, parsed, text_of(like), combine, key.span)

    def like_argument(self, like: Scalar, built: dict[str, Output]) -> TensorArgument:
        args = {key.text: (key, node) for key, node in self.entries("args")}
        if like.text in args:
            argument = self.argument(*args[like.text])
            if isinstance(argument, TensorArgument):
                return argument
        tensors = [name for name, (_, node) in args.items() if isinstance(node, Mapping) and node.get("dims")]
        hint = suggestion(like.text, [*tensors, *built])
        raise SpecError(Diagnostic("HP103", like.span, f"'{like.text}' is no tensor defined so far", hint))

    def requirements(self) -> tuple[Requirement, ...]:
        node = self.root.get("require")
        items = node.items if isinstance(node, Sequence) else ()
        built = (self.attempt(self.requirement, item) for item in items)
        return tuple(requirement for requirement in built if requirement)

    def requirement(self, node: Node) -> Requirement:
        if isinstance(node, Mapping):
            condition, applies = self.scalar(node, "then"), self.scalar(node, "if")
            text = f"{text_of(condition)} if {text_of(applies)}"
            return Requirement(parse_expression(condition), parse_expression(applies), text, condition)
        scalar = cast(Scalar, node)
        return Requirement(parse_expression(scalar), None, text_of(scalar), scalar)

    def sharding(self) -> Sharding:
        node = self.root.get("sharding")
        shard = words(node.get("shard") if isinstance(node, Mapping) else None)
        return Sharding(tuple(shard), shard)

    def context_parallel(self) -> ContextParallel | None:
        node = self.root.get("context_parallel")
        if not isinstance(node, Mapping):
            return None
        query, key = words(node.get("query")), words(node.get("key"))
        places = query | key
        lengths = {}
        for dim, argument in self.entries("lengths", node):
            lengths[dim.text] = text_of(argument)
            places |= {dim.text: dim.span, text_of(argument): argument.span}
        return ContextParallel(tuple(query), tuple(key), cast(Any, text_of(node.get("mask"))), lengths, places)

    def kernel(self) -> Kernel:
        node = cast(Mapping, self.root.get("kernel"))
        scalar = self.scalar(node, "aclnn")
        unused = words(node.get("unused"))
        call = self.attempt(parse_kernel_call, scalar)
        return Kernel(call, text_of(node.get("cpu")), tuple(unused), scalar, unused)

    def reference(self) -> Reference:
        scalar = self.scalar(self.root, "reference")
        match = REFERENCE.match(scalar.text)
        if not match:
            self.findings.add("HP404", scalar.span, f"'{scalar.text}' is not module:function", "such as: my_op:forward")
        return Reference(*(match.groups() if match else ("", "")))

    def torch_delegate(self) -> str:
        platforms = self.root.get("platforms")
        torch = platforms.get("torch") if isinstance(platforms, Mapping) else None
        scalar = torch.get("delegate") if isinstance(torch, Mapping) else None
        if scalar is not None and not text_of(scalar).isidentifier():
            self.findings.add("HP101", scalar.span, f"'{text_of(scalar)}' is not the name of a module")
        return text_of(scalar)


QUOTE = {
    "int": "write an integer, or INT64_MAX",
    "float": "write a number, or inf",
    "bool": "write true or false",
    "str": "put it in quotes",
}
