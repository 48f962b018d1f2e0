# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Random trees of regions inside of regions, with random placements: gradients are those of one device."""

from __future__ import annotations

import copy
import random

import torch
from ranks import run_gloo_ranks
from torch import nn

from hyper_parallel import Partial, Replicate, Shard, distribute_tensor, init_device_mesh
from hyper_parallel.distributed import ModuleShardingSpec, apply_sharding
from hyper_parallel.distributed._builder.boundary import boundary_of

SHAPE = (4, 4, 8)
PLACEMENTS = (Replicate(), Shard(0), Shard(1))
TREES = 25


class Mlp(nn.Module):
    """Its hidden width may be cut."""

    def __init__(self):
        super().__init__()
        self.up = nn.Parameter(torch.randn(8, 4) / 3)
        self.down = nn.Parameter(torch.randn(4, 8) / 3)

    def forward(self, x):
        return torch.tanh(x @ self.up) @ self.down


class Gain(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.randn(8))

    def forward(self, x):
        return torch.sin(x * self.gain)


class Sequence(nn.Module):
    """Parts one after the other, with a parameter of its own between them, and around some of them a residual."""

    def __init__(self, parts, residuals):
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.residuals = residuals
        self.between = nn.ParameterList(torch.randn(8) for _ in parts)

    def forward(self, x):
        for part, residual, gain in zip(self.parts, self.residuals, self.between, strict=True):
            scaled = x * gain
            x = part(scaled) + scaled if residual else part(scaled)
        return x


class Tree:
    """Draws modules together with their plan. Every rank draws the same."""

    def __init__(self, seed, axes):
        self.random = random.Random(seed)
        self.axes = axes
        self.plan = {}

    def placements(self):
        return {axis: self.random.choice(PLACEMENTS) for axis in self.axes}

    def draw(self, name, before, after, depth):
        """A module that takes ``before`` and gives ``after``."""
        kind = self.random.choice(
            (self.mlp, self.gain, self.sequence, self.sequence) if depth else (self.mlp, self.gain)
        )
        return kind(name, before, after, depth)

    def mlp(self, name, before, after, depth):
        inside = self.placements()
        cut = [axis for axis in self.axes if inside[axis].is_replicate() and self.random.random() < 0.8]
        self.plan[name] = ModuleShardingSpec(
            params={"up": dict.fromkeys(cut, Shard(1)), "down": dict.fromkeys(cut, Shard(0))},
            region_dispatch=False,
            in_src={"x": before},
            in_dst={"x": inside},
            out_src={"y": {**inside, **dict.fromkeys(cut, Partial())}},
            out_dst={"y": after},
        )
        return Mlp()

    def gain(self, name, before, after, depth):
        inside = self.placements()
        contracts = {
            "in_src": {"x": before},
            "in_dst": {"x": inside},
            "out_src": {"y": inside},
            "out_dst": {"y": after},
        }
        self.plan[name] = ModuleShardingSpec(region_dispatch=False, **contracts)
        return Gain()

    def sequence(self, name, before, after, depth):
        inside, leaving = self.placements(), self.placements()
        self.plan[name] = ModuleShardingSpec(
            region_dispatch=False,
            in_src={"x": before},
            in_dst={"x": inside},
            out_src={"y": leaving},
            out_dst={"y": after},
        )
        count = self.random.randint(1, 3)
        at = [inside, *(self.placements() for _ in range(count - 1)), leaving]
        prefix = f"{name}." if name else ""
        parts = [self.draw(f"{prefix}parts.{i}", at[i], at[i + 1], depth - 1) for i in range(count)]
        residuals = [at[i] == at[i + 1] and self.random.random() < 0.7 for i in range(count)]
        return Sequence(parts, residuals)


def check_tree(seed, mesh):
    torch.manual_seed(seed)
    tree = Tree(seed, mesh.axis_names)
    before, after = tree.placements(), tree.placements()
    reference = tree.sequence("", before, after, 2).double()
    sharded = apply_sharding(copy.deepcopy(reference), mesh, tree.plan, mode=("production", "validate")[seed % 2])
    x = torch.randn(SHAPE, dtype=torch.float64, requires_grad=True)
    expected = reference(x)
    weight = torch.randn_like(expected)
    (expected * weight).sum().backward()
    source, target = (tuple(placements[axis] for axis in mesh.axis_names) for placements in (before, after))

    def part(tensor, placements):
        return distribute_tensor(tensor.detach(), mesh, placements).to_local().clone()

    mine = part(x, source).requires_grad_()
    output = sharded(mine)
    output = output if isinstance(output, torch.Tensor) else output.to_local()
    torch.testing.assert_close(output, part(expected, target))
    (output * part(weight, target)).sum().backward()
    torch.testing.assert_close(mine.grad, part(x.grad, source))
    for name, below in sharded.named_modules():
        for item in boundary_of(below).parameters if boundary_of(below) else ():
            path = f"{name}.{item.path}".lstrip(".")
            whole = part(reference.get_parameter(path).grad, item.layout.placements)
            torch.testing.assert_close(
                sharded.get_parameter(path).grad, whole, msg=lambda text, path=path: f"{path}: {text}"
            )


def check_trees(shape, names):
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
    for seed in range(TREES):
        try:
            check_tree(seed, mesh)
        except Exception as error:
            raise AssertionError(f"tree {seed}: {error}") from error


def test_on_two_ranks():
    run_gloo_ranks(check_trees, 2, (2,), ("tp",))


def test_on_two_by_two_ranks():
    run_gloo_ranks(check_trees, 4, (2, 2), ("dp", "tp"))
