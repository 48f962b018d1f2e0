# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The tensors that a C++ function gets, with what is known of them: dims in every format and dtypes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..spec.dims import Dim
from ..spec.expression import Binary, Call, Conditional, Expression, Literal, Name, constant
from ..spec.model import FLOATING, Attribute, LengthsArgument, Output, Spec, TensorArgument
from ..text.fold import fold
from ..text.spec_expression import spec_text
from .backward_inputs import BackwardInput, BackwardInputs


@dataclass(frozen=True)
class GivenTensor:
    """One tensor parameter.

    `dims` are None in a format in which they cannot be told. `dtypes` are dtypes, required parameters before this one
    that share theirs, or an attribute; none if any will do.
    """

    name: str
    optional: bool
    dims: Mapping[str, tuple[Dim, ...] | None]
    dtypes: tuple[str, ...]
    takes_host_dtypes: bool
    resize: Mapping[str, Expression] = field(default_factory=dict)

    def bare(self, form: str) -> set[str]:
        """The names that stand alone as a dim in a format."""
        return {dim.name for dim in self.dims[form] or () if dim.name}

    def has_rest(self, form: str) -> bool:
        return any(dim.is_rest for dim in self.dims[form] or ())


@dataclass(frozen=True)
class Given:
    """What a function gets: tensors, lengths and the names of attributes.

    `alike` are tensors with the same dims as another one in every format, and that other one.
    """

    tensors: tuple[GivenTensor, ...]
    lengths: tuple[LengthsArgument, ...]
    attributes: frozenset[str]
    alike: tuple[tuple[str, str], ...] = ()

    def in_every_format(self, names: Sequence[str]) -> Given:
        """What can be said without the format, for a function that cannot tell which one it is."""
        if len(names) == 1:
            return self
        same = [tensor for tensor in self.tensors if all(tensor.dims[name] == tensor.dims[names[0]] for name in names)]
        others = [tensor for tensor in self.tensors if tensor not in same and None not in tensor.dims.values()]
        alike = []
        for index, tensor in enumerate(others):
            earlier = (item for item in others[:index] if not item.optional)
            model = next((item for item in earlier if (item.dims, item.resize) == (tensor.dims, tensor.resize)), None)
            alike += [(tensor.name, model.name)] if model else []
        return Given(tuple(same), (), self.attributes, tuple(alike))


class GivenTensors:
    """Collects the tensors of one function; `attributes` are those that it gets as well."""

    def __init__(self, spec: Spec, attributes: set[str]) -> None:
        self.spec = spec
        self.attributes = attributes
        self.found: list[GivenTensor] = []
        self.owners: dict[str, str] = {}  # the tensor whose dtype is shared -> the first parameter that has it

    def add(self, name: str, holder: TensorArgument | Output, adapters: Expression | None = None) -> None:
        """Add a parameter that comes from an argument or output, or from its gradient, perhaps in another shape."""
        optional = isinstance(holder, TensorArgument) and holder.optional
        dtypes, on_host = self.dtypes(holder)
        dims = {form: self.adapted(found, adapters, form) for form, found in holder.dims.per_format.items()}
        resize = holder.resize if isinstance(holder, Output) else {}
        source = self.spec.dtype_source(holder)
        if source and not optional:
            self.owners.setdefault(source, name)
        self.found.append(GivenTensor(name, optional, dims, dtypes, on_host, resize))

    def dtypes(self, holder: TensorArgument | Output) -> tuple[tuple[str, ...], bool]:
        """What a dtype may be, and whether kernels on the host take float32 and float64 as well."""
        source = self.spec.dtype_source(holder)
        if source in self.owners:
            return (self.owners[source],), False
        if source:
            item = self.spec.by_name[source]
            assert isinstance(item, TensorArgument)
            return self.expanded(item.dtypes)
        assert isinstance(holder, Output)
        attribute = self.spec.by_name.get(holder.dtype)
        if not isinstance(attribute, Attribute):
            return (holder.dtype,), holder.dtype in FLOATING
        if attribute.name in self.attributes:
            return (attribute.name,), False
        return tuple(str(choice) for choice in attribute.choices), False

    def expanded(self, dtypes: Sequence[str]) -> tuple[tuple[str, ...], bool]:
        """Dtypes with a parameter, or what it may be, for each tensor among them."""
        found: list[str] = []
        on_host = all(dtype in FLOATING for dtype in dtypes)
        for dtype in dtypes:
            item = self.spec.by_name.get(dtype)
            if not isinstance(item, TensorArgument):
                found.append(dtype)
                continue
            shared, also = self.dtypes(item)
            found += shared
            on_host = on_host or also
        return tuple(dict.fromkeys(found)), on_host

    def adapted(self, dims: tuple[Dim, ...], node: Expression | None, form: str) -> tuple[Dim, ...] | None:
        """The dims after shape adapters."""
        if node is None or isinstance(node, Name):
            return dims
        if isinstance(node, Conditional) and self.spec.format.kind != "fixed":
            node = fold(node, self.spec.format.selector, self.spec.format_value(form))
        if not isinstance(node, Call) or node.function == "grad":
            return dims if isinstance(node, Name | Call) else None
        inner = self.adapted(dims, node.arguments[0], form)
        return None if inner is None else reshaped(inner, node)


def reshaped(dims: tuple[Dim, ...], call: Call) -> tuple[Dim, ...] | None:
    """Dims after one shape adapter; None if its axes cannot be told."""
    rank = len(dims) + (call.function == "unsqueeze")
    axes = call.arguments[1:2] if call.function in ("unsqueeze", "unflatten") else call.arguments[1:3]
    places = [place(dims, constant(axis), rank) for axis in axes]
    if None in places:
        return None
    first, last = places[0], places[-1]
    assert first is not None
    assert last is not None
    match call.function:
        case "unsqueeze":
            return (*dims[:first], Dim(Literal(1), "1"), *dims[first:])
        case "unflatten":
            parts = (Dim(extent, spec_text(extent)) for extent in call.arguments[2:])
            return (*dims[:first], *parts, *dims[first + 1 :])
        case "flatten":
            return flattened(dims, first, last)
        case _:
            swapped = list(dims)
            swapped[first], swapped[last] = dims[last], dims[first]
            return tuple(swapped)


def flattened(dims: tuple[Dim, ...], first: int, last: int) -> tuple[Dim, ...] | None:
    joined = dims[first : last + 1]
    if not joined or any(dim.is_rest for dim in joined):
        return None
    product = joined[0].expression
    for dim in joined[1:]:
        product = Binary("*", product, dim.expression)
    return (*dims[:first], Dim(product, spec_text(product)), *dims[last + 1 :])


def place(dims: tuple[Dim, ...], axis: int | None, rank: int) -> int | None:
    """Where an axis is among dims; None if it is not a number, or stands on the other side of a `...`."""
    rest = next((index for index, dim in enumerate(dims) if dim.is_rest), None)
    if axis is None:
        return None
    found = axis + rank if axis < 0 else axis
    if not 0 <= found < rank:
        return None
    if rest is not None and (found >= rest if axis >= 0 else found <= rest):
        return None
    return found


def forward_given(spec: Spec) -> Given:
    """What the operator's function gets."""
    attributes = {item.name for item in spec.attributes}
    given = GivenTensors(spec, attributes)
    for tensor in spec.tensors:
        given.add(tensor.name, tensor)
    return Given(tuple(given.found), spec.lengths, frozenset(attributes))


def backward_given(spec: Spec, inputs: BackwardInputs) -> Given:
    """What the function of its backward gets."""
    arguments = [spec.by_name[item.source] for item in inputs if item.source in spec.by_name]
    attributes = {item.name for item in arguments if isinstance(item, Attribute)}
    given = GivenTensors(spec, attributes)
    for item in sorted(inputs, key=lambda item: place_of(spec, item)):
        holder = holder_of(spec, item)
        if holder is not None:
            given.add(item.name, holder, item.adapters)
    lengths = tuple(item for item in arguments if isinstance(item, LengthsArgument))
    return Given(tuple(given.found), lengths, frozenset(attributes))


def place_of(spec: Spec, item: BackwardInput) -> tuple[bool, bool, bool]:
    """What the caller gave comes first and is what gradients are compared with."""
    return item.is_cotangent, item.source in spec.output_by_name, item.adapters is not None


def holder_of(spec: Spec, item: BackwardInput) -> TensorArgument | Output | None:
    """What says the dims and the dtype of an input of the backward; None for lengths and attributes."""
    argument = None if item.is_cotangent else spec.by_name.get(item.source)
    if argument is not None:
        return argument if isinstance(argument, TensorArgument) else None
    return spec.output_by_name[item.source]
