# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""One case: a call of an operator, and how each of its tensors lies on a mesh."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from math import prod
from typing import Any

Axes = tuple[str, ...]


@dataclass(frozen=True)
class Placed:
    """How a tensor lies on a mesh.

    Attributes:
        dims: For each dim the mesh axes that shard it, outermost first.
        partial: The mesh axes over which a reduction is pending, with the reduction: sum, max or min.
    """

    dims: tuple[Axes, ...]
    partial: tuple[tuple[str, str], ...] = ()

    @property
    def is_whole(self) -> bool:
        return not self.partial and not any(self.dims)

    def shown(self, names: tuple[str, ...]) -> str:
        """In words, with the names of the dims: `S1=dp,cp`, `Partial(sum)=tp`."""
        parts = [f"{name}={','.join(axes)}" for name, axes in zip(names, self.dims, strict=True) if axes]
        parts += [f"Partial({op})={axis}" for axis, op in self.partial]
        return " ".join(parts) or "replicated"


@dataclass(frozen=True)
class Order:
    """How a sequence was dealt: see `hyper_parallel.context_parallel.SequenceOrder`."""

    name: str = "contiguous"
    keys: str = "natural"
    per_document: bool = False

    @property
    def chunks(self) -> int:
        """How many chunks each rank holds."""
        return 1 if self.name == "contiguous" else 2

    def shown(self) -> str:
        words = [self.name, "dealt keys" if self.keys == "dealt" else "", "per document" if self.per_document else ""]
        return ", ".join(word for word in words if word)


NATURAL = Order()


@dataclass(frozen=True)
class Problem:
    """The unsharded call.

    Attributes:
        form: The format.
        extents: Dim -> its extent; of a packed dim the sum over all groups.
        attributes: Attribute -> value, for all that are given.
        given: The optional tensors that are given.
        documents: Packed dim -> for each group the lengths of its documents.
        seed: Of the values.
    """

    form: str
    extents: Mapping[str, int]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    given: tuple[str, ...] = ()
    documents: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    seed: int = 0

    @cached_property
    def key(self) -> str:
        """The same for problems that are the same."""
        return json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True)
class Case:
    """A problem on a mesh.

    Attributes:
        mesh: Mesh axis -> its size, outermost first.
        placed: Tensor argument -> how it lies.
        order: How sequences were dealt.
    """

    problem: Problem
    mesh: Mapping[str, int]
    placed: Mapping[str, Placed]
    order: Order = NATURAL

    @property
    def ranks(self) -> int:
        return prod(self.mesh.values())

    @property
    def size(self) -> tuple[int, ...]:
        """Smaller cases are better examples."""
        sharded = sum(len(axes) for placed in self.placed.values() for axes in (*placed.dims, *placed.partial))
        documents = sum(len(group) for groups in self.problem.documents.values() for group in groups)
        return (
            self.ranks,
            self.order != NATURAL,
            len(self.problem.given),
            documents,
            sum(self.problem.extents.values()),
            sharded,
        )

    def with_placed(self, name: str, placed: Placed) -> Case:
        return replace(self, placed={**self.placed, name: placed})

    def coordinate(self, rank: int) -> dict[str, int]:
        """Where a rank stands on each axis."""
        found = {}
        for axis, size in reversed(list(self.mesh.items())):
            rank, found[axis] = divmod(rank, size)
        return found

    def part(self, axes: Axes, rank: int) -> tuple[int, int]:
        """A rank's place among the parts on these axes, outermost first, and the number of the parts."""
        at, index, count = self.coordinate(rank), 0, 1
        for axis in axes:
            index, count = index * self.mesh[axis] + at[axis], count * self.mesh[axis]
        return index, count

    def to_text(self) -> str:
        """One line, from which `from_text` makes the case again."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Case:
        """Read a case.

        Raises:
            ValueError: The text is none.
        """
        try:
            body = json.loads(text)
            problem = body.pop("problem")
            documents = {dim: tuple(map(tuple, groups)) for dim, groups in problem.pop("documents").items()}
            placed = {
                name: Placed(tuple(map(tuple, one["dims"])), tuple(map(tuple, one["partial"])))
                for name, one in body.pop("placed").items()
            }
            given = tuple(problem.pop("given"))
            values = problem.pop("attributes").items()
            attributes = {name: tuple(value) if isinstance(value, list) else value for name, value in values}
            return cls(
                Problem(**problem, attributes=attributes, given=given, documents=documents),
                body["mesh"],
                placed,
                Order(**body["order"]),
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            known = ", ".join(item.name for item in fields(cls))
            raise ValueError(f"a case should be JSON with {known}, as a report prints it, but got {error}") from None
