# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Plans that forget something: what validate mode warns of, and what an error in a forward says. On two ranks."""

from __future__ import annotations

import warnings

import pytest
import torch
from ranks import run_gloo_ranks
from torch import nn

from hyper_parallel import DTensor, Partial, Shard, get_platform, init_device_mesh
from hyper_parallel.distributed import ModuleShardingSpec, apply_sharding

ROWS, COLUMNS = {"tp": Shard(0)}, {"tp": Shard(1)}
PARAMS = {"up.weight": ROWS, "up.bias": ROWS, "down.weight": COLUMNS}
SUMMED = {"in_src": {"hidden": {}}, "out_src": {"out": {"tp": Partial()}}, "out_dst": {"out": {}}}


class Feed(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4, 8)
        self.down = nn.Linear(8, 4, bias=False)

    def forward(self, hidden):
        return self.down(torch.tanh(self.up(hidden)))


class Scaled(nn.Module):
    """A parameter of its own, and a module below."""

    def __init__(self):
        super().__init__()
        self.scale, self.feed = nn.Parameter(torch.ones(4)), Feed()

    def forward(self, hidden):
        return self.feed(hidden * self.scale)


def spec(**fields):
    return ModuleShardingSpec(region_dispatch=False, **fields)


def sharded(module, plan, mode="validate"):
    return apply_sharding(module, init_device_mesh("cpu", (2,), mesh_dim_names=("tp",)), plan, mode=mode)


def scaled(plan, mode="validate"):
    torch.manual_seed(0)
    return sharded(Scaled(), plan, mode)


def warned(call, *args):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call(*args)
    return [(str(item.message), item.filename) for item in found if item.category is RuntimeWarning]


def check_cut_parameters_without_contracts():
    up = spec(params={"weight": ROWS, "bias": ROWS})
    every = "up.weight, up.bias, down.weight"
    for plan, module, listed, missing in (
        ({"feed": spec(params=PARAMS)}, "feed", every, "in_src and no out_src"),
        ({"feed": spec(params=PARAMS, in_src={"hidden": {}})}, "feed", every, "out_src"),
        ({"feed.up": up}, "feed.up", "weight, bias", "in_src and no out_src"),
        ({"feed": spec(), "feed.up": up}, "feed.up", "weight, bias", "in_src and no out_src"),
        ({"feed": spec(in_src={"hidden": {}}), "feed.up": up}, "feed", "up.weight, up.bias", "out_src"),
    ):
        ((message, place),) = warned(scaled, plan)
        assert message.startswith(f"For module '{module}', parameters are cut ({listed}), but it has no {missing}: ")
        assert place == __file__
    for plan in (
        {"feed": spec(params=PARAMS, **SUMMED)},
        {"feed": spec()},
        {"feed": spec(params=PARAMS, out_src={"out": None})},
        {"feed": spec(**SUMMED), "feed.up": up, "feed.down": spec(params={"weight": COLUMNS})},
        {"feed": spec(**SUMMED), "feed.up": spec(params={"weight": ROWS, "bias": ROWS}, in_src={"input": {}})},
        {"feed": ModuleShardingSpec(params=PARAMS, in_src={"hidden": {}})},  # yields DTensors
    ):
        assert warned(scaled, plan) == []
    assert warned(scaled, {"feed": spec(params=PARAMS)}, "production") == []


def check_an_input_that_is_the_same_on_every_rank():
    module = sharded(nn.Identity(), {"": spec(in_src={"x": ROWS})})
    x = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))
    ((message, _),) = warned(module, x)
    assert message == (
        "For module '', in_src declares Shard(dim=0) on 'tp' for 'x', but all ranks along it hold the same values. "
        "That may be chance; if every rank passes the whole, declare Replicate()."
    )
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    for given in (
        x + get_platform().rank,
        DTensor.from_local(x, mesh, (Shard(0),)),  # somebody has said how it lies
        torch.ones(2, 3, dtype=torch.bool),  # a mask
        torch.zeros(2, 3),
    ):
        assert warned(module, given) == []


def check_a_forgotten_parameter():
    with pytest.raises(RuntimeError) as theirs:
        nn.functional.linear(torch.ones(2, 4), torch.ones(4, 4), torch.ones(8))
    plan = {
        "": spec(params={"scale": {}}, in_src={"hidden": {}}, out_src={"out": {}}),
        "feed": spec(params={"up.weight": ROWS, "down.weight": COLUMNS}, **SUMMED),
    }
    for mode in ("production", "validate"):
        with pytest.raises(RuntimeError) as caught:
            scaled(plan, mode)(torch.ones(2, 4))
        assert type(caught.value) is RuntimeError
        assert str(caught.value) == (  # once, by the innermost boundary
            "For module 'feed', the forward has failed, where these parameters are cut: up.weight (4, 4), "
            f"down.weight (4, 4); not cut: up.bias (8,): {theirs.value}"
        )
        assert str(caught.value.__cause__) == str(theirs.value)


def check_other_errors_stay():
    class Fails(nn.Module):
        def __init__(self, error):
            super().__init__()
            self.weight, self.error = nn.Parameter(torch.ones(4)), error

        def forward(self, x):
            raise self.error

    cut, whole = {"weight": ROWS}, {"weight": {}}
    for error, params in (
        (KeyError("k"), cut),
        (TypeError("t"), cut),
        (NotImplementedError("a kind of RuntimeError"), cut),
        (RuntimeError("nothing is cut"), whole),
    ):
        contract = spec(params=params, in_src={"x": {}}, out_src={"y": {}})
        with pytest.raises(type(error)) as caught:
            sharded(Fails(error), {"": contract})(torch.ones(2))
        assert caught.value is error


def check_a_forward_that_cannot_run_on_dtensors():
    class Flat(nn.Module):
        def forward(self, x):
            return x.view(-1)

    with pytest.raises(RuntimeError) as caught:
        scaled({"feed": ModuleShardingSpec(params=PARAMS, **SUMMED)})(torch.ones(2, 4))
    message = str(caught.value)
    assert message.startswith(
        "For module 'feed', region_dispatch=True runs its forward on DTensors: No distributed operator is registered "
        "under the name 'linear'"
    )
    assert message.endswith(" Give region_dispatch=False to run the forward on local tensors.")
    flat = sharded(Flat(), {"": ModuleShardingSpec(in_src={"x": {}})})
    with pytest.raises(AttributeError, match=r"module '', region_dispatch=True runs its forward on DTensors: .*'view'"):
        flat(torch.ones(2))


CHECKS = [value for name, value in sorted(globals().items()) if name.startswith("check_")]


def run_checks():
    for check in CHECKS:
        try:
            check()
        except BaseException as error:
            raise AssertionError(f"{check.__name__} has failed: {error}") from error


def test_on_two_ranks():
    assert len(CHECKS) == 5
    run_gloo_ranks(run_checks, 2)
