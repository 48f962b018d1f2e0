# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Argument checks in C++: dims are bound by the first tensor that has them bare, and every other one is compared.

A variable is declared only if something below reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..spec.dims import REST, Dim
from ..spec.expression import Binary, Call, Expression, Literal, Name, names_in
from ..spec.model import LengthsArgument, Spec
from ..text.cpp_expression import cpp, cpp_extent, string
from .cpp_tensors import Given, GivenTensor
from .facts import same_documents

ANY = "kAny"


@dataclass(frozen=True)
class Binding:
    """A line that gives a dim its extent, or gives it `again` where it may have been unknown.

    If nothing reads the dim there is no such line, unless the extent `checks` something: then it stands alone.
    """

    name: str
    extent: str
    again: bool = False
    checks: bool = False


class ShapeChecks:
    """Writes the checks of one format; `ranked` is the tensor whose rank has told the format, if one has."""

    def __init__(self, spec: Spec, given: Given, form: str, checks: str, ranked: str = "") -> None:
        self.spec = spec
        self.ranked = ranked
        self.given = given
        self.form = form
        self.checks = checks
        self.rest = spec.fresh("rest")
        self.written: list[str | Binding] = []
        self.last_use: dict[str, int] = {}
        self.bound: set[str] = set()
        self.maybe: set[str] = set()  # bound, but perhaps to kAny
        self.late: list[tuple[GivenTensor, int, Dim]] = []
        known = [tensor for tensor in given.tensors if tensor.dims[form] is not None]
        self.owner = next(
            (item for item in known if item.has_rest(form) and not item.optional and not item.resize), None
        )
        self.axes = {name: axis for name, axis in spec.axes.items() if self.owner and axis.name in given.attributes}
        self.tensors = sorted(known, key=self.place)
        self.write()

    def write(self) -> None:
        for name, lengths in self.spec.counts.items():
            if lengths in self.given.lengths and lengths.of in self.spec.bound(self.form):
                self.bind(Binding(name, documents(lengths)))
                self.maybe |= {name} if lengths.optional else set()
        for tensor in self.tensors:
            if tensor is self.owner:
                self.first_of_any_rank(tensor)
            elif tensor.has_rest(self.form) and (self.owner is None or tensor.resize):
                self.any_rank(tensor)
            else:
                self.tensor(tensor)
        for tensor, index, dim in self.late:
            self.extent(tensor, index, dim)
        self.lengths()
        for name, model in self.given.alike:
            self.add(f"{self.checks}.SameShape({string(name)}, {name}, {string(model)}, {model});")

    def place(self, tensor: GivenTensor) -> tuple[bool, bool, bool]:
        """Optional tensors come last, so that what a required one has is known; so do those whose axis is resized."""
        return bool(tensor.resize), tensor.optional, bool(self.axes) and tensor is not self.owner

    def add(self, line: str, *names: str) -> None:
        """A line that reads dims."""
        self.use(*names)
        self.written.append(line)

    def use(self, *names: str) -> None:
        self.last_use |= {name: len(self.written) for name in names}

    def bind(self, line: Binding) -> None:
        self.bound.add(line.name)
        self.written.append(line)

    def lines(self, hoisted: Container[str] = ()) -> list[str]:
        """The lines, without variables that nothing reads; those of `hoisted` dims are declared elsewhere."""
        found: list[str] = []
        again = {item.name for item in self.written if isinstance(item, Binding) and item.again and self.is_read(item)}
        for item in self.written:
            if isinstance(item, str):
                found.append(item)
            elif self.is_read(item):
                found.append(f"{self.declared(item, again, hoisted)} = {item.extent};")
            elif item.checks:
                found.append(f"{item.extent};")
        return found

    def is_read(self, line: Binding) -> bool:
        return self.last_use.get(line.name, -1) > self.written.index(line)

    def declared(self, line: Binding, again: Container[str], hoisted: Container[str]) -> str:
        if line.name == REST:
            return f"const ShapeVector {self.rest}"
        if line.again or line.name in hoisted:
            return line.name
        return f"{'' if line.name in again else 'const '}int64_t {line.name}"

    def tensor(self, tensor: GivenTensor) -> None:
        """A tensor whose dims are all known or new."""
        before = set(self.bound)
        known = [self.expected(tensor, index, dim, before) for index, dim in enumerate(self.dims(tensor))]
        if tensor.name != self.ranked or set(known) != {ANY}:
            self.check("Dims", tensor, self.joined(tensor, known))
        self.bind_dims(tensor)

    def dims(self, tensor: GivenTensor) -> tuple[Dim, ...]:
        return tensor.dims[self.form] or ()

    def joined(self, tensor: GivenTensor, extents: Sequence[str]) -> str:
        """A shape of extents, with what `...` stands for between them."""
        first = rest_of(self.dims(tensor))
        if first is None:
            return braced(extents)
        self.use(REST)
        return f"Joined({braced(extents[:first])}, {self.rest}, {braced(extents[first + 1 :])})"

    def check(self, method: str, tensor: GivenTensor, expected: str) -> None:
        text = string(" ".join(dim.compact for dim in self.dims(tensor)))
        self.add(f"{self.checks}.{method}({string(tensor.name)}, {tensor.name}, {text}, {expected});")

    def expected(self, tensor: GivenTensor, index: int, dim: Dim, before: set[str]) -> str:
        """An extent as far as it is known; one that will be is compared behind all tensors."""
        names = [name for name in dim.names if name in self.spec.dim_docs]
        if dim.is_rest or self.is_new(dim):
            self.bound |= set(names)
            return ANY
        if not self.attributes_are_given(dim):
            return ANY
        if set(names) <= before and (dim.name is not None or not set(names) & self.maybe):
            self.use(*names)
            return cpp_extent(dim.expression)
        self.late.append((tensor, index, dim))
        return ANY

    def is_new(self, dim: Dim) -> bool:
        """Whether a dim binds its name; an attribute has its value already."""
        return dim.name in self.spec.dim_docs and dim.name not in self.bound

    def attributes_are_given(self, dim: Dim) -> bool:
        return all(name in self.spec.dim_docs or name in self.given.attributes for name in dim.names)

    def bind_dims(self, tensor: GivenTensor) -> None:
        """Variables for the dims that a tensor is the first to have, or the first that is sure to have them."""
        places: dict[str | None, int] = {}
        for index, dim in enumerate(self.dims(tensor)):
            places.setdefault(dim.name, index)
        for name, index in places.items():
            if name is None or name not in self.spec.dim_docs or name in self.axes:
                continue
            extent = self.read(tensor, index)
            if not any(isinstance(line, Binding) and line.name == name for line in self.written):
                self.bind(Binding(name, extent))
                self.maybe |= {name} if tensor.optional else set()
            elif name in self.maybe:
                self.bind(Binding(name, f"FirstKnown({name}, {extent})" if tensor.optional else extent, again=True))
                self.maybe -= set() if tensor.optional else {name}

    def read(self, tensor: GivenTensor, index: int) -> str:
        """The extent of a dim, counted from the right behind a `...`."""
        dims = self.dims(tensor)
        first = rest_of(dims)
        right = first is not None and index > first
        if tensor.optional:
            return f"ExtentOf({tensor.name}, {index - len(dims) if right else index})"
        shape = f"{tensor.name}.shape()"
        return f"{shape}[{shape}.size() - {len(dims) - index}]" if right else f"{shape}[{index}]"

    def first_of_any_rank(self, tensor: GivenTensor) -> None:
        """The tensor that gives `...` its meaning, and the axes that attributes choose of it."""
        dims = self.dims(tensor)
        first = rest_of(dims)
        assert first is not None
        last = len(dims) - first - 1
        self.check("AnyRank", tensor, str(first + last))
        for index, dim in enumerate(dims):
            if self.is_new(dim):
                self.bound |= set(dim.names)
            elif not dim.is_rest and self.attributes_are_given(dim):
                self.late.append((tensor, index, dim))
        self.bind_dims(tensor)
        self.bind(Binding(REST, f"Rest({tensor.name}, {first}, {last})"))
        sides = f", {first}, {last}" if last else f", {first}" if first else ""
        for name, attribute in self.axes.items():
            words = f"{string(attribute.name)}, {attribute.name}, {string(tensor.name)}, {tensor.name}{sides}"
            self.bind(Binding(name, f"{self.checks}.Axis({words})", checks=True))

    def any_rank(self, tensor: GivenTensor) -> None:
        """Another one with a `...`: one extent of it may be resized, or what it stands for be unknown."""
        dims = self.dims(tensor)
        names = {name for extent in tensor.resize.values() for name in names_of(extent)}
        if self.owner is None or not {dim.name for dim in dims} | names <= {None, *self.bound, *self.given.attributes}:
            self.check("AnyRank", tensor, str(len(dims) - 1))
            return
        variable = self.spec.fresh(f"{tensor.name}_shape")
        for line in self.shape(variable, f"ShapeVector {variable}", dims, tensor.resize):
            self.add(line)
        self.check("Dims", tensor, variable)

    def shape(self, variable: str, declared: str, dims: tuple[Dim, ...], resize: Mapping[str, Expression]) -> list[str]:
        """Lines that set a variable to a shape made of dims, with the extents of chosen axes replaced."""
        first = rest_of(dims)
        extents = [cpp_extent(dim.expression) for dim in dims]
        self.use(*(name for dim in dims for name in dim.names))
        if first is None:
            return [f"{declared} = {braced(extents)};"]
        self.use(REST, *(name for extent in resize.values() for name in names_of(extent)))
        lines = [f"{declared} = Joined({braced(extents[:first])}, {self.rest}, {braced(extents[first + 1 :])});"]
        assert self.owner is not None
        before = rest_of(self.dims(self.owner)) or 0
        offset = f" - {before} + {first}" if before != first else ""
        for axis, extent in resize.items():
            place = f"AxisOf({self.spec.axes[axis].name}, {self.owner.name}){offset}"
            lines.append(f"{variable}[{place}] = {cpp(extent)};")
        return lines

    def extent(self, tensor: GivenTensor, index: int, dim: Dim) -> None:
        """One extent that is compared once all dims are bound."""
        names = [name for name in dim.names if name in self.spec.dim_docs]
        if not set(names) <= self.bound:
            return
        tests = [f"{tensor.name}.has_value()"] if tensor.optional else []
        tests += [f"{name} != {ANY}" for name in names if name in self.maybe and name not in tensor.bare(self.form)]
        access = "->" if tensor.optional else "."
        shape = f"{tensor.name}{access}shape()"
        first = rest_of(self.dims(tensor))
        right = first is not None and index > first
        place = f"{shape}.size() - {len(self.dims(tensor)) - index}" if right else str(index)
        words = f"{string(tensor.name)}, {place}, {string(dim.compact)}, {shape}[{place}]"
        line = f"{self.checks}.Extent({words}, {cpp_extent(dim.expression)});"
        if not tests:
            self.add(line, *names)
            return
        self.add(f"if ({' && '.join(tests)}) {{", *names)
        self.add(f"  {line}", *names)
        self.add("}")

    def lengths(self) -> None:
        """Document ends: in a format that has their dim they end at it, in another there are none."""
        present = self.spec.bound(self.form)
        for item in self.given.lengths:
            words = f"{string(item.name)}, {item.name}, {string(item.of)}"
            if item.of not in present and item.optional:
                self.add(f"{self.checks}.Absent({words}, {string(self.form)});")
            elif item.of in present and item.where == "host":
                known = item.of in self.bound
                zeros = ", 1" if item.leading_zero else ""
                line = f"{self.checks}.DocumentEnds({words}, {item.of if known else ANY}{zeros});"
                self.add(line, *([item.of] if known else []))
        for pair in same_documents(self.spec, self.form):
            if all(item in self.given.lengths for item in pair):
                words = ", ".join(f"{string(item.name)}, {documents(item)}" for item in pair)
                self.add(f"{self.checks}.SameDocuments({words});")


def rest_of(dims: Sequence[Dim]) -> int | None:
    """Where the `...` stands."""
    return next((index for index, dim in enumerate(dims) if dim.is_rest), None)


def names_of(node: Expression) -> list[str]:
    return [name.id for name in names_in(node)]


def braced(extents: Iterable[str]) -> str:
    return "{" + ", ".join(extents) + "}"


def documents(lengths: LengthsArgument) -> str:
    """The number of documents."""
    return f"DocumentCount({lengths.name}{', 1' if lengths.leading_zero else ''})"


def may_be_negative(node: Expression, is_dim: Callable[[str], bool]) -> bool:
    """Whether an extent may be below zero, as far as its form tells: dims are not, attributes may be."""
    match node:
        case Name(identifier):
            return not is_dim(identifier)
        case Literal(value):
            return isinstance(value, int) and value < 0
        case Binary("+" | "*" | "//", left, right):
            return may_be_negative(left, is_dim) or may_be_negative(right, is_dim)
        case Binary("%", _, right):
            return may_be_negative(right, is_dim)
        case Call("fact"):
            return False
        case Call("max", arguments):
            return all(may_be_negative(item, is_dim) for item in arguments)
        case Call("min" | "cdiv", arguments):
            return any(may_be_negative(item, is_dim) for item in arguments)
        case _:
            return True
