# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""npu_mhc_post on pending sums: it is linear in {x, h_out} and in {h_res, h_post}, and in nothing else.

The summands are uneven and of alternating signs; what the ranks hold must add up to the unsharded value.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from hyper_parallel import DTensor, Partial, Replicate, custom_ops, init_device_mesh
from hyper_parallel.platform.numpy.virtual_ranks import run_ranks

from .mhc_calls import INPUTS, POST, call
from .sharded_calls import AXIS_NAMES, Case, check_sharded, layout_of, on_rank, summands

NAMES = INPUTS[POST]


def words(row):
    return dict(zip(NAMES, (text.strip() for text in row.split("|")), strict=True))


CASES = {
    # name: format, mesh, inputs x | h_res | h_out | h_post, output, gradients likewise
    "x and h_out": (
        "BSN", (2,),
        ". . . . +dp|. . . .|. . . +dp|. . .", ". . . . +dp",
        ". . . .|. . . . +dp|. . .|. . . +dp",
    ),
    "h_res and h_post": (
        "BSN", (4,),
        ". . . .|. . . . +dp|. . .|. . . +dp", ". . . . +dp",
        ". . . . +dp|. . . .|. . . +dp|. . .",
    ),
    "packed, x and h_out": ("TN", (4,), ". . . +dp|. . .|. . +dp|. .", ". . . +dp", ". . .|. . . +dp|. .|. . +dp"),
    "packed, h_res and h_post": ("TN", (2,), ". . .|. . . +dp|. .|. . +dp", ". . . +dp", ". . . +dp|. . .|. . +dp|. ."),
    "x and h_out over both axes": (
        "BSN", (2, 2),
        ". . . . +dp,tp|. . . .|. . . +dp,tp|. . .", ". . . . +dp,tp",
        ". . . .|. . . . +dp,tp|. . .|. . . +dp,tp",
    ),
    "one group on each axis": (
        "BSN", (2, 2),
        ". . . . +dp|. . . . +tp|. . . +dp|. . . +tp", ". . . . +dp,tp",
        ". . . . +tp|. . . . +dp|. . . +tp|. . . +dp",
    ),
    "B on dp, x and h_out pending on tp": (
        "BSN", (2, 2),
        "dp . . . +tp|dp . . .|dp . . +tp|dp . .", "dp . . . +tp",
        "dp . . .|dp . . . +tp|dp . .|dp . . +tp",
    ),
    "S on tp, h_res and h_post pending on dp": (
        "BSN", (2, 2),
        ". tp . .|. tp . . +dp|. tp .|. tp . +dp", ". tp . . +dp",
        ". tp . . +dp|. tp . .|. tp . +dp|. tp .",
    ),
    "pending and cut": (
        "BSN", (2, 2),
        ". . . . +tp|dp . . .|. . . +tp|. . .", "dp . . . +tp",
        ". . . . +dp|dp . . . +tp|. . . +dp|. . . +dp,tp",
    ),
    "packed, T on tp, pending on dp": (
        "TN", (2, 2),
        "tp . . +dp|tp . .|tp . +dp|tp .", "tp . . +dp",
        "tp . .|tp . . +dp|tp .|tp . +dp",
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", CASES.values(), ids=CASES)
def test_pending_sums_stay_pending(row):
    form, mesh, inputs, out, gradients = row
    check_sharded(call(POST, form), Case(mesh, words(inputs), {"out": out}, words(gradients)))


def test_no_rank_holds_the_whole_of_a_pending_sum():
    form, mesh, inputs, out, gradients = CASES["x and h_out"]
    whole, case = call(POST, form), Case(mesh, words(inputs), {"out": out}, words(gradients))
    for seen in run_ranks(on_rank, 2, whole, case):
        assert not np.any(np.isclose(seen.outputs["out"], whole.outputs["out"]))


GROUPS = "exactly the inputs {x, h_out} or {h_res, h_post} may be Partial(sum), but got"
GATHER = "Redistribute it to Replicate() or Shard(dim) first."
SUM, MAX, AVG, R = "Partial(reduce_op='sum')", "Partial(reduce_op='max')", "Partial(reduce_op='avg')", "Replicate()"


def partial(names, reduce_op="sum", axis=1):
    """Placements on (dp, tp): these tensors are Partial on one axis."""
    on_axis = [Partial(reduce_op), Replicate()] if axis == 0 else [Replicate(), Partial(reduce_op)]
    return {name: tuple(on_axis) if name in names else (Replicate(), Replicate()) for name in NAMES}


REFUSED = {
    "x alone": (partial(["x"]), f"on axis tp {GROUPS} x with placements=({R}, {SUM}). {GATHER}"),
    "h_out alone": (partial(["h_out"]), f"on axis tp {GROUPS} h_out with placements=({R}, {SUM}). {GATHER}"),
    "h_res alone": (partial(["h_res"], axis=0), f"on axis dp {GROUPS} h_res with placements=({SUM}, {R}). {GATHER}"),
    "h_post alone": (partial(["h_post"]), f"on axis tp {GROUPS} h_post with placements=({R}, {SUM}). {GATHER}"),
    "x of one group, h_post of the other": (
        partial(["x", "h_post"]),
        f"on axis tp {GROUPS} x with placements=({R}, {SUM}). {GATHER}",
    ),
    "a group and one more": (
        partial(["x", "h_out", "h_res"]),
        f"on axis tp {GROUPS} x with placements=({R}, {SUM}). {GATHER}",
    ),
    "all": (partial(NAMES), f"on axis tp {GROUPS} x with placements=({R}, {SUM}). {GATHER}"),
    "a group spread over two axes": (
        {**partial(["x"], axis=0), "h_out": (Replicate(), Partial())},
        f"on axis dp {GROUPS} x with placements=({SUM}, {R}). {GATHER}",
    ),
    "maxima": (partial(["x", "h_out"], "max"), f"on axis tp {GROUPS} x with placements=({R}, {MAX}). {GATHER}"),
    "averages": (
        partial(["h_res", "h_post"], "avg"),
        f"on axis tp {GROUPS} h_res with placements=({R}, {AVG}). {GATHER}",
    ),
    "a sum and an average": (
        {**partial(["x"]), "h_out": (Replicate(), Partial("avg"))},
        f"on axis tp {GROUPS} x with placements=({R}, {SUM}). {GATHER}",
    ),
}


@pytest.mark.parametrize(("placements", "message"), REFUSED.values(), ids=REFUSED)
def test_other_pending_inputs_are_refused(launches, placements, message):
    tensors = call(POST, "BSN").tensors
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=AXIS_NAMES, init_backend=False)
    given = {name: DTensor.from_local(tensor, mesh, placements[name]) for name, tensor in tensors.items()}
    with pytest.raises(ValueError, match=f"^{re.escape(f'For {POST}, {message}')}$"):
        custom_ops.npu_mhc_post(**given)
    assert launches == []


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            ". . . . +dp|dp . . .|. . . +dp|. . .",
            "B (dim 0) of h_res should not be sharded over dp, because x is Partial(sum) on it.",
        ),
        (
            ". . . .|. . . . +tp|. tp .|. . . +tp",
            "S (dim 1) of h_out should not be sharded over tp, because h_res is Partial(sum) on it.",
        ),
    ],
)
def test_an_axis_with_pending_sums_shards_nothing(launches, inputs, message):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=AXIS_NAMES, init_backend=False)
    given = {
        name: DTensor.from_local(tensor, mesh, layout_of(words(inputs)[name], mesh).placements)
        for name, tensor in call(POST, "BSN").tensors.items()
    }
    with pytest.raises(ValueError, match=f"^{re.escape(f'For {POST}, {message}')}$"):
        custom_ops.npu_mhc_post(**given)
    assert launches == []


def test_summands_are_uneven_and_alternate():
    whole = np.full((3, 2), 5.0)
    parts = summands(whole, 4)
    np.testing.assert_allclose(sum(parts), whole)
    for part, sign in zip(parts[:-1], (1, -1, 1), strict=True):
        assert np.all(np.sign(part) == sign)
    assert len({float(part[0, 0]) for part in parts}) == 4
