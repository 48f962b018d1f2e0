# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""`deal` and `undeal` on virtual ranks, what they refuse, and the order that a program has declared."""

from __future__ import annotations

import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

import autograd
import ml_dtypes
import numpy as np
import pytest
from autograd.tracer import getval

from hyper_parallel import DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh
from hyper_parallel.context_parallel import (
    SequenceOrder,
    current_sequence_order,
    deal,
    sequence_order,
    set_default_sequence_order,
    undeal,
)
from hyper_parallel.core.shard.rank_check import RANK_CHECK
from hyper_parallel.platform.numpy.virtual_ranks import run_ranks
from tests import gathered_keys
from tests.dealing_cases import Case, Framework, cases_of, check_case, run_case

DTYPES = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16, "int64": np.int64}
NUMPY = Framework(
    tensor=lambda array, dtype: np.asarray(array, DTYPES[dtype]),
    array=lambda tensor: np.asarray(getval(tensor), np.float64),
    gradient=lambda function, tensor: np.asarray(autograd.grad(function)(tensor), np.float64),
    wide=lambda tensor: tensor.astype(np.float32),
)


@pytest.mark.parametrize("ranks", [2, 4])
def test_round_trips_and_gradients(ranks):
    cases = cases_of(ranks)
    assert len(cases) == 27
    for case in cases:
        check_case(case, run_ranks(run_case, ranks, case, NUMPY))


@pytest.mark.parametrize("ranks", [2, 4])
def test_gradients_of_gathered_keys(ranks):
    cases = gathered_keys.cases_of(ranks)
    assert len(cases) == 36
    for case in cases:
        gathered_keys.check_case(case, run_ranks(gathered_keys.run_case, ranks, case, NUMPY))


def test_one_rank():
    for order in ("contiguous", "zigzag"):
        check_case(case := Case(SequenceOrder(order), (1,), None, (4, 2), 0), run_ranks(run_case, 1, case, NUMPY))


def test_the_current_order_is_taken():
    def held():
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("cp",))
        with sequence_order("zigzag", per_document=True):
            part = deal(np.arange(12), mesh, 0, cu_seqlens=np.array([4, 12]))
            assert np.array_equal(undeal(part, mesh, 0, cu_seqlens=(0, 4, 12)).to_local(), np.arange(12))
            packed = deal(np.arange(12), mesh, 0, per_document=False)
        return part.to_local().tolist(), packed.to_local().tolist(), deal(np.arange(4), mesh, 0).to_local().tolist()

    assert run_ranks(held, 2) == [
        ([0, 3, 4, 5, 10, 11], [0, 1, 2, 9, 10, 11], [0, 1]),
        ([1, 2, 6, 7, 8, 9], [3, 4, 5, 6, 7, 8], [2, 3]),
    ]


def test_contiguous_parts_are_not_copied():
    whole = np.arange(8)
    parts = run_ranks(lambda: deal(whole, init_device_mesh("cpu", (2,)), 0).to_local(), 2)
    assert all(np.shares_memory(part, whole) for part in parts)


def mesh_of(shape=(2,), names=("cp",)):
    return init_device_mesh("cpu", shape, mesh_dim_names=names)


def other_mesh():
    mesh = mesh_of()
    return deal(distribute_tensor(np.arange(8), mesh_of(names=("tp",)), (Replicate(),)), mesh, 0)


def not_innermost():
    mesh = mesh_of((1, 2), ("dp", "cp"))
    return undeal(distribute_tensor(np.arange(8), mesh, (Shard(0), Replicate())), mesh, 0, "zigzag")


def gradient_not_sharded():
    mesh = mesh_of((1, 2), ("dp", "cp"))
    part = distribute_tensor(np.arange(8.0), mesh, (Shard(0), Shard(0)))
    return undeal(part, mesh, 0, grad_placements=(Partial(), Partial()))


REFUSED = [
    (lambda: deal(np.arange(6), mesh_of(), 0, "zigzag"), ValueError, r"zigzag order on 2 ranks, the number of tokens should be divisible by 4"),
    (lambda: undeal(np.arange(3), mesh_of(), 0, "zigzag"), ValueError, r"the number of tokens should be divisible by 4 .* but got 6"),
    (lambda: deal(np.arange(8), mesh_of(), 1), ValueError, r"For deal, dim should be in -1\.\.0, but got 1"),
    (lambda: undeal(np.arange(8), mesh_of(), 1), ValueError, r"For undeal, dim should be in -1\.\.0, but got 1"),
    (lambda: deal(np.arange(8), mesh_of(), 0, "zig"), ValueError, "name should be one of contiguous, head_tail, zigzag"),
    (lambda: deal(np.arange(8), mesh_of(), 0, 3), TypeError, "a name or a SequenceOrder is expected, but got 3"),
    (lambda: undeal(np.arange(8), mesh_of(), "0"), ValueError, r"dim should be in -1\.\.0, but got '0'"),
    (lambda: deal(np.arange(8), None, 0), TypeError, "expected a DeviceMesh"),
    (lambda: deal([1, 2], mesh_of(), 0), TypeError, "deal takes a tensor of numpy, but got list"),
    (lambda: deal(np.arange(8), mesh_of((1, 2), ("a", "b")), 0), ValueError, r"mesh_axes should say over which of \('a', 'b'\)"),
    (lambda: deal(np.arange(8), mesh_of(), 0, mesh_axes="tp"), ValueError, "the mesh has the axes .* but got 'tp'"),
    (lambda: deal(np.arange(8), mesh_of(), 0, mesh_axes=("cp", 0)), ValueError, "should be different axes"),
    (lambda: deal(np.arange(8), mesh_of(), 0, mesh_axes=()), ValueError, "at least one"),
    (lambda: deal(distribute_tensor(np.arange(8), mesh := mesh_of(), (Shard(0),)), mesh, 0), ValueError, r"should be whole on the mesh axes \(cp\)"),
    (lambda: deal(DTensor.from_local(np.arange(8), mesh := mesh_of(), (Partial(),)), mesh, 0), ValueError, "should be whole on the mesh axes"),
    (lambda: undeal(distribute_tensor(np.arange(8), mesh := mesh_of(), (Replicate(),)), mesh, 0), ValueError, r"dim 0 should be sharded by the mesh axes \(cp\), innermost .* but got \[None\]"),
    (not_innermost, ValueError, "should be sharded by the mesh axes"),
    (other_mesh, ValueError, "the DTensor should lie on the mesh"),
    (lambda: undeal(np.arange(8.0), mesh_of(), 0, grad_placements="partial"), TypeError, "For undeal, grad_placements: placements should be a tuple of .* but got 'partial'"),
    (lambda: undeal(np.arange(8.0), mesh_of(), 0, grad_placements=()), ValueError, "For undeal, grad_placements: .* one placement for each of the 1 axes"),
    (lambda: undeal(np.arange(8.0), mesh_of(), 0, grad_placements=(Shard(0),)), ValueError, r"should say how ranks hold the gradient of the result, on each of the axes \('cp',\) Replicate\(\) or Partial"),
    (lambda: undeal(np.arange(8.0), mesh_of(), 0, grad_placements=(Partial("avg"),)), ValueError, "but got .*avg"),
    (lambda: undeal(np.arange(8.0), mesh_of(), 0, grad_placements=(Partial("max"),)), ValueError, "but got .*max"),
    (gradient_not_sharded, ValueError, r"\('dp', 'cp'\) Shard\(dim=0\), Replicate\(\) or Partial"),
    (lambda: deal(np.arange(8), mesh_of(), 0, "zigzag", per_document=True), ValueError, "the document ends are needed, but got none"),
    (lambda: deal(np.arange(8), mesh_of(), 0, "zigzag", cu_seqlens=[4, 8]), ValueError, "documents are not looked at"),
    (lambda: deal(np.arange(8), mesh_of(), 0, "zigzag", cu_seqlens=[2, 8], per_document=True), ValueError, "document 0 has 2"),
    (lambda: deal(np.arange(8), mesh_of(), 0, "zigzag", cu_seqlens=[4.0, 8.0], per_document=True), TypeError, "expected integers"),
    (lambda: deal(np.arange(8), mesh_of(), 0, per_document=True, cu_seqlens=[8]), ValueError, "should be head_tail or zigzag, but got contiguous"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        run_ranks(call, 2)


def test_ranks_with_different_orders_are_found_out(monkeypatch):
    monkeypatch.setattr(RANK_CHECK, "enabled", True)

    def differing(work):
        mesh = mesh_of()
        return work(np.arange(8), mesh, 0, "zigzag" if mesh.rank else "head_tail")

    for work in (deal, undeal):
        with pytest.raises(RuntimeError, match=r"(?s)do not make the same call.*head_tail.*zigzag"):
            run_ranks(differing, 2, work)
    assert run_ranks(lambda: deal(np.arange(4), mesh_of(), 0, "zigzag").to_local().tolist(), 2) == [[0, 3], [1, 2]]


def test_ranks_that_differ_in_the_gradient_are_found_out(monkeypatch):
    monkeypatch.setattr(RANK_CHECK, "enabled", True)

    def differing(gather):
        mesh = mesh_of()
        gather(mesh, (Partial() if mesh.rank else Replicate(),))

    def undealt(mesh, placements):
        undeal(np.arange(4.0), mesh, 0, "zigzag", grad_placements=placements)

    def redistributed(mesh, placements):
        part = DTensor.from_local(np.arange(4.0), mesh, (Shard(0),))
        part.redistribute(mesh, (Replicate(),), grad_placements=placements)

    for gather in (undealt, redistributed):
        with pytest.raises(RuntimeError, match=r"(?s)do not make the same call.*rank 1: .*([Pp]artial|sum over cp)"):
            run_ranks(differing, 2, gather)


def test_blocks_nest_and_end():
    assert current_sequence_order() == SequenceOrder()
    with sequence_order("zigzag", keys="dealt") as outer:
        assert current_sequence_order() is outer
        assert outer == SequenceOrder("zigzag", "dealt", False)
        with sequence_order(outer, per_document=True) as inner:
            assert inner == SequenceOrder("zigzag", "dealt", True)
            with pytest.raises(ZeroDivisionError), sequence_order("contiguous") as innermost:
                1 / (current_sequence_order() != innermost)
            assert current_sequence_order() is inner
        assert current_sequence_order() is outer
    assert current_sequence_order() == SequenceOrder()
    with pytest.raises(ValueError, match="keys should be one of natural, dealt"), sequence_order("zigzag", keys="no"):
        pass


@pytest.fixture
def default_of_process():
    before = set_default_sequence_order("head_tail", per_document=True)
    yield
    set_default_sequence_order(before)


def test_a_thread_of_its_own_sees_the_default(default_of_process):
    default = SequenceOrder("head_tail", per_document=True)
    assert current_sequence_order() == default
    with sequence_order("zigzag") as order, ThreadPoolExecutor(1) as pool:
        assert pool.submit(current_sequence_order).result() == default
        assert pool.submit(contextvars.copy_context().run, current_sequence_order).result() == order
        with sequence_order("contiguous"):
            assert current_sequence_order() == SequenceOrder()
        assert current_sequence_order() == order


def test_ranks_start_with_the_callers_order_and_keep_their_own():
    met = threading.Barrier(2)

    def orders():
        mesh = mesh_of()
        first = current_sequence_order()
        with sequence_order("zigzag" if mesh.rank else "contiguous"):
            met.wait(30)
            return first.name, current_sequence_order().name

    with sequence_order("head_tail"):
        assert run_ranks(orders, 2) == [("head_tail", "contiguous"), ("head_tail", "zigzag")]
