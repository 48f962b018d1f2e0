# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""npu_lightning_indexer on plain arrays and with B, or whole documents, on mesh axes."""

from __future__ import annotations

import autograd
import autograd.numpy as anp
import numpy as np
import pytest

from hyper_parallel import DTensor, Shard, custom_ops, get_platform
from hyper_parallel.core.shard.ops.parallel_ops_register import get_distributed_op
from hyper_parallel.platform.numpy.virtual_ranks import run_ranks
from tests.reference.kl_cases import PACKED, TYPES

from .kl_loss_calls import (
    KEYS_SELECTED,
    TOP_K,
    starts,
    top_k_batch_call,
    top_k_outputs,
    top_k_packed_call,
    top_k_tensors,
)
from .lse_cases import DOCUMENTS
from .sharded_calls import Case, check_sharded, distributed, in_words, local_tensor, mesh_of, part

run = custom_ops.npu_lightning_indexer
MASKS = pytest.mark.parametrize("sparse_mode", [0, 3], ids=["no mask", "causal"])


def packed(ends):
    return {"layout": "TND", "cu_seq_lens_q": starts(ends[0]), "cu_seq_lens_k": starts(ends[1])}


def check(tensors, count, **keywords):
    given = run(*tensors.values(), count, **keywords)
    expected = top_k_outputs(tensors, sparse_count=count, **keywords)
    assert given[0].dtype == np.int32
    for output, value in zip(given, expected.values(), strict=True):
        assert output.dtype == value.dtype
        np.testing.assert_array_equal(output, value)


@MASKS
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("batch", "s1", "s2"), [(1, 1, 1), (2, 3, 5), (0, 2, 3), (2, 0, 3)])
@pytest.mark.parametrize("count", [1, 4])
def test_bsnd(batch, s1, s2, dtype, sparse_mode, count):
    check(top_k_tensors((batch, s1), (batch, s2), dtype), count, sparse_mode=sparse_mode)


@MASKS
@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
@pytest.mark.parametrize("ends", PACKED.values(), ids=PACKED)
def test_tnd(ends, dtype, sparse_mode):
    check(top_k_tensors((ends[0][-1],), (ends[1][-1],), dtype), 3, sparse_mode=sparse_mode, **packed(ends))


def test_by_hand():
    # One query and four keys; only head 0 counts, with weight 2, and q . k = 128 * q * k. relu makes a tie of 1 and 3.
    query = np.zeros((1, 1, 8, 128), np.float32)
    query[0, 0, 0] = 1.0 / 128
    key = np.array([1.0, -2.0, 3.0, -4.0], np.float32).repeat(128).reshape(1, 4, 1, 128)
    weights = np.zeros((1, 1, 8), np.float32)
    weights[0, 0, 0] = 2.0
    indices, values = run(query, key, weights, 5)
    np.testing.assert_array_equal(indices, [[[[2, 0, 1, 3, -1]]]])
    np.testing.assert_array_equal(values, [[[[6.0, 2.0, 0.0, 0.0, -np.inf]]]])


def test_the_mask_is_off_by_default():
    tensors = top_k_tensors((1, 3), (1, 5))
    by_default, masked = (run(*tensors.values(), 5, **keywords)[0] for keywords in ({}, {"sparse_mode": 3}))
    assert -1 not in by_default
    assert list(masked[0, 0, 0]).count(-1) == 2


@pytest.mark.parametrize("return_value", [False, True])
def test_values_come_in_either_case(return_value):
    tensors = top_k_tensors((2, 3), (2, 5))
    check(tensors, 2, return_value=return_value)


@pytest.mark.parametrize(
    "lengths", [list, tuple, lambda ends: np.array(ends, np.int64), lambda ends: np.array(ends, np.int32)]
)
def test_forms_of_lengths(lengths):
    ends = PACKED["ragged"]
    tensors = top_k_tensors((9,), (12,))
    keywords = {**packed(ends), "cu_seq_lens_q": lengths([0, *ends[0]]), "cu_seq_lens_k": lengths([0, *ends[1]])}
    expected = top_k_outputs(tensors, sparse_count=3, **packed(ends))
    np.testing.assert_array_equal(run(*tensors.values(), 3, **keywords)[0], expected["sparse_indices"])


def test_nothing_has_a_gradient():
    tensors = top_k_tensors((2, 3), (2, 5))

    def loss(query, key, weights):
        return 1.0 * anp.sum(query) + anp.sum(run(query, key, weights, 3)[1])

    gradients = autograd.grad(loss, argnum=(0, 1, 2))(*tensors.values())
    np.testing.assert_array_equal(gradients[0], np.ones_like(tensors["query"]))
    assert not np.any(gradients[1])
    assert not np.any(gradients[2])


CASES = {
    # name: format, mesh, axes of B or of T1 and T2, inputs query | key | weights, both outputs
    "B on dp": ("BSND", (2,), "dp", "dp . . .|dp . . .|dp . .", "dp . . ."),
    "B on dp of 4": ("BSND", (4,), "dp", "dp . . .|dp . . .|dp . .", "dp . . ."),
    "B on tp, dp idle": ("BSND", (2, 2), "tp", "tp . . .|tp . . .|tp . .", "tp . . ."),
    "B on both": ("BSND", (2, 2), "dp,tp", "dp,tp . . .|dp,tp . . .|dp,tp . .", "dp,tp . . ."),
    "B on both, tp outermost": ("BSND", (2, 2), "tp,dp", "tp,dp . . .|tp,dp . . .|tp,dp . .", "tp,dp . . ."),
    "nothing sharded": ("BSND", (2, 2), "", ". . . .|. . . .|. . .", ". . . ."),
    "key cut": ("BSND", (2,), "dp", "dp . . .|. . . .|dp . .", "dp . . ."),
    "query and weights cut": ("BSND", (2, 2), "tp,dp", ". . . .|tp,dp . . .|. . .", "tp,dp . . ."),
    "documents on dp": ("TND", (2,), "dp", "dp . .|dp . .|dp .", "dp . ."),
    "documents on dp of 4": ("TND", (4,), "dp", "dp . .|dp . .|dp .", "dp . ."),
    "documents on tp, dp idle": ("TND", (2, 2), "tp", "tp . .|tp . .|tp .", "tp . ."),
    "documents on both": ("TND", (2, 2), "dp,tp", "dp,tp . .|dp,tp . .|dp,tp .", "dp,tp . ."),
    "documents on both, tp outermost": ("TND", (2, 2), "tp,dp", "tp,dp . .|tp,dp . .|tp,dp .", "tp,dp . ."),
    "documents, weights cut": ("TND", (4,), "dp", "dp . .|dp . .|. .", "dp . ."),
}


def case_and_call(row, sparse_mode):
    form, mesh, axes, inputs, output = row
    names = [axis for axis in axes.split(",") if axis]
    case = Case(
        mesh,
        dict(zip(("query", "key", "weights"), (text.strip() for text in inputs.split("|")), strict=True)),
        {"sparse_indices": output, "sparse_values": output},
        {},
    )
    if form == "BSND":
        return case, top_k_batch_call(sparse_mode)
    groups = int(np.prod([mesh[("dp", "tp").index(axis)] for axis in names]))
    return case, top_k_packed_call(mesh, names, groups, sparse_mode)


@MASKS
@pytest.mark.parametrize("row", CASES.values(), ids=CASES)
def test_sharded(row, sparse_mode):
    case, call = case_and_call(row, sparse_mode)
    check_sharded(call, case)


@pytest.mark.parametrize("form", ["list", "tensor", "DTensor"])
def test_forms_of_lengths_on_a_mesh(form):
    """As DTensors the lengths are each group's part of what all groups pass."""
    case, call = case_and_call(CASES["documents on dp of 4"], 3)

    def on_rank():
        mesh, rank = mesh_of(case), get_platform().rank
        local = {name: local_tensor(whole, case.inputs[name], case.mesh, rank) for name, whole in call.tensors.items()}
        keywords = dict(call.keywords(rank))
        for name in ("cu_seq_lens_q", "cu_seq_lens_k"):
            if form == "DTensor":
                keywords[name] = DTensor.from_local(keywords[name], mesh, (Shard(0),))
            elif form == "list":
                keywords[name] = [int(end) for end in keywords[name]]
        outputs = run(**distributed(call, case, mesh, local), **keywords)
        return [output.to_local() for output in outputs]

    for rank, outputs in enumerate(run_ranks(on_rank, 4)):
        for output, (name, whole) in zip(outputs, call.outputs.items(), strict=True):
            np.testing.assert_array_equal(output, part(whole, case.outputs[name], case.mesh, rank), err_msg=name)


def test_documents_have_their_own_positions():
    _, call = case_and_call(CASES["documents on dp of 4"], 0)
    longest = max(k - j for _, ends in DOCUMENTS for j, k in zip((0, *ends[:-1]), ends, strict=True))
    assert call.outputs["sparse_indices"].max() == longest - 1
    assert call.outputs["sparse_indices"].shape == (24, 1, KEYS_SELECTED)


def test_gradient_layouts_of_an_operator_without_backward():
    case, call = case_and_call(CASES["key cut"], 3)

    def layouts():
        mesh = mesh_of(case)
        local = {name: local_tensor(whole, case.inputs[name], case.mesh, 0) for name, whole in call.tensors.items()}
        found = get_distributed_op(TOP_K).grad_layouts(**distributed(call, case, mesh, local), **call.keywords(0))
        return {name: in_words(layout) for name, layout in found.items()}

    assert run_ranks(layouts, 2)[0] == {"query": "dp . . .", "key": ". . . . +dp", "weights": "dp . ."}
