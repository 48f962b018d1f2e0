# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The operators on sequences that several ranks share: outputs, gradients and layouts, against the unsharded call."""

from __future__ import annotations

import numpy as np
import pytest

from hyper_parallel import custom_ops, get_platform
from hyper_parallel.context_parallel import SequenceOrder, sequence_order
from hyper_parallel.platform.numpy.platform import NumpyPlatform
from hyper_parallel.platform.numpy.virtual_ranks import run_ranks

from .drawn_sequences import FORMS, MESHES, ORDERS, drawn, small
from .kl_loss_calls import DENSE, TOP_K
from .sequence_calls import OPS, SequenceCase, check_on_virtual_ranks, check_seen, on_mesh
from .sequence_dtypes import FEW_SEQUENCES, SEQUENCES
from .sharded_calls import distributed, local_tensor, mesh_of, on_rank

QUICK, MANY = 252, 2016


@pytest.mark.parametrize("op", OPS)
def test_every_order_on_every_mesh(op):
    """Half of all kinds, drawn."""
    cases = [case for case in drawn(2 * QUICK, seed=1) if case.op == op][::2]
    assert len(cases) == QUICK // len(OPS)
    for case in cases:
        check_on_virtual_ranks(case)


@pytest.mark.slow
@pytest.mark.parametrize("op", OPS)
def test_many(op):
    """Four of each kind, with other lengths."""
    cases = [case for case in drawn(MANY, seed=2) if case.op == op]
    assert len(cases) == MANY // len(OPS)
    for case in cases:
        check_on_virtual_ranks(case)


def test_what_is_drawn():
    """Every kind once in each round; empty documents, more queries than keys, blocks that see no key."""
    cases = list(drawn(2 * QUICK, seed=1))
    kinds = {(case.op, case.order, case.form, case.mesh, case.over, case.groups_on) for case in cases}
    assert len(kinds) == len(cases) == len(OPS) * len(ORDERS) * len(FORMS) * len(MESHES)
    documents = [pair for case in cases if not case.batch for pair in zip(case.queries[0], case.keys[0], strict=True)]
    assert sum(not query for query, _ in documents) > 20
    assert sum(query > key for query, key in documents) > 20
    assert sum(not key and query > 0 for query, key in documents) > 5
    assert any(case.whole for case in cases)


@pytest.mark.parametrize(
    "mesh", ["cp 2", *(pytest.param(mesh, marks=pytest.mark.slow) for mesh in ("cp 4", "dp x cp"))]
)
def test_every_dtype(mesh):
    for case in SEQUENCES[mesh]:
        check_on_virtual_ranks(case)


def test_what_is_chosen_of_the_dtypes():
    """Each operator in each dtype, and each of the chosen sequences in each dtype."""
    for cases in FEW_SEQUENCES.values():
        dtypes = [(case.dtype, case.weights_dtype) for case in cases]
        assert len({(case.op, *dtype) for case, dtype in zip(cases, dtypes, strict=True)}) == len(cases) == 16
        assert (
            len({(case.order, case.batch, case.queries, *dtype) for case, dtype in zip(cases, dtypes, strict=True)})
            == 16
        )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("forgotten", ["d_key_index", "loss", "key_index"])
def test_a_share_that_is_left_out_shows(dtype, forgotten):
    """In the sums over ranks: the tolerances do not hide what rank 0 has."""
    cases = (case for case in SEQUENCES["cp 2"] if case.dtype == dtype and case.op == DENSE and case.order.is_balanced)
    for case in cases:
        call, layout = on_mesh(case)
        with sequence_order(case.order):
            seen = run_ranks(on_rank, layout.ranks, call, layout)
        check_seen(case, seen)
        shares = seen[0].gradients if forgotten in call.tensors else seen[0].outputs
        shares[forgotten] = np.zeros_like(shares[forgotten])
        with pytest.raises(AssertionError, match=forgotten):
            check_seen(case, seen)


@pytest.mark.slow
def test_some_of_all_small_ones():
    """Every 40th; `make exhaust` runs all."""
    for index, case in enumerate(small()):
        if index % 40 == 0:
            check_on_virtual_ranks(case)


def test_document_ends_on_the_device_are_read_once_per_call(monkeypatch):
    """By checks and cut together; an operator that shares no sequence reads them for the checks alone."""
    reads = []
    to_host = NumpyPlatform._to_host_list
    monkeypatch.setattr(NumpyPlatform, "_to_host_list", lambda self, tensor: reads.append(1) or to_host(self, tensor))
    order = SequenceOrder("zigzag", per_document=True)
    call, layout = on_mesh(SequenceCase(TOP_K, (2,), ("dp",), order, ((4, 8),), ((5, 6),)))

    def twice():
        mesh, rank = mesh_of(layout), get_platform().rank
        local = {name: local_tensor(whole, layout.inputs[name], (2,), rank) for name, whole in call.tensors.items()}
        tensors = distributed(call, layout, mesh, local)
        for _ in range(2):
            with sequence_order(order):
                custom_ops.npu_lightning_indexer(**tensors, **call.keywords(rank))

    run_ranks(twice, 2)
    assert len(reads) == 2 * 2 * 2  # ranks, calls, tensors
