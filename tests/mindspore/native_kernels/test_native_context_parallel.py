# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Sequences that mccl ranks share, with compiled kernels, against the unsharded oracle."""

from __future__ import annotations

import pytest
from on_mindspore import MINDSPORE
from ranks import run_mccl_ranks

from tests.native_kernels.no_reference import forbid_references
from tests.operators.sequence_calls import seen_on_rank
from tests.operators.sequence_table import check_rows, rows, rows_of_all_dtypes
from tests.operators.sharded_table import SMALL_MESHES


def run_rows(meshes):
    forbid_references()
    return [seen_on_rank(case, MINDSPORE) for case in rows(meshes)]


def run_all_dtypes(meshes):
    forbid_references()
    return [seen_on_rank(case, MINDSPORE) for case in rows_of_all_dtypes(meshes)]


def test_every_row():
    check_rows(SMALL_MESHES, run_mccl_ranks(run_rows, 2, SMALL_MESHES))


@pytest.mark.slow
def test_every_dtype():
    check_rows(SMALL_MESHES, run_mccl_ranks(run_all_dtypes, 2, SMALL_MESHES), rows_of_all_dtypes)
