# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Keys gathered from the ranks of a sequence, whose gradient each rank's queries give a share of.

The loss is a sum over pairs of a query and a key that it sees. Its gradient is a formula in NumPy, on whole sequences:
numbers are small and whole, so that it has to come out exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hyper_parallel import DTensor, Layout, Partial, Replicate, Shard, init_device_mesh
from hyper_parallel.context_parallel import SequenceOrder, undeal
from tests.dealing_cases import PACKED, PER_DOCUMENT, Framework
from tests.runtime.context_parallel.window_oracle import dealt

FEATURES = 4
SUM = Partial("sum")


@dataclass(frozen=True)
class Case:
    """A sequence dealt over the axes `axes` of a mesh with the axes "a" and "b", or "a" alone.

    Attributes:
        group: "a" if that axis cuts the sequence first, into groups with documents of their own.
        shares: An axis along which each rank has some of the features of queries, of all keys: a share of each score.
        gather: Put back in natural order by `undeal`; or gathered as they lie, by `redistribute`; or "whole", where
            every rank has all keys in natural order, and `redistribute` has to do with their gradient only.
    """

    order: SequenceOrder
    mesh: tuple[int, ...]
    axes: tuple[str, ...]
    documents: tuple[int, ...]
    group: str = ""
    shares: str = ""
    gather: str = "undeal"
    rank_list: tuple[int, ...] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return ("a", "b")[: len(self.mesh)]

    @property
    def groups(self) -> int:
        return self.mesh[0] if self.group else 1

    @property
    def parts(self) -> int:
        return math.prod(self.mesh[self.names.index(axis)] for axis in self.axes)

    @property
    def tokens(self) -> int:
        """Of a group."""
        return sum(self.documents)


def cases_of(ranks: int) -> list[Case]:
    documents = (2 * ranks, 0, 4 * ranks)
    half = ranks // 2
    orders = [*PACKED, *PER_DOCUMENT]
    cases = [Case(order, (ranks,), ("a",), documents) for order in orders]
    cases += [Case(order, (ranks,), ("a",), documents, gather="redistribute") for order in orders]
    cases += [Case(order, (ranks,), ("a",), documents, gather="whole") for order in orders]
    cases += [Case(order, (half, 2), ("b",), documents, group="a") for order in orders]
    cases += [Case(order, (2, half), axes, documents) for order in orders for axes in (("a", "b"), ("b", "a"))]
    cases += [Case(order, (2, half), ("a",), documents, shares="b") for order in orders]
    backwards = tuple(reversed(range(ranks)))
    return [*cases, Case(orders[-1], (ranks,), ("a",), documents, rank_list=backwards)]


def tensors(case: Case) -> tuple[Any, Any]:
    """Queries and keys of every group in natural order, `[groups, T, D]`."""
    random = np.random.default_rng(case.tokens)
    queries, keys = random.integers(-3, 4, (2, case.groups, case.tokens, FEATURES)).astype(np.float64)
    return queries, keys


def visible(case: Case) -> Any:
    """Which keys a query sees `[T, T]`: the earlier ones of its document."""
    document = np.repeat(np.arange(len(case.documents)), case.documents)
    return np.tril(document[:, None] == document)


def place(case: Case, mesh: Any) -> tuple[int, int]:
    """The number of this rank's group, and its own in the group."""
    numbers = dict(zip(case.names, mesh.get_coordinate(), strict=True))
    number = 0
    for axis in case.axes:
        number = number * case.mesh[case.names.index(axis)] + numbers[axis]
    return numbers[case.group] if case.group else 0, number


def held_keys(case: Case, number: int) -> Any:
    """The places of the keys that a rank has."""
    return np.arange(case.tokens) if case.gather == "whole" else dealt(case.order, case.parts, case.documents)[number]


def layout_of_part(case: Case, mesh: Any) -> Layout:
    if case.gather == "whole":
        return Layout.from_placements(mesh, (Replicate(),), 2)
    axes = tuple(len(case.mesh) - 1 - case.names.index(axis) for axis in (*case.group, *case.axes))
    return Layout.from_tensor_map(mesh, (axes, -1))


def run_case(case: Case, framework: Framework) -> tuple[tuple[int, int], dict[str, Any]]:
    """On a rank: its place, and the gradients of its part of the keys."""
    mesh = init_device_mesh("cpu", case.mesh, mesh_dim_names=case.names, rank_list=case.rank_list)
    group, number = place(case, mesh)
    rows = dealt(case.order, case.parts, case.documents)[number]
    queries, keys = (tensor[group] for tensor in tensors(case))
    seen = visible(case)[rows]
    if case.gather == "redistribute":  # keys lie as they were dealt
        seen = seen[:, np.concatenate(dealt(case.order, case.parts, case.documents))]
    if case.shares:
        held = np.arange(FEATURES) % mesh.mesh_shape[-1] == mesh.get_local_rank(case.shares)
        queries = queries * held
    query = framework.tensor(queries[rows], "float32")
    mask = framework.tensor(seen, "float32")
    layout = layout_of_part(case, mesh)

    def gathered(part: Any, grad_placements: Any) -> Any:
        part = DTensor.from_layout(part, layout)
        if case.gather != "undeal":
            return part.redistribute(mesh, (Replicate(),), grad_placements=grad_placements).to_local()
        options: dict[str, Any] = {"mesh_axes": case.axes, "grad_placements": grad_placements}
        if case.order.per_document:
            options["cu_seqlens"] = np.cumsum(case.documents).tolist()
        return undeal(part, mesh, 0, case.order, **options).to_local()

    def gradient(grad_placements: Any) -> Any:
        def loss(part: Any) -> Any:
            return loss_of_scores(case, (query @ gathered(part, grad_placements).T) * mask)

        return framework.gradient(loss, framework.tensor(keys[held_keys(case, number)], "float32"))

    shares = tuple(Shard(0) if name == case.group else SUM for name in case.names)
    same = tuple(Shard(0) if name == case.group else Replicate() for name in case.names)
    return (group, number), {"shares": gradient(shares), "same": gradient(same), "default": gradient(None)}


def loss_of_scores(case: Case, scores: Any) -> Any:
    """Linear where ranks have shares of scores, so that the ranks' losses add up."""
    return (scores if case.shares else scores**2).sum()


def check_case(case: Case, found: list[tuple[tuple[int, int], dict[str, Any]]]) -> None:
    """Compare the gradients of all ranks with those of whole sequences."""
    queries, keys = tensors(case)
    ones = np.ones((case.groups, case.tokens, case.tokens))
    weights = visible(case) * (ones if case.shares else 2 * queries @ np.swapaxes(keys, 1, 2))
    whole = np.swapaxes(weights, 1, 2) @ queries  # [groups, T, D]
    missed = 0
    for (group, number), gradients in found:
        expected = whole[group][held_keys(case, number)]
        np.testing.assert_array_equal(gradients["shares"], expected, err_msg=f"{case}, {group}, {number}")
        np.testing.assert_array_equal(gradients["default"], gradients["same"])
        missed += not np.array_equal(gradients["default"], expected)
    # Without the sum a rank has the share of its own rows.
    assert missed or len(found) == case.groups
