# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Regions on ranks that communicate, against the same computation on whole tensors: outputs, and gradients of all parts.

Every rank runs `run_all` and checks what it sees itself.
"""

from __future__ import annotations

import autograd
import numpy as np
import pytest

from hyper_parallel import (
    DTensor,
    Layout,
    Partial,
    Replicate,
    Shard,
    distribute_tensor,
    get_platform,
    init_device_mesh,
    local_region,
    reduce_gradient,
)
from tests.operators.sharded_calls import autograd_gradients
from tests.runtime.placement_oracle import held_by, operands

from . import gradient_ranks
from .gradient_ranks import assert_close, draw, on_first

MESHES = {2: ((2,), (2, 1), (1, 2)), 4: ((4,), (2, 2))}
TOKENS, HIDDEN, INNER, EXPERTS = 6, 4, 5, 4
X_SHAPE, OUT = (8, 8), 3


def run_all(framework, meshes=MESHES):
    """Run every check on every mesh of this number of ranks; return what has run."""
    done = []
    for shape in meshes[get_platform().world_size]:
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp")[: len(shape)])
        for name, check in CHECKS.items():
            try:
                check(framework, mesh)
            except BaseException as error:
                raise AssertionError(f"{name} has failed on {mesh}: {error}") from error
            done.append((name, shape))
    return done


def check_all_ran(found, world_size, meshes=MESHES):
    assert found == [[(name, shape) for shape in meshes[world_size] for name in CHECKS]] * world_size


def moe(hidden_states, gates, first, second):
    """[T, H], gates [T, E], experts [E, H, F] and [E, F, H]: what these experts make of all tokens, [T, H]."""
    return sum(
        gates[:, expert : expert + 1] * ((hidden_states @ first[expert]) ** 2 @ second[expert])
        for expert in range(first.shape[0])
    )


def top_two_gates():
    scores = np.exp(draw(TOKENS, EXPERTS, seed=4))
    chosen = scores >= np.sort(scores, axis=1)[:, -2:-1]
    return scores * chosen / (scores * chosen).sum(axis=1, keepdims=True)


def check_moe(framework, mesh):
    """Experts over the first mesh axis: every rank sees all tokens and adds what its experts make of them."""
    hidden, gates = draw(TOKENS, HIDDEN, seed=1), top_two_gates()
    experts = draw(EXPERTS, HIDDEN, INNER, seed=2), draw(EXPERTS, INNER, HIDDEN, seed=3)
    weights = draw(TOKENS, HIDDEN, seed=5)
    whole = moe(hidden, gates, *experts)

    count = EXPERTS // mesh.mesh_shape[0]
    mine = slice(mesh.get_local_rank(0) * count, (mesh.get_local_rank(0) + 1) * count)
    replicated, pending = on_first(mesh, Replicate()), on_first(mesh, Partial())
    my_gates = framework.tensor(np.ascontiguousarray(gates[:, mine]))

    def forward(hidden, first, second):
        class Experts:
            def forward(self, hidden_states):
                assert get_platform().is_tensor(hidden_states)
                return moe(hidden_states, my_gates, first, second)

        run = local_region(
            Experts().forward,
            device_mesh=mesh,
            in_placements={"hidden_states": replicated},
            out_placements=pending,
        )
        return run(DTensor.from_local(hidden, mesh, replicated))

    values = [framework.tensor(hidden), *(framework.tensor(np.ascontiguousarray(item[mine])) for item in experts)]
    output = forward(*values)
    assert output.placements == pending
    assert_close(framework, output.full_tensor(), whole)

    def loss(*values):
        return framework.total(forward(*values).full_tensor(), framework.tensor(weights))

    def whole_loss(hidden, first, second):
        return autograd.numpy.sum(moe(hidden, gates, first, second) * weights)

    expected = autograd_gradients(whole_loss, [hidden, *experts])
    of_hidden, *of_experts = framework.gradients(loss, values)
    for given, of_all in zip(of_experts, expected[1:], strict=True):
        assert_close(framework, given, of_all[mine])
    # Each rank has the part of its experts.
    layout = Layout.from_placements(mesh, pending, 2)
    assert_close(framework, reduce_gradient(of_hidden, layout), expected[0])


def check_redistributed_inputs(framework, mesh):
    """The decorator form: rows are what the function wants, whatever comes."""
    w, weights = draw(X_SHAPE[1], OUT, seed=6), draw(X_SHAPE[0], OUT, seed=7)
    by_rows = on_first(mesh, Shard(0))

    @local_region(device_mesh=mesh, in_placements={"x": by_rows}, out_placements=(by_rows,), redistribute_inputs=True)
    def project(x):
        assert tuple(x.shape) == (X_SHAPE[0] // mesh.mesh_shape[0], X_SHAPE[1])
        return x @ framework.tensor(w)

    for placement in (Shard(0), Shard(1), Replicate(), Partial(), Partial("avg")):
        source = on_first(mesh, placement)
        full, given = operands(X_SHAPE, source, mesh.mesh_shape)
        position = mesh.rank_list.index(get_platform().rank)
        local = framework.tensor(held_by(given[position], source, mesh.mesh_shape, mesh.get_coordinate()))
        output = project(x=DTensor.from_local(local, mesh, source))
        assert output.placements == by_rows
        assert_close(framework, output.full_tensor(), full @ w)

        def loss(local):
            return framework.total(
                project(DTensor.from_local(local, mesh, source)).full_tensor(),  # noqa: B023
                framework.tensor(weights),
            )

        expected = weights @ w.T / (mesh.mesh_shape[0] if placement == Partial("avg") else 1)
        expected = held_by(expected, on_first(mesh, placement), mesh.mesh_shape, mesh.get_coordinate())
        assert_close(framework, framework.gradients(loss, [local])[0], expected)


def check_several_inputs_and_outputs(framework, mesh):
    """A matrix cut by columns, its sum, and a number; by position, by keyword and mixed."""
    x, w, weights = draw(3, 4, seed=8), draw(4, 8, seed=9), draw(3, 8, seed=10)
    by_columns, replicated, pending = (on_first(mesh, item) for item in (Shard(1), Replicate(), Partial()))

    @local_region(
        device_mesh=mesh,
        in_placements={"x": replicated, "w": by_columns},
        out_placements=(by_columns, None, pending),
    )
    def product(x, w, *, factor=1):
        result = x @ w * factor
        return result, factor, result.sum()

    def distributed(x, w):
        return DTensor.from_local(x, mesh, replicated), DTensor.from_local(w, mesh, by_columns)

    coordinate = mesh.get_coordinate()
    values = [framework.tensor(x), framework.tensor(held_by(w, by_columns, mesh.mesh_shape, coordinate))]
    first, second = distributed(*values)
    for result in (
        product(first, second, factor=2),
        product(x=first, w=second, factor=2),
        product(first, factor=2, w=second),
    ):
        assert [type(item) for item in result] == [DTensor, int, DTensor]
        assert_close(framework, result[0].full_tensor(), 2 * x @ w)
        assert_close(framework, result[2].full_tensor(), (2 * x @ w).sum())

    def loss(*values):
        result, _, total = product(*distributed(*values))
        return framework.total(result.full_tensor(), framework.tensor(weights)) + framework.total(
            total.full_tensor().reshape((1,)), framework.tensor(np.array([5.0]))
        )

    of_x, of_w = framework.gradients(loss, values)
    cotangent = weights + 5
    assert_close(framework, of_w, held_by(x.T @ cotangent, by_columns, mesh.mesh_shape, coordinate))
    assert_close(framework, reduce_gradient(of_x, Layout.from_placements(mesh, pending, 2)), cotangent @ w.T)


def check_the_function_communicates_itself(framework, mesh):
    """An unlisted DTensor is whole for the function if that asks for it; a region of a sub-mesh lies inside."""
    x, w = draw(8, 4, seed=11), draw(4, 8, seed=12)
    last = mesh[mesh.axis_names[-1]]
    by_rows = on_first(mesh, Shard(0)) if mesh.ndim > 1 else (Replicate(),)
    inner_width = 4 // last.size()

    @local_region(
        device_mesh=last,
        in_placements={"x": (Shard(1),), "w": (Shard(0),)},
        out_placements=(Partial(),),
        redistribute_inputs=True,
    )
    def row_parallel(x, w):
        assert x.shape[1] == w.shape[0] == inner_width
        return x @ w

    @local_region(device_mesh=mesh, in_placements={"x": by_rows}, out_placements=by_rows)
    def outer(x, w):
        whole = DTensor.from_local(w.full_tensor(), last, (Replicate(),))
        return row_parallel(DTensor.from_local(x, last, (Replicate(),)), w=whole).full_tensor()

    columns = distribute_tensor(framework.tensor(w), mesh, on_first(mesh, Shard(1)))
    output = outer(distribute_tensor(framework.tensor(x), mesh, by_rows), columns)
    assert_close(framework, output.full_tensor(), x @ w)


def check_ranks_stay_in_step_after_a_mistake(framework, mesh):
    """An input that cannot be redistributed is refused on every rank, before the one that can."""
    run = local_region(
        lambda x, y: x,
        device_mesh=mesh,
        in_placements={"x": on_first(mesh, Replicate()), "y": (Shard(0),) * mesh.ndim},
        redistribute_inputs=True,
    )
    x = DTensor.from_local(framework.tensor(np.ones((2, 3))), mesh, on_first(mesh, Partial()))
    y = DTensor.from_local(framework.tensor(np.ones((5, 3))), mesh, on_first(mesh, Replicate()))
    with pytest.raises(ValueError, match=r"in_placements of y: dim 0 of shape \(5, 3\) has extent 5"):
        run(x, y)
    assert_close(framework, x.full_tensor(), np.full((2, 3), mesh.mesh_shape[0]))


CHECKS = {
    name: value
    for name, value in (*vars(gradient_ranks).items(), *list(globals().items()))
    if name.startswith("check_") and name != "check_all_ran"
}
