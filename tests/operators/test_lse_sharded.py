# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""npu_dense_lightning_indexer_softmax_lse on DTensors: every rank holds its slice of the unsharded result.

The same kernel runs on the same documents, so the comparison is bit for bit.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from hyper_parallel import (
    DTensor,
    Layout,
    Replicate,
    Shard,
    custom_ops,
    distribute_tensor,
    get_platform,
    init_device_mesh,
)
from hyper_parallel.platform.numpy.custom_ops.custom_op_impl import NpuDenseLightningIndexerSoftmaxLseDFunction as Lse
from hyper_parallel.platform.numpy.platform import NumpyPlatform
from hyper_parallel.platform.numpy.virtual_ranks import run_ranks

from .lse_cases import DOCUMENTS, OP, SHARDED_CASES, TENSORS, ShardedCase, draw, tokens_on

run = getattr(custom_ops, OP)


def distribute(case: ShardedCase, tensors: dict[str, Any]) -> dict[str, DTensor]:
    """The whole tensors as DTensors in the case's layouts, on the rank that calls."""
    layout = Layout.from_device_mesh(init_device_mesh("cpu", case.mesh, mesh_dim_names=case.names))
    return {
        name: distribute_tensor(tensor, layout.mesh, layout(*case.maps[name]).freeze().placements)
        for name, tensor in tensors.items()
    }


def check_outputs(case: ShardedCase, outputs: Any, unsharded: Any) -> None:
    """Values, shapes and layouts of this rank's outputs."""
    assert isinstance(outputs, tuple)
    for output, whole in zip(outputs, unsharded, strict=True):
        assert type(output) is DTensor
        assert output.layout.alias_tensor_map == case.output_map
        assert not output.layout.is_partial()
        assert output.shape == whole.shape
        np.testing.assert_array_equal(output.to_local(), case.expected(whole, get_platform().rank))


def size(case: ShardedCase) -> int:
    return int(np.prod(case.mesh))


@pytest.mark.parametrize("case", SHARDED_CASES.values(), ids=SHARDED_CASES)
def test_every_rank_holds_its_slice(case):
    tensors = case.tensors()
    unsharded = run(*tensors.values(), **case.whole_lengths())

    def on_rank():
        distributed = distribute(case, tensors)
        check_outputs(case, run(*distributed.values(), **case.lengths(get_platform().rank)), unsharded)

    run_ranks(on_rank, size(case))


@pytest.mark.parametrize(
    "case",
    [SHARDED_CASES["B on dp"], SHARDED_CASES["packed, T1 and T2 on dp"], SHARDED_CASES["key cut locally"]],
    ids=["BSND", "TND", "with a cut"],
)
@pytest.mark.parametrize("call", [run, Lse.apply], ids=["public function", "DFunction"])
def test_tensors_by_position_and_by_keyword_are_the_same(case, call):
    tensors = case.tensors()
    unsharded = run(*tensors.values(), **case.whole_lengths())

    def on_rank():
        distributed = distribute(case, tensors)
        lengths = case.lengths(get_platform().rank)
        for by_position in range(len(TENSORS) + 1):
            positional = [distributed[name] for name in TENSORS[:by_position]]
            named = {name: distributed[name] for name in reversed(TENSORS[by_position:])}
            check_outputs(case, call(*positional, **lengths, **named), unsharded)

    run_ranks(on_rank, size(case))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_dtypes(dtype):
    case = SHARDED_CASES["key cut locally"]
    tensors = case.tensors(dtype=dtype)
    unsharded = run(*tensors.values())

    def on_rank():
        outputs = run(*distribute(case, tensors).values())
        assert outputs[0].dtype == unsharded[0].dtype
        check_outputs(case, outputs, unsharded)

    run_ranks(on_rank, size(case))


@pytest.mark.parametrize("form", ["list", "tuple", "ndarray", "DTensor"])
def test_forms_of_lengths(form):
    case = SHARDED_CASES["packed, on dp of 4"]
    tensors = case.tensors()
    unsharded = run(*tensors.values(), **case.whole_lengths())

    def lengths_of(ends, mesh):
        """This group's ends; as a DTensor they are the group's part of what all groups pass."""
        if form == "DTensor":
            return DTensor.from_local(np.array(ends), mesh, (Shard(0),))
        return {"list": list, "tuple": tuple, "ndarray": np.array}[form](ends)

    def on_rank():
        distributed = distribute(case, tensors)
        mesh = distributed["query_index"].device_mesh
        lengths = {
            name: lengths_of(value, mesh) if name.startswith("actual") else value
            for name, value in case.lengths(get_platform().rank).items()
        }
        check_outputs(case, run(*distributed.values(), **lengths), unsharded)

    run_ranks(on_rank, size(case))


def test_groups_may_have_different_numbers_of_documents():
    documents = (((2, 6), (3, 10)), ((1, 1, 2, 5, 6), (2, 4, 4, 9, 10)))
    case = ShardedCase((2,), "TND", tokens_on("dp"), ("dp",), documents)
    tensors = case.tensors()
    unsharded = run(*tensors.values(), **case.whole_lengths())

    def on_rank():
        check_outputs(case, run(*distribute(case, tensors).values(), **case.lengths(get_platform().rank)), unsharded)

    run_ranks(on_rank, 2)


def test_the_example_of_the_system_description():
    query = draw("BSND", B=4, S1=4, S2=6)["query_index"]
    key = draw("BSND", B=4, S1=4, S2=6)["key_index"]
    weights = draw("BSND", B=4, S1=4, S2=6)["weights"]
    unsharded = run(query, key, weights, layout="BSND")

    def on_rank():
        mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))
        query_index = distribute_tensor(query, mesh, (Shard(0), Replicate()))
        key_index = distribute_tensor(key, mesh, (Replicate(), Replicate()))
        weight = distribute_tensor(weights, mesh, (Shard(0), Replicate()))
        outputs = custom_ops.npu_dense_lightning_indexer_softmax_lse(query_index, key_index, weight, layout="BSND")
        half = slice(2 * mesh.get_local_rank("dp"), 2 * mesh.get_local_rank("dp") + 2)
        for output, whole in zip(outputs, unsharded, strict=True):
            assert output.placements == (Shard(0), Replicate())
            assert output.layout.tensor_map == (1, -1, -1)
            np.testing.assert_array_equal(output.to_local(), whole[half])
            np.testing.assert_array_equal(output.full_tensor(), whole)

    run_ranks(on_rank, 8)


def test_output_layouts_in_tensor_maps():
    # Mesh axes count from the right here: on (dp, tp), dp is 1 and tp is 0.
    expected = {
        "B on the first of 2 axes": (1, -1, -1),
        "B on the second of 2 axes": (0, -1, -1),
        "B on both axes": ((1, 0), -1, -1),
        "B on both axes, the second outermost": ((0, 1), -1, -1),
        "packed, on the first of 2 axes": (-1, 1),
        "packed, the second outermost": (-1, (0, 1)),
        "nothing sharded": (-1, -1, -1),
    }

    def on_rank():
        found = {}
        for name in expected:
            case = SHARDED_CASES[name]
            outputs = run(*distribute(case, case.tensors()).values(), **case.lengths(get_platform().rank))
            assert outputs[0].layout is outputs[1].layout
            found[name] = outputs[0].layout.tensor_map
        return found

    assert run_ranks(on_rank, 4) == [expected] * 4


def test_an_unnamed_mesh_and_another_order_of_ranks():
    tensors = draw("BSND", B=4, S1=2, S2=3)
    unsharded = run(*tensors.values())

    def on_rank():
        mesh = init_device_mesh("cpu", (2, 2), rank_list=(2, 0, 3, 1))
        distributed = [distribute_tensor(tensor, mesh, (Replicate(), Shard(0))) for tensor in tensors.values()]
        outputs = run(*distributed)
        part = mesh.get_local_rank(1)
        for output, whole in zip(outputs, unsharded, strict=True):
            assert output.placements == (Replicate(), Shard(0))
            np.testing.assert_array_equal(output.to_local(), whole[2 * part : 2 * part + 2])
        return part

    assert run_ranks(on_rank, 4) == [1, 1, 0, 0]


def test_layouts_one_after_another_do_not_mix():
    cases = [case for case in SHARDED_CASES.values() if size(case) == 4]
    assert len(cases) >= 8
    calls = [(case, case.tensors(seed)) for seed, case in enumerate(cases)]
    unsharded = [run(*tensors.values(), **case.whole_lengths()) for case, tensors in calls]

    def on_rank():
        rank = get_platform().rank
        distributed = [distribute(case, tensors) for case, tensors in calls]
        order = itertools.chain(range(len(calls)), reversed(range(len(calls))), range(0, len(calls), 2))
        for index in order:
            case = cases[index]
            check_outputs(case, run(*distributed[index].values(), **case.lengths(rank)), unsharded[index])

    run_ranks(on_rank, 4)


def test_shapes_and_lengths_are_read_on_every_call_of_one_layout():
    one, other = (
        ShardedCase((2,), "TND", tokens_on("dp"), ("dp",), documents)
        for documents in (DOCUMENTS[:2], (((1, 4), (1, 5)), ((3, 4), (4, 5))))
    )
    calls = [(case, case.tensors(seed)) for seed, case in enumerate((one, other, one))]
    unsharded = [run(*tensors.values(), **case.whole_lengths()) for case, tensors in calls]

    def on_rank():
        for (case, tensors), whole in zip(calls, unsharded, strict=True):
            check_outputs(case, run(*distribute(case, tensors).values(), **case.lengths(get_platform().rank)), whole)

    run_ranks(on_rank, 2)


def test_a_cached_layout_does_not_excuse_a_wrong_call(launches):
    case = SHARDED_CASES["B on dp"]
    tensors = case.tensors()

    def on_rank():
        distributed = distribute(case, tensors)
        run(*distributed.values())
        for keywords, error in (
            ({"sparse_mode": 0}, ValueError),
            ({"sparse_mode": 3.0}, TypeError),
            ({"sparse_mode": "3"}, TypeError),
            ({"sparse_mode": True}, TypeError),
            ({"pre_tokens": True}, TypeError),
            ({"layout": "TND"}, ValueError),
            ({"actual_seq_qlen": [3]}, ValueError),
        ):
            with pytest.raises(error, match=f"^For {OP}, "):
                run(*distributed.values(), **keywords)

    run_ranks(on_rank, 2)
    assert launches == [OP, OP]


def test_no_collective_is_needed(launches):
    case = SHARDED_CASES["query and key cut locally, by both axes"]
    tensors = case.tensors()
    run_ranks(lambda: run(*distribute(case, tensors).values()), 4)
    assert launches == [OP] * 4


def test_a_replicated_tensor_is_cut_without_a_copy(monkeypatch):
    tensors = SHARDED_CASES["key cut locally"].tensors()
    received = {}

    def load_kernel(platform, op_name):
        def kernel(*args):
            received[platform.rank] = args
            return np.zeros((4, 1, 3)), np.zeros((4, 1, 3))

        return kernel

    monkeypatch.setattr(NumpyPlatform, "load_kernel", load_kernel)
    run_ranks(lambda: run(*distribute(SHARDED_CASES["key cut locally"], tensors).values()), 2)
    for rank, rows in enumerate((slice(0, 4), slice(4, 8))):
        for given, whole in zip(received[rank], tensors.values(), strict=False):
            np.testing.assert_array_equal(given, whole[rows])
            assert np.shares_memory(given, whole)
