# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The sequences that the platforms whose ranks are processes run too: a few of every operator, order and mesh."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from hyper_parallel.context_parallel import SequenceOrder

from .drawn_sequences import MESHES, ORDERS, draw
from .sequence_calls import OPS, SequenceCase, check_seen
from .sharded_calls import Seen


def rows(meshes: Sequence[tuple[int, ...]]) -> Iterator[SequenceCase]:
    """On each mesh every operator in every order, packed and of fixed length in turn; documents cross the ranks."""
    rng = np.random.default_rng(20)
    for mesh, (shape, *_) in MESHES.items():
        if shape in meshes:
            for number, op in enumerate(OPS):
                for at, order in enumerate(orders_of(mesh)):
                    yield draw(rng, op, order, mesh, ("TND", "TND", "BSND")[(number + at) % 3])


def orders_of(mesh: str) -> Sequence[SequenceOrder]:
    """All on the simplest mesh, those on which most depends elsewhere."""
    return ORDERS if mesh == "cp 2" else (ORDERS[0], SequenceOrder("zigzag", "dealt", True), SequenceOrder("head_tail"))


def check_rows(meshes: Sequence[tuple[int, ...]], of_ranks: Sequence[Sequence[Seen]]) -> None:
    """Compare what each rank has seen of every row with the unsharded call."""
    for case, seen in zip(rows(meshes), zip(*of_ranks, strict=True), strict=True):
        check_seen(case, seen)
