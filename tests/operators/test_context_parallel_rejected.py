# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Sequences that ranks cannot share: every rank says so, before a kernel or a collective is started."""

from __future__ import annotations

import dataclasses
import re

import autograd
import numpy as np
import pytest

from hyper_parallel import Replicate, custom_ops, get_platform
from hyper_parallel.context_parallel import SequenceOrder, sequence_order, set_default_sequence_order
from hyper_parallel.core.shard import rank_check
from hyper_parallel.platform.numpy.virtual_ranks import run_ranks

from .kl_loss_calls import DENSE, DIFFERENTIABLE, TOP_K
from .lse_cases import OP as LSE
from .sequence_calls import SequenceCase, check_seen, on_mesh
from .sharded_calls import as_tuple, distributed, local_tensor, mesh_of, on_rank

CONTIGUOUS, ZIGZAG = SequenceOrder(), SequenceOrder("zigzag")
PER_DOCUMENT = SequenceOrder("zigzag", per_document=True)
CASE = SequenceCase(LSE, (2,), ("dp",), CONTIGUOUS, ((3, 5),), ((4, 8),))
GROUPS = SequenceCase(LSE, (2, 2), ("tp",), CONTIGUOUS, ((3, 5), (4, 4)), ((4, 8), (7, 5)), groups_on="dp")


def run(case, order, **lengths):
    """Outputs of a case on the rank that calls, in an order that may not be that of the case."""
    call, layout = on_mesh(case)
    rank = get_platform().rank
    local = {name: local_tensor(whole, layout.inputs[name], case.mesh, rank) for name, whole in call.tensors.items()}
    tensors = distributed(call, layout, mesh_of(layout), local)
    with sequence_order(order):
        return as_tuple(getattr(custom_ops, case.op)(**tensors, **{**call.keywords(rank), **lengths}))


def refused(launches, case, order, message, error=ValueError, **lengths):
    def on_this_rank():
        with pytest.raises(error, match=f"^{re.escape(f'For {case.op}{message}')}"):
            run(case, order, **lengths)
        return True

    assert all(run_ranks(on_this_rank, int(np.prod(case.mesh)), timeout=20))
    assert launches == []


QUERY_ENDS = ", actual_seq_qlen should "
UNDER = " under context parallelism over (dp): "
ONE_GROUP = ", the number of tokens"


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ({"actual_seq_qlen": [3, 7]}, QUERY_ENDS + f"end at T1 = 8{ONE_GROUP}, but got [3, 7]."),
        ({"actual_seq_qlen": [9, 8]}, QUERY_ENDS + "not decrease, but got 8 after 9"),
        ({"actual_seq_qlen": [-1, 8]}, QUERY_ENDS + "not decrease, but got -1 after 0"),
        ({"actual_seq_klen": [4, 11]}, f", actual_seq_klen should end at T2 = 12{ONE_GROUP}, but got [4, 11]."),
        (
            {"actual_seq_klen": [12]},
            ", actual_seq_qlen and actual_seq_klen should have as many documents, but got 2 and 1",
        ),
        (
            {"actual_seq_qlen": [3, 4], "actual_seq_klen": [4, 6]},
            QUERY_ENDS
            + f"end at T1 = 8{ONE_GROUP}, but got [3, 4]. These end at the tokens of one of the 2 ranks that "
            "share a sequence: pass the ends of whole documents, the same on each of these ranks; the cut is made here.",
        ),
    ],
)
def test_document_ends(launches, lengths, message):
    refused(launches, CASE, CONTIGUOUS, message, **lengths)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        (
            {"actual_seq_qlen": [3, 16]},
            QUERY_ENDS
            + f"end at T1 = 8{ONE_GROUP} of this data-parallel group, but got [3, 16]. These end at the tokens "
            "of all 2 groups",
        ),
        (
            {"actual_seq_qlen": [3, 4]},
            QUERY_ENDS
            + f"end at T1 = 8{ONE_GROUP} of this data-parallel group, but got [3, 4]. These end at the tokens "
            "of one of the 2 ranks",
        ),
    ],
)
def test_document_ends_of_groups(launches, lengths, message):
    refused(launches, GROUPS, CONTIGUOUS, message, **lengths)


def with_lengths(queries, keys, **changes):
    return dataclasses.replace(CASE, queries=(queries,), keys=(keys,), **changes)


@pytest.mark.parametrize(
    ("case", "order", "message"),
    [
        (
            with_lengths((3, 3), (4, 4)),
            ZIGZAG,
            "for zigzag order on 2 ranks, the number of query rows should be divisible by 4 (2 x 2 chunks), but got 6",
        ),
        (
            with_lengths((6,), (6,), batch=2),
            ZIGZAG,
            "for zigzag order on 2 ranks, the number of query rows should be divisible by 4 (2 x 2 chunks), but got 6",
        ),
        (
            with_lengths((3, 5), (4, 4)),
            PER_DOCUMENT,
            "for zigzag order per document on 2 ranks, every document should have a number of query rows divisible by 4 "
            "(2 x 2 chunks), but document 0 has 3",
        ),
        (
            with_lengths((3, 5), (4, 5)),
            SequenceOrder("head_tail", "dealt"),
            "for head_tail order on 2 ranks, the number of keys should be divisible by 4 (2 x 2 chunks), but got 9",
        ),
        (
            with_lengths((4, 4), (6, 6)),
            SequenceOrder("zigzag", "dealt", True),
            "for zigzag order per document on 2 ranks, every document should have a number of keys divisible by 4",
        ),
    ],
)
def test_orders_that_the_shapes_contradict(launches, case, order, message):
    refused(launches, case, order, UNDER + message)


def test_gathering_the_keys_as_the_message_says(launches):
    """Keys that lie like the queries: the call in the message makes them whole."""
    call, layout = on_mesh(with_lengths((8,), (8,), batch=1))
    whole = dict(layout.inputs)
    sharded = layout._replace(inputs={**whole, "key_index": ". dp . ."})

    def gathered():
        mesh, rank = mesh_of(layout), get_platform().rank
        local = {name: local_tensor(value, sharded.inputs[name], (2,), rank) for name, value in call.tensors.items()}
        tensors = distributed(call, sharded, mesh, local)
        with pytest.raises(ValueError, match=r"S2 .* should be replicated") as found:
            getattr(custom_ops, LSE)(**tensors)
        names = {"key_index": tensors["key_index"], "Replicate": Replicate}
        exec(str(found.value).partition("Gather it first: ")[2].removesuffix("."), names)
        outputs = getattr(custom_ops, LSE)(**{**tensors, "key_index": names["key_index"]})
        return [output.full_tensor() for output in outputs]

    for outputs in run_ranks(gathered, 2):
        for output, expected in zip(outputs, call.outputs.values(), strict=True):
            np.testing.assert_allclose(output, expected, rtol=1e-12)


def test_orders_that_differ_between_ranks(monkeypatch):
    monkeypatch.setattr(rank_check.RANK_CHECK, "enabled", True)

    def differing():
        run(CASE, ZIGZAG)
        try:
            run(CASE, (CONTIGUOUS, ZIGZAG)[get_platform().rank])
        except RuntimeError as error:
            return str(error)
        return ""

    told = run_ranks(differing, 2, timeout=20)
    assert told[0] == told[1]
    assert "SequenceOrder(name='contiguous', keys='natural', per_document=False)" in told[0]
    assert "rank 1: " in told[0]


def test_another_order_is_another_call():
    """The same tensors in turn in two orders, and in the order of the process: what was planned for one is not taken."""

    def both():
        first = [run(CASE, order)[1].to_local() for order in (CONTIGUOUS, ZIGZAG, CONTIGUOUS, ZIGZAG)]
        return [np.asarray(found) for found in first]

    for a, b, again_a, again_b in run_ranks(both, 2):
        np.testing.assert_array_equal(a, again_a)
        np.testing.assert_array_equal(b, again_b)
        assert not np.array_equal(a, b)


def test_the_order_of_the_process():
    case = dataclasses.replace(CASE, op=TOP_K, order=ZIGZAG)
    call, layout = on_mesh(case)
    before = set_default_sequence_order(ZIGZAG)
    try:
        check_seen(case, run_ranks(on_rank, 2, call, layout))
    finally:
        set_default_sequence_order(before)


def test_the_backward_does_not_read_the_order():
    """Only the forward is in the block."""
    case = dataclasses.replace(CASE, op=DENSE, order=SequenceOrder("zigzag", "dealt"))
    call, layout = on_mesh(case)

    def gradients():
        mesh, rank = mesh_of(layout), get_platform().rank
        local = {name: local_tensor(whole, layout.inputs[name], (2,), rank) for name, whole in call.tensors.items()}

        def loss(*values):
            tensors = distributed(call, layout, mesh, {**local, **dict(zip(DIFFERENTIABLE, values, strict=True))})
            with sequence_order(case.order):
                return getattr(custom_ops, DENSE)(**tensors, **call.keywords(rank))[3].to_local()[0]

        return autograd.grad(loss, (0, 1, 2))(*(local[name] for name in DIFFERENTIABLE))

    parts = run_ranks(gradients, 2)
    np.testing.assert_allclose(sum(part[1] for part in parts), call.outputs["d_key_index"], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        np.concatenate([part[0] for part in parts]), call.outputs["d_query_index"], rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("order", [CONTIGUOUS, SequenceOrder("zigzag", "dealt", True)], ids=str)
@pytest.mark.parametrize(("dtype", "tolerance"), [("bfloat16", 2**-6), ("float16", 2**-8), ("float32", 1e-5)])
def test_other_dtypes(order, dtype, tolerance):
    case = SequenceCase(DENSE, (2,), ("dp",), order, ((4, 8),), ((8, 12),), dtype=dtype)
    call, layout = on_mesh(case)
    with sequence_order(order):
        seen = run_ranks(on_rank, 2, call, layout)
    for name, expected in call.outputs.items():
        for one in seen:
            assert one.full_outputs[name].dtype == expected.dtype
            scale = np.max(np.abs(expected.astype(np.float64)))
            np.testing.assert_allclose(
                one.full_outputs[name].astype(np.float64),
                expected.astype(np.float64),
                rtol=tolerance,
                atol=tolerance * scale,
            )
    for name, expected in call.gradients.items():
        for gradient in (one.gradients[name] for one in seen):
            assert gradient.dtype == call.tensors[name].dtype, (name, expected.dtype)
