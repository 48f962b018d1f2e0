# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""npu_dense_lightning_indexer_softmax_lse on DTensors through gloo groups, as a DFunction and as a torch operator.

Starting ranks takes seconds, so each number of ranks is started once and runs all its checks.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from lse_on_torch import Lse, registered_operator, torch_tensors
from ranks import run_gloo_ranks

from hyper_parallel import DTensor, Layout, Replicate, Shard, distribute_tensor, get_platform, init_device_mesh
from tests.operators.lse_cases import OP, SHARDED_CASES, draw


def run_checks(names):
    for name in names:
        try:
            globals()[name]()
        except BaseException as error:
            raise AssertionError(f"{name} has failed: {error}") from error


def distribute(case, tensors):
    layout = Layout.from_device_mesh(init_device_mesh("cpu", case.mesh, mesh_dim_names=case.names))
    return {
        name: distribute_tensor(tensor, layout.mesh, layout(*case.maps[name]).freeze().placements)
        for name, tensor in tensors.items()
    }


def check_every_rank_holds_its_slice():
    rank, operator = get_platform().rank, registered_operator()
    cases = {name: case for name, case in SHARDED_CASES.items() if np.prod(case.mesh) == get_platform().world_size}
    assert len(cases) >= 4
    for seed, (name, case) in enumerate(cases.items()):
        tensors = torch_tensors(case.tensors(seed))
        unsharded = Lse.apply(*tensors.values(), **case.whole_lengths())
        distributed, lengths = distribute(case, tensors), case.lengths(rank)
        for outputs in (
            Lse.apply(*distributed.values(), **lengths),
            Lse.apply(**distributed, **lengths),
            operator(*distributed.values(), **lengths),
            operator(**distributed, **lengths),
        ):
            for output, whole in zip(outputs, unsharded, strict=True):
                assert type(output) is DTensor, name
                assert output.layout.alias_tensor_map == case.output_map, name
                assert output.shape == whole.shape, name
                assert np.array_equal(output.to_local().numpy(), case.expected(whole.numpy(), rank)), name


def check_half_and_gradients():
    case = SHARDED_CASES["B on dp" if get_platform().world_size == 2 else "key and weights cut locally"]
    for dtype in ("bfloat16", "float16"):
        tensors = torch_tensors(case.tensors(dtype=dtype))
        unsharded = Lse.apply(*tensors.values())
        locals_ = {name: d.to_local().requires_grad_() for name, d in distribute(case, tensors).items()}
        mesh = init_device_mesh("cpu", case.mesh, mesh_dim_names=case.names)
        layout = Layout.from_device_mesh(mesh)
        outputs = Lse.apply(
            *(
                DTensor.from_local(local, mesh, layout(*case.maps[name]).freeze().placements)
                for name, local in locals_.items()
            )
        )
        for output, whole in zip(outputs, unsharded, strict=True):
            assert not output.to_local().requires_grad
            assert torch.equal(output.full_tensor(), whole)


def check_lengths_as_dtensors():
    size, rank = get_platform().world_size, get_platform().rank
    case = SHARDED_CASES["packed, T1 and T2 on dp" if size == 2 else "packed, on dp of 4"]
    tensors = torch_tensors(case.tensors())
    unsharded = Lse.apply(*tensors.values(), **case.whole_lengths())
    distributed = distribute(case, tensors)
    mesh = distributed["query_index"].device_mesh
    lengths = {
        name: DTensor.from_local(torch.tensor(value), mesh, (Shard(0),)) if name.startswith("actual") else value
        for name, value in case.lengths(rank).items()
    }
    for operator in (Lse.apply, registered_operator()):
        for output, whole in zip(operator(*distributed.values(), **lengths), unsharded, strict=True):
            assert np.array_equal(output.to_local().numpy(), case.expected(whole.numpy(), rank))


def check_rejected():
    size = get_platform().world_size
    mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("tp",))
    tensors = torch_tensors(draw("BSND", B=2, S1=4, S2=8))
    distributed = {name: distribute_tensor(tensor, mesh, (Replicate(),)) for name, tensor in tensors.items()}
    for name, dim, words in (
        ("query_index", 2, "N1 (dim 2) of query_index should be replicated"),
        ("key_index", 1, "S2 (dim 1) of key_index should be replicated"),
    ):
        wrong = {**distributed, name: distribute_tensor(tensors[name], mesh, (Shard(dim),))}
        for operator in (Lse.apply, registered_operator()):
            with pytest.raises(ValueError, match=re.escape(f"For {OP}, {words}")):
                operator(*wrong.values())
    with pytest.raises(TypeError, match="weights should be a DTensor because another argument is one"):
        Lse.apply(**{**distributed, "weights": tensors["weights"]})


def check_the_example_of_the_system_description():
    tensors = torch_tensors(draw("BSND", "bfloat16", B=4, S1=4, S2=6))
    unsharded = Lse.apply(*tensors.values(), layout="BSND")
    mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))
    query_index = distribute_tensor(tensors["query_index"], mesh, (Shard(0), Replicate()))
    key_index = distribute_tensor(tensors["key_index"], mesh, (Replicate(), Replicate()))
    weights = distribute_tensor(tensors["weights"], mesh, (Shard(0), Replicate()))
    half = slice(2 * mesh.get_local_rank("dp"), 2 * mesh.get_local_rank("dp") + 2)
    for operator in (Lse.apply, registered_operator()):
        for output, whole in zip(operator(query_index, key_index, weights, layout="BSND"), unsharded, strict=True):
            assert output.placements == (Shard(0), Replicate())
            assert torch.equal(output.to_local(), whole[half])
            assert torch.equal(output.full_tensor(), whole)


CHECKS = (
    "check_every_rank_holds_its_slice",
    "check_half_and_gradients",
    "check_lengths_as_dtensors",
    "check_rejected",
)


@pytest.mark.parametrize("world_size", [2, 4])
def test_ranks(world_size):
    run_gloo_ranks(run_checks, world_size, CHECKS)


def test_eight_ranks():
    run_gloo_ranks(run_checks, 8, ("check_the_example_of_the_system_description",))
