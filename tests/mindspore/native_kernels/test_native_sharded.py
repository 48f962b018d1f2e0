# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The seven operators on mccl ranks with compiled kernels, against the unsharded oracle."""

from __future__ import annotations

from on_mindspore import MINDSPORE
from ranks import run_mccl_ranks

from tests.native_kernels.no_reference import forbid_references
from tests.operators.sharded_calls import on_rank
from tests.operators.sharded_table import SMALL_MESHES, check_rows, rows


def run_rows(meshes):
    forbid_references()
    return [on_rank(call, case, 1.0, MINDSPORE) for _, call, case in rows(meshes)]


def test_every_row():
    check_rows(SMALL_MESHES, run_mccl_ranks(run_rows, 2, SMALL_MESHES))
