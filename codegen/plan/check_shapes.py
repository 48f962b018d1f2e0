# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The part of `check_arguments` that binds dim names to extents and compares every tensor with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..spec.dims import Dim
from ..spec.model import TensorArgument
from ..text.python_expression import laid_out, quoted
from ..text.python_layout import Group, Item
from .facts import group_values

if TYPE_CHECKING:
    from .check_body import CheckBody


class ShapeChecks:
    """Writes the shape checks of one format. `needed` are the names whose extents are used after they are bound."""

    def __init__(self, body: CheckBody, form: str, indent: int, required: set[str]) -> None:
        self.body = body
        self.spec = body.spec
        self.form = form
        self.indent = indent
        self.bound: set[str] = set()
        self.rest = ""  # the variable that holds the extents behind `...`
        self.late: list[tuple[TensorArgument, int, Dim]] = []
        self.needed = self.names_used_later(required)
        # A number of documents comes from the lengths first, even if a required tensor has it as well.
        self.maybe = self.spec.uncertain(form) | {name for name, item in self.spec.counts.items() if item.optional}

    def names_used_later(self, required: set[str]) -> set[str]:
        names: list[str] = []
        for tensor in self.spec.tensors:
            for dim in tensor.dims.per_format[self.form]:
                names += [dim.name] if dim.name else [*dim.names] * 2
        often = {name for name in names if names.count(name) > 1}
        return often | required | {item.of for item in self.spec.lengths}

    def write(self) -> None:
        for name, lengths in self.spec.counts.items():
            if lengths.of in self.spec.bound(self.form) and (name in self.needed or self.is_a_dim(name)):
                zero = ["leading_zero=True"] if lengths.leading_zero else []
                named = quoted(lengths.name), self.body.ends(lengths)
                self.body.add(self.indent, "documents", *named, *zero, assign=name)
                self.bound.add(name)
        for tensor in sorted(self.spec.tensors, key=lambda tensor: tensor.optional):
            if any(dim.is_rest for dim in tensor.dims.per_format[self.form]) and not self.rest:
                self.first_of_any_rank(tensor)
            else:
                self.tensor(tensor)
        for tensor, index, dim in self.late:
            given = f"{tensor.name}.shape[{index}]"
            unknown = [name for name in dim.names if name in self.maybe]
            inner = self.body.guard(tensor, self.indent, unknown)
            names = quoted(tensor.name), str(index), quoted(dim.compact)
            self.body.add(inner, "extent", *names, given, laid_out(dim.expression))

    def is_a_dim(self, name: str) -> bool:
        return any(name in tensor.dims.bare(self.form) for tensor in self.spec.tensors)

    def is_new(self, dim: Dim) -> bool:
        """Whether a dim binds its name; an attribute has its value already."""
        return dim.name in self.spec.dim_docs and dim.name not in self.bound

    def first_of_any_rank(self, tensor: TensorArgument) -> None:
        """The tensor that gives `...` its meaning, and the axes that attributes choose of it."""
        dims = tensor.dims.per_format[self.form]
        several = sum(other.dims.any_rank for other in self.spec.tensors) > 1
        self.rest = self.spec.fresh("leading")
        targets, known = [], []
        for index, dim in enumerate(dims):
            new = self.is_new(dim)
            if dim.is_rest:
                targets.append(f"*{self.rest}" if several else "*_")
            else:
                targets.append(str(dim.name) if new and dim.name in self.needed else "_")
                if not new:
                    known.append((tensor, index - len(dims) if index > dims.index(rest_of(dims)) else index, dim))
            if new and dim.name:
                self.bound.add(dim.name)
        text = quoted(" ".join(dim.compact for dim in dims))
        self.body.unpack(self.indent, targets, "any_rank", quoted(tensor.name), tensor.name, text)
        self.late += known
        first = dims.index(rest_of(dims))
        named = [f"{side}={count}" for side, count in (("before", first), ("after", len(dims) - first - 1)) if count]
        for axis, attribute in self.spec.axes.items():
            use = axis if axis in self.needed else ""
            words = quoted(attribute.name), attribute.name, quoted(tensor.name), tensor.name
            self.body.add(self.indent, "axis", *words, *named, assign=use)

    def tensor(self, tensor: TensorArgument) -> None:
        dims = tensor.dims.per_format[self.form]
        before = set(self.bound)
        expected: list[Item] = []
        targets: list[str] = []
        for index, dim in enumerate(dims):
            if dim.is_rest:
                expected.append(f"*{self.rest}")
                targets.append("*_")
                continue
            new = self.is_new(dim)
            known = not new and all(name in before or name not in self.spec.dim_docs for name in dim.names)
            known = known and (dim.name is not None or not set(dim.names) & self.maybe)
            if not new and not known:
                self.late.append((tensor, index, dim))
            expected.append(laid_out(dim.expression) if known else "None")
            binds = dim.name in self.needed and (new or (dim.name in self.maybe and dim.name in before))
            targets.append(str(dim.name) if binds else "_")
            if new and dim.name:
                self.bound.add(dim.name)
        text = quoted(" ".join(dim.compact for dim in dims))
        shape = Group("(", tuple(expected), ")", is_tuple=True)
        inner = self.body.guard(tensor, self.indent)
        own = ["own=True"] if tensor.name in group_values(self.spec, self.form) else []
        self.body.unpack(inner, targets, "dims", quoted(tensor.name), tensor.name, text, shape, *own)


def rest_of(dims: tuple[Dim, ...]) -> Dim:
    return next(dim for dim in dims if dim.is_rest)
