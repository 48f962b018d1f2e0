# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What a DTensor holds along one mesh axis."""

from __future__ import annotations

from dataclasses import dataclass

REDUCE_OPS = ("sum", "avg", "max", "min")


class Placement:
    """How a tensor lies along one mesh axis: ``Shard``, ``StridedShard``, ``Replicate`` or ``Partial``."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Return whether the axis splits a dimension (dimension ``dim``, if given)."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Return whether every rank along the axis holds the same values."""
        return isinstance(self, Replicate)

    def is_partial(self) -> bool:
        """Return whether the values are still to be reduced over the axis."""
        return isinstance(self, Partial)


@dataclass(frozen=True)
class Shard(Placement):
    """Dimension ``dim`` is cut into equal consecutive chunks, one per coordinate of the axis.

    If several axes shard one dimension, the leftmost axis of the mesh makes the outermost cut. A negative ``dim``
    counts from the last dimension.
    """

    dim: int

    def __post_init__(self) -> None:
        _check_integer(type(self).__name__, "dim", self.dim)


@dataclass(frozen=True)
class StridedShard(Shard):
    """Like ``Shard``, but the cut lies inside the cuts that axes further right make.

    ``split_factor`` is into how many chunks those axes have cut the dimension before. On a mesh (dp=2, tp=4),
    ``(StridedShard(0, 4), Shard(0))`` cuts first by tp, then every chunk by dp.
    """

    split_factor: int

    def __post_init__(self) -> None:
        Shard.__post_init__(self)
        _check_integer("StridedShard", "split_factor", self.split_factor)
        if self.split_factor < 1:
            raise ValueError(f"split_factor of StridedShard should be at least 1, but got {self.split_factor}")


@dataclass(frozen=True)
class Replicate(Placement):
    """Every rank along the axis holds the same values."""


@dataclass(frozen=True)
class Partial(Placement):
    """The value is the ``reduce_op`` (sum, avg, max or min) over what the ranks along the axis hold."""

    reduce_op: str = "sum"

    def __post_init__(self) -> None:
        check_reduce_op(self.reduce_op)


def check_reduce_op(op: object) -> None:
    """Raise if ``op`` is not the name of a reduction."""
    if not isinstance(op, str):
        raise TypeError(f"a reduce_op should be a str, but got {op!r} ({type(op).__name__})")
    if op not in REDUCE_OPS:
        raise ValueError(f"a reduce_op should be one of {', '.join(REDUCE_OPS)}, but got {op!r}")


def _check_integer(owner: str, what: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{what} of {owner} should be an int, but got {value!r} ({type(value).__name__})")
