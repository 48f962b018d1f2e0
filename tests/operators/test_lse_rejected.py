# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Every sharding that npu_dense_lightning_indexer_softmax_lse refuses, with the exact message, before any launch.

The mesh describes layouts only, so that one rank can speak for all; one test lets all ranks speak.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from hyper_parallel import DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh
from hyper_parallel.platform.numpy.virtual_ranks import run_ranks

from .lse_cases import DIMS, OP, TENSORS
from .rejection import BOTH, KEY, LENGTHS, QUERY, WEIGHTS, distributed, mesh_of, rejects, run, tensors_of

GATHER = " Gather it first: key_index = key_index.redistribute(key_index.device_mesh, (Replicate(), Replicate()))."


def replicated(what: str, tensor_map: str) -> str:
    return f"{what} should be replicated, but got tensor_map={tensor_map}.{GATHER if what.startswith('S2') else ''}"


@pytest.mark.parametrize(
    ("form", "sharding", "message"),
    [
        ("BSND", {QUERY: {"B": "dp", "N1": "tp"}}, replicated("N1 (dim 2) of query_index", "(1, -1, 0, -1)")),
        ("BSND", {QUERY: {"N1": BOTH}}, replicated("N1 (dim 2) of query_index", "(-1, -1, (1, 0), -1)")),
        ("BSND", {WEIGHTS: {"N1": "tp"}}, replicated("N1 (dim 2) of weights", "(-1, -1, 0)")),
        (
            "BSND",
            {QUERY: {"N1": "dp"}, WEIGHTS: {"N1": "dp"}},
            replicated("N1 (dim 2) of query_index", "(-1, -1, 1, -1)"),
        ),
        ("BSND", {QUERY: {"D": "dp"}}, replicated("D (dim 3) of query_index", "(-1, -1, -1, 1)")),
        ("BSND", {KEY: {"D": "tp"}}, replicated("D (dim 3) of key_index", "(-1, -1, -1, 0)")),
        ("BSND", {QUERY: {"D": "tp"}, KEY: {"D": "tp"}}, replicated("D (dim 3) of query_index", "(-1, -1, -1, 0)")),
        ("BSND", {KEY: {"S2": "dp"}}, replicated("S2 (dim 1) of key_index", "(-1, 1, -1, -1)")),
        (
            "BSND",
            {QUERY: {"S1": "tp"}, WEIGHTS: {"S1": "tp"}, KEY: {"S2": "tp"}},
            replicated("S2 (dim 1) of key_index", "(-1, 0, -1, -1)"),
        ),
        ("BSND", {KEY: {"N2": "tp"}}, replicated("N2 (dim 2) of key_index", "(-1, -1, 0, -1)")),
        ("TND", {QUERY: {"N1": "tp"}}, replicated("N1 (dim 1) of query_index", "(-1, 0, -1)")),
        (
            "TND",
            {QUERY: {"T1": "dp"}, KEY: {"T2": "dp"}, WEIGHTS: {"T1": "dp", "N1": "tp"}},
            replicated("N1 (dim 1) of weights", "(1, 0)"),
        ),
        ("TND", {QUERY: {"D": "dp"}}, replicated("D (dim 2) of query_index", "(-1, -1, 1)")),
        ("TND", {KEY: {"D": BOTH}}, replicated("D (dim 2) of key_index", "(-1, -1, (1, 0))")),
        ("TND", {KEY: {"N2": "dp"}}, replicated("N2 (dim 1) of key_index", "(-1, 1, -1)")),
    ],
)
def test_dims_that_must_be_replicated(launches, form, sharding, message):
    rejects(launches, form, distributed(form, sharding, mesh_of()), message)


def alike(what: str, like: str, expected: str, given: str) -> str:
    return f"{what} should be sharded over {expected} like {like}, or replicated, but got {given}."


@pytest.mark.parametrize(
    ("form", "sharding", "message"),
    [
        (
            "BSND",
            {QUERY: {"B": "dp"}, KEY: {"B": "tp"}},
            alike("B (dim 0) of key_index", "B (dim 0) of query_index", "(dp)", "(tp): tensor_map=(0, -1, -1, -1)"),
        ),
        (
            "BSND",
            {KEY: {"B": "dp"}, WEIGHTS: {"B": "tp"}},
            alike("B (dim 0) of weights", "B (dim 0) of key_index", "(dp)", "(tp): tensor_map=(0, -1, -1)"),
        ),
        (
            "BSND",
            {QUERY: {"B": BOTH}, KEY: {"B": "dp"}},
            alike("B (dim 0) of key_index", "B (dim 0) of query_index", "(dp, tp)", "(dp): tensor_map=(1, -1, -1, -1)"),
        ),
        (
            "BSND",
            {QUERY: {"B": BOTH}, KEY: {"B": BOTH}, WEIGHTS: {"B": ("tp", "dp")}},
            alike(
                "B (dim 0) of weights", "B (dim 0) of query_index", "(dp, tp)", "(tp, dp): tensor_map=((0, 1), -1, -1)"
            ),
        ),
        (
            "BSND",
            {QUERY: {"S1": "dp"}, WEIGHTS: {"S1": "tp"}},
            alike("S1 (dim 1) of weights", "S1 (dim 1) of query_index", "(dp)", "(tp): tensor_map=(-1, 0, -1)"),
        ),
        (
            "TND",
            {QUERY: {"T1": "dp"}, KEY: {"T2": "dp"}, WEIGHTS: {"T1": "tp"}},
            alike("T1 (dim 0) of weights", "T1 (dim 0) of query_index", "(dp)", "(tp): tensor_map=(0, -1)"),
        ),
    ],
)
def test_one_dim_in_two_places(launches, form, sharding, message):
    rejects(launches, form, distributed(form, sharding, mesh_of()), message)


@pytest.mark.parametrize(
    ("sharding", "query_axes", "given", "gathered"),
    [
        ({KEY: {"T2": "dp"}}, "no axis", "(dp)", "(Replicate(), Replicate())"),
        ({QUERY: {"T1": "dp"}, KEY: {"T2": "tp"}}, "(dp)", "(tp)", "(Replicate(), Replicate())"),
        # As far as both lie on the same axes, these are groups.
        ({QUERY: {"T1": "dp"}, KEY: {"T2": BOTH}}, "(dp)", "(dp, tp)", "(Shard(dim=0), Replicate())"),
        ({QUERY: {"T1": BOTH}, KEY: {"T2": "tp"}}, "(dp, tp)", "(tp)", "(Replicate(), Replicate())"),
        ({QUERY: {"T1": BOTH}, KEY: {"T2": ("tp", "dp")}}, "(dp, tp)", "(tp, dp)", "(Replicate(), Replicate())"),
    ],
)
def test_packed_keys_elsewhere_than_packed_queries(launches, sharding, query_axes, given, gathered):
    message = (
        f"T2 (dim 0) of key_index should be sharded over the first axes of T1 (dim 0) of query_index, {query_axes}, "
        f"or replicated, but got {given}. Gather it first: "
        f"key_index = key_index.redistribute(key_index.device_mesh, {gathered})."
    )
    rejects(launches, "TND", distributed("TND", sharding, mesh_of()), message)


def test_one_axis_on_two_dims(launches):
    tensors = distributed("BSND", {QUERY: {"B": "dp"}, WEIGHTS: {"S1": "dp"}}, mesh_of())
    message = "the mesh axis dp should shard one dim, but got both B (dim 0) of query_index and S1 (dim 1) of weights."
    rejects(launches, "BSND", tensors, message)


@pytest.mark.parametrize("form", DIMS)
@pytest.mark.parametrize("name", TENSORS)
@pytest.mark.parametrize("reduce_op", ["sum", "max", "min", "avg"])
def test_partial_inputs(launches, form, name, reduce_op):
    mesh = mesh_of()
    partial = DTensor.from_local(tensors_of(form)[name], mesh, (Replicate(), Partial(reduce_op)))
    message = (
        f"{name} should not be Partial, but got placements=(Replicate(), Partial(reduce_op={reduce_op!r})). "
        "Redistribute it to Replicate() or Shard(dim) first."
    )
    rejects(launches, form, {**distributed(form, {}, mesh), name: partial}, message)


def test_partial_beside_shards(launches):
    mesh = mesh_of()
    tensors = distributed("BSND", {name: {"B": "dp"} for name in TENSORS}, mesh)
    tensors[KEY] = DTensor.from_local(tensors[KEY].to_local(), mesh, (Shard(0), Partial()))
    message = (
        "key_index should not be Partial, but got placements=(Shard(dim=0), Partial(reduce_op='sum')). "
        "Redistribute it to Replicate() or Shard(dim) first."
    )
    rejects(launches, "BSND", tensors, message)


@pytest.mark.parametrize(
    ("form", "sharding", "found"),
    [
        ("BSND", {QUERY: {"N1": "tp"}}, "N1 (dim 2) of query_index"),
        ("TND", {KEY: {"T2": "dp"}}, "T2 (dim 0) of key_index"),
    ],
)
def test_every_rank_refuses(launches, form, sharding, found):
    def on_rank():
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=BOTH)
        with pytest.raises(ValueError, match=re.escape(f"For {OP}, {found} should be ")):
            run(**distributed(form, sharding, mesh), **LENGTHS[form])
        return True

    assert run_ranks(on_rank, 4) == [True] * 4
    assert launches == []


def test_a_refused_layout_stays_refused_and_spoils_nothing(launches):
    mesh = mesh_of()
    wrong, right = distributed("BSND", {QUERY: {"N1": "tp"}}, mesh), distributed("BSND", {}, mesh)
    for _ in range(2):
        rejects(launches, "BSND", wrong, replicated("N1 (dim 2) of query_index", "(-1, -1, 0, -1)"))
    run(**right)
    assert launches == [OP]


def test_collectives_would_be_seen(launches):
    tensor = np.ones((2, 2), np.float32)

    def on_rank():
        return distribute_tensor(tensor, init_device_mesh("cpu", (2,)), (Shard(0),)).full_tensor()

    run_ranks(on_rank, 2)
    assert launches == ["all_gather(dim=0) over mesh axis 'dim_0'"] * 2
