# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The sequences that the platforms whose ranks are processes run too: a few of every operator, order and mesh."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from hyper_parallel.context_parallel import SequenceOrder

from .drawn_sequences import MESHES, ORDERS, draw
from .sequence_calls import OPS, SequenceCase, check_seen
from .sequence_dtypes import FEW_SEQUENCES, SEQUENCES
from .sharded_calls import Seen


def rows(meshes: Sequence[tuple[int, ...]]) -> Iterator[SequenceCase]:
    """On each mesh every operator in every order, packed and of fixed length in turn; documents cross the ranks.

    These in float64; then a few sequences in the dtypes in which models are trained.
    """
    rng = np.random.default_rng(20)
    for mesh, (shape, *_) in MESHES.items():
        if shape in meshes:
            for number, op in enumerate(OPS):
                for at, order in enumerate(orders_of(mesh)):
                    yield draw(rng, op, order, mesh, ("TND", "TND", "BSND")[(number + at) % 3])
    yield from on_meshes(FEW_SEQUENCES, meshes)


def rows_of_all_dtypes(meshes: Sequence[tuple[int, ...]]) -> Iterator[SequenceCase]:
    """The sequences of `sequence_dtypes`, all of them."""
    yield from on_meshes(SEQUENCES, meshes)


def on_meshes(
    sequences: Mapping[str, Sequence[SequenceCase]], meshes: Sequence[tuple[int, ...]]
) -> Iterator[SequenceCase]:
    for mesh, cases in sequences.items():
        if MESHES[mesh][0] in meshes:
            yield from cases


def orders_of(mesh: str) -> Sequence[SequenceOrder]:
    """All on the simplest mesh, those on which most depends elsewhere."""
    return ORDERS if mesh == "cp 2" else (ORDERS[0], SequenceOrder("zigzag", "dealt", True), SequenceOrder("head_tail"))


def check_rows(
    meshes: Sequence[tuple[int, ...]],
    of_ranks: Sequence[Sequence[Seen]],
    rows: Callable[[Sequence[tuple[int, ...]]], Iterator[SequenceCase]] = rows,
) -> None:
    """Compare what each rank has seen of every row with the unsharded call."""
    for case, seen in zip(rows(meshes), zip(*of_ranks, strict=True), strict=True):
        check_seen(case, seen)
