# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The two losses with B, or whole documents, on mesh axes: the loss is Partial(sum), d_key_index is not."""

from __future__ import annotations

import autograd
import numpy as np
import pytest

from hyper_parallel import Partial, Replicate, Shard, custom_ops, get_platform
from hyper_parallel.core.shard.gradients import reduce_gradient
from hyper_parallel.core.shard.ops.parallel_ops_register import get_distributed_op
from hyper_parallel.platform.numpy.virtual_ranks import run_ranks

from .kl_loss_calls import COTANGENT, DENSE, INDEX_STATISTICS, SPARSE, batch_call, packed_call
from .sharded_calls import (
    Case,
    check_gradients,
    check_sharded,
    close,
    distributed,
    local_tensor,
    mesh_of,
    on_rank,
    part,
)

OPS = pytest.mark.parametrize("op", [DENSE, SPARSE])
BSND = {
    "query": "{} . . .", "key": "{} . . .", "query_index": "{} . . .", "key_index": "{} . . .", "weights": "{} . .",
    "sparse_indices": "{} . . .", "softmax_max": "{} . . .", "softmax_sum": "{} . . .",
    "softmax_max_index": "{} . .", "softmax_sum_index": "{} . .", "query_rope": "{} . . .", "key_rope": "{} . . .",
}  # fmt: skip
TND = {
    "query": "{} . .", "key": "{} . .", "query_index": "{} . .", "key_index": "{} . .", "weights": "{} .",
    "sparse_indices": "{} . .", "softmax_max": ". {} .", "softmax_sum": ". {} .",
    "softmax_max_index": ". {}", "softmax_sum_index": ". {}", "query_rope": "{} . .", "key_rope": "{} . .",
}  # fmt: skip


def inputs(op, form, axes, cut, rope):
    """Every tensor of the call on these axes, but for those that are replicated, to be cut."""
    absent = INDEX_STATISTICS if op == SPARSE else ("sparse_indices",)
    absent += () if rope else ("query_rope", "key_rope")
    return {
        name: text.format("." if name in cut else axes)
        for name, text in (BSND if form == "BSND" else TND).items()
        if name not in absent
    }


def layouts(names, row):
    return dict(zip(names, (text.strip() for text in row.split("|")), strict=True))


OUTPUTS = ("d_query_index", "d_key_index", "d_weights", "loss")
GRADIENTS = ("query_index", "key_index", "weights")
REST = ("query", "key", "softmax_max", "softmax_sum", *INDEX_STATISTICS, "sparse_indices", "query_rope", "key_rope")

CASES = {
    # name: format, mesh, axes of B or of T1 and T2, tensors that are cut, outputs, gradients of the indexer's tensors
    "B on dp": (
        "BSND", (2,), "dp", (),
        "dp . . .|dp . . .|dp . .|. +dp", "dp . . .|dp . . .|dp . .",
    ),
    "B on dp of 4": (
        "BSND", (4,), "dp", (),
        "dp . . .|dp . . .|dp . .|. +dp", "dp . . .|dp . . .|dp . .",
    ),
    "B on tp, dp idle": (
        "BSND", (2, 2), "tp", (),
        "tp . . .|tp . . .|tp . .|. +tp", "tp . . .|tp . . .|tp . .",
    ),
    "B on both": (
        "BSND", (2, 2), "dp,tp", (),
        "dp,tp . . .|dp,tp . . .|dp,tp . .|. +dp,tp", "dp,tp . . .|dp,tp . . .|dp,tp . .",
    ),
    "B on both, tp outermost": (
        "BSND", (2, 2), "tp,dp", (),
        "tp,dp . . .|tp,dp . . .|tp,dp . .|. +dp,tp", "tp,dp . . .|tp,dp . . .|tp,dp . .",
    ),
    "nothing sharded": (
        "BSND", (2, 2), ".", (),
        ". . . .|. . . .|. . .|.", ". . . .|. . . .|. . .",
    ),
    "key_index cut": (
        "BSND", (2,), "dp", ("key_index",),
        "dp . . .|dp . . .|dp . .|. +dp", "dp . . .|. . . . +dp|dp . .",
    ),
    "query_index and weights cut by both axes": (
        "BSND", (2, 2), "tp,dp", ("query_index", "weights"),
        "tp,dp . . .|tp,dp . . .|tp,dp . .|. +dp,tp", ". . . . +dp,tp|tp,dp . . .|. . . +dp,tp",
    ),
    "all but the indexer's tensors cut": (
        "BSND", (4,), "dp", REST,
        "dp . . .|dp . . .|dp . .|. +dp", "dp . . .|dp . . .|dp . .",
    ),
    "documents on dp": (
        "TND", (2,), "dp", (),
        "dp . .|dp . .|dp .|. +dp", "dp . .|dp . .|dp .",
    ),
    "documents on dp of 4": (
        "TND", (4,), "dp", (),
        "dp . .|dp . .|dp .|. +dp", "dp . .|dp . .|dp .",
    ),
    "documents on tp, dp idle": (
        "TND", (2, 2), "tp", (),
        "tp . .|tp . .|tp .|. +tp", "tp . .|tp . .|tp .",
    ),
    "documents on both": (
        "TND", (2, 2), "dp,tp", (),
        "dp,tp . .|dp,tp . .|dp,tp .|. +dp,tp", "dp,tp . .|dp,tp . .|dp,tp .",
    ),
    "documents on both, tp outermost": (
        "TND", (2, 2), "tp,dp", (),
        "tp,dp . .|tp,dp . .|tp,dp .|. +dp,tp", "tp,dp . .|tp,dp . .|tp,dp .",
    ),
    "documents, query_index and statistics cut": (
        "TND", (4,), "dp", ("query_index", "softmax_max", "softmax_sum_index"),
        "dp . .|dp . .|dp .|. +dp", ". . . +dp|dp . .|dp .",
    ),
    "documents, key_index and sparse_indices cut": (
        "TND", (2, 2), "dp", ("key_index", "sparse_indices", "key_rope"),
        "dp . .|dp . .|dp .|. +dp", "dp . .|. . . +dp|dp .",
    ),
}  # fmt: skip


def case_and_call(op, row, rope=False, key_heads=32):
    form, mesh, axes, cut, outputs, gradients = row
    case = Case(mesh, inputs(op, form, axes, cut, rope), layouts(OUTPUTS, outputs), layouts(GRADIENTS, gradients))
    if form == "BSND":
        return case, batch_call(op, rope=rope, key_heads=key_heads)
    names = axes.split(",")
    groups = int(np.prod([mesh[("dp", "tp").index(axis)] for axis in names]))
    return case, packed_call(op, mesh, names, groups, rope=rope, key_heads=key_heads)


@OPS
@pytest.mark.parametrize("row", CASES.values(), ids=CASES)
def test_sharded(op, row):
    case, call = case_and_call(op, row)
    check_sharded(call, case)


@OPS
@pytest.mark.parametrize("name", ["B on dp", "documents on dp of 4", "documents, key_index and sparse_indices cut"])
def test_with_ropes_and_grouped_heads(op, name):
    case, call = case_and_call(op, CASES[name], rope=True, key_heads=8)
    check_sharded(call, case)


@OPS
@pytest.mark.parametrize("name", ["key_index cut", "documents on both"])
def test_a_loss_scaled_by_3_scales_every_gradient_by_3(op, name):
    case, call = case_and_call(op, CASES[name])
    check_gradients(call, case, run_ranks(on_rank, case.ranks, call, case, 3.0), factor=3.0)


@OPS
def test_every_rank_adds_to_the_loss(op):
    case, call = case_and_call(op, CASES["B on dp of 4"])
    shares = [seen.outputs["loss"] for seen in run_ranks(on_rank, case.ranks, call, case)]
    assert all(0 < share < call.outputs["loss"] for share in shares)
    np.testing.assert_allclose(sum(shares), call.outputs["loss"], rtol=1e-12)


def on_this_rank(case, call):
    """The rank's local tensors, its mesh and its other arguments."""
    rank = get_platform().rank
    local = {name: local_tensor(whole, case.inputs[name], case.mesh, rank) for name, whole in call.tensors.items()}
    return local, mesh_of(case), call.keywords(rank)


@OPS
def test_placements_as_the_runtime_has_them(op):
    """The table's notation belongs to the tests; here are the placements themselves."""
    case, call = case_and_call(op, CASES["key_index cut"])

    def placements():
        local, mesh, keywords = on_this_rank(case, call)
        tensors = distributed(call, case, mesh, local)
        outputs = getattr(custom_ops, op)(**tensors, **keywords)
        gradients = get_distributed_op(op).grad_layouts(**tensors, **keywords)
        return [output.placements for output in outputs], {name: gradients[name].placements for name in GRADIENTS}

    for outputs, gradients in run_ranks(placements, 2):
        assert outputs == [(Shard(0),), (Shard(0),), (Shard(0),), (Partial("sum"),)]
        assert gradients == {"query_index": (Shard(0),), "key_index": (Partial("sum"),), "weights": (Shard(0),)}


@OPS
@pytest.mark.parametrize("name", ["B on dp of 4", "key_index cut", "documents on both, tp outermost"])
def test_a_loss_reduced_in_the_forward_has_the_same_gradients(op, name):
    """Reducing has the identity as its backward: adding up once more would multiply them by the number of ranks."""
    case, call = case_and_call(op, CASES[name])

    def gradients():
        local, mesh, keywords = on_this_rank(case, call)

        def loss(*values):
            tensors = distributed(call, case, mesh, {**local, **dict(zip(GRADIENTS, values, strict=True))})
            output = getattr(custom_ops, op)(**tensors, **keywords)[3]
            reduced = output.redistribute(mesh, (Replicate(),) * mesh.ndim).to_local()
            return COTANGENT[0] * reduced[0]

        found = autograd.grad(loss, argnum=(0, 1, 2))(*(local[name] for name in GRADIENTS))
        layouts = get_distributed_op(op).grad_layouts(**distributed(call, case, mesh, local), **keywords)
        return [reduce_gradient(value, layouts[name]) for name, value in zip(GRADIENTS, found, strict=True)]

    for rank, found in enumerate(run_ranks(gradients, case.ranks)):
        for tensor, value in zip(GRADIENTS, found, strict=True):
            close(value, part(call.gradients[tensor], case.gradients[tensor], case.mesh, rank), tensor)
