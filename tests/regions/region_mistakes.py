# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What a region refuses: with the function, the parameter, what was expected, what was given, and what to do.

Every row is a class, texts that the message holds, and a call that takes the framework.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from hyper_parallel import DTensor, Partial, Replicate, Shard, init_device_mesh, local_region

from .one_of_four import COLUMNS, PENDING, ROWS, WHOLE, affine, mesh_of_four, region, rows
from .region_calls import without_signature


def double(x):
    return x * 2


def nothing(**options):
    return None


async def coroutine(x):
    return x


def generator(x):
    yield x


async def asynchronous_generator(x):
    yield x


def on_another_mesh(framework):
    return DTensor.from_local(
        framework.tensor(np.ones((2, 3))), init_device_mesh("cpu", (4,), init_backend=False), ROWS[:1]
    )


def of_three_rows(framework):
    return DTensor.from_local(framework.tensor(np.ones((3, 3))), mesh_of_four(), WHOLE)


OUTPUTS = {
    "empty": (
        ValueError,
        ("out_placements should not be empty", "None for the raw result"),
        lambda f: region(double, out=()),
    ),
    "empty list": (ValueError, ("should not be empty",), lambda f: region(out=[])),
    "too few": (
        ValueError,
        ("For double_and_one, out_placements should have one entry per output, but got 1 entries and 2 outputs",),
        lambda f: region(double_and_one, out=(ROWS,))(rows(f)),
    ),
    "too many": (
        ValueError,
        ("but got 3 entries and 2 outputs", "Only a tuple is several outputs"),
        lambda f: region(double_and_one, out=(ROWS, None, None))(rows(f)),
    ),
    "too many for one": (
        ValueError,
        ("but got 2 entries and 1 output.",),
        lambda f: region(double, out=(ROWS, ROWS))(rows(f)),
    ),
    "entries for no output": (
        ValueError,
        ("1 entries and 0 outputs",),
        lambda f: region(lambda x: (), out=(ROWS,))(rows(f)),
    ),
    "flat for several": (
        ValueError,
        ("For double_and_one", "the placements of one", "a tuple of 2", "Write ((...), (...))."),
        lambda f: region(double_and_one)(rows(f)),
    ),
    "flat for a tuple of one": (
        ValueError,
        ("a tuple of 1", "Write ((...),)."),
        lambda f: region(lambda x: (x,))(rows(f)),
    ),
    "None for a tensor": (
        TypeError,
        ("For double_and_one, output 0 is a tensor", "but got None"),
        lambda f: region(double_and_one, out=(None, None))(rows(f)),
    ),
    "None for the only tensor": (
        TypeError,
        ("For double, the output is a tensor",),
        lambda f: region(double, out=(None,))(rows(f)),
    ),
    "None for a full sum": (TypeError, ("is a tensor",), lambda f: region(lambda x: x.sum(), out=(None,))(rows(f))),
    "a dim that the output lacks": (
        ValueError,
        ("For double, out_placements of the output", "one of the 2 dimensions"),
        lambda f: region(double, out=(Shard(2), Replicate()))(rows(f)),
    ),
    "too few placements": (
        ValueError,
        ("out_placements", "each of the 2 axes ('dp', 'tp')", "one tuple of placements per output"),
        lambda f: region(double, out=(Partial(),)),
    ),
    "too few placements of an entry": (
        ValueError,
        ("out_placements[1]", "each of the 2 axes"),
        lambda f: region(double, out=(ROWS, (Shard(0),))),
    ),
    "a placement among entries": (
        TypeError,
        ("out_placements[0]", "placements should be a tuple of Shard"),
        lambda f: region(double, out=(Shard(0), None)),
    ),
    "a placement alone": (
        TypeError,
        ("out_placements should be a tuple", "Shard(dim=0)"),
        lambda f: region(out=Shard(0)),
    ),
}

INPUTS = {
    "other placements": (
        ValueError,
        (
            "For affine, x should have the placements (Shard(dim=0), Replicate()), but got (Replicate(), Shard(dim=1))",
            "redistribute_inputs=True",
            "None",
        ),
        lambda f: region(affine)(rows(f, placements=COLUMNS), 1),
    ),
    "Partial for Replicate": (
        ValueError,
        ("should have the placements (Replicate(), Replicate()), but got (Partial(reduce_op='sum'), Replicate())",),
        lambda f: region(affine, {"x": WHOLE})(y=1, x=rows(f, placements=PENDING)),
    ),
    "other placements in *rest": (
        ValueError,
        ("xs should have",),
        lambda f: region(lambda *xs: xs, ("xs",))(rows(f), rows(f, placements=COLUMNS)),
    ),
    "a name misspelt": (
        ValueError,
        ("For affine, a listed input should be one of the parameters (x, y, scale)", "'scal'. Did you mean 'scale'?"),
        lambda f: region(affine, ("x", "scal"))(rows(f), 1),
    ),
    "a name unlike any": (
        ValueError,
        ("'hidden'. List names of parameters.",),
        lambda f: region(affine, ("hidden",))(1, 1),
    ),
    "the name of **options": (
        ValueError,
        ("For nothing, **options collects keywords", "not 'options'"),
        lambda f: region(nothing, ("options",))(x=rows(f)),
    ),
    "another mesh": (
        ValueError,
        (
            "For double, x should be on the device_mesh DeviceMesh(cpu, dp=2, tp=2), but got one on DeviceMesh(cpu, dim_0=4)",
            "or list x with None",
        ),
        lambda f: region(double)(on_another_mesh(f)),
    ),
    "another mesh, to be redistributed": (
        ValueError,
        ("should be on the device_mesh",),
        lambda f: region(double, redistribute_inputs=True)(on_another_mesh(f)),
    ),
    "a dim that the input lacks": (
        ValueError,
        ("For double, in_placements of x", "one of the 2 dimensions"),
        lambda f: region(double, {"x": (Shard(2), Replicate())})(rows(f)),
    ),
    "a dim that cannot be cut": (
        ValueError,
        ("For double, in_placements of x", "dim 0 of shape (3, 3) has extent 3", "2 shards over the mesh axes (dp)"),
        lambda f: region(double, redistribute_inputs=True)(of_three_rows(f)),
    ),
    "too few placements": (
        ValueError,
        ("in_placements['x']", "each of the 2 axes ('dp', 'tp')"),
        lambda f: region(double, {"x": (Shard(0),)}),
    ),
    "a placement alone": (
        TypeError,
        ("in_placements['x']", "placements should be a tuple of Shard"),
        lambda f: region(double, {"x": Shard(0)}),
    ),
    "no dict": (
        TypeError,
        ("in_placements should be a dict of parameter names",),
        lambda f: local_region(double, device_mesh=mesh_of_four(), in_placements=(ROWS,)),
    ),
    "a position for a name": (TypeError, ("should be a dict of parameter names",), lambda f: region(double, {0: ROWS})),
}

FUNCTIONS = {
    "no mesh": (TypeError, ("device_mesh",), lambda f: local_region(double, in_placements={"x": ROWS})),
    "a bare decorator": (TypeError, ("device_mesh",), lambda f: local_region(double)),
    "a mesh by its shape": (
        TypeError,
        ("local_region, device_mesh: expected a DeviceMesh (see init_device_mesh), but got (2, 2)",),
        lambda f: local_region(double, device_mesh=(2, 2)),
    ),
    "a mesh as the function": (
        TypeError,
        ("local_region wraps a function, but got DeviceMesh", "by keyword"),
        lambda f: local_region(mesh_of_four(), device_mesh=mesh_of_four()),
    ),
    "a classmethod object": (
        TypeError,
        ("wraps a function, but got <classmethod",),
        lambda f: region(classmethod(double)),
    ),
    "a coroutine function": (
        TypeError,
        ("coroutine is a generator or coroutine function",),
        lambda f: region(coroutine),
    ),
    "a generator": (TypeError, ("generator is a generator or coroutine function",), lambda f: region(generator)),
    "both": (TypeError, ("asynchronous_generator is a generator",), lambda f: region()(asynchronous_generator)),
}


def double_and_one(x):
    return x * 2, 1


MISTAKES = {
    f"{table}: {name}": row
    for table, of_table in (("outputs", OUTPUTS), ("inputs", INPUTS), ("functions", FUNCTIONS))
    for name, row in of_table.items()
}


def check_mistake(framework: Any, row: Any) -> None:
    kind, texts, call = row
    with pytest.raises(kind, match=re.escape(texts[0])) as caught:
        call(framework)
    assert caught.type is kind
    assert all(text in str(caught.value) for text in texts[1:]), caught.value


def check_nothing_runs_before_all_inputs_are_checked(framework: Any) -> None:
    """Neither the function nor the redistribution of an input that is right."""
    calls = []

    def function(x, y):
        calls.append((x, y))

    run = region(function, ("x", "y"), redistribute_inputs=True)
    with pytest.raises(ValueError, match="y should be on the device_mesh"):
        run(rows(framework, placements=PENDING), on_another_mesh(framework))
    assert calls == []


def check_a_failure_inside_is_the_functions_own(framework: Any) -> None:
    def function(x):
        raise ArithmeticError("inside")

    for run in (region(function), region(without_signature(function))):
        with pytest.raises(ArithmeticError, match="inside"):
            run(x=rows(framework))
