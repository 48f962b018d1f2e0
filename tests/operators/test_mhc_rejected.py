# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Every sharding that the mhc operators refuse, with the exact message, before any launch.

The mesh describes layouts only, so that one rank can speak for all; one test lets all ranks speak.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from hyper_parallel import DTensor, Partial, Replicate, Shard, custom_ops, init_device_mesh
from hyper_parallel.platform.numpy.virtual_ranks import run_ranks

from .mhc_calls import ATTRIBUTES, CLAMP, INPUTS, POST, PRE, draw
from .sharded_calls import AXIS_NAMES, layout_of

TOKENS = {"BSN": (2, 2), "TN": (4,)}
REPLICATED = {
    (POST, "BSN"): ". . . .|. . . .|. . .|. . .",
    (POST, "TN"): ". . .|. . .|. .|. .",
    (PRE, "BSN"): ". . . .|. .|.|.",
    (PRE, "TN"): ". . .|. .|.|.",
}
REPLICATED |= {(CLAMP, form): REPLICATED[PRE, form] for form in TOKENS}


def mesh_of(ranks=None, shape=(2, 2)):
    return init_device_mesh("cpu", shape, mesh_dim_names=AXIS_NAMES, rank_list=ranks, init_backend=False)


def distributed(op, form, layouts, mesh):
    """This rank holds small tensors in the layouts of ``"x|..."``."""
    local = draw(op, TOKENS[form])
    texts = dict(zip(INPUTS[op], (text.strip() for text in layouts.split("|")), strict=True))
    return {
        name: DTensor.from_local(value, mesh, layout_of(texts[name], mesh).placements) for name, value in local.items()
    }


def rejects(launches, op, tensors, message, error=ValueError):
    with pytest.raises(error, match=f"^{re.escape(f'For {op}, {message}')}$"):
        getattr(custom_ops, op)(**tensors, **ATTRIBUTES[op])
    assert launches == []


@pytest.mark.parametrize(
    ("op", "form", "layouts", "found", "tensor_map"),
    [
        (POST, "BSN", ". . dp .|. . . .|. . .|. . .", "N (dim 2) of x", "(-1, -1, 1, -1)"),
        (POST, "BSN", ". . . .|. . dp .|. . .|. . .", "N (dim 2) of h_res", "(-1, -1, 1, -1)"),
        (POST, "BSN", ". . . .|. . . dp|. . .|. . .", "N (dim 3) of h_res", "(-1, -1, -1, 1)"),
        (POST, "BSN", ". . . .|. . . .|. . .|. . tp", "N (dim 2) of h_post", "(-1, -1, 0)"),
        (POST, "BSN", "dp . tp .|dp . tp .|dp . .|dp . tp", "N (dim 2) of x", "(1, -1, 0, -1)"),
        (POST, "TN", ". dp .|. . .|. .|. .", "N (dim 1) of x", "(-1, 1, -1)"),
        (POST, "TN", ". . .|. . dp|. .|. .", "N (dim 2) of h_res", "(-1, -1, 1)"),
        (PRE, "BSN", ". . dp .|. .|.|.", "N (dim 2) of x", "(-1, -1, 1, -1)"),
        (PRE, "BSN", ". . . tp|. .|.|.", "C (dim 3) of x", "(-1, -1, -1, 0)"),
        (PRE, "BSN", ". . . tp|. tp|.|.", "C (dim 3) of x", "(-1, -1, -1, 0)"),
        (PRE, "BSN", ". . . .|dp .|.|.", "N*N+2*N (dim 0) of phi", "(1, -1)"),
        (PRE, "BSN", ". . . .|. tp|.|.", "N*C (dim 1) of phi", "(-1, 0)"),
        (PRE, "BSN", "dp . . .|. .|tp|.", "3 (dim 0) of alpha", "(0)"),
        (PRE, "BSN", "dp . . .|. .|.|tp", "N*N+2*N (dim 0) of bias", "(0)"),
        (PRE, "TN", ". . dp|. .|.|.", "C (dim 2) of x", "(-1, -1, 1)"),
        (CLAMP, "BSN", "dp . tp .|. .|.|.", "N (dim 2) of x", "(1, -1, 0, -1)"),
        (CLAMP, "TN", "tp . .|dp .|.|.", "N*N+2*N (dim 0) of phi", "(1, -1)"),
    ],
)
def test_dims_that_must_be_replicated(launches, op, form, layouts, found, tensor_map):
    tensor_map = tensor_map.replace("(0)", "(0,)")
    message = f"{found} should be replicated, but got tensor_map={tensor_map}."
    rejects(launches, op, distributed(op, form, layouts, mesh_of()), message)


@pytest.mark.parametrize(("op", "name"), [(op, name) for op in (PRE, CLAMP) for name in INPUTS[op]], ids=str)
@pytest.mark.parametrize("reduce_op", ["sum", "max", "avg"])
def test_no_input_of_pre_may_be_partial(launches, op, name, reduce_op):
    mesh = mesh_of()
    tensors = distributed(op, "BSN", REPLICATED[op, "BSN"], mesh)
    tensors[name] = DTensor.from_local(tensors[name].to_local(), mesh, (Partial(reduce_op), Replicate()))
    message = (
        f"{name} should not be Partial, but got placements=(Partial(reduce_op={reduce_op!r}), Replicate()). "
        "Redistribute it to Replicate() or Shard(dim) first."
    )
    rejects(launches, op, tensors, message)


def alike(what, like, expected, given):
    return f"{what} should be sharded over {expected} like {like}, or replicated, but got {given}."


@pytest.mark.parametrize(
    ("form", "layouts", "message"),
    [
        (
            "BSN",
            "dp . . .|tp . . .|. . .|. . .",
            alike("B (dim 0) of h_res", "B (dim 0) of x", "(dp)", "(tp): tensor_map=(0, -1, -1, -1)"),
        ),
        (
            "BSN",
            ". . . .|. dp . .|. . .|. tp .",
            alike("S (dim 1) of h_post", "S (dim 1) of h_res", "(dp)", "(tp): tensor_map=(-1, 0, -1)"),
        ),
        (
            "BSN",
            "dp,tp . . .|dp,tp . . .|tp,dp . .|. . .",
            alike("B (dim 0) of h_out", "B (dim 0) of x", "(dp, tp)", "(tp, dp): tensor_map=((0, 1), -1, -1)"),
        ),
        (
            "TN",
            "dp,tp . .|dp . .|. .|. .",
            alike("T (dim 0) of h_res", "T (dim 0) of x", "(dp, tp)", "(dp): tensor_map=(1, -1, -1)"),
        ),
    ],
)
def test_one_dim_in_two_places(launches, form, layouts, message):
    rejects(launches, POST, distributed(POST, form, layouts, mesh_of()), message)


def test_one_axis_on_two_dims(launches):
    message = "the mesh axis dp should shard one dim, but got both B (dim 0) of x and S (dim 1) of h_out."
    rejects(launches, POST, distributed(POST, "BSN", "dp . . .|. . . .|. dp .|. . .", mesh_of()), message)


@pytest.mark.parametrize("op", [POST, PRE, CLAMP])
def test_mixed_meshes(launches, op):
    one, other = mesh_of(), mesh_of(ranks=(1, 0, 2, 3))
    tensors = distributed(op, "BSN", REPLICATED[op, "BSN"], one)
    second = INPUTS[op][1]
    tensors[second] = DTensor.from_local(tensors[second].to_local(), other, (Replicate(), Replicate()))
    rejects(launches, op, tensors, f"{second} should lie on the mesh of x, {one}, but got {other}.")


@pytest.mark.parametrize("op", [POST, PRE, CLAMP])
@pytest.mark.parametrize("rank", [1, 2, 5])
def test_no_format_has_that_rank(launches, op, rank):
    mesh = mesh_of()
    tensors = distributed(op, "BSN", REPLICATED[op, "BSN"], mesh)
    tensors["x"] = DTensor.from_local(np.ones((2,) * rank), mesh, (Replicate(), Replicate()))
    rejects(launches, op, tensors, f"x should have 4 or 3 dims, but got {rank}.")


@pytest.mark.parametrize(
    ("op", "form", "name", "shape", "message"),
    [
        (POST, "BSN", "h_res", (4, 3, 3), "h_res should have the 4 dims (B, S, N, N) of format BSND, but got 3 dims with tensor_map=(-1, -1, -1)."),
        (POST, "TN", "h_out", (2, 2, 4), "h_out should have the 2 dims (T, D) of format TND, but got 3 dims with tensor_map=(-1, -1, -1)."),
        (PRE, "TN", "bias", (15, 1), "bias should have the 1 dims (N*N+2*N) of format TNC, but got 2 dims with tensor_map=(-1, -1)."),
        (CLAMP, "BSN", "phi", (15,), "phi should have the 2 dims (N*N+2*N, N*C) of format BSNC, but got 1 dims with tensor_map=(-1,)."),
    ],
)  # fmt: skip
def test_ranks_that_do_not_fit_the_format(launches, op, form, name, shape, message):
    mesh = mesh_of()
    tensors = distributed(op, form, REPLICATED[op, form], mesh)
    tensors[name] = DTensor.from_local(np.ones(shape), mesh, (Replicate(), Replicate()))
    rejects(launches, op, tensors, message)


@pytest.mark.parametrize(
    ("op", "name", "placements", "shape", "message"),
    [
        # Four rows of B in x, but this rank's part times the axis is two, or six.
        (POST, "h_res", (Replicate(), Replicate()), (2, 2, 3, 3), "B (dim 0) of h_res should be 4, but got 2."),
        (POST, "h_post", (Shard(0), Replicate()), (3, 2, 3), "B (dim 0) of h_post should be 4, but got 6."),
        (POST, "h_out", (Shard(0), Replicate()), (2, 2, 5), "D (dim 2) of h_out should be 4, but got 5."),
        (PRE, "phi", (Replicate(), Replicate()), (15, 24), "N*C (dim 1) of phi should be 12, but got 24."),
        (PRE, "alpha", (Replicate(), Replicate()), (4,), "3 (dim 0) of alpha should be 3, but got 4."),
        (CLAMP, "bias", (Replicate(), Replicate()), (9,), "N*N+2*N (dim 0) of bias should be 15, but got 9."),
    ],
)
def test_global_shapes_that_do_not_agree(launches, op, name, placements, shape, message):
    mesh = mesh_of()
    layouts = "dp . . .|dp . . .|dp . .|dp . ." if op == POST else "dp . . .|. .|.|."
    tensors = distributed(op, "BSN", layouts, mesh)
    tensors[name] = DTensor.from_local(np.ones(shape), mesh, placements)
    rejects(launches, op, tensors, message)


@pytest.mark.parametrize("op", [POST, PRE, CLAMP])
def test_a_plain_tensor_among_distributed_ones(launches, op):
    tensors = distributed(op, "BSN", REPLICATED[op, "BSN"], mesh_of())
    name = INPUTS[op][-1]
    tensors[name] = tensors[name].to_local()
    message = (
        f"{name} should be a DTensor because another argument is one, but got a plain tensor. "
        f"Distribute it: distribute_tensor({name}, mesh, placements)."
    )
    rejects(launches, op, tensors, message, TypeError)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"hc_mult": 4}, "hc_mult == N is required, but got hc_mult=4, N=3."),
        ({"num_iters": 0}, "num_iters >= 1 is required, but got num_iters=0."),
    ],
)
@pytest.mark.parametrize("op", [PRE, CLAMP])
def test_attributes(launches, op, attributes, message):
    tensors = distributed(op, "BSN", "dp . . .|. .|.|.", mesh_of())
    with pytest.raises(ValueError, match=f"^{re.escape(f'For {op}, {message}')}$"):
        getattr(custom_ops, op)(**tensors, **{**ATTRIBUTES[op], **attributes})
    assert launches == []


def test_every_rank_refuses(launches):
    def on_rank():
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=AXIS_NAMES)
        with pytest.raises(ValueError, match=re.escape(f"For {PRE}, C (dim 3) of x should be replicated")):
            getattr(custom_ops, PRE)(**distributed(PRE, "BSN", ". . . dp|. .|.|.", mesh), **ATTRIBUTES[PRE])
        return True

    assert run_ranks(on_rank, 4) == [True] * 4
    assert launches == []


@pytest.mark.parametrize("op", [POST, PRE, CLAMP])
def test_a_refused_layout_spoils_nothing(launches, op):
    mesh = mesh_of()
    wrong = ". . dp ." + REPLICATED[op, "BSN"].removeprefix(". . . .")
    tensor_map = "(-1, -1, 1, -1)"
    for _ in range(2):
        message = f"N (dim 2) of x should be replicated, but got tensor_map={tensor_map}."
        rejects(launches, op, distributed(op, "BSN", wrong, mesh), message)
    getattr(custom_ops, op)(**distributed(op, "BSN", REPLICATED[op, "BSN"], mesh), **ATTRIBUTES[op])
    assert launches == [op]
