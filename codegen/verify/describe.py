# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Cases in words, as reports show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..spec.model import Spec
from .cases import NATURAL, Axes, Case, Placed
from .extensions import Extension
from .judge import Difference
from .problem import ends_of
from .report import ExtensionRow, WrongClaim
from .sequence import axes_of
from .tensor_dims import dim_names


def placement_words(spec: Spec, case: Case) -> str:
    """The axes of every dim, then the tensors that lie otherwise."""
    form = case.problem.form
    dims = dict.fromkeys(dim for name in case.placed for dim in dim_names(spec, name, form))
    axes = {dim: axes_of(spec, case, dim) for dim in dims}
    on_dims = " ".join(f"{dim}={','.join(on)}" for dim, on in axes.items() if on)
    words = [on_dims] if on_dims else []
    for name, placed in case.placed.items():
        names = dim_names(spec, name, form)
        expected = Placed(tuple(axes[dim] if names.index(dim) == at else () for at, dim in enumerate(names)))
        if placed != expected:
            words.append(f"{name}: {placed.shown(names)}")
    return "; ".join(words) or "replicated"


def base_words(base: Mapping[str, Axes]) -> str:
    """Every dim with its axes."""
    return " ".join(f"{dim}={','.join(axes)}" for dim, axes in base.items()) or "replicated"


def partial_words(case: Case) -> str:
    """The tensors that are Partial."""
    return "Partial(sum): " + ", ".join(name for name, placed in case.placed.items() if placed.partial)


def wrong_claim(spec: Spec, case: Case, difference: Difference) -> WrongClaim:
    problem = case.problem
    defaults = {item.name: item.default for item in spec.attributes}
    lengths = {
        item.name: [ends_of(item, group) for group in problem.documents[item.of]]
        for item in spec.lengths
        if item.of in problem.documents
    }
    return WrongClaim(
        form=problem.form,
        mesh=dict(case.mesh),
        placements={name: placed.shown(dim_names(spec, name, problem.form)) for name, placed in case.placed.items()},
        lengths=lengths,
        attributes={name: value for name, value in problem.attributes.items() if value != defaults[name]},
        order="" if case.order == NATURAL else case.order.shown(),
        rank=difference.rank,
        what=difference.what,
        name=difference.name,
        index=difference.index,
        expected=difference.expected,
        got=difference.got,
        text=difference.text,
        claimed=claimed_words(spec, case, difference),
        case=case.to_text(),
    )


def claimed_words(spec: Spec, case: Case, difference: Difference) -> str:
    """How the rule says that the output or the gradient lies."""
    if difference.claimed is None:
        return ""
    return difference.claimed.shown(dim_names(spec, difference.name, case.problem.form))


def extension_row(spec: Spec, found: Extension) -> ExtensionRow:
    case = found.case
    form = case.problem.form
    dims = [
        dim
        for dim in dict.fromkeys(dim for name in case.placed for dim in dim_names(spec, name, form))
        if axes_of(spec, case, dim)
    ]
    pending = [name for name, placed in case.placed.items() if placed.partial]
    is_contracted = all(placed.partial for placed in found.outputs.values())
    if pending:
        add = f"linear: [[{', '.join(pending)}]]"
    elif is_contracted:
        op = next(op for placed in found.outputs.values() for _, op in placed.partial)
        add = f"reduce: {{{', '.join(f'{dim}: {op}' for dim in dims)}}}"
    else:
        add = f"shard: [{', '.join(dims)}]"

    def words(placed: Any) -> dict[str, str]:
        return {name: one.shown(dim_names(spec, name, form)) for name, one in placed.items()}

    inputs = {name: one for name, one in case.placed.items() if not one.is_whole}
    return ExtensionRow(form, add, words(inputs), words(found.outputs), words(found.gradients))
