# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Document lengths that ranks should share, compared: what each rank has brought, and what a user is told.

Each data-parallel group passes the ends of its own documents, but all ranks of a group pass the same: those that share
a sequence, and those that hold copies of it. Each computes from its own ends what it does, so that ranks which differ
do not notice, and their results do not belong together.
"""

from __future__ import annotations

import itertools
import json
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hyper_parallel.platform import get_platform

if TYPE_CHECKING:
    from hyper_parallel.core.dtensor.device_mesh import DeviceMesh

MOST_SHOWN = 12
"""Lists that are longer are shown around the place from which on they differ."""
AROUND = 2

Integers = list[int] | str


def lengths_text(lengths: Mapping[str, Any]) -> str:
    """The values of length arguments as a text that other ranks can be sent; "" for none."""
    held = {name: _integers(value) for name, value in lengths.items() if value is not None}
    return json.dumps(held) if held else ""


def _integers(value: Any) -> Integers:
    platform = get_platform()
    local = value.to_local() if is_dtensor(value) else value
    if platform.is_tensor(local) and not platform.has_values(local):
        return f"{local.shape[0]} ends without values"
    try:
        return [int(end) for end in platform.host_integers(local)]
    except (TypeError, ValueError):  # what the operator will say of it on this rank, the others have to know
        return reprlib.repr(value)


def members(mesh: DeviceMesh, own_axes: Sequence[int]) -> list[list[int]]:
    """The groups of a mesh, as places in the order of its ranks: a group has one coordinate on each of the own axes."""
    found: dict[tuple[int, ...], list[int]] = {}
    for place, coordinate in enumerate(itertools.product(*map(range, mesh.mesh_shape))):
        found.setdefault(tuple(coordinate[axis] for axis in own_axes), []).append(place)
    return list(found.values())


@dataclass(frozen=True)
class DifferingLengths:
    """Lengths that are not the same in each group.

    Attributes:
        what: The operator, for the message.
        mesh: The ranks.
        own_axes: The mesh axes along which there are groups with documents of their own.
        texts: What each rank has brought, in the order of the mesh's ranks: `lengths_text`.
    """

    what: str
    mesh: DeviceMesh
    own_axes: tuple[int, ...]
    texts: Sequence[str]

    def message(self) -> str:
        """What every rank is told: which arguments differ, what each rank of such a group has brought, what to do."""
        brought = [json.loads(text) for text in self.texts]
        names: list[str] = []
        lines: list[str] = []
        for group in members(self.mesh, self.own_axes):
            for name, ends in brought[group[0]].items():
                lists = [brought[place][name] for place in group]
                if any(other != ends for other in lists):
                    names += [name] if name not in names else []
                    lines += self._lines(name, group, lists)
        axes = ", ".join(self.mesh.axis_names[axis] for axis in self.own_axes)
        sharing = f"those with the same coordinate on ({axes})" if axes else "all of them"
        return (
            f"For {self.what}, {' and '.join(names)} should be the same on the ranks of {self.mesh} that share "
            f"documents, {sharing}, but got:{''.join(lines)}\n"
            "Pass the ends of the group's whole documents, the same on each of these ranks."
        )

    def _lines(self, name: str, group: Sequence[int], lists: Sequence[Integers]) -> list[str]:
        by_shown: dict[str, list[int]] = {}
        for place, shown in zip(group, shown_lists(lists), strict=True):
            by_shown.setdefault(shown, []).append(self.mesh.rank_list[place])
        return [f"\n  {ranks_word(ranks)}: {name}={shown}" for shown, ranks in by_shown.items()]


def shown_lists(lists: Sequence[Integers]) -> list[str]:
    """Each list as a text, long ones around the first place where not all are equal."""
    if all(isinstance(one, str) or len(one) <= MOST_SHOWN for one in lists):
        return [str(one) for one in lists]
    whole = [one for one in lists if not isinstance(one, str)]
    columns = itertools.zip_longest(*whole)
    first = next((index for index, column in enumerate(columns) if len(set(column)) > 1), 0)
    return [one if isinstance(one, str) else _shown_around(one, first) for one in lists]


def _shown_around(ends: Sequence[int], first: int) -> str:
    start, stop = max(0, first - AROUND), first + AROUND + 1
    words = ["..."] * (start > 0) + [str(end) for end in ends[start:stop]] + ["..."] * (stop < len(ends))
    return f"[{', '.join(words)}] ({len(ends)} numbers, from index {first} on)"


def is_dtensor(value: Any) -> bool:
    return isinstance(value, get_platform().DTensorBase)  # the DTensor itself asks for comparisons


def ranks_word(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
