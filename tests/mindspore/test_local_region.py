# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""`local_region` on MindSpore: the tables of all platforms."""

from __future__ import annotations

import mindspore as ms
import numpy as np
import pytest
from on_mindspore import MINDSPORE
from ranks import run_mccl_ranks

from hyper_parallel import DTensor
from hyper_parallel.platform.mindspore.host_arrays import to_array, to_tensor
from tests.regions import region_calls, region_placements
from tests.regions.one_of_four import PENDING, ROWS, VALUES, assert_rows, mesh_of_four, region, rows
from tests.regions.region_mistakes import (
    MISTAKES,
    check_a_failure_inside_is_the_functions_own,
    check_mistake,
    check_nothing_runs_before_all_inputs_are_checked,
)
from tests.regions.region_ranks import check_all_ran, run_all

CASES = region_calls.CASES | region_placements.CASES


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


MESHES = {2: ((2,), (2, 1)), 4: ((4,), (2, 2))}  # its collectives take their time


def run():
    return run_all(MINDSPORE, MESHES)


def test_two_ranks():
    check_all_ran(run_mccl_ranks(run, 2), 2, MESHES)


@pytest.mark.slow
def test_four_ranks():
    check_all_ran(run_mccl_ranks(run, 4), 4, MESHES)


class Scaled(ms.nn.Cell):
    def __init__(self):
        super().__init__()
        self.weight = ms.Parameter(to_tensor(VALUES + 1), name="weight")

    def construct(self, hidden_states, scale=1):
        assert type(hidden_states) is ms.Tensor
        return hidden_states * self.weight * scale


@pytest.mark.parametrize("by_keyword", [False, True])
def test_a_cell_has_the_parameters_of_its_construct(by_keyword):
    cell = Scaled()
    run = region(cell, {"hidden_states": ROWS}, PENDING)

    def loss(x):
        d = DTensor.from_local(x, mesh_of_four(), ROWS)
        output = run(hidden_states=d, scale=2) if by_keyword else run(d, 2)
        assert output.placements == PENDING
        return output.to_local().sum()

    step = ms.value_and_grad(loss, 0, [cell.weight])
    value, (of_x, (of_weight,)) = step(to_tensor(VALUES))
    assert float(value) == 2 * (VALUES * (VALUES + 1)).sum()
    np.testing.assert_array_equal(to_array(of_x), 2 * (VALUES + 1))
    np.testing.assert_array_equal(to_array(of_weight), 2 * VALUES)
    with pytest.raises(
        ValueError, match=r"For Scaled, .*\(hidden_states, scale\).*'hidden'. Did you mean 'hidden_states'"
    ):
        region(cell, ("hidden",))(rows(MINDSPORE))


def test_the_construct_of_a_cell_as_a_region():
    class Block(ms.nn.Cell):
        @region(listed={"x": ROWS}, out=PENDING)
        def construct(self, x):
            return x * 2

    assert_rows(MINDSPORE, Block()(rows(MINDSPORE)), VALUES * 2, PENDING)
    assert_rows(MINDSPORE, Block()(x=rows(MINDSPORE)), VALUES * 2, PENDING)


def test_a_parameter_as_an_input_has_its_gradient():
    weight = ms.Parameter(to_tensor(VALUES), name="weight")
    run = region(lambda x, w: x * w * w, ("x", "w"))

    def loss(x):
        wrapped = [DTensor.from_local(value, mesh_of_four(), ROWS) for value in (x, weight)]
        return run(wrapped[0], w=wrapped[1]).to_local().sum()

    _, gradients = ms.value_and_grad(loss, None, [weight])(to_tensor(VALUES + 1))
    np.testing.assert_array_equal(to_array(gradients[0]), 2 * VALUES * (VALUES + 1))


def test_under_recompute():
    calls = []

    class Square(ms.nn.Cell):
        def construct(self, x):
            calls.append(1)
            return x * x

    run = region(Square())

    def inside(x):
        return run(DTensor.from_local(x, mesh_of_four(), ROWS)).to_local()

    def around(x):
        return ms.recompute(run, DTensor.from_local(x, mesh_of_four(), ROWS), use_reentrant=False).to_local()

    for repeated in (lambda x: ms.recompute(inside, x, use_reentrant=False), around):
        calls.clear()
        gradient = ms.grad(lambda x: repeated(x).sum())(to_tensor(VALUES))  # noqa: B023
        np.testing.assert_array_equal(to_array(gradient), 2 * VALUES)
        assert len(calls) == 2
