# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""How regions are made and called, and how arguments find their parameters. Every case takes the framework."""

from __future__ import annotations

import functools
import inspect
import threading
import time

from hyper_parallel import DTensor, get_platform

from .one_of_four import ROWS, VALUES, affine, assert_local, assert_rows, cases, mesh_of_four, raised, region, rows


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


def block_of_three():
    """An object with regions as methods, on the mesh that there is when it is made."""

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

    return Block(3)


def case_methods_partials_and_objects(framework):
    x, block = rows(framework), block_of_three()
    kind = type(block)
    for function, expected in (
        (block.method, VALUES * 3),
        (functools.partial(kind.method, block), VALUES * 3),
        (kind.static, VALUES * 7),
        (kind.of_class, VALUES * 8),
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


CASES = cases(globals())
