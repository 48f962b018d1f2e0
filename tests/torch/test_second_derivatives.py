# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Second derivatives through redistribution are those of one device, for every placement before and after."""

from __future__ import annotations

import itertools

import torch
from ranks import run_gloo_ranks

from hyper_parallel import DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh

PLACEMENTS = {"R": Replicate(), "S0": Shard(0), "S1": Shard(1), "P": Partial("sum"), "A": Partial("avg")}
VALUES = torch.arange(1.0, 9.0, dtype=torch.float64).reshape(4, 2)
COTANGENT = torch.linspace(-1.0, 2.0, 8, dtype=torch.float64).reshape(4, 2)


def whole_derivatives():
    """Gradient of (x^3 * c).sum(), and of the sum of its squares."""
    x = VALUES.clone().requires_grad_()
    (first,) = torch.autograd.grad((x**3 * COTANGENT).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad((first**2).sum(), x)
    return first.detach(), second


def derivatives_of(before, after):
    """What each rank has of them where x goes from one placement to another before it is cubed."""
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
    source, target = (PLACEMENTS[name] for name in (before, after))
    local = VALUES * 1.0 if isinstance(source, Partial) else distribute_tensor(VALUES, mesh, (source,)).to_local()
    if before == "P":  # operands whose sum is the whole
        local = VALUES * (2.5 if mesh.rank == 0 else -1.5)
    x = local.clone().requires_grad_()
    result = DTensor.from_local(x, mesh, (source,)).redistribute(mesh, (target,)).to_local()
    weights = distribute_tensor(COTANGENT, mesh, (target,)).to_local()
    (first,) = torch.autograd.grad((result**3 * weights).sum(), x, create_graph=True)
    # The sum of all ranks' squares: each takes its own, and a replicated gradient is the same on all of them.
    (second,) = torch.autograd.grad((first**2).sum(), x)
    return first.detach(), second


def run_all(pairs):
    return [derivatives_of(*pair) for pair in pairs]


def part(whole, placement, rank):
    return whole.chunk(2, placement.dim)[rank] if isinstance(placement, Shard) else whole


def test_every_pair_of_placements():
    afters = [name for name, placement in PLACEMENTS.items() if not isinstance(placement, Partial)]
    pairs = list(itertools.product(PLACEMENTS, afters))
    first, second = whole_derivatives()
    for rank, found in enumerate(run_gloo_ranks(run_all, 2, pairs)):
        for (before, after), (given_first, given_second) in zip(pairs, found, strict=True):
            share = 0.5 if before == "A" else 1.0  # each operand of an average has its share
            source, what = PLACEMENTS[before], f"{before} -> {after} on rank {rank}"
            expected = [part(first, source, rank) * share, part(second, source, rank) * share**3]
            for given, value in zip((given_first, given_second), expected, strict=True):
                torch.testing.assert_close(given, value, msg=lambda text, what=what: f"{what}: {text}")


def test_the_derivatives_written_out():
    """d/dx (x^3 c) = 3 c x^2; d/dx (3 c x^2)^2 = 36 c^2 x^3."""
    first, second = whole_derivatives()
    torch.testing.assert_close(first, 3 * COTANGENT * VALUES**2)
    torch.testing.assert_close(second, 36 * COTANGENT**2 * VALUES**3)
