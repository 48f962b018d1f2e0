# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters that are used outside of their region too, or come after the plan: steps against the unsharded module."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from parameter_uses import (
    WIDTH,
    Around,
    Checkpointed,
    Doubled,
    Feed,
    Listed,
    Lora,
    Net,
    Recurrent,
    Reentrant,
    ReentrantAround,
    Twice,
)
from ranks import run_gloo_ranks
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

from hyper_parallel import DTensor, Partial, Shard, distribute_tensor, init_device_mesh
from hyper_parallel.distributed import ModuleShardingSpec, apply_sharding

ROWS = {"tp": Shard(0)}


def by_rows(name="x", **fields):
    """Whole outside, this rank's rows inside."""
    return ModuleShardingSpec(
        region_dispatch=False,
        in_src={name: {}},
        in_dst={name: ROWS},
        out_src={"y": ROWS},
        out_dst={"y": {}},
        **fields,
    )


def feed():
    """The hidden units are cut."""
    params = {"up.weight": ROWS, "up.bias": ROWS, "down.weight": {"tp": Shard(1)}}
    return ModuleShardingSpec(
        params=params, region_dispatch=False, in_src={"x": {}}, out_src={"y": {"tp": Partial()}}, out_dst={"y": {}}
    )


def add_late(net):
    net.late = nn.Parameter(torch.randn(WIDTH))


def replace_inner(net):
    net.inner = nn.Sequential(nn.Linear(WIDTH, 3), nn.Linear(3, WIDTH))


def wrap_inner(net):
    net.inner = Lora(net.inner)


def prune_inner(net):
    prune.l1_unstructured(net.inner, "weight", amount=0.3)


def prune_itself(net):
    prune.random_unstructured(net, "scale", amount=0.5)


def double(*paths):
    def change(net):
        for path in paths:
            owner, _, key = path.rpartition(".")
            parametrize.register_parametrization(net.get_submodule(owner), key, Doubled())

    return change


def normalize_up(net):
    parametrizations.weight_norm(net.up, "weight", dim=0)


def clamp(net):
    net.scale.register_hook(lambda grad: grad.clamp(-0.05, 0.05))


def freeze(net):
    net.inner.weight.requires_grad_(False)


def use_and_copy(net):
    net(torch.ones(4, WIDTH, dtype=torch.float64))
    return copy.deepcopy(net)


def other_forward(net):
    net.forward = lambda x: net.inner(x).tanh() * net.scale.exp()


def mean(net, x, y):
    return y.square().mean()


def with_penalty(net, x, y):
    return y.square().mean() + sum(item.square().sum() for item in net.parameters())


def with_tied(net, x, y):
    return (y @ net.inner.weight.T * net.scale).square().mean()


@dataclass
class Case:
    build: type[nn.Module] = Net
    plan: dict[str, ModuleShardingSpec] = field(default_factory=lambda: {"": by_rows()})
    change: Any = None
    before: Any = None
    loss: Any = mean
    cut: dict[str, int] = field(default_factory=dict)


FEED_CUT = {"up.weight": 0, "up.bias": 0, "down.weight": 1}
CASES = {
    "penalty": Case(loss=with_penalty),
    "penalty on cut weights": Case(Feed, {"": feed()}, loss=with_penalty, cut=FEED_CUT),
    "tied outside": Case(loss=with_tied),
    "hook before the first call": Case(change=clamp, loss=with_penalty),
    "late parameter": Case(change=add_late, loss=with_penalty),
    "replaced module": Case(change=replace_inner),
    "wrapped module": Case(change=wrap_inner),
    "pruned below": Case(change=prune_inner),
    "pruned itself": Case(change=prune_itself),
    "parametrized": Case(change=double("inner.weight", "scale"), loss=with_penalty),
    "parametrized, cut": Case(
        Feed,
        {"": feed()},
        double("up.weight", "down.weight"),
        cut={"up.parametrizations.weight.original": 0, "up.bias": 0, "down.parametrizations.weight.original": 1},
    ),
    "normalized, cut": Case(
        Feed,
        {"": feed()},
        normalize_up,
        cut={f"up.parametrizations.weight.original{number}": 0 for number in (0, 1)} | {"up.bias": 0, "down.weight": 1},
    ),
    "lists": Case(Listed),
    "recurrent": Case(Recurrent, loss=with_penalty),
    "twice": Case(Twice, loss=with_penalty),
    "tied, in regions of other axes": Case(
        Around,
        {"": ModuleShardingSpec(region_dispatch=False, in_src={"x": {}}, out_src={"y": {}}), "net": by_rows()},
        loss=with_penalty,
    ),
    "nested": Case(
        Around,
        {
            "": by_rows(),
            "net": ModuleShardingSpec(region_dispatch=False, in_src={"x": ROWS}, out_src={"y": ROWS}),
        },
        loss=with_penalty,
    ),
    "nested, the inner one whole": Case(
        Around,
        {
            "": by_rows(),
            "net": ModuleShardingSpec(
                region_dispatch=False,
                in_src={"x": ROWS},
                in_dst={"x": {}},
                out_src={"y": {}},
                out_dst={"y": ROWS},
            ),
        },
        loss=with_penalty,
    ),
    "checkpoint inside": Case(Checkpointed, loss=with_penalty),
    "reentrant checkpoint inside": Case(Reentrant, loss=with_penalty),
    "reentrant checkpoints, nested": Case(
        ReentrantAround, {"": by_rows(), "net": ModuleShardingSpec(region_dispatch=False)}, loss=with_penalty
    ),
    "frozen": Case(change=freeze),
    "copied after use": Case(change=use_and_copy),
    "another forward": Case(before=other_forward),
}


def local_of(y):
    return y.to_local() if isinstance(y, DTensor) else y


def check_case(case, mesh, mode):
    torch.manual_seed(0)
    reference = case.build().double()
    module = copy.deepcopy(reference)
    for net in (reference, module):
        if case.before is not None:
            case.before(net)
    apply_sharding(module, mesh, case.plan, mode=mode)
    nets = []
    for net in (reference, module):
        torch.manual_seed(1)
        changed = None if case.change is None else case.change(net)
        nets.append((net if changed is None else changed).double())
    optimizers = [torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.05) for net in nets]
    for step in range(3):
        x = torch.randn(4, WIDTH, dtype=torch.float64)
        for net, optimizer in zip(nets, optimizers, strict=True):
            optimizer.zero_grad()
            y = local_of(net(x))
            with torch.no_grad():
                net(x)  # records nothing, and changes nothing
            case.loss(net, x, y).backward()
        expected = dict(nets[0].named_parameters())
        found = dict(nets[1].named_parameters())
        assert list(found) == list(expected)
        for path, parameter in found.items():
            assert type(parameter) is nn.Parameter
            whole = expected[path].grad
            if whole is None:
                assert parameter.grad is None, path
                continue
            if path in case.cut:
                whole = distribute_tensor(whole, mesh, (Shard(case.cut[path]),)).to_local()
            torch.testing.assert_close(parameter.grad, whole, msg=lambda text, at=(step, path): f"{at}: {text}")
        for optimizer in optimizers:
            optimizer.step()


def run_cases(mode):
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    for name, case in CASES.items():
        try:
            check_case(case, mesh, mode)
        except Exception as error:
            raise AssertionError(f"{name}: {error}") from error
    check_sparse_gradients(mesh, mode)
    check_a_failed_forward_leaves_the_parameters(mesh, mode)


def check_sparse_gradients(mesh, mode):
    plan = {"": by_rows("input")}
    module = apply_sharding(nn.Embedding(5, 3, sparse=True), mesh, plan, mode=mode)
    with pytest.raises(ValueError, match=r"the parameter 'weight' is sparse, but is to be summed .* axes 'tp'"):
        local_of(module(torch.arange(4))).square().sum().backward()
    whole = ModuleShardingSpec(region_dispatch=False, in_src={"input": {}}, out_src={"y": {}})
    module = apply_sharding(nn.Embedding(5, 3, sparse=True), mesh, {"": whole}, mode=mode)
    local_of(module(torch.arange(4))).square().sum().backward()  # nothing is to be summed
    assert module.weight.grad.is_sparse


def check_a_failed_forward_leaves_the_parameters(mesh, mode):
    module = apply_sharding(
        Around(), mesh, {"": by_rows(), "net": ModuleShardingSpec(region_dispatch=False)}, mode=mode
    )
    before = dict(module.named_parameters())
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        module(torch.ones(4, WIDTH + 1))
    assert all(found is before[path] for path, found in module.named_parameters())


@pytest.mark.parametrize("mode", ["production", "validate"])
def test_on_two_ranks(mode):
    run_gloo_ranks(run_cases, 2, mode)
