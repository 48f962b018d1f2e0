# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Inputs, oracle and sharded cases for npu_dense_lightning_indexer_softmax_lse, in NumPy for every platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from math import prod
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from hyper_parallel.reference.dense_lightning_indexer import softmax_lse

OP = "npu_dense_lightning_indexer_softmax_lse"
INT64_MAX = 2**63 - 1
D = 128
TENSORS = ("query_index", "key_index", "weights")
DTYPES = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16, "float32": np.float32, "float64": np.float64}
DIMS = {
    "BSND": {"query_index": "B S1 N1 D", "key_index": "B S2 N2 D", "weights": "B S1 N1"},
    "TND": {"query_index": "T1 N1 D", "key_index": "T2 N2 D", "weights": "T1 N1"},
}
OUTPUT_DIMS = {"BSND": "B N2 S1", "TND": "N2 T1"}

Axes = str | tuple[str, ...]
"""One mesh axis, or several on one dim, outermost first."""
Sharding = Mapping[str, Mapping[str, Axes]]
"""Tensor -> dim -> mesh axes; what is not mentioned is replicated."""


def draw(form: str, dtype: str = "float32", weights_dtype: str = "", seed: int = 0, **extents: int) -> dict[str, Any]:
    """Tensors by name. The scale makes scores of size one, so that sums lie well between 1 and the number of keys."""
    rng = np.random.default_rng(seed)
    known = {"N1": 8, "N2": 1, "D": D, **extents}
    tensors = {}
    for name, dims in DIMS[form].items():
        values = rng.standard_normal([known[dim] for dim in dims.split()]) * 0.2
        tensors[name] = values.astype(DTYPES[(weights_dtype or dtype) if name == "weights" else dtype])
    return tensors


def oracle(tensors: Mapping[str, Any], **keywords: Any) -> tuple[Any, Any]:
    """Maximum and sum of the whole tensors, in float64."""
    return softmax_lse(*(tensors[name].astype(np.float64) for name in TENSORS), **keywords)


def entries(dims: str, axes: Mapping[str, Axes]) -> tuple[Axes, ...]:
    """A layout's `alias_tensor_map`: the mesh axes of each dim, "None" where there are none."""
    unknown = set(axes) - set(dims.split())
    assert not unknown, f"no dims {unknown} in {dims}"
    return tuple(axes.get(dim, "None") for dim in dims.split())


class ShardedCase(NamedTuple):
    """One call on a mesh with axes dp and tp (or dp alone) that the operator takes.

    Attributes:
        mesh: Shape of the mesh.
        form: Format of the tensors.
        sharding: How each tensor lies.
        axes: Where the batch (or the packed tokens) of the outputs lie; () if nothing is sharded.
        documents: TND: for each data-parallel group its own cumulative query and key lengths, counted from zero.
    """

    mesh: tuple[int, ...]
    form: str
    sharding: Sharding
    axes: tuple[str, ...]
    documents: tuple[tuple[Sequence[int], Sequence[int]], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return ("dp", "tp")[: len(self.mesh)]

    @property
    def maps(self) -> dict[str, tuple[Axes, ...]]:
        """Tensor -> alias_tensor_map of its layout."""
        return {name: entries(dims, self.sharding.get(name, {})) for name, dims in DIMS[self.form].items()}

    @property
    def output_map(self) -> tuple[Axes, ...]:
        """The alias_tensor_map of both outputs."""
        dim = "B" if self.form == "BSND" else "T1"
        axes = self.axes[0] if len(self.axes) == 1 else self.axes
        return entries(OUTPUT_DIMS[self.form], {dim: axes} if axes else {})

    def part(self, rank: int) -> tuple[int, int]:
        """Which part of how many the rank holds of a dim that lies on the outputs' axes."""
        coordinate = dict(zip(self.names, np.unravel_index(rank, self.mesh), strict=True))
        extent = dict(zip(self.names, self.mesh, strict=True))
        index = 0
        for axis in self.axes:
            index = index * extent[axis] + int(coordinate[axis])
        return index, prod(extent[axis] for axis in self.axes)

    def tensors(self, seed: int = 0, dtype: str = "float32") -> dict[str, Any]:
        """The whole inputs."""
        if self.form == "BSND":
            return draw("BSND", dtype, seed=seed, B=8, S1=3, S2=5)
        t1, t2 = (sum(ends[which][-1] for ends in self.documents) for which in (0, 1))
        return draw("TND", dtype, seed=seed, T1=t1, T2=t2)

    def lengths(self, rank: int) -> dict[str, Any]:
        """The keywords that the rank passes."""
        if self.form == "BSND":
            return {}
        query, key = self.documents[self.part(rank)[0]]
        return {"layout": "TND", "actual_seq_qlen": list(query), "actual_seq_klen": list(key)}

    def whole_lengths(self) -> dict[str, Any]:
        """The keywords of the same call on one device: the groups' documents one after another."""
        if self.form == "BSND":
            return {}
        query, key = (joined([ends[which] for ends in self.documents]) for which in (0, 1))
        return {"layout": "TND", "actual_seq_qlen": query, "actual_seq_klen": key}

    def expected(self, whole: Any, rank: int) -> Any:
        """The rank's slice of an output of the unsharded call."""
        index, count = self.part(rank)
        dim = OUTPUT_DIMS[self.form].split().index("B" if self.form == "BSND" else "T1")
        return np.split(whole, count, axis=dim)[index]


def joined(ends_of_groups: Sequence[Sequence[int]]) -> list[int]:
    """Cumulative ends that are each counted from zero, as cumulative ends of the whole."""
    starts = np.cumsum([0, *(ends[-1] for ends in ends_of_groups)])
    return list(
        chain(*([int(start + end) for end in ends] for start, ends in zip(starts, ends_of_groups, strict=False)))
    )


def batch_on(*axes: str, of: Sequence[str] = TENSORS) -> Sharding:
    """B of these tensors on these axes."""
    return {name: {"B": axes[0] if len(axes) == 1 else axes} for name in of}


def tokens_on(*axes: str, of: Sequence[str] = TENSORS) -> Sharding:
    """T1 and T2 of these tensors on these axes."""
    return {name: {"T2" if name == "key_index" else "T1": axes[0] if len(axes) == 1 else axes} for name in of}


# Four groups of 6 query and 10 key tokens: empty documents, documents without keys, more queries than keys.
DOCUMENTS = (
    ((2, 2, 6), (3, 3, 10)),
    ((0, 1, 6), (4, 5, 10)),
    ((3, 5, 6), (3, 3, 10)),
    ((6, 6, 6), (8, 8, 10)),
)

QW, KW, Q, K, W = TENSORS[::2], TENSORS[1:], TENSORS[:1], TENSORS[1:2], TENSORS[2:]

SHARDED_CASES = {
    "B on dp": ShardedCase((2,), "BSND", batch_on("dp"), ("dp",)),
    "B on dp of 4": ShardedCase((4,), "BSND", batch_on("dp"), ("dp",)),
    "B on the first of 2 axes": ShardedCase((2, 2), "BSND", batch_on("dp"), ("dp",)),
    "B on the second of 2 axes": ShardedCase((2, 2), "BSND", batch_on("tp"), ("tp",)),
    "B on both axes": ShardedCase((2, 2), "BSND", batch_on("dp", "tp"), ("dp", "tp")),
    "B on both axes, the second outermost": ShardedCase((2, 2), "BSND", batch_on("tp", "dp"), ("tp", "dp")),
    "nothing sharded": ShardedCase((2, 2), "BSND", {}, ()),
    "key cut locally": ShardedCase((2,), "BSND", batch_on("dp", of=QW), ("dp",)),
    "query cut locally": ShardedCase((2,), "BSND", batch_on("dp", of=KW), ("dp",)),
    "query and weights cut locally": ShardedCase((4,), "BSND", batch_on("dp", of=K), ("dp",)),
    "key and weights cut locally": ShardedCase((2, 2), "BSND", batch_on("tp", of=Q), ("tp",)),
    "query and key cut locally, by both axes": ShardedCase((2, 2), "BSND", batch_on("tp", "dp", of=W), ("tp", "dp")),
    "packed, T1 and T2 on dp": ShardedCase((2,), "TND", tokens_on("dp"), ("dp",), DOCUMENTS[:2]),
    "packed, on dp of 4": ShardedCase((4,), "TND", tokens_on("dp"), ("dp",), DOCUMENTS),
    "packed, on the first of 2 axes": ShardedCase((2, 2), "TND", tokens_on("dp"), ("dp",), DOCUMENTS[2:]),
    "packed, on the second of 2 axes": ShardedCase((2, 2), "TND", tokens_on("tp"), ("tp",), DOCUMENTS[1:3]),
    "packed, on both axes": ShardedCase((2, 2), "TND", tokens_on("dp", "tp"), ("dp", "tp"), DOCUMENTS),
    "packed, the second outermost": ShardedCase((2, 2), "TND", tokens_on("tp", "dp"), ("tp", "dp"), DOCUMENTS),
    "packed, query cut locally": ShardedCase((2, 2), "TND", tokens_on("dp", of=KW), ("dp",), DOCUMENTS[:2]),
    "packed, weights cut locally": ShardedCase((4,), "TND", tokens_on("dp", of=TENSORS[:2]), ("dp",), DOCUMENTS),
    "packed, nothing sharded": ShardedCase((2, 2), "TND", {}, (), DOCUMENTS[:1]),
}
