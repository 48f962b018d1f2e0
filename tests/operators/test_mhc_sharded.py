# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The mhc operators with B, S and T on mesh axes: outputs, layouts and gradients against the unsharded operator."""

from __future__ import annotations

import numpy as np
import pytest

from hyper_parallel.platform.numpy.virtual_ranks import run_ranks

from .mhc_calls import CLAMP, OUTPUT_NAMES, POST, PRE, call
from .sharded_calls import Case, check_gradients, check_sharded, on_rank


def post(mesh, inputs, out, gradients):
    names = ("x", "h_res", "h_out", "h_post")
    layouts = (dict(zip(names, (text.strip() for text in row.split("|")), strict=True)) for row in (inputs, gradients))
    return Case(mesh, next(layouts), {"out": out}, next(layouts))


POST_CASES = {
    # name: format, mesh, inputs x | h_res | h_out | h_post, output, gradients likewise
    "B on dp": ("BSN", (2,), "dp . . .|dp . . .|dp . .|dp . .", "dp . . .", "dp . . .|dp . . .|dp . .|dp . ."),
    "B on dp of 4": ("BSN", (4,), "dp . . .|dp . . .|dp . .|dp . .", "dp . . .", "dp . . .|dp . . .|dp . .|dp . ."),
    "S on dp": ("BSN", (2,), ". dp . .|. dp . .|. dp .|. dp .", ". dp . .", ". dp . .|. dp . .|. dp .|. dp ."),
    "B on tp, dp idle": ("BSN", (2, 2), "tp . . .|tp . . .|tp . .|tp . .", "tp . . .", "tp . . .|tp . . .|tp . .|tp . ."),
    "B on dp, S on tp": (
        "BSN", (2, 2),
        "dp tp . .|dp tp . .|dp tp .|dp tp .", "dp tp . .",
        "dp tp . .|dp tp . .|dp tp .|dp tp .",
    ),
    "B on both": (
        "BSN", (2, 2),
        "dp,tp . . .|dp,tp . . .|dp,tp . .|dp,tp . .", "dp,tp . . .",
        "dp,tp . . .|dp,tp . . .|dp,tp . .|dp,tp . .",
    ),
    "S on both, tp outermost": (
        "BSN", (2, 2),
        ". tp,dp . .|. tp,dp . .|. tp,dp .|. tp,dp .", ". tp,dp . .",
        ". tp,dp . .|. tp,dp . .|. tp,dp .|. tp,dp .",
    ),
    "D on tp": (
        "BSN", (2, 2),
        ". . . tp|. . . .|. . tp|. . .", ". . . tp",
        ". . . tp|. . . . +tp|. . tp|. . . +tp",
    ),
    "B on dp, D on tp, h_out cut": (
        "BSN", (2, 2),
        "dp . . tp|dp . . .|dp . .|dp . .", "dp . . tp",
        "dp . . tp|dp . . . +tp|dp . . +tp|dp . . +tp",
    ),
    "packed, T and D": ("TN", (2, 2), "dp . tp|dp . .|dp tp|dp .", "dp . tp", "dp . tp|dp . . +tp|dp tp|dp . +tp"),
    "nothing sharded": ("BSN", (2, 2), ". . . .|. . . .|. . .|. . .", ". . . .", ". . . .|. . . .|. . .|. . ."),
    "x cut": ("BSN", (2,), ". . . .|dp . . .|dp . .|dp . .", "dp . . .", ". . . . +dp|dp . . .|dp . .|dp . ."),
    "h_res and h_post cut": (
        "BSN", (4,),
        "dp . . .|. . . .|dp . .|. . .", "dp . . .",
        "dp . . .|. . . . +dp|dp . .|. . . +dp",
    ),
    "each tensor cut somewhere": (
        "BSN", (2, 2),
        "dp . . .|. tp . .|. . .|dp tp .", "dp tp . .",
        "dp . . . +tp|. tp . . +dp|. . . +dp,tp|dp tp .",
    ),
    "cut by both axes": (
        "BSN", (2, 2),
        "tp,dp . . .|. . . .|tp,dp . .|. . .", "tp,dp . . .",
        "tp,dp . . .|. . . . +dp,tp|tp,dp . .|. . . +dp,tp",
    ),
    "T on dp": ("TN", (2,), "dp . .|dp . .|dp .|dp .", "dp . .", "dp . .|dp . .|dp .|dp ."),
    "T on dp of 4": ("TN", (4,), "dp . .|dp . .|dp .|dp .", "dp . .", "dp . .|dp . .|dp .|dp ."),
    "T on tp, dp idle": ("TN", (2, 2), "tp . .|tp . .|tp .|tp .", "tp . .", "tp . .|tp . .|tp .|tp ."),
    "T on both": (
        "TN", (2, 2), "dp,tp . .|dp,tp . .|dp,tp .|dp,tp .", "dp,tp . .", "dp,tp . .|dp,tp . .|dp,tp .|dp,tp .",
    ),
    "T on both, tp outermost, x and h_out cut": (
        "TN", (2, 2), ". . .|tp,dp . .|. .|tp,dp .", "tp,dp . .", ". . . +dp,tp|tp,dp . .|. . +dp,tp|tp,dp .",
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", POST_CASES.values(), ids=POST_CASES)
def test_post(row):
    form, *rest = row
    check_sharded(call(POST, form), post(*rest))


PRE_CASES = {
    # name: format, mesh, x; outputs with the tokens first, sum_out, norm_out; gradients x, phi, alpha, bias.
    "B on dp": ("BSN", (2,), "dp . . .", ("dp . .", ". dp . .", ". dp . . ."), ("dp . . .", ". . +dp", ". +dp", ". +dp")),
    "B on dp of 4": ("BSN", (4,), "dp . . .", ("dp . .", ". dp . .", ". dp . . ."), ("dp . . .", ". . +dp", ". +dp", ". +dp")),
    "S on dp": ("BSN", (2,), ". dp . .", (". dp .", ". . dp .", ". . dp . ."), (". dp . .", ". . +dp", ". +dp", ". +dp")),
    "B on tp, dp idle": (
        "BSN", (2, 2), "tp . . .", ("tp . .", ". tp . .", ". tp . . ."), ("tp . . .", ". . +tp", ". +tp", ". +tp"),
    ),
    "B on tp, S on dp": (
        "BSN", (2, 2), "tp dp . .",
        ("tp dp .", ". tp dp .", ". tp dp . ."),
        ("tp dp . .", ". . +dp,tp", ". +dp,tp", ". +dp,tp"),
    ),
    "B on both": (
        "BSN", (2, 2), "dp,tp . . .",
        ("dp,tp . .", ". dp,tp . .", ". dp,tp . . ."),
        ("dp,tp . . .", ". . +dp,tp", ". +dp,tp", ". +dp,tp"),
    ),
    "S on both, tp outermost": (
        "BSN", (2, 2), ". tp,dp . .",
        (". tp,dp .", ". . tp,dp .", ". . tp,dp . ."),
        (". tp,dp . .", ". . +dp,tp", ". +dp,tp", ". +dp,tp"),
    ),
    "nothing sharded": ("BSN", (2, 2), ". . . .", (". . .", ". . . .", ". . . . ."), (". . . .", ". .", ".", ".")),
    "T on dp": ("TN", (2,), "dp . .", ("dp .", ". dp .", ". dp . ."), ("dp . .", ". . +dp", ". +dp", ". +dp")),
    "T on dp of 4": ("TN", (4,), "dp . .", ("dp .", ". dp .", ". dp . ."), ("dp . .", ". . +dp", ". +dp", ". +dp")),
    "T on both": (
        "TN", (2, 2), "dp,tp . .",
        ("dp,tp .", ". dp,tp .", ". dp,tp . ."),
        ("dp,tp . .", ". . +dp,tp", ". +dp,tp", ". +dp,tp"),
    ),
    "T on both, tp outermost": (
        "TN", (2, 2), "tp,dp . .",
        ("tp,dp .", ". tp,dp .", ". tp,dp . ."),
        ("tp,dp . .", ". . +dp,tp", ". +dp,tp", ". +dp,tp"),
    ),
}  # fmt: skip


def pre(op, mesh, x, outputs, gradients):
    by_tokens, sums, norms = outputs
    special = {"sum_out": sums, "norm_out": norms, "h_res_logits": norms}
    return Case(
        mesh,
        {"x": x, "phi": ". .", "alpha": ".", "bias": "."},
        {name: special.get(name, by_tokens) for name in OUTPUT_NAMES[op]},
        dict(zip(("x", "phi", "alpha", "bias"), gradients, strict=True)),
    )


@pytest.mark.parametrize("op", [PRE, CLAMP])
@pytest.mark.parametrize("row", PRE_CASES.values(), ids=PRE_CASES)
def test_pre(op, row):
    form, *rest = row
    check_sharded(call(op, form), pre(op, *rest))


@pytest.mark.parametrize("op", [POST, PRE, CLAMP])
def test_a_loss_scaled_by_3_scales_every_gradient_by_3(op):
    if op == POST:
        form, *rest = POST_CASES["each tensor cut somewhere"]
        case = post(*rest)
    else:
        form, *rest = PRE_CASES["B on tp, S on dp"]
        case = pre(op, *rest)
    whole = call(op, form)
    check_gradients(whole, case, run_ranks(on_rank, case.ranks, whole, case, 3.0), factor=3.0)


def test_the_gradient_of_a_cut_input_is_zero_outside_the_part():
    form, *rest = POST_CASES["x cut"]
    whole, case = call(POST, form), post(*rest)
    for rank, seen in enumerate(run_ranks(on_rank, case.ranks, whole, case)):
        own, other = (np.split(seen.gradients["x"], 2)[part] for part in (rank, 1 - rank))
        assert np.all(own != 0.0)
        assert not np.any(other)
