# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Calls of regions on one rank of four: what is unwrapped, what is wrapped, and how arguments find their parameters.

Nothing is communicated here; region_ranks.py does that. Every case takes the framework.
"""

from __future__ import annotations

import functools
import inspect
import re
import threading
import time
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

from hyper_parallel import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    dtensor_dispatch,
    get_platform,
    init_device_mesh,
    local_region,
)
from tests.operators.sharded_calls import Framework

VALUES = np.arange(6.0, dtype=np.float32).reshape(2, 3)
ROWS = (Shard(0), Replicate())
COLUMNS = (Replicate(), Shard(1))
WHOLE = (Replicate(), Replicate())
PENDING = (Partial(), Replicate())


def mesh_of_four():
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"), init_backend=False)


def rows(framework: Framework, factor: float = 1.0, placements: Any = ROWS) -> DTensor:
    return DTensor.from_local(framework.tensor(VALUES * np.float32(factor)), mesh_of_four(), placements)


def region(function: Any = None, listed: Any = ("x",), out: Any = ROWS, **keywords: Any) -> Any:
    inputs = listed if isinstance(listed, dict) else dict.fromkeys(listed, ROWS)
    return local_region(function, device_mesh=mesh_of_four(), in_placements=inputs, out_placements=out, **keywords)


def assert_rows(framework: Framework, given: Any, expected: Any, placements: Any = ROWS) -> None:
    assert type(given) is DTensor
    assert given.device_mesh is mesh_of_four()
    assert given.placements == placements
    np.testing.assert_array_equal(framework.array(given.to_local()), expected)


def assert_local(framework: Framework, given: Any, expected: Any) -> None:
    assert get_platform().is_tensor(given)
    np.testing.assert_array_equal(framework.array(given), expected)


def affine(x, y, scale=1):
    """x * scale + y"""
    assert get_platform().is_tensor(x)
    return x * scale + y


def case_call_form(framework):
    run = region(affine, ("x", "y"))
    assert_rows(framework, run(rows(framework), rows(framework, 2), 3), VALUES * 5)


def case_decorator_form(framework):
    @region(listed=("x", "y"))
    def run(x, y, scale=1):
        return affine(x, y, scale)

    assert_rows(framework, run(rows(framework), rows(framework, 2), 3), VALUES * 5)


def case_wraps(framework):
    run = region(affine)
    assert (run.__name__, run.__qualname__, run.__doc__) == ("affine", "affine", "x * scale + y")
    assert (run.__module__, run.__wrapped__) == (affine.__module__, affine)
    assert inspect.signature(run) == inspect.signature(affine)

    def marked(x):
        return x

    marked.mark = 5
    assert region(marked).mark == 5


def case_positions_keywords_and_both_mixed(framework):
    run = region(affine, ("x", "y"))
    x, y = rows(framework), rows(framework, 2)
    for result in (
        run(x, y, 3),
        run(x=x, y=y, scale=3),
        run(scale=3, y=y, x=x),
        run(x, y=y, scale=3),
        run(x, y, scale=3),
        run(x, scale=3, y=y),
    ):
        assert_rows(framework, result, VALUES * 5)


def case_a_keyword_wins_over_a_position(framework):
    x, other = rows(framework), rows(framework, 10)
    assert_rows(framework, region(lambda x, y=0: x + y)(other, x=x), VALUES)
    assert_rows(framework, region(lambda x, y=0: x + y)(other, 1, x=x), VALUES + 1)
    # One value of the two is passed on, unwrapped or not.
    assert_local(framework, region(lambda x: x)(other, x=x.to_local()), VALUES)

    @functools.wraps(affine)
    def passes_on(*args, **kwargs):
        assert (len(args), len(kwargs)) == (1, 1)
        return affine(*args, **kwargs)

    assert_rows(framework, region(passes_on)(other, x=x, y=1), VALUES + 1)


def case_a_parameter_that_is_not_listed_is_pythons_affair(framework):
    raised(TypeError, "multiple values for argument 'y'", lambda: region(affine)(rows(framework), 1, y=2))


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


class Counted:
    """Called like affine; counts how often its signature is read."""

    def __init__(self, error=None):
        self.reads = 0
        self.error = error

    @property
    def __signature__(self):
        self.reads += 1
        time.sleep(0.01)  # so that threads meet here, if they may
        if self.error is not None:
            raise self.error
        return inspect.signature(affine)

    def __call__(self, *args, **kwargs):
        return affine(*args, **kwargs)


def case_the_signature_is_read_once_and_late(framework):
    function = Counted()
    run = region(function)
    assert function.reads == 0
    for _ in range(3):
        assert_rows(framework, run(rows(framework), 1), VALUES + 1)
    assert function.reads == 1


def case_threads_read_the_signature_once(framework):
    function, x, start, results = Counted(), rows(framework), threading.Barrier(4), []
    run = region(function, out=None)

    def call():
        start.wait(30)
        results.append(run(x.to_local(), 1))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (len(results), function.reads) == (4, 1)


def case_without_a_signature_keywords_only(framework):
    for error in (ValueError("no signature found"), TypeError("not supported")):
        function = Counted(error)
        run = region(function, ("x", "nothing_checks_this_name"))
        assert_rows(framework, run(x=rows(framework), y=1), VALUES + 1)
        assert_rows(framework, run(y=1, x=rows(framework)), VALUES + 1)
        assert function.reads == 1
    seen = []
    x = rows(framework)
    region(without_signature(seen.append))(x)
    assert seen[0] is x


def without_signature(function):
    class Unreadable:
        __signature__ = property(lambda self: (_ for _ in ()).throw(ValueError("no signature found")))

        def __call__(self, *args, **kwargs):
            return function(*args, **kwargs)

    return Unreadable()


def case_kinds_of_parameters(framework):
    x, y = rows(framework), rows(framework, 2)

    def positional_only(x, /, y):
        return x + y

    def keyword_only(*, x, y=0):
        return x + y

    def rest(first, *x):
        return first + x[0] + x[1]

    def options(**keywords):
        return keywords["x"] + keywords["y"]

    def behind_rest(first, *others, x):
        return first + x

    assert_rows(framework, region(positional_only, ("x", "y"))(x, y), VALUES * 3)
    assert_rows(framework, region(keyword_only)(x=x), VALUES)
    assert_rows(framework, region(rest)(1, x, y), VALUES * 3 + 1)
    assert_rows(framework, region(options, ("x", "y"))(x=x, y=y), VALUES * 3)
    assert_rows(framework, region(behind_rest)(1, 2, 3, x=x), VALUES + 1)


def case_positional_only_and_a_keyword_of_that_name(framework):
    def function(x, /, **keywords):
        assert keywords["x"] == 5
        return x + keywords["x"]

    assert_rows(framework, region(function)(rows(framework), x=5), VALUES + 5)


def case_a_default_that_is_not_passed(framework):
    default, seen = rows(framework), []

    def function(x, y=default):
        seen.append(y)
        return x

    assert_rows(framework, region(function, ("x", "y"))(rows(framework)), VALUES)
    assert seen[0] is default


class Block:
    def __init__(self, factor):
        self.factor = factor

    def run(self, x):
        return x * self.factor

    @staticmethod
    @region()
    def static(x):
        return x * 7

    @classmethod
    @region()
    def of_class(cls, x):
        assert cls is Block
        return x * 8

    @region()
    def method(self, x):
        return x * self.factor

    def __call__(self, x):
        return x * self.factor + 1


def case_methods_partials_and_objects(framework):
    x, block = rows(framework), Block(3)
    for function, expected in (
        (block.method, VALUES * 3),
        (functools.partial(Block.method, block), VALUES * 3),
        (Block.static, VALUES * 7),
        (Block.of_class, VALUES * 8),
        (region(block.run), VALUES * 3),
        (region(block), VALUES * 3 + 1),
        (region(functools.partial(affine, scale=4, y=0)), VALUES * 4),
    ):
        assert_rows(framework, function(x), expected)
        assert_rows(framework, function(x=x), expected)
    assert_rows(framework, region(functools.partial(affine, x.to_local()), ("y",))(x), VALUES * 2)


def case_regions_nest(framework):
    inner = region(lambda x: x * 2)

    def outer(x):
        again = DTensor.from_local(x + 1, mesh_of_four(), ROWS)
        assert_rows(framework, inner(again), (VALUES + 1) * 2)
        assert get_platform().is_tensor(inner(x))  # local already: nothing is wrapped
        return inner(again).to_local()

    assert_rows(framework, region(outer)(rows(framework)), (VALUES + 1) * 2)
    assert_rows(framework, region(region(affine, ("y",)), ("x",))(rows(framework), rows(framework)), VALUES * 2)


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
    assert given == before or all(given[name] is before[name] for name in before)


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


def raised(kind, message, call):
    """The call raises that very class, and says that."""
    with pytest.raises(kind, match=re.escape(message)) as caught:
        call()
    assert caught.type is kind


CASES = {name.removeprefix("case_"): value for name, value in list(globals().items()) if name.startswith("case_")}
