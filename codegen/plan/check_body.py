# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The body of `check_arguments`: one emitted function that every call of the operator passes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from ..spec.expression import Comparison, Expression, IsNone, Literal, Logical, Name, Not, names_in
from ..spec.model import Attribute, LengthsArgument, Requirement, Spec, TensorArgument
from ..text.fold import FALSE, TRUE, fold
from ..text.python_expression import laid_out, literal, quoted
from ..text.python_layout import Chain, Item, assigned, call, lay_out, statement
from ..text.tidy import tidy
from .check_shapes import ShapeChecks
from .facts import packed_dims, same_documents, takes_host_dtypes

CHECKS = "_CHECKS"
GROUPS = "data_parallel_groups"
RANKS = "context_parallel_ranks"
KINDS = {"int": "int", "float": "float", "bool": "bool", "str": "str", "dtype": "str", "ints": "tuple"}


class CheckBody:
    """Writes the statements for one operator."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.lines: list[str] = []
        self.integers = {*spec.dim_docs, RANKS, *(item.name for item in spec.attributes if item.type == "int")}
        self.requirements = (*spec.requirements, *context_requirements(spec))
        self.own: dict[str, list[Requirement]] = {}
        self.shared = [item for item in self.requirements if self.is_shared(item)]

    def text(self) -> str:
        for item in self.spec.attributes:
            self.attribute(item)
        self.dtypes()
        for lengths in self.spec.lengths:
            if not lengths.optional:
                self.add(4, "given", quoted(lengths.name), lengths.name)
            if lengths.where == "device":
                ends = self.ends(lengths)
                self.add(4, "host_lengths", quoted(lengths.name), lengths.name, assign=ends)
        self.formats()
        for requirement in self.shared:
            self.requirement(requirement, None, 4)
        return "\n".join(self.lines)

    def add(self, indent: int, method: str, *arguments: Item, assign: str = "") -> None:
        """A statement that calls a check, with what it returns assigned if there is a use for it."""
        value = call(f"{CHECKS}.{method}", *arguments)
        text = assigned((assign,), value, indent, is_tuple=False) if assign else lay_out(value, indent)
        self.lines.append(text)

    def unpack(self, indent: int, targets: Sequence[str], method: str, *arguments: Item) -> None:
        """A statement that calls a check which returns extents, of which those with a name are used."""
        value = call(f"{CHECKS}.{method}", *arguments)
        self.lines.append(assigned(targets, value, indent) if set(targets) - {"_", "*_"} else lay_out(value, indent))

    def attribute(self, item: Attribute) -> None:
        choices = item.choices
        if item.name == self.spec.format.selector and self.spec.format.kind == "attribute":
            choices = self.spec.format.names
        indent = self.guard(item, 4)
        self.add(indent, "attribute", quoted(item.name), item.name, KINDS[item.type])
        if choices:
            self.add(indent, "choice", quoted(item.name), item.name, *(literal(choice) for choice in choices))

    def dtypes(self) -> None:
        """Dtypes of the tensors; a name among them stands for that tensor's dtype."""
        shared = {
            tensor.name: [self.spec.dtype_owner(dtype) for dtype in tensor.dtypes] for tensor in self.spec.tensors
        }
        referred = {dtype for dtypes in shared.values() for dtype in dtypes if dtype in self.spec.by_name}
        for tensor in self.spec.tensors:
            allowed: list[Item] = [
                self.dtype_variable(dtype) if dtype in self.spec.by_name else quoted(dtype)
                for dtype in shared[tensor.name]
            ]
            if takes_host_dtypes(tensor):
                allowed.append("host=True")
            assign = self.dtype_variable(tensor.name) if tensor.name in referred else ""
            indent = self.guard(tensor, 4)
            self.add(indent, "dtype", quoted(tensor.name), tensor.name, *allowed, assign=assign)

    def dtype_variable(self, tensor: str) -> str:
        return self.spec.fresh(f"{tensor}_dtype")

    def ends(self, lengths: LengthsArgument) -> str:
        """The variable that holds document ends on the host: the argument itself, or a copy of a device tensor."""
        return lengths.name if lengths.where == "host" else self.spec.fresh(f"{lengths.name}_ends")

    def guard(self, argument: TensorArgument | Attribute, indent: int, dims: Sequence[str] = ()) -> int:
        """Open an `if` for an argument that may be absent and dims that may be unknown; the indent of what follows."""
        names = ([argument.name] if argument.optional else []) + list(dims)
        if not names:
            return indent
        known = [Chain((name, "None"), ("is not",)) for name in names]
        condition = Chain(tuple(known), ("and",) * (len(known) - 1)) if len(known) > 1 else known[0]
        self.lines.append(statement("if ", condition, ":", indent))
        return indent + 4

    def formats(self) -> None:
        form = self.spec.format
        maybe = set().union(*(self.spec.uncertain(name) for name in form.names)) - set(self.spec.counts)
        needed = {name for item in form.names for name in self.needed(item)}
        unknown = [name for name in self.spec.dim_docs if name in maybe & needed]
        if unknown:
            self.lines.append("    # Unknown without the optional tensors that have it.")
        self.lines += [f"    {name}: Any = None" for name in unknown]
        if len(form.names) == 1:
            if form.kind == "rank":
                rank = len(self.tensor(form.selector).dims.per_format[form.names[0]])
                self.add(4, "rank", quoted(form.selector), form.selector, str(rank))
            self.branch(form.names[0], 4)
            return
        subject = form.selector
        tests = [Chain((subject, quoted(name)), ("==",)) for name in form.names]
        if form.kind == "rank":
            ranks = [len(self.tensor(form.selector).dims.per_format[name]) for name in form.names]
            variable = self.spec.fresh(f"{subject}_rank")
            self.add(4, "rank", quoted(subject), subject, *(str(rank) for rank in ranks), assign=variable)
            tests = [Chain((variable, str(rank)), ("==",)) for rank in ranks]
        for index, (name, test) in enumerate(zip(form.names, tests, strict=True)):
            last = index == len(tests) - 1
            branch = statement("elif " if index else "if ", test, ":", 4)
            self.lines.append(f"    else:  # {name}" if last else branch)
            self.branch(name, 8)

    def tensor(self, name: str) -> TensorArgument:
        return next(tensor for tensor in self.spec.tensors if tensor.name == name)

    def branch(self, form: str, indent: int) -> None:
        """What is checked of one format: shapes, document ends, requirements."""
        own = self.own_requirements(form)
        shapes = ShapeChecks(self, form, indent, self.required(form))
        shapes.write()
        for dim in packed_dims(self.spec, form):
            if dim in shapes.needed:
                self.add(indent, "per_group", quoted(dim), dim, GROUPS, assign=dim)
        self.document_ends(form, indent)
        for requirement in own:
            self.requirement(requirement, form, indent)

    def own_requirements(self, form: str) -> list[Requirement]:
        """Those that say something of a format once what is known of it is folded away."""
        if form not in self.own:
            items = [item for item in self.requirements if item not in self.shared and self.applies(item, form)]
            self.own[form] = [item for item in items if not self.is_settled(*self.folded(item, form))]
        return self.own[form]

    def required(self, form: str) -> set[str]:
        """The names that the requirements of a format use."""
        items = (*self.own_requirements(form), *self.shared)
        return set().union(*(item.names for item in items))

    def needed(self, form: str) -> set[str]:
        return ShapeChecks(self, form, 0, self.required(form)).needed

    def document_ends(self, form: str, indent: int) -> None:
        present = self.spec.bound(form)
        for item in self.spec.lengths:
            if item.of in present:
                zero = ["leading_zero=True"] if item.leading_zero else []
                zero.append(f"groups={GROUPS}")
                if self.spec.context_parallel and item.of in self.spec.context_parallel.query:
                    zero.append(f"ranks={RANKS}")
                ends = self.ends(item)
                self.add(indent, "document_ends", quoted(item.name), ends, quoted(item.of), item.of, *zero)
            elif item.optional:
                self.add(indent, "absent", quoted(item.name), item.name, quoted(item.of), quoted(form))
        for pair in same_documents(self.spec, form):
            zeros = [f"leading_zeros=({', '.join(str(item.leading_zero) for item in pair)})"]
            self.add(
                indent,
                "same_documents",
                *(part for item in pair for part in (quoted(item.name), self.ends(item))),
                *(zeros if any(item.leading_zero for item in pair) else ()),
            )

    def is_shared(self, requirement: Requirement) -> bool:
        """A requirement that is the same in every format is checked once, behind the branches."""
        names = requirement.names
        dims = names & set(self.spec.dim_docs)
        everywhere = all(dims <= self.spec.bound(form) for form in self.spec.format.names)
        return everywhere and self.spec.format.selector not in names and len(self.spec.format.names) > 1

    def applies(self, requirement: Requirement, form: str) -> bool:
        return requirement.names & set(self.spec.dim_docs) <= self.spec.bound(form)

    def folded(self, requirement: Requirement, form: str | None) -> tuple[Expression, Expression]:
        """Where a requirement applies and what holds there, as far as the format does not tell."""
        applies, holds = requirement.applies or TRUE, requirement.condition
        if form is None or self.spec.format.kind == "fixed":
            return applies, holds
        known = self.spec.format_value(form)
        return fold(applies, self.spec.format.selector, known), fold(holds, self.spec.format.selector, known)

    def is_settled(self, applies: Expression, holds: Expression) -> bool:
        return applies == FALSE or holds == TRUE

    def requirement(self, requirement: Requirement, form: str | None, indent: int) -> None:
        """`if <the requirement fails>: raise`, with what is known of the format folded away."""
        applies, holds = self.folded(requirement, form)
        if self.is_settled(applies, holds):
            return
        applies = known_first(self.spec, requirement, form, applies)
        fails = Not(holds) if holds != FALSE else TRUE
        first = applies.terms if isinstance(applies, Logical) and applies.operator == "and" else (applies,)
        terms = [part for part in (*first, fails) if part != TRUE]
        failing: Expression = terms[0] if len(terms) == 1 else Logical("and", tuple(terms)) if terms else TRUE
        if failing != TRUE:
            tidied = tidy(failing, self.integers.__contains__)
            self.lines.append(statement("if ", laid_out(tidied), ":", indent))
        names = dict.fromkeys(name.id for name in names_in(requirement.condition))
        inner = indent if failing == TRUE else indent + 4
        self.add(inner, "require", quoted(requirement.text), *(f"{name}={name}" for name in names))


def context_requirements(spec: Spec) -> Iterator[Requirement]:
    """What must hold while several ranks share the sequence."""
    shared = Comparison((">",), (Name(RANKS), Literal(1)))
    for item in spec.context_parallel.requirements if spec.context_parallel else ():
        applies = shared if item.applies is None else Logical("and", (shared, item.applies))
        yield dataclasses.replace(item, applies=applies, text=f"{item.text} (under context parallelism)")


def known_first(spec: Spec, requirement: Requirement, form: str | None, applies: Expression) -> Expression:
    """A requirement on dims that only optional tensors have applies where these are given."""
    forms = spec.format.names if form is None else (form,)
    maybe = set().union(*(spec.uncertain(name) for name in forms))
    names = dict.fromkeys(name.id for part in parts(requirement) for name in names_in(part) if name.id in maybe)
    tests: list[Expression] = [IsNone(Name(name), True) for name in names]
    rest = applies.terms if isinstance(applies, Logical) and applies.operator == "and" else (applies,)
    terms = (*tests, *(term for term in rest if term != TRUE))
    return TRUE if not terms else terms[0] if len(terms) == 1 else Logical("and", terms)


def parts(requirement: Requirement) -> Iterator[Expression]:
    yield requirement.condition
    if requirement.applies is not None:
        yield requirement.applies
