# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The body of `check_arguments`: one emitted function that every call of the operator passes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..spec.dims import Dim
from ..spec.expression import Expression, Logical, names_in
from ..spec.model import FLOATING, Requirement, Spec, TensorArgument
from ..text.fold import FALSE, TRUE, fold
from ..text.python_expression import AND, OR, literal, negated, printed, python, quoted
from ..text.python_layout import Group, call, condition, lay_out

CHECKS = "_CHECKS"
GROUPS = "data_parallel_groups"


class CheckBody:
    """Writes the statements for one operator."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.lines: list[str] = []
        self.integers = {*spec.dim_docs, *(item.name for item in spec.attributes if item.type == "int")}
        self.shared = [item for item in spec.requirements if self.is_shared(item)]

    def text(self) -> str:
        self.attributes()
        self.dtypes()
        self.formats()
        for requirement in self.shared:
            self.requirement(requirement, None, 4)
        return "\n".join(self.lines)

    def add(self, indent: int, method: str, *arguments: str | Group, assign: str = "") -> None:
        """A statement that calls a check, with what it returns assigned if there is a use for it."""
        lead = f"{assign} = " if assign else ""
        self.lines.append(lay_out(call(f"{lead}{CHECKS}.{method}", *arguments), indent))

    def attributes(self) -> None:
        for item in self.spec.attributes:
            choices = item.choices
            if item.name == self.spec.format.selector and self.spec.format.kind == "attribute":
                choices = self.spec.format.names
            self.add(4, "attribute", quoted(item.name), item.name, item.type)
            if choices:
                self.add(4, "choice", quoted(item.name), item.name, *(literal(choice) for choice in choices))

    def dtypes(self) -> None:
        """Dtypes of the tensors; a name among them stands for that tensor's dtype."""
        referred = {dtype for tensor in self.spec.tensors for dtype in tensor.dtypes if dtype in self.spec.by_name}
        for tensor in self.spec.tensors:
            allowed: list[str | Group] = [
                self.dtype_variable(dtype) if dtype in self.spec.by_name else quoted(dtype) for dtype in tensor.dtypes
            ]
            if all(dtype in FLOATING for dtype in tensor.dtypes):
                allowed.append("host=True")
            assign = self.dtype_variable(tensor.name) if tensor.name in referred else ""
            indent = self.guard(tensor, 4)
            self.add(indent, "dtype", quoted(tensor.name), tensor.name, *allowed, assign=assign)

    def dtype_variable(self, tensor: str) -> str:
        """A variable for a tensor's dtype that is no argument or dim of the operator."""
        return self.spec.fresh(f"{tensor}_dtype")

    def guard(self, argument: TensorArgument, indent: int) -> int:
        """Open an `if` for a tensor that may be absent; the indent of what follows."""
        if not argument.optional:
            return indent
        self.lines.append(f"{' ' * indent}if {argument.name} is not None:")
        return indent + 4

    def formats(self) -> None:
        form = self.spec.format
        if len(form.names) == 1:
            self.branch(form.names[0], 4)
            return
        subject = form.selector
        tests = [f"{subject} == {quoted(name)}" for name in form.names]
        if form.kind == "rank":
            ranks = [len(self.tensor(form.selector).dims.per_format[name]) for name in form.names]
            variable = self.spec.fresh(f"{subject}_rank")
            self.add(4, "rank", quoted(subject), subject, *(str(rank) for rank in ranks), assign=variable)
            tests = [f"{variable} == {rank}" for rank in ranks]
        for index, (name, test) in enumerate(zip(form.names, tests, strict=True)):
            last = index == len(tests) - 1
            self.lines.append(f"    else:  # {name}" if last else f"    {'elif' if index else 'if'} {test}:")
            self.branch(name, 8)

    def tensor(self, name: str) -> TensorArgument:
        return next(tensor for tensor in self.spec.tensors if tensor.name == name)

    def branch(self, form: str, indent: int) -> None:
        """What is checked of one format: shapes, document ends, requirements."""
        own = [item for item in self.spec.requirements if item not in self.shared and self.applies(item, form)]
        needed = self.needed(form, (*own, *self.shared))
        bound: set[str] = set()
        late: list[tuple[TensorArgument, int, Dim]] = []
        for tensor in self.spec.tensors:
            self.shape(tensor, form, indent, bound, needed, late)
        for tensor, index, dim in late:
            given = f"{tensor.name}.shape[{index}]"
            inner = self.guard(tensor, indent)
            wanted = python(dim.expression)
            self.add(inner, "extent", quoted(tensor.name), str(index), quoted(compact(dim)), given, wanted)
        for dim_name in packed_dims(self.spec, form):
            if dim_name in needed:
                self.add(indent, "per_group", quoted(dim_name), dim_name, GROUPS, assign=dim_name)
        self.document_ends(form, indent)
        for requirement in own:
            self.requirement(requirement, form, indent)

    def shape(
        self,
        tensor: TensorArgument,
        form: str,
        indent: int,
        bound: set[str],
        needed: set[str],
        late: list[tuple[TensorArgument, int, Dim]],
    ) -> None:
        dims = tensor.dims.per_format[form]
        expected, targets = [], []
        before = set(bound)
        for index, dim in enumerate(dims):
            new = dim.name is not None and dim.name not in bound
            known = not new and all(name in before or name not in self.spec.dim_docs for name in dim.names)
            if not new and not known:
                late.append((tensor, index, dim))
            expected.append(python(dim.expression) if known else "None")
            targets.append(dim.name if new and dim.name in needed else "_")
            if new and dim.name:
                bound.add(dim.name)
        assign = ", ".join(str(target) for target in targets) if set(targets) != {"_"} else ""
        if len(targets) == 1 and assign:
            assign = f"({assign},)"
        text = quoted(" ".join(compact(dim) for dim in dims))
        shape = Group("(", tuple(expected), ")", is_tuple=True)
        inner = self.guard(tensor, indent)
        self.add(inner, "dims", quoted(tensor.name), tensor.name, text, shape, assign=assign)

    def needed(self, form: str, requirements: Iterable[Requirement]) -> set[str]:
        """The dims whose extents are used after they have been bound."""
        names: list[str] = []
        for tensor in self.spec.tensors:
            for dim in tensor.dims.per_format[form]:
                names += [dim.name] if dim.name else [*dim.names] * 2
        often = {name for name in names if names.count(name) > 1}
        required = {name.id for item in requirements for part in parts(item) for name in names_in(part)}
        return often | required | {item.of for item in self.spec.lengths}

    def document_ends(self, form: str, indent: int) -> None:
        present = present_dims(self.spec, form)
        for item in self.spec.lengths:
            if item.of in present:
                self.add(indent, "document_ends", quoted(item.name), item.name, quoted(item.of), item.of)
            else:
                self.add(indent, "absent", quoted(item.name), item.name, quoted(item.of), quoted(form))
        context = self.spec.context_parallel
        pair = [name for dim, name in context.lengths.items() if dim in present] if context else []
        if len(pair) == 2:
            self.add(indent, "same_documents", *(part for name in pair for part in (quoted(name), name)))

    def is_shared(self, requirement: Requirement) -> bool:
        """A requirement that is the same in every format is checked once, behind the branches."""
        names = {name.id for part in parts(requirement) for name in names_in(part)}
        dims = names & set(self.spec.dim_docs)
        everywhere = all(dims <= present_dims(self.spec, form) for form in self.spec.format.names)
        return everywhere and self.spec.format.selector not in names and len(self.spec.format.names) > 1

    def applies(self, requirement: Requirement, form: str) -> bool:
        dims = {name.id for part in parts(requirement) for name in names_in(part)} & set(self.spec.dim_docs)
        return dims <= present_dims(self.spec, form)

    def requirement(self, requirement: Requirement, form: str | None, indent: int) -> None:
        """`if <the requirement fails>: raise`, with what is known of the format folded away."""
        applies, holds = requirement.applies or TRUE, requirement.condition
        if form is not None and self.spec.format.kind == "attribute":
            applies, holds = (fold(part, self.spec.format.selector, form) for part in (applies, holds))
        if applies == FALSE or holds == TRUE:
            return
        fails = negated(holds, self.integers.__contains__) if holds != FALSE else TRUE
        terms = [part for part in (applies, fails) if part != TRUE]
        failing: Expression = terms[0] if len(terms) == 1 else Logical("and", tuple(terms)) if terms else TRUE
        operands, operator = top_level(failing)
        self.lines.append(condition("if", python(failing), operands, operator, indent))
        names = dict.fromkeys(name.id for name in names_in(requirement.condition))
        self.add(indent + 4, "require", quoted(requirement.text), *(f"{name}={name}" for name in names))


def compact(dim: Dim) -> str:
    """A dim as one word, for messages."""
    return "".join(dim.text.split())


def parts(requirement: Requirement) -> Iterator[Expression]:
    yield requirement.condition
    if requirement.applies is not None:
        yield requirement.applies


def top_level(node: Expression) -> tuple[list[str], str]:
    """The operands of the outermost `and` or `or`, each as source, for a condition that needs several lines."""
    if isinstance(node, Logical):
        level = AND if node.operator == "and" else OR
        texts = (printed(term, str) for term in node.terms)
        return [text if strength > level else f"({text})" for text, strength in texts], node.operator
    return [python(node)], ""


def present_dims(spec: Spec, form: str) -> set[str]:
    """The dims that the inputs have bare in a format."""
    return {dim.name for tensor in spec.tensors for dim in tensor.dims.per_format[form] if dim.name}


def packed_dims(spec: Spec, form: str) -> list[str]:
    """The packed dims of a format whose documents each data-parallel group counts from zero."""
    context = spec.context_parallel
    if context is None:
        return []
    present = present_dims(spec, form)
    sequence = [dim for dim in (*context.query, *context.key) if dim in present]
    return sequence if any(item.of in sequence for item in spec.lengths) else []
