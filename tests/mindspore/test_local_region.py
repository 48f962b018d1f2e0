# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""`local_region` on MindSpore: the tables of all platforms."""

from __future__ import annotations

import pytest
from on_mindspore import MINDSPORE
from ranks import run_mccl_ranks

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
    case(MINDSPORE)


@pytest.mark.parametrize("row", MISTAKES.values(), ids=MISTAKES)
def test_mistakes(row):
    check_mistake(MINDSPORE, row)


def test_nothing_runs_before_all_inputs_are_checked():
    check_nothing_runs_before_all_inputs_are_checked(MINDSPORE)


def test_a_failure_inside_is_the_functions_own():
    check_a_failure_inside_is_the_functions_own(MINDSPORE)


def run():
    return run_all(MINDSPORE)


def test_two_ranks():
    check_all_ran(run_mccl_ranks(run, 2), 2)


@pytest.mark.slow
def test_four_ranks():
    check_all_ran(run_mccl_ranks(run, 4), 4)
