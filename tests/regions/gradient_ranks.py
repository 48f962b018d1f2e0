# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients of inputs that a region redistributes, on ranks that communicate; run by region_ranks.py."""

from __future__ import annotations

import numpy as np
import pytest

from hyper_parallel import DTensor, Layout, Partial, Replicate, Shard, local_region, reduce_gradient
from tests.runtime.placement_oracle import held_by


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def assert_close(framework, given, expected):
    np.testing.assert_allclose(framework.array(given), expected, rtol=1e-10, atol=1e-10)


def on_first(mesh, placement):
    """A placement on the first mesh axis, Replicate on the rest."""
    return (placement, *[Replicate()] * (mesh.ndim - 1))


def check_gradients_of_inputs_made_whole(framework, mesh):
    """Each rank has the share of its own outputs in the gradient, or the whole if the outputs are replicated."""
    x, w, weights = draw(8, 8, seed=13), draw(8, 8, seed=14), draw(8, 8, seed=15)
    coordinate, shape, whole = mesh.get_coordinate(), mesh.mesh_shape, on_first(mesh, Replicate())
    columns, rows = (on_first(mesh, Shard(dim)) for dim in (1, 0))

    def by_columns(x):
        return x @ framework.tensor(held_by(w, columns, shape, coordinate))

    def pending(x):
        width = 8 // shape[0]
        start = mesh.get_local_rank(0) * width
        return x[:, start : start + width] @ framework.tensor(held_by(w, rows, shape, coordinate))

    def replicated(x):
        return x @ framework.tensor(w)

    for function, out in (
        (by_columns, Shard(1)),
        (pending, Partial()),
        (replicated, Replicate()),
    ):
        run = local_region(
            function,
            device_mesh=mesh,
            in_placements={"x": whole},
            out_placements=on_first(mesh, out),
            redistribute_inputs=True,
        )
        for placement in (Shard(0), Partial("avg"), Replicate()):
            source = on_first(mesh, placement)
            local = held_by(x, source, shape, coordinate)  # the average is over equal values

            def loss(local):
                output = run(DTensor.from_local(local, mesh, source))  # noqa: B023
                return framework.total(output.full_tensor(), framework.tensor(weights))

            values = [framework.tensor(local)]
            assert_close(framework, run(DTensor.from_local(values[0], mesh, source)).full_tensor(), x @ w)
            (given,) = framework.gradients(loss, values)
            if placement == Replicate() and out != Replicate():  # not redistributed: nothing is added up
                given = reduce_gradient(given, Layout.from_placements(mesh, on_first(mesh, Partial()), 2))
            expected = weights @ w.T / (shape[0] if placement == Partial("avg") else 1)
            assert_close(framework, given, held_by(expected, source, shape, coordinate))


def check_gradients_where_outputs_say_nothing(framework, mesh):
    """Raw results are the same on every rank; an axis over which the input was replicated all along adds up nothing."""
    x, weights = draw(8, 8, seed=17), draw(8, 8, seed=18)
    whole, cut = (Replicate(),) * mesh.ndim, (*[Replicate()] * (mesh.ndim - 1), Shard(0))
    share = framework.tensor(np.float64([mesh.get_local_rank(0) + 1.0]))
    values = [framework.tensor(held_by(x, cut, mesh.mesh_shape, mesh.get_coordinate()))]

    def gradient(function, out):
        run = local_region(
            function, device_mesh=mesh, in_placements={"x": whole}, out_placements=out, redistribute_inputs=True
        )

        def loss(local):
            result = run(DTensor.from_local(local, mesh, cut))
            return framework.total(result if out is None else result.full_tensor(), framework.tensor(weights))

        return framework.array(framework.gradients(loss, values)[0])

    def of_rank(factor):
        return held_by(factor * weights, cut, mesh.mesh_shape, mesh.get_coordinate())

    np.testing.assert_allclose(gradient(lambda x: x * 3, None), of_rank(3))
    if mesh.ndim > 1:
        own = gradient(lambda x: x * share, on_first(mesh, Partial()))
        np.testing.assert_allclose(own, of_rank(mesh.get_local_rank(0) + 1))


def check_a_gradient_that_is_neither_whole_nor_a_share(framework, mesh):
    """Outputs of both kinds: forward they are right, backward every rank refuses."""
    x, whole, by_rows = draw(8, 8, seed=16), on_first(mesh, Replicate()), on_first(mesh, Shard(0))
    run = local_region(
        lambda x: (x * 2, x * 3),
        device_mesh=mesh,
        in_placements={"x": whole},
        out_placements=(whole, on_first(mesh, Partial())),
        redistribute_inputs=True,
    )
    local = framework.tensor(held_by(x, by_rows, mesh.mesh_shape, mesh.get_coordinate()))
    first, second = run(DTensor.from_local(local, mesh, by_rows))
    assert_close(framework, first.full_tensor(), x * 2)
    assert_close(framework, second.full_tensor(), x * 3 * mesh.mesh_shape[0])

    def loss(local):
        return sum(
            framework.total(output.full_tensor(), framework.tensor(x))
            for output in run(DTensor.from_local(local, mesh, by_rows))
        )

    if mesh.mesh_shape[0] == 1:  # one rank has all there is
        assert_close(framework, framework.gradients(loss, [local])[0], x * 5)
        return
    message = r"the gradient of x was asked for.*the mesh axis dp.*gather it in the function"
    with pytest.raises(ValueError, match=message):
        framework.gradients(loss, [local])
    assert_close(framework, first.full_tensor(), x * 2)
