# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""`local_region` on NumPy: the tables that torch and MindSpore run too, and virtual ranks."""

from __future__ import annotations

import pytest

from hyper_parallel.platform.numpy.virtual_ranks import run_ranks
from tests.operators.sharded_calls import NUMPY
from tests.regions.region_calls import CASES
from tests.regions.region_mistakes import (
    MISTAKES,
    check_a_failure_inside_is_the_functions_own,
    check_mistake,
    check_nothing_runs_before_all_inputs_are_checked,
)
from tests.regions.region_ranks import check_all_ran, run_all


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_calls(case):
    case(NUMPY)


@pytest.mark.parametrize("row", MISTAKES.values(), ids=MISTAKES)
def test_mistakes(row):
    check_mistake(NUMPY, row)


def test_nothing_runs_before_all_inputs_are_checked():
    check_nothing_runs_before_all_inputs_are_checked(NUMPY)


def test_a_failure_inside_is_the_functions_own():
    check_a_failure_inside_is_the_functions_own(NUMPY)


@pytest.mark.parametrize("world_size", [2, 4])
def test_ranks(world_size):
    check_all_ran(run_ranks(run_all, world_size, NUMPY), world_size)
