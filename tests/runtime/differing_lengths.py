# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Document lengths that are not the same on ranks which share documents, on any platform: what each rank is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from hyper_parallel import DTensor, Replicate, Shard, init_device_mesh, library
from hyper_parallel.context_parallel import deal
from tests.runtime.differing_ranks import as_tensor

LSE, TOP_K = "npu_dense_lightning_indexer_softmax_lse", "npu_lightning_indexer"
AXES = ("dp", "cp")
SHARED, COPIES, APART = (Shard(0), Replicate()), (Replicate(), Replicate()), (Shard(0), Shard(0))
"""Placements of queries and keys on one mesh axis: a shared sequence, copies, documents of each rank's own."""
QUERIES, KEYS = 8, 11  # of each group
Ends = tuple[Any, Any]


@dataclass(frozen=True)
class LengthsCase:
    """One call.

    Attributes:
        mesh: Shape of the mesh, whose axes are called dp and cp, or cp alone.
        axes: For each mesh axis what lies on it.
        ends: For each rank its ends of query and key documents.
        told: What every rank is told behind the first line's colon, "" for nothing.
        op: The operator, which also says in which form lengths are given.
        wrapped: Whether they are DTensors.
    """

    mesh: tuple[int, ...]
    axes: tuple[tuple[Any, Any], ...]
    ends: tuple[Ends, ...]
    told: str = ""
    op: str = LSE
    wrapped: bool = False


WHOLE = ([3, 8], [5, 11])
LONG = [min(end, 8) for end in range(20)], [min(end, 11) for end in range(20)]
OTHER_LONG = [*LONG[0][:6], 6, *LONG[0][7:]], [*LONG[1][:7], 8, *LONG[1][8:]]

ON_TWO = {
    "query ends": LengthsCase(
        (2,),
        (SHARED,),
        (WHOLE, ([4, 8], [5, 11])),
        "\n  rank 0: actual_seq_qlen=[3, 8]\n  rank 1: actual_seq_qlen=[4, 8]\n",
    ),
    "key ends": LengthsCase(
        (2,),
        (SHARED,),
        (WHOLE, ([3, 8], [6, 11])),
        "\n  rank 0: actual_seq_klen=[5, 11]\n  rank 1: actual_seq_klen=[6, 11]\n",
    ),
    "both": LengthsCase(
        (2,),
        (SHARED,),
        (([8], [11]), WHOLE),
        "\n  rank 0: actual_seq_qlen=[8]\n  rank 1: actual_seq_qlen=[3, 8]"
        "\n  rank 0: actual_seq_klen=[11]\n  rank 1: actual_seq_klen=[5, 11]\n",
    ),
    "copies": LengthsCase(
        (2,),
        (COPIES,),
        (WHOLE, ([4, 8], [5, 11])),
        "\n  rank 0: actual_seq_qlen=[3, 8]\n  rank 1: actual_seq_qlen=[4, 8]\n",
    ),
    "tensors": LengthsCase(
        (2,),
        (SHARED,),
        (WHOLE, ([3, 8], [6, 11])),
        "\n  rank 0: cu_seq_lens_k=[0, 5, 11]\n  rank 1: cu_seq_lens_k=[0, 6, 11]\n",
        TOP_K,
    ),
    "DTensors": LengthsCase(
        (2,),
        (SHARED,),
        (WHOLE, ([8], [11])),
        "\n  rank 0: cu_seq_lens_q=[0, 3, 8]\n  rank 1: cu_seq_lens_q=[0, 8]"
        "\n  rank 0: cu_seq_lens_k=[0, 5, 11]\n  rank 1: cu_seq_lens_k=[0, 11]\n",
        TOP_K,
        wrapped=True,
    ),
    "something that is no length": LengthsCase(
        (2,),
        (SHARED,),
        (WHOLE, ([3.5, 8], [5, 11])),
        "\n  rank 0: actual_seq_qlen=[3, 8]\n  rank 1: actual_seq_qlen=[3.5, 8]\n",
    ),
    "cut on each rank": LengthsCase(
        (2,),
        (SHARED,),
        (([3, 4], [5, 11]), ([0, 4], [5, 11])),
        "\n  rank 0: actual_seq_qlen=[3, 4]\n  rank 1: actual_seq_qlen=[0, 4]\n",
    ),
    "many": LengthsCase(
        (2,),
        (SHARED,),
        (LONG, (LONG[0], OTHER_LONG[1])),
        "\n  rank 0: actual_seq_klen=[..., 5, 6, 7, 8, 9, ...] (20 numbers, from index 7 on)"
        "\n  rank 1: actual_seq_klen=[..., 5, 6, 8, 8, 9, ...] (20 numbers, from index 7 on)\n",
    ),
    "equal ones": LengthsCase((2,), (SHARED,), (WHOLE, WHOLE)),
    "equal tensors": LengthsCase((2,), (SHARED,), (WHOLE, WHOLE), op=TOP_K),
    "each its own": LengthsCase((2,), (APART,), (WHOLE, ([1, 8], [2, 11]))),
    "each its own, as tensors": LengthsCase((2,), (APART,), (WHOLE, ([8], [11])), op=TOP_K),
    "each its own, as DTensors": LengthsCase((2,), (APART,), (WHOLE, ([8], [11])), op=TOP_K, wrapped=True),
}
ON_FOUR = {
    "in one group": LengthsCase(
        (2, 2),
        (APART, SHARED),
        (WHOLE, WHOLE, ([1, 8], [2, 11]), ([2, 8], [2, 11])),
        "\n  rank 2: actual_seq_qlen=[1, 8]\n  rank 3: actual_seq_qlen=[2, 8]\n",
    ),
    "in both groups": LengthsCase(
        (2, 2),
        (APART, SHARED),
        (WHOLE, ([8], [11]), WHOLE, ([8], [11])),
        "\n  rank 0: actual_seq_qlen=[3, 8]\n  rank 1: actual_seq_qlen=[8]"
        "\n  rank 0: actual_seq_klen=[5, 11]\n  rank 1: actual_seq_klen=[11]"
        "\n  rank 2: actual_seq_qlen=[3, 8]\n  rank 3: actual_seq_qlen=[8]"
        "\n  rank 2: actual_seq_klen=[5, 11]\n  rank 3: actual_seq_klen=[11]\n",
    ),
    "among four": LengthsCase(
        (2, 2),
        (SHARED, SHARED),
        (WHOLE, WHOLE, ([2, 8], [5, 11]), WHOLE),
        "\n  ranks 0, 1, 3: actual_seq_qlen=[3, 8]\n  rank 2: actual_seq_qlen=[2, 8]\n",
    ),
    "in one of two copies": LengthsCase(
        (2, 2),
        (APART, COPIES),
        (WHOLE, ([7, 8], [5, 11]), WHOLE, WHOLE),
        "\n  rank 0: actual_seq_qlen=[3, 8]\n  rank 1: actual_seq_qlen=[7, 8]\n",
    ),
    "each group its own": LengthsCase(
        (2, 2), (APART, SHARED), (WHOLE, WHOLE, ([1, 2, 8], [2, 3, 11]), ([1, 2, 8], [2, 3, 11]))
    ),
}


def told(cases: Sequence[LengthsCase]) -> list[tuple[str, str]]:
    """Type and text of the error of each case on this rank, empty where there is none."""
    found = []
    for case in cases:
        try:
            _call(case)
        except (ValueError, RuntimeError) as error:
            found.append((type(error).__name__, str(error)))
        else:
            found.append(("", ""))
    return found


def _call(case: LengthsCase) -> None:
    mesh = init_device_mesh("cpu", case.mesh, mesh_dim_names=AXES[-len(case.mesh) :])
    queries, keys = zip(*case.axes, strict=True)
    groups = prod(size for size, axis in zip(case.mesh, case.axes, strict=True) if axis == APART)
    rng = np.random.default_rng(1)

    def part(tokens: int, placements: tuple[Any, ...], *dims: int) -> DTensor:
        shards = prod(size for size, placed in zip(case.mesh, placements, strict=True) if placed == Shard(0))
        return DTensor.from_local(as_tensor(rng.standard_normal((tokens * groups // shards, *dims))), mesh, placements)

    tensors = part(QUERIES, queries, 8, 128), part(KEYS, keys, 1, 128), part(QUERIES, queries, 8)
    lengths = case.ends[mesh.rank]
    call = library.operator(case.op).load_dfunction().apply
    if case.op == LSE:
        call(*tensors, actual_seq_qlen=lengths[0], actual_seq_klen=lengths[1], layout="TND")
        return
    starts = [as_tensor(np.array([0, *ends], np.int32)) for ends in lengths]
    if case.wrapped:
        starts = [DTensor.from_local(each, mesh, (Replicate(),) * mesh.ndim) for each in starts]
    call(*tensors, 2, cu_seq_lens_q=starts[0], cu_seq_lens_k=starts[1], layout="TND")


def check_told(cases: dict[str, LengthsCase], of_ranks: Sequence[Sequence[tuple[str, str]]]) -> None:
    """Every rank the same: ValueError with what each of those that should agree has brought, or nothing."""
    for (name, case), *errors in zip(cases.items(), *of_ranks, strict=True):
        assert len(set(errors)) == 1, name
        kind, text = errors[0]
        assert kind == ("ValueError" if case.told else ""), f"{name}: {text}"
        head, _, listed = text.partition(", but got:")
        assert listed == (f"{case.told}{ADVICE}" if case.told else ""), name
        if case.told:
            argument = case.told.partition("=")[0].split()[-1]
            assert head.startswith(f"For {case.op}, {argument}"), name
            own = [axis for axis, what in zip(AXES[-len(case.mesh) :], case.axes, strict=True) if what == APART]
            sharing = f"those with the same coordinate on ({', '.join(own)})" if own else "all of them"
            assert head.endswith(f" that share documents, {sharing}"), name


ADVICE = "Pass the ends of the group's whole documents, the same on each of these ranks."


def told_of_dealing() -> list[tuple[str, str]]:
    """The same of `deal` with documents: on two of four ranks they differ, then in each group they are the same."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=AXES)
    tokens = DTensor.from_local(as_tensor(np.arange(16.0)), mesh, (Shard(0), Replicate()))
    found = []
    for of_ranks in ([[8, 16], [8, 16], [4, 16], [12, 16]], [[8, 16], [8, 16], [4, 16], [4, 16]]):
        try:
            deal(tokens, mesh, 0, "zigzag", per_document=True, cu_seqlens=of_ranks[mesh.rank])
        except ValueError as error:
            found.append((type(error).__name__, str(error)))
        else:
            found.append(("", ""))
    return found


def check_told_of_dealing(of_ranks: Sequence[Sequence[tuple[str, str]]]) -> None:
    expected = (
        "ValueError",
        "For deal, cu_seqlens should be the same on the ranks of DeviceMesh(cpu, dp=2, cp=2) that share documents, those "
        "with the same coordinate on (dp), but got:\n  rank 2: cu_seqlens=[4, 16]\n  rank 3: cu_seqlens=[12, 16]\n"
        f"{ADVICE}",
    )
    assert list(of_ranks) == [[expected, ("", "")]] * 4
