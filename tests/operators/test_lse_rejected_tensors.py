# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""DTensors that npu_dense_lightning_indexer_softmax_lse refuses for another reason than how they are sharded.

Wrong ranks, mixed meshes, plain tensors among them, uneven shards, global shapes and lengths: exact messages, and
nothing launched.
"""

from __future__ import annotations

import numpy as np
import pytest

from hyper_parallel import DTensor, Replicate, Shard, distribute_tensor

from .lse_cases import DIMS, OP, TENSORS, draw
from .rejection import KEY, QUERY, WEIGHTS, distributed, mesh_of, rejects, run, tensors_of


@pytest.mark.parametrize("form", DIMS)
@pytest.mark.parametrize("name", TENSORS)
@pytest.mark.parametrize("change", [-1, 1], ids=["a dim too few", "a dim too many"])
def test_rank(launches, form, name, change):
    mesh = mesh_of()
    tensor = tensors_of(form)[name]
    wrong = tensor[0] if change < 0 else tensor[np.newaxis]
    words = ", ".join(DIMS[form][name].split())
    message = (
        f"{name} should have the {tensor.ndim} dims ({words}) of format {form}, "
        f"but got {wrong.ndim} dims with tensor_map={(-1,) * wrong.ndim}."
    )
    tensors = {**distributed(form, {}, mesh), name: DTensor.from_local(wrong, mesh, (Replicate(), Replicate()))}
    rejects(launches, form, tensors, message)


@pytest.mark.parametrize(
    ("mesh", "words"),
    [
        (lambda: mesh_of(names=("dp", "cp")), "DeviceMesh(cpu, dp=2, cp=2)"),
        (lambda: mesh_of((4,), ("dp",)), "DeviceMesh(cpu, dp=4)"),
        (lambda: mesh_of(ranks=(0, 2, 1, 3)), "DeviceMesh(cpu, dp=2, tp=2, rank_list=(0, 2, 1, 3))"),
    ],
    ids=["names", "shape", "order of ranks"],
)
@pytest.mark.parametrize("form", DIMS)
@pytest.mark.parametrize("name", [KEY, WEIGHTS])
def test_mixed_meshes(launches, form, name, mesh, words):
    tensors = distributed(form, {}, mesh_of())
    tensors[name] = distributed(form, {}, mesh())[name]
    message = f"{name} should lie on the mesh of query_index, DeviceMesh(cpu, dp=2, tp=2), but got {words}."
    rejects(launches, form, tensors, message)


@pytest.mark.parametrize("form", DIMS)
@pytest.mark.parametrize("name", TENSORS)
def test_a_plain_tensor_among_dtensors(launches, form, name):
    tensors = distributed(form, {}, mesh_of())
    message = (
        f"{name} should be a DTensor because another argument is one, but got a plain tensor. "
        f"Distribute it: distribute_tensor({name}, mesh, placements)."
    )
    rejects(launches, form, {**tensors, name: tensors[name].to_local()}, message, TypeError)


@pytest.mark.parametrize("name", TENSORS)
def test_a_list_among_dtensors(launches, name):
    tensors = distributed("BSND", {}, mesh_of())
    with pytest.raises(TypeError, match=f"^For {OP}, {name} should be a DTensor.*, but got a list"):
        run(**{**tensors, name: [1.0]})
    assert launches == []


@pytest.mark.parametrize("name", TENSORS)
def test_none_among_dtensors(launches, name):
    tensors = {**distributed("BSND", {}, mesh_of()), name: None}
    rejects(launches, "BSND", tensors, f"{name} should be a tensor, but got NoneType.", TypeError)


def test_uneven_shards(launches):
    mesh = mesh_of((2,), ("dp",))
    five = draw("BSND", B=5, S1=2, S2=4)
    with pytest.raises(ValueError, match=r"dim 0 of shape \(5, 2, 8, 128\) has extent 5.*divisible by the 2 shards"):
        distribute_tensor(five[QUERY], mesh, (Shard(0),))
    # Parts of 3 and 2 rows look like 6 rows from rank 0; what is replicated has 5.
    tensors = {
        QUERY: DTensor.from_local(five[QUERY][:3], mesh, (Shard(0),)),
        KEY: DTensor.from_local(five[KEY], mesh, (Replicate(),)),
        WEIGHTS: DTensor.from_local(five[WEIGHTS][:3], mesh, (Shard(0),)),
    }
    rejects(launches, "BSND", tensors, "B (dim 0) of key_index should be 6, but got 5.")


def test_uneven_shards_of_packed_tokens(launches):
    mesh = mesh_of((2,), ("dp",))
    nine = draw("TND", T1=9, T2=6)
    tensors = {
        QUERY: DTensor.from_local(nine[QUERY][:5], mesh, (Shard(0),)),
        KEY: DTensor.from_local(nine[KEY][:3], mesh, (Shard(0),)),
        WEIGHTS: DTensor.from_local(nine[WEIGHTS], mesh, (Replicate(),)),
    }
    rejects(launches, "TND", tensors, "T1 (dim 0) of weights should be 10, but got 9.")


WHOLE = (
    ". These end at the tokens of all 2 groups: each group passes its own documents, counted from zero; for context "
    "parallelism gather the keys first, redistribute(mesh, placements) with Replicate()."
)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        (
            ([8], [12]),
            f"actual_seq_qlen should end at T1 = 4, the number of tokens of this data-parallel group, but got [8]{WHOLE}",
        ),
        (
            ([4], [12]),
            f"actual_seq_klen should end at T2 = 6, the number of tokens of this data-parallel group, but got [12]{WHOLE}",
        ),
        (
            ([3], [6]),
            "actual_seq_qlen should end at T1 = 4, the number of tokens of this data-parallel group, but got [3].",
        ),
        (([2, 4], [6]), "actual_seq_qlen and actual_seq_klen should have as many documents, but got 2 and 1."),
    ],
    ids=["of all groups", "keys of all groups", "of nothing", "numbers of documents"],
)
def test_lengths_are_those_of_the_group(launches, lengths, message):
    sharding = {QUERY: {"T1": "dp"}, KEY: {"T2": "dp"}, WEIGHTS: {"T1": "dp"}}
    tensors = distributed("TND", sharding, mesh_of())
    rejects(launches, "TND", tensors, message, actual_seq_qlen=lengths[0], actual_seq_klen=lengths[1])


def test_lengths_in_bsnd(launches):
    message = "actual_seq_qlen should be None in format BSND, which has no dim T1, but got (2, 4)."
    rejects(launches, "BSND", distributed("BSND", {}, mesh_of()), message, actual_seq_qlen=[2, 4])


@pytest.mark.parametrize(
    ("word", "error", "message"),
    [
        ("BNSD", ValueError, "layout should be one of 'BSND', 'TND', but got 'BNSD'."),
        (3, TypeError, "layout should be of type str, but got 3."),
        (None, TypeError, "layout should be of type str, but got None."),
        (["BSND"], TypeError, "layout should be of type str, but got <class 'list'>."),
    ],
)
def test_layout_words(launches, word, error, message):
    rejects(launches, "BSND", distributed("BSND", {}, mesh_of()), message, error, layout=word)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({QUERY: (2, 2, 8, 64), KEY: (2, 4, 1, 64)}, "D == 128 is required, but got D=64."),
        ({QUERY: (2, 2, 12, 128), WEIGHTS: (2, 2, 12)}, "N1 in (8, 16, 32, 64) is required, but got N1=12."),
        ({KEY: (2, 1, 1, 128)}, "S1 <= S2 is required, but got S1=2, S2=1."),
        ({WEIGHTS: (3, 2, 8)}, "B (dim 0) of weights should be 4, but got 6."),
    ],
)
def test_global_shapes(launches, changes, message):
    mesh = mesh_of((2,), ("dp",))
    shapes = {**{name: tensor.shape for name, tensor in tensors_of("BSND").items()}, **changes}
    tensors = {
        name: DTensor.from_local(np.zeros(shape, np.float32), mesh, (Shard(0),)) for name, shape in shapes.items()
    }
    rejects(launches, "BSND", tensors, message)


def test_dtypes(launches):
    tensors = distributed("BSND", {}, mesh_of())
    tensors[KEY] = DTensor.from_local(tensors[KEY].to_local().astype(np.float16), mesh_of(), (Replicate(),) * 2)
    rejects(launches, "BSND", tensors, "key_index should have dtype float32, but got float16.", TypeError)
