# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Every sharding that npu_lightning_indexer refuses, with the exact message, before any launch."""

from __future__ import annotations

import re

import numpy as np
import pytest

from hyper_parallel import DTensor, Partial, Replicate, Shard, custom_ops, init_device_mesh

from .kl_loss_calls import TOP_K, top_k_tensors
from .sharded_calls import AXIS_NAMES, layout_of

FORMS = {
    "BSND": (((2, 2), (2, 4)), ". . . .|. . . .|. . .", {}),
    "TND": (((4,), (6,)), ". . .|. . .|. .", {"layout": "TND", "cu_seq_lens_q": [0, 4], "cu_seq_lens_k": [0, 6]}),
}
GATHER = " Gather it first: key = key.redistribute(key.device_mesh, (Replicate(), Replicate()))."


def mesh_of(ranks=None):
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=AXIS_NAMES, rank_list=ranks, init_backend=False)


def distributed(form, layouts, mesh):
    local = top_k_tensors(*FORMS[form][0])
    texts = dict(zip(local, (text.strip() for text in layouts.split("|")), strict=True))
    return {
        name: DTensor.from_local(value, mesh, layout_of(texts[name], mesh).placements) for name, value in local.items()
    }


def rejects(launches, form, tensors, message, error=ValueError, **keywords):
    with pytest.raises(error, match=f"^{re.escape(f'For {TOP_K}, {message}')}$"):
        custom_ops.npu_lightning_indexer(**tensors, **{"sparse_count": 2, **FORMS[form][2], **keywords})
    assert launches == []


@pytest.mark.parametrize(
    ("form", "layouts", "found", "tensor_map"),
    [
        ("BSND", ". . dp .|. . . .|. . .", "N1 (dim 2) of query", "(-1, -1, 1, -1)"),
        ("BSND", ". . . dp,tp|. . . .|. . .", "D (dim 3) of query", "(-1, -1, -1, (1, 0))"),
        ("BSND", ". . . .|. tp . .|. . .", "S2 (dim 1) of key", "(-1, 0, -1, -1)"),
        ("BSND", ". tp . .|. tp . .|. tp .", "S2 (dim 1) of key", "(-1, 0, -1, -1)"),
        ("BSND", ". . . .|. . dp .|. . .", "N2 (dim 2) of key", "(-1, -1, 1, -1)"),
        ("BSND", "dp . . .|dp . . .|dp . tp", "N1 (dim 2) of weights", "(1, -1, 0)"),
        ("TND", ". tp .|. . .|. .", "N1 (dim 1) of query", "(-1, 0, -1)"),
        ("TND", ". . .|. . tp|. .", "D (dim 2) of key", "(-1, -1, 0)"),
        ("TND", ". . .|. . .|. dp", "N1 (dim 1) of weights", "(-1, 1)"),
    ],
)
def test_dims_that_must_be_replicated(launches, form, layouts, found, tensor_map):
    hint = GATHER if found.startswith("S2") else ""
    message = f"{found} should be replicated, but got tensor_map={tensor_map}.{hint}"
    rejects(launches, form, distributed(form, layouts, mesh_of()), message)


@pytest.mark.parametrize(
    ("form", "layouts", "message"),
    [
        (
            "BSND",
            "dp . . .|tp . . .|. . .",
            "B (dim 0) of key should be sharded over (dp) like B (dim 0) of query, or replicated, "
            "but got (tp): tensor_map=(0, -1, -1, -1).",
        ),
        (
            "TND",
            "dp . .|dp . .|tp .",
            "T1 (dim 0) of weights should be sharded over (dp) like T1 (dim 0) of query, or replicated, "
            "but got (tp): tensor_map=(0, -1).",
        ),
        (
            "TND",
            ". . .|dp . .|. .",
            "T2 (dim 0) of key should be sharded over the first axes of T1 (dim 0) of query, no axis, or replicated, "
            f"but got (dp).{GATHER}",
        ),
        (
            "TND",
            "dp,tp . .|tp . .|. .",
            "T2 (dim 0) of key should be sharded over the first axes of T1 (dim 0) of query, (dp, tp), or replicated, "
            f"but got (tp).{GATHER}",
        ),
    ],
)
def test_axes_that_do_not_agree(launches, form, layouts, message):
    rejects(launches, form, distributed(form, layouts, mesh_of()), message)


@pytest.mark.parametrize("name", ["query", "key", "weights"])
@pytest.mark.parametrize("reduce_op", ["sum", "max"])
def test_partial_inputs(launches, name, reduce_op):
    mesh = mesh_of()
    tensors = distributed("BSND", FORMS["BSND"][1], mesh)
    tensors[name] = DTensor.from_local(tensors[name].to_local(), mesh, (Replicate(), Partial(reduce_op)))
    message = (
        f"{name} should not be Partial, but got placements=(Replicate(), Partial(reduce_op={reduce_op!r})). "
        "Redistribute it to Replicate() or Shard(dim) first."
    )
    rejects(launches, "BSND", tensors, message)


def test_mixed_meshes(launches):
    one, other = mesh_of(), mesh_of(ranks=(1, 0, 2, 3))
    tensors = distributed("TND", FORMS["TND"][1], one)
    tensors["key"] = DTensor.from_local(tensors["key"].to_local(), other, (Replicate(), Replicate()))
    rejects(launches, "TND", tensors, f"key should lie on the mesh of query, {one}, but got {other}.")


@pytest.mark.parametrize(
    ("form", "name", "shape", "message"),
    [
        ("BSND", "query", (2, 8, 128), "query should have the 4 dims (B, S1, N1, D) of format BSND, but got 3 dims with tensor_map=(-1, -1, -1)."),
        ("TND", "weights", (4, 8, 1), "weights should have the 2 dims (T1, N1) of format TND, but got 3 dims with tensor_map=(-1, -1, -1)."),
    ],
)  # fmt: skip
def test_ranks_that_do_not_fit_the_format(launches, form, name, shape, message):
    mesh = mesh_of()
    tensors = distributed(form, FORMS[form][1], mesh)
    tensors[name] = DTensor.from_local(np.ones(shape), mesh, (Replicate(), Replicate()))
    rejects(launches, form, tensors, message)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"cu_seq_lens_q": [0, 8]}, "cu_seq_lens_q should end at T1 = 4, the number of tokens of this data-parallel group, but got [0, 8]. "
         "These end at the tokens of all 2 groups: each group passes its own documents, counted from zero; for context "
         "parallelism gather the keys first, redistribute(mesh, placements) with Replicate()."),
        ({"cu_seq_lens_q": [4]}, "cu_seq_lens_q should start with 0 and hold at least one document end, but got [4]."),
        ({"cu_seq_lens_k": [0, 3, 6]}, "cu_seq_lens_q and cu_seq_lens_k should have as many documents, but got 1 and 2."),
        ({"cu_seq_lens_k": [0, 7, 6]}, "cu_seq_lens_k should not decrease, but got 6 after 7 at index 2: [0, 7, 6]."),
        ({"sparse_count": 0}, "sparse_count >= 1 is required, but got sparse_count=0."),
        ({"cmp_ratio": 4}, "cmp_ratio == 1 is required, but got cmp_ratio=4."),
        ({"sparse_mode": 2}, "sparse_mode should be one of 0, 3, but got 2."),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)  # fmt: skip
def test_lengths_and_values(launches, keywords, message):
    tensors = distributed("TND", "dp . .|dp . .|dp .", mesh_of())
    rejects(launches, "TND", tensors, message, **keywords)


@pytest.mark.parametrize(("name", "dim"), [("cu_seq_lens_q", "T1"), ("cu_seq_lens_k", "T2")])
def test_lengths_in_a_format_without_packed_dims(launches, name, dim):
    tensors = distributed("BSND", FORMS["BSND"][1], mesh_of())
    message = f"For {TOP_K}, {name} should be None in format BSND, which has no dim {dim}, but got "
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        custom_ops.npu_lightning_indexer(**tensors, sparse_count=2, **{name: [0, 2]})
    assert launches == []


@pytest.mark.parametrize(
    ("name", "shape"), [("cmp_residual_k", (1,)), ("block_table", (1, 3))], ids=["cmp_residual_k", "block_table"]
)
@pytest.mark.parametrize("as_dtensor", [False, True])
def test_tensors_that_have_no_mathematics_here(launches, name, shape, as_dtensor):
    mesh = mesh_of()
    value = np.ones(shape, np.int32)
    given = DTensor.from_local(value, mesh, (Replicate(), Replicate())) if as_dtensor else value
    with pytest.raises(ValueError, match=f"^For {TOP_K}, {name} is None is required, but got {name}="):
        custom_ops.npu_lightning_indexer(
            **distributed("TND", FORMS["TND"][1], mesh), sparse_count=2, **FORMS["TND"][2], **{name: given}
        )
    assert launches == []


def test_global_shapes_that_do_not_agree(launches):
    mesh = mesh_of()
    tensors = distributed("BSND", "dp . . .|dp . . .|dp . .", mesh)
    tensors["key"] = DTensor.from_local(tensors["key"].to_local()[:1], mesh, (Shard(0), Replicate()))
    rejects(launches, "BSND", tensors, "B (dim 0) of key should be 4, but got 2.")
