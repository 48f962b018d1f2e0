# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Redistribution between random layouts on torch's process groups, against the model that tests/runtime uses."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from ranks import run_gloo_ranks

# Every mesh makes process groups of its own, so there are few.
MESHES = {
    4: [((2, 2), (3, 1, 0, 2)), ((4,), (2, 0, 3, 1))],
    8: [((2, 2, 2), tuple(range(8))), ((2, 2, 2), (5, 2, 7, 0, 1, 6, 3, 4)), ((4, 2), (7, 6, 5, 4, 3, 2, 1, 0))],
}


def drawn(count):
    from test_redistribute_random import journeys

    found = []

    @seed(0)
    @settings(max_examples=count, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(journeys(st.sampled_from(MESHES[torch_world_size()])))
    def draw(journey):
        found.append(journey)

    draw()
    return found


def torch_world_size():
    import torch.distributed as dist

    return dist.get_world_size()


def travel(mesh_shape, rank_list, shape, stops):
    import torch
    from test_redistribute_random import departure, has_gradient, parts_on_the_way

    from hyper_parallel import init_device_mesh

    mesh = init_device_mesh("cpu", mesh_shape, rank_list=rank_list)
    local, incoming = (torch.from_numpy(array.copy()) for array in departure(mesh, shape, stops))
    traced = has_gradient(stops)
    parts = list(parts_on_the_way(mesh, shape, stops, local.requires_grad_(traced)))
    gradient = torch.autograd.grad(parts[-1], local, incoming)[0].numpy() if traced else None
    return [part.detach().numpy() for part in parts], gradient


def check_journeys(count):
    import torch.distributed as dist
    from test_redistribute_random import check_travelled

    shared = [drawn(count) if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(shared)
    mine = [travel(*journey) for journey in shared[0]]
    of_rank = [None] * dist.get_world_size()
    dist.all_gather_object(of_rank, mine)
    for number, (mesh_shape, rank_list, shape, stops) in enumerate(shared[0]):
        in_order = [of_rank[rank][number] for rank in rank_list]
        check_travelled(in_order, mesh_shape, shape, stops)
    return len(shared[0])


@pytest.mark.parametrize(("world_size", "count"), [(4, 200), pytest.param(8, 500, marks=pytest.mark.slow)])
def test_random_journeys(world_size, count):
    assert run_gloo_ranks(check_journeys, world_size, count) == [count] * world_size
