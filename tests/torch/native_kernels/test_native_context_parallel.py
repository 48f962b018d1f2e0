# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Sequences that gloo ranks share, with compiled kernels, against the unsharded oracle."""

from __future__ import annotations

import pytest
from on_torch import TORCH
from ranks import run_gloo_ranks

from tests.native_kernels.no_reference import forbid_references
from tests.operators.sequence_calls import seen_on_rank
from tests.operators.sequence_table import check_rows, rows, rows_of_all_dtypes
from tests.operators.sharded_table import LARGE_MESHES, SMALL_MESHES


def run_rows(meshes):
    forbid_references()
    return [seen_on_rank(case, TORCH) for case in rows(meshes)]


def run_all_dtypes(meshes):
    forbid_references()
    return [seen_on_rank(case, TORCH) for case in rows_of_all_dtypes(meshes)]


@pytest.mark.parametrize(("ranks", "meshes"), [(2, SMALL_MESHES), (4, LARGE_MESHES)])
def test_every_row(ranks, meshes):
    check_rows(meshes, run_gloo_ranks(run_rows, ranks, meshes))


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "meshes"), [(2, SMALL_MESHES), (4, LARGE_MESHES)])
def test_every_dtype(ranks, meshes):
    check_rows(meshes, run_gloo_ranks(run_all_dtypes, ranks, meshes), rows_of_all_dtypes)
