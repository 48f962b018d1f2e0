# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""`local_region` on torch: the tables of all platforms."""

from __future__ import annotations

import pytest
from on_torch import TORCH
from ranks import run_gloo_ranks

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
    case(TORCH)


@pytest.mark.parametrize("row", MISTAKES.values(), ids=MISTAKES)
def test_mistakes(row):
    check_mistake(TORCH, row)


def test_nothing_runs_before_all_inputs_are_checked():
    check_nothing_runs_before_all_inputs_are_checked(TORCH)


def test_a_failure_inside_is_the_functions_own():
    check_a_failure_inside_is_the_functions_own(TORCH)


def run():
    return run_all(TORCH)


def test_two_ranks():
    check_all_ran(run_gloo_ranks(run, 2), 2)


def test_four_ranks():
    check_all_ran(run_gloo_ranks(run, 4), 4)
