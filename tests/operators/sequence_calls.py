# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The four operators on a sequence that several ranks share, against the reference on whole tensors in natural order.

Everything is drawn and computed in natural order; then tensors and expected values are dealt, by lists of tokens. None
of the windows stands here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from hyper_parallel.context_parallel import SequenceOrder, sequence_order
from hyper_parallel.platform.numpy.virtual_ranks import run_ranks
from hyper_parallel.reference import lightning_indexer
from hyper_parallel.reference.dense_lightning_indexer import softmax_lse
from tests.reference.kl_cases import SCALE
from tests.runtime.context_parallel.window_oracle import dealt_sequence

from . import kl_loss_calls as kl
from .lse_cases import INT64_MAX, joined
from .lse_cases import OP as LSE
from .sharded_calls import (
    NUMPY,
    Call,
    Case,
    Framework,
    Seen,
    check_gradients,
    check_outputs,
    close,
    near,
    on_rank,
    place,
)

OPS = (LSE, kl.DENSE, kl.SPARSE, kl.TOP_K)
QUERY_DIMS = {
    "BSND": {"query": 1, "query_index": 1, "weights": 1, "query_rope": 1, "sparse_indices": 1, "softmax_max": 2,
             "softmax_sum": 2, "softmax_max_index": 2, "softmax_sum_index": 2, "d_query_index": 1, "d_weights": 1,
             "sparse_values": 1},
    "TND": {"query": 0, "query_index": 0, "weights": 0, "query_rope": 0, "sparse_indices": 0, "softmax_max": 1,
            "softmax_sum": 1, "softmax_max_index": 1, "softmax_sum_index": 1, "d_query_index": 0, "d_weights": 0,
            "sparse_values": 0},
}  # fmt: skip
"""Format -> tensor -> where its query dim is."""
KEYS = ("key", "key_index", "key_rope", "d_key_index")
"""Tensors with the key dim, behind the batch or first."""


@dataclass(frozen=True)
class SequenceCase:
    """One call of an operator on a mesh.

    Attributes:
        op: The operator.
        mesh: Its shape; axes are called dp and tp, whatever lies on them.
        over: The axes over which the sequence is dealt, outermost first.
        groups_on: The axis that shards the batch or the groups' documents, or "".
        order: How the sequence was dealt.
        queries: For each group the lengths of its query documents; at fixed length one for the whole batch.
        keys: Likewise.
        batch: 0 for packed documents, else the batch of each group.
        mask: Whether the mask is causal; only one operator knows another.
        rope: Whether the losses have rotary parts and grouped heads.
        whole: Tensors with the query dim that every rank has whole, in dealt order, or with the keys of all groups.
        dtype: Of the tensors. What is expected is computed in float64 and rounded.
        weights_dtype: Of the head weights, if another one.
    """

    op: str
    mesh: tuple[int, ...]
    over: tuple[str, ...]
    order: SequenceOrder
    queries: tuple[tuple[int, ...], ...]
    keys: tuple[tuple[int, ...], ...]
    groups_on: str = ""
    batch: int = 0
    mask: bool = True
    rope: bool = False
    whole: tuple[str, ...] = ()
    dtype: str = "float64"
    weights_dtype: str = ""

    @property
    def form(self) -> str:
        return "BSND" if self.batch else "TND"

    @property
    def groups(self) -> int:
        return place((self.groups_on,), self.mesh, 0)[1] if self.groups_on else 1

    @property
    def ranks(self) -> int:
        """How many share a sequence."""
        return place(self.over, self.mesh, 0)[1]

    def group(self, rank: int) -> int:
        return place((self.groups_on,), self.mesh, rank)[0] if self.groups_on else 0

    def dealt_index(self, lengths: tuple[tuple[int, ...], ...]) -> Any:
        """Natural tokens in the order in which all ranks hold them, one group after another."""
        if self.batch:
            return np.array(dealt_sequence(self.order, self.ranks, lengths[0]))
        start, found = 0, []
        for group in lengths:
            found += [start + token for token in dealt_sequence(self.order, self.ranks, group)]
            start += sum(group)
        return np.array(found, int)

    def deal(self, name: str, tensor: Any) -> Any:
        """A whole tensor as the ranks hold it."""
        if name in KEYS:
            if self.order.keys == "natural":
                return tensor
            return tensor.take(self.dealt_index(self.keys), axis=1 if self.batch else 0)
        dim = QUERY_DIMS[self.form].get(name)
        return tensor if dim is None else tensor.take(self.dealt_index(self.queries), axis=dim)

    def ends(self, group: int) -> tuple[list[int], list[int]]:
        return np.cumsum(self.queries[group]).tolist(), np.cumsum(self.keys[group]).tolist()

    def words(self, name: str, ndim: int, pending: Sequence[str] = ()) -> str:
        """The layout of a tensor: query dim dealt, key dim or batch on the groups' axis."""
        dims = ["."] * ndim
        query = QUERY_DIMS[self.form].get(name)
        over = ",".join(self.over)
        if self.batch and self.groups_on and name != "loss":
            dims[0] = self.groups_on
        if query is not None and name not in self.whole:
            dims[query] = f"{self.groups_on},{over}" if self.groups_on and not self.batch else over
        if name in KEYS and not self.batch and self.groups_on and name not in self.whole:
            dims[0] = self.groups_on
        return " ".join([*dims, *(["+" + ",".join(sorted(pending))] if pending else [])])


def natural_call(case: SequenceCase) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Tensors, other arguments and outputs of the unsharded call in natural order; outputs in float64."""
    if case.batch:
        shapes = [(case.batch * case.groups, lengths[0][0]) for lengths in (case.queries, case.keys)]
        ends = None
    else:
        ends = tuple(joined([case.ends(group)[which] for group in range(case.groups)]) for which in (0, 1))
        shapes = [(end[-1],) for end in ends]
    dtypes = {"dtype": case.dtype, "weights_dtype": case.weights_dtype}
    if case.op in (kl.DENSE, kl.SPARSE):
        options = {"rope": True, "key_heads": 8} if case.rope else {}
        tensors, packed = kl.draw(case.op, *shapes, ends, **dtypes, **options)
        return tensors, {"scale_value": SCALE}, kl.by_name(case.op, widened(tensors), packed)
    tensors = kl.top_k_tensors(*shapes, **dtypes)
    if case.op == LSE:
        tensors = dict(zip(("query_index", "key_index", "weights"), tensors.values(), strict=True))
        packed = {"layout": "TND", "actual_seq_qlen": ends[0], "actual_seq_klen": ends[1]} if ends else {}
        found = softmax_lse(**widened(tensors), **packed)
        return tensors, {}, dict(zip(("softmax_max", "softmax_sum"), found, strict=True))
    others = {"sparse_count": kl.KEYS_SELECTED, "sparse_mode": 3 if case.mask else 0, "return_value": True}
    packed = {"layout": "TND", "cu_seq_lens_q": kl.starts(ends[0]), "cu_seq_lens_k": kl.starts(ends[1])} if ends else {}
    found = lightning_indexer.top_k(**widened(tensors), **others, **packed)
    return tensors, others, dict(zip(("sparse_indices", "sparse_values"), found, strict=True))


def widened(tensors: dict[str, Any]) -> dict[str, Any]:
    """The same values in float64; positions stay integers."""
    return {name: value if value.dtype.kind == "i" else value.astype(np.float64) for name, value in tensors.items()}


def output_dtype(case: SequenceCase, name: str, wide: Any, tensors: dict[str, Any]) -> Any:
    """The dtype of an output: a gradient's is that of its tensor, statistics are float32, or float64 as the tensors."""
    if name.startswith("d_"):
        return tensors[name.removeprefix("d_")].dtype
    return wide.dtype if wide.dtype.kind == "i" or case.dtype == "float64" else np.dtype(np.float32)


def lengths_of(case: SequenceCase, others: dict[str, Any], rank: int) -> dict[str, Any]:
    """What a rank passes besides tensors: the lengths of its group."""
    if case.batch:
        return others
    query, key = case.ends(case.group(rank))
    if case.op == kl.TOP_K:
        return {**others, "layout": "TND", "cu_seq_lens_q": kl.starts(query), "cu_seq_lens_k": kl.starts(key)}
    return {**others, "layout": "TND", "actual_seq_qlen": query, "actual_seq_klen": key}


def on_mesh(case: SequenceCase) -> tuple[Call, Case]:
    """The call on dealt tensors with its dealt outputs and gradients, and how all that must lie on the mesh."""
    tensors, others, outputs = natural_call(case)
    dealt = {name: case.deal(name, tensor) for name, tensor in tensors.items()}
    wide = {name: case.deal(name, output) for name, output in outputs.items()}
    expected = {name: value.astype(output_dtype(case, name, value, tensors)) for name, value in wide.items()}
    gradients, cotangents = {}, {}
    if "loss" in outputs:
        cotangents = {"loss": kl.COTANGENT}
        gradients = {
            name: (kl.COTANGENT[0] * wide[f"d_{name}"]).astype(tensors[name].dtype) for name in kl.DIFFERENTIABLE
        }
    axes = (*case.over, case.groups_on) if case.groups_on else case.over
    pending = {"loss": axes, "d_key_index": case.over}
    # A whole packed tensor is so for all groups.
    whole = dict.fromkeys(case.whole, case.over if case.batch else axes)
    layout = Case(
        case.mesh,
        {name: case.words(name, tensor.ndim) for name, tensor in dealt.items()},
        {name: case.words(name, output.ndim, pending.get(name, ())) for name, output in outputs.items()},
        {name: case.words(name, dealt[name].ndim, whole.get(name, pending.get(f"d_{name}", ()))) for name in gradients},
    )
    return Call(case.op, dealt, partial(lengths_of, case, others), expected, cotangents, gradients), layout


def seen_on_rank(case: SequenceCase, framework: Framework = NUMPY) -> Seen:
    """What the rank that calls sees of a case."""
    call, layout = on_mesh(case)
    with sequence_order(case.order):
        return on_rank(call, layout, 1.0, framework)


def check_seen(case: SequenceCase, seen: Sequence[Seen]) -> None:
    """Compare what every rank has seen with the unsharded call."""
    call, layout = on_mesh(case)
    comparison = close if case.dtype == "float64" else near
    try:
        check_outputs(call, layout, seen, close=comparison)
        check_gradients(call, layout, seen, close=comparison)
    except AssertionError as error:
        raise AssertionError(f"{case}: {error}") from error


def check_on_virtual_ranks(case: SequenceCase) -> None:
    """Run a case on the virtual ranks of the NumPy platform."""
    call, layout = on_mesh(case)
    with sequence_order(case.order):
        seen = run_ranks(on_rank, layout.ranks, call, layout)
    check_seen(case, seen)


__all__ = ["INT64_MAX", "OPS", "SequenceCase", "check_on_virtual_ranks", "check_seen", "on_mesh", "seen_on_rank"]
