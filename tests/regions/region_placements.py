# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What a region unwraps and wraps, by `in_placements` and `out_placements`. Every case takes the framework."""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from hyper_parallel import DTensor, Replicate, Shard, dtensor_dispatch, init_device_mesh, local_region

from .one_of_four import (
    COLUMNS,
    PENDING,
    ROWS,
    VALUES,
    WHOLE,
    affine,
    assert_local,
    assert_rows,
    cases,
    mesh_of_four,
    raised,
    region,
    rows,
)


def case_an_unlisted_dtensor_stays_as_it_is(framework):
    seen = []

    def function(x, y):
        seen.append(y)
        return x * 2

    y = rows(framework, 2)
    assert_rows(framework, region(function)(rows(framework), y), VALUES * 2)
    assert_rows(framework, region(function)(rows(framework), y=y), VALUES * 2)
    assert [item is y for item in seen] == [True, True]


def case_an_unlisted_dtensor_causes_no_wrapping(framework):
    run = region(lambda x, y: (x + 1, y.to_local() * 2), out=(ROWS, ROWS))
    plain = framework.tensor(VALUES)
    first, second = run(plain, rows(framework))
    assert_local(framework, first, VALUES + 1)
    assert_local(framework, second, VALUES * 2)
    assert_local(framework, region(lambda y: y.to_local(), listed={})(rows(framework)), VALUES)
    nothing_listed = local_region(lambda y: y.to_local(), device_mesh=mesh_of_four(), out_placements=ROWS)
    assert_local(framework, nothing_listed(rows(framework)), VALUES)


def case_listed_with_none_is_unwrapped_and_not_redistributed(framework):
    for redistribute_inputs in (False, True):
        run = region(lambda x: x + 1, {"x": None}, redistribute_inputs=redistribute_inputs)
        for placements in (ROWS, COLUMNS, WHOLE, PENDING):
            assert_rows(framework, run(rows(framework, placements=placements)), VALUES + 1)


def case_listed_with_none_on_another_mesh(framework):
    other = init_device_mesh("cpu", (4,), init_backend=False)
    given = DTensor.from_local(framework.tensor(VALUES), other, (Shard(0),))
    assert_rows(framework, region(lambda x: x + 1, {"x": None})(given), VALUES + 1)


def case_what_is_no_dtensor_passes_through(framework):
    seen = []

    def function(x, y):
        seen.append(x)
        return y

    tensor, dtensor = framework.tensor(VALUES), rows(framework)
    values = [tensor, [dtensor], (dtensor,), {"x": dtensor}, None, 3, "x"]
    for value in values:
        assert region(function)(value, 7) == 7
        assert region(function)(y=8, x=value) == 8
    assert all(given is value for given, value in zip(seen, [v for v in values for _ in range(2)], strict=True))


def case_a_raw_result_if_nothing_was_unwrapped(framework):
    result = framework.tensor(VALUES), [1]
    run = region(lambda x: result, out=ROWS)  # a count that does not fit is not looked at
    assert run(framework.tensor(VALUES)) is result


def case_a_raw_result_without_out_placements(framework):
    assert_local(framework, region(affine, out=None)(rows(framework), 1), VALUES + 1)
    result = (framework.tensor(VALUES), None)
    assert region(lambda x: result, out=None)(rows(framework)) is result


def case_a_list_is_one_output_that_is_no_tensor(framework):
    result = [framework.tensor(VALUES), 1]
    for out in (ROWS, (ROWS,), (None,)):
        assert region(lambda x: result, out=out)(rows(framework)) is result
    run = region(lambda x: result, out=(ROWS, ROWS))
    raised(ValueError, "2 entries and 1 output. Only a tuple is several outputs", lambda: run(rows(framework)))


def case_several_outputs(framework):
    run = region(lambda x: (x + 1, "text", x * 2, None), out=(ROWS, None, PENDING, ROWS))
    result = run(rows(framework))
    assert type(result) is tuple
    assert_rows(framework, result[0], VALUES + 1)
    assert_rows(framework, result[2], VALUES * 2, PENDING)
    assert (result[1], result[3]) == ("text", None)


def case_one_output_in_either_form(framework):
    for out in (PENDING, list(PENDING), (PENDING,), [list(PENDING)]):
        assert_rows(framework, region(lambda x: x + 1, out=out)(rows(framework)), VALUES + 1, PENDING)


def case_a_tuple_of_one_is_several_outputs(framework):
    (result,) = region(lambda x: (x + 1,), out=(ROWS,))(rows(framework))
    assert_rows(framework, result, VALUES + 1)
    raised(ValueError, "the placements of one", lambda: region(lambda x: (x,), out=ROWS)(rows(framework)))


def case_outputs_that_are_dtensors_stay(framework):
    other = rows(framework, 5, COLUMNS)
    for out in (ROWS, (ROWS,), (None,)):
        assert region(lambda x: other, out=out)(rows(framework)) is other
    first, second, third = region(lambda x: (other, x, other), out=(None, ROWS, ROWS))(rows(framework))
    assert first is other
    assert third is other
    assert_rows(framework, second, VALUES)


def case_outputs_that_are_no_tensors_stay(framework):
    for value in (None, 3, "text", {"x": 1}, 2.5):
        for out in (ROWS, (ROWS,), (None,)):
            assert region(lambda x: value, out=out)(rows(framework)) is value  # noqa: B023


def case_a_full_sum_is_a_tensor(framework):
    result = region(lambda x: x.sum(), out=PENDING)(rows(framework))
    assert_rows(framework, result, np.float32(VALUES.sum()), PENDING)
    assert result.shape == ()


Named = namedtuple("Named", ["first", "second"])


def case_named_tuples_stay_named(framework):
    result = region(lambda x: Named(x + 1, 3), out=(ROWS, None))(rows(framework))
    assert type(result) is Named
    assert_rows(framework, result.first, VALUES + 1)
    assert result.second == 3


def case_outputs_are_taken_as_from_local_takes_them(framework):
    """Another rank may have parts of another extent: as with from_local, this rank's part says what the whole is."""
    result = region(lambda x: x[:1], out=ROWS)(rows(framework))
    assert result.shape == (2, 3)
    assert_rows(framework, result, VALUES[:1])


def case_the_dispatch_switch_changes_nothing(framework):
    @region()
    def run(x):
        with dtensor_dispatch(enabled=True):
            return x * 2

    with dtensor_dispatch(enabled=False):
        assert_rows(framework, run(rows(framework)), VALUES * 2)

    @region()
    def switches(x):
        with dtensor_dispatch(enabled=False):
            return run(DTensor.from_local(x, mesh_of_four(), ROWS)).to_local()

    assert_rows(framework, switches(rows(framework)), VALUES * 2)


def case_placements_are_compared_by_what_they_say(framework):
    x = rows(framework, placements=(Replicate(), Shard(1)))
    run = region(lambda x: x + 1, {"x": [Replicate(), Shard(-1)]}, out=[Replicate(), Shard(-1)])
    assert_rows(framework, run(x), VALUES + 1, COLUMNS)


def case_later_changes_of_the_declaration_have_no_effect(framework):
    listed, out = {"x": list(ROWS)}, [list(ROWS)]
    run = region(lambda x: x + 1, listed, out)
    listed["x"][0] = Replicate()
    listed["y"] = ROWS
    out.append(None)
    assert_rows(framework, run(rows(framework)), VALUES + 1)


def case_arguments_of_the_caller_are_left_alone(framework):
    given = {"x": rows(framework), "y": 1}
    before = dict(given)
    region(affine)(**given)
    assert given.keys() == before.keys()
    assert all(given[name] is before[name] for name in before)


def case_gradients_land_on_the_local_tensors(framework):
    weights = (VALUES + 1) ** 2
    run = region(lambda x, y: (x * x * y, (x + y).sum()), ("x", "y"), out=(ROWS, PENDING))

    def loss(x, y):
        wrapped = [DTensor.from_local(value, mesh_of_four(), ROWS) for value in (x, y)]
        first, second = run(wrapped[0], y=wrapped[1])
        weight, five = framework.tensor(weights), framework.tensor(np.float32([5.0]))
        return framework.total(first.to_local(), weight) + framework.total(second.to_local(), five)

    x, y = VALUES, VALUES + 2
    of_x, of_y = framework.gradients(loss, [framework.tensor(x), framework.tensor(y)])
    np.testing.assert_allclose(framework.array(of_x), 2 * x * y * weights + 5, rtol=1e-6)
    np.testing.assert_allclose(framework.array(of_y), x * x * weights + 5, rtol=1e-6)


CASES = cases(globals())
