# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Sequences in the dtypes in which models are trained, every operator in each of them.

Packed documents cross the ranks, are empty (of queries, of keys, of both), and have fewer or more queries than keys.
"""

from __future__ import annotations

from collections.abc import Iterator

from hyper_parallel.context_parallel import SequenceOrder

from .drawn_sequences import MESHES
from .kl_loss_calls import DENSE, SPARSE
from .sequence_calls import OPS, SequenceCase

DTYPES = (
    # of the tensors, of the head weights
    ("float32", ""),
    ("bfloat16", ""),
    ("bfloat16", "float32"),
    ("float16", ""),
)
CONTIGUOUS, ZIGZAG = SequenceOrder("contiguous"), SequenceOrder("zigzag")
EACH_DOCUMENT = SequenceOrder("zigzag", "dealt", per_document=True)
RAGGED = (5, 0, 0, 11), (7, 0, 2, 11)
MORE_QUERIES = (7, 9), (14, 6)
DIVISIBLE = (8, 0, 16), (8, 8, 16)
ALSO_DIVISIBLE = (16, 8), (24, 8)
PACKED = (
    # order, query and key lengths of the first group, of the second if there is one
    (CONTIGUOUS, RAGGED, MORE_QUERIES),
    (ZIGZAG, RAGGED, MORE_QUERIES),
    (ZIGZAG, MORE_QUERIES, RAGGED),
    (EACH_DOCUMENT, DIVISIBLE, ALSO_DIVISIBLE),
)
FIXED = (
    # order, query rows, keys
    (CONTIGUOUS, 16, 19),
    (ZIGZAG, 16, 19),
    (EACH_DOCUMENT, 16, 24),
)
CHOSEN = (0, 1, 3, 5)
"""The sequences of `few`, as numbers in `PACKED` and `FIXED` together: as many as there are dtypes."""


def sequences(mesh: str) -> Iterator[SequenceCase]:
    """Every operator on one of the meshes, packed and of fixed length, in every order and dtype of the tables."""
    shape, over, groups_on = MESHES[mesh]
    groups = shape[("dp", "tp").index(groups_on)] if groups_on else 1
    for dtype, weights_dtype in DTYPES:
        for op in OPS:
            common = {"groups_on": groups_on, "dtype": dtype, "weights_dtype": weights_dtype}
            for order, *documents in PACKED:
                queries, keys = zip(*documents[:groups], strict=True)
                yield SequenceCase(op, shape, over, order, queries, keys, **common)
            for order, rows, keys in FIXED:
                rope = op in (DENSE, SPARSE) and order == ZIGZAG
                lengths = ((rows,),) * groups, ((keys,),) * groups
                yield SequenceCase(op, shape, over, order, *lengths, batch=2, rope=rope, **common)


def few(mesh: str) -> Iterator[SequenceCase]:
    """Of every operator one sequence in each dtype, not the same one for all of them."""
    of_call = len(PACKED) + len(FIXED)
    for number, case in enumerate(sequences(mesh)):
        which, sequence = divmod(number, of_call)
        dtype, op = divmod(which, len(OPS))
        if sequence in CHOSEN and CHOSEN.index(sequence) == (dtype + op) % len(CHOSEN):
            yield case


ON_MESHES = ("cp 2", "cp 4", "dp x cp")
SEQUENCES = {mesh: tuple(sequences(mesh)) for mesh in ON_MESHES}
"""Mesh -> all cases."""
FEW_SEQUENCES = {mesh: tuple(few(mesh)) for mesh in ON_MESHES}
"""Mesh -> those that every run has."""
