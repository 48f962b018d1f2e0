# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Plans: which modules they match, and what is refused. On one process."""

from __future__ import annotations

import pytest
import torch
from plans_of_one_process import OTHER, SPEC, described_mesh, linear, spec
from sharded_modules import Block, Moe, Softmax
from torch import nn

from hyper_parallel import Partial, Replicate, Shard, init_device_mesh
from hyper_parallel.distributed import FunctionModule, ModuleShardingSpec, apply_sharding
from hyper_parallel.distributed._builder.boundary import boundary_of
from tests.boundary_plans import attention_spec


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Block(), Block()])
        self.a_fn = FunctionModule(Softmax)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)[0]
        return self.a_fn(x)


def with_boundaries(module):
    return [name for name, below in module.named_modules() if boundary_of(below)]


@pytest.mark.parametrize(
    ("plan", "names"),
    [
        ({"a_fn": SPEC}, ["a_fn"]),
        ({"": SPEC}, [""]),
        ({"layers.*.attn": SPEC}, ["layers.0.attn", "layers.1.attn"]),
        ({"*.gate": SPEC}, ["layers.0.moe.gate", "layers.1.moe.gate"]),
        ({"layers.[1-9].moe.gate": SPEC, "a_fn": SPEC}, ["layers.1.moe.gate", "a_fn"]),
        ({"layers.*.moe.gate": SPEC, "layers.0.moe.gate": OTHER}, ["layers.0.moe.gate", "layers.1.moe.gate"]),
        ({"layers.*.moe.gate": SPEC, "layers.0.moe.gate": None}, ["layers.1.moe.gate"]),
        ({"layers.*.gate": SPEC, "*.moe.gate": SPEC}, ["layers.0.moe.gate", "layers.1.moe.gate"]),
        ({}, []),
    ],
)
def test_keys_match_names_and_globs(plan, names):
    module = Layers()
    assert apply_sharding(module, described_mesh(), plan) is module
    assert with_boundaries(module) == names


def test_an_exact_name_goes_before_a_glob():
    module = apply_sharding(Layers(), described_mesh(), {"*.gate": SPEC, "layers.0.moe.gate": OTHER})
    sources = [boundary_of(layer.moe.gate).inputs["x"][0].source for layer in module.layers]
    assert sources == [(Replicate(), Shard(0)), (Shard(0), Replicate())]


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"a_fm": SPEC}, r"plan_overrides has 'a_fm', which matches no module: did you mean 'a_fn'\?"),
        ({"layers.*.gate.x": SPEC}, r"'layers.\*.gate.x', which matches no module: did you mean"),
        (
            {"layers.*.gate": SPEC, "*.moe.gate": OTHER},
            r"'layers.\*.gate' and '\*.moe.gate', which both match the module 'layers.0.moe.gate' and differ",
        ),
        (
            {"a_fn": spec(in_src={"x": {"pp": Shard(0)}})},
            r"module 'a_fn', input 'x': the mesh has the axes \('dp', 'tp'\), but got 'pp'",
        ),
        (
            {"layers.0.attn": spec(params={"q_prj.weight": {}})},
            r"module 'layers.0.attn', params names 'q_prj.weight', .* did you mean .*'q_proj.weight'",
        ),
        (
            {"layers.0.attn": spec(params_grad={"q_prj.weight": {}})},
            r"module 'layers.0.attn', params_grad names 'q_prj.weight'",
        ),
        (
            {"layers.0": spec(params={"attn.q_proj.weight": {}}), "layers.0.attn": SPEC},
            r"'attn.q_proj.weight', which is no parameter of it \(nor of a module below, outside of inner boundaries\)",
        ),
        (
            {"layers.0.attn": spec(params={"q_proj.weight": {"dp": Shard(2)}})},
            r"module 'layers.0.attn', parameter 'q_proj.weight': Shard\(dim=2\) on mesh axis 'dp' should name one of",
        ),
        (
            {
                "layers.0.moe": spec(
                    params={"router.bias": {"dp": Shard(0)}, "experts.up": {"tp": Shard(2), "xp": Shard(0)}}
                )
            },
            r"module 'layers.0.moe', parameter 'experts.up': the mesh has the axes",
        ),
        (
            {"layers.0.attn": spec(params={"temperature": {"dp": Shard(0)}})},
            "parameter 'temperature': .* should name one of the 0 dimensions",
        ),
        (
            {"layers.0.attn": spec(in_src={"hiden": {}, "scale": {}})},
            r"module 'layers.0.attn', in_src declares 'hiden', which is no parameter of its forward: did you mean 'hidden'\?",
        ),
        (
            {"layers.0.attn": spec(in_src={"scal": {}})},
            r"in_src declares 'scal', which is no parameter of its forward: did you mean 'scale'\?",
        ),
        (
            {"layers.0.moe*": spec(params={"experts.up": {"tp": Shard(0)}})},
            r"module 'layers.0.moe', params names 'experts.up', .*The glob 'layers.0.moe\*' matches 'layers.0.moe', "
            r"'layers.0.moe.router', 'layers.0.moe.gate', 'layers.0.moe.experts' \(\* matches dots too\): narrow it",
        ),
        (
            {"*": spec(params={"layers.1.norm.weight": {"tp": Shard(0)}})},
            r"The glob '\*' matches 'layers', .* and \d+ more \(",
        ),
        (
            {"layers.0.moe.gate": spec(in_src={"x": {}}), "layers.0.moe.gat": SPEC},
            "'layers.0.moe.gat', which matches no module",
        ),
    ],
)
def test_a_bad_plan_is_refused_and_changes_nothing(plan, message):
    module = Layers()
    before = {name: (parameter, parameter.shape) for name, parameter in module.named_parameters()}
    with pytest.raises(ValueError, match=message):
        apply_sharding(module, described_mesh(), {"layers.1.attn": attention_spec("tp", ("dp",)), **plan})
    assert with_boundaries(module) == []
    for name, parameter in module.named_parameters():
        assert (parameter, parameter.shape) == before[name]


def test_an_extent_that_does_not_divide():
    mesh = init_device_mesh("cpu", (3,), mesh_dim_names=("tp",), init_backend=False)
    message = (
        r"parameter 'experts.up': dim 0 of shape \(4, 16, 8\) has extent 4, which should be divisible by the 3 shards"
    )
    with pytest.raises(ValueError, match=message):
        apply_sharding(Moe(), mesh, {"": spec(params={"experts.up": {"tp": Shard(0)}})})


def test_arguments_of_other_kinds():
    mesh = described_mesh()
    with pytest.raises(TypeError, match=r"takes a module \(Module\), but got function"):
        apply_sharding(torch.nn.functional.relu, mesh, {})
    with pytest.raises(TypeError, match="expected a DeviceMesh"):
        apply_sharding(Moe(), "mesh", {})
    with pytest.raises(TypeError, match="should map module names to ModuleShardingSpec, but got"):
        apply_sharding(Moe(), mesh, [SPEC])
    with pytest.raises(TypeError, match=r"but has 'gate': \{'in_src': 1\}"):
        apply_sharding(Moe(), mesh, {"gate": {"in_src": 1}})
    with pytest.raises(
        ValueError, match=r"mode should be 'production' or 'validate', but got 'validation'; did you mean 'validate'\?$"
    ):
        apply_sharding(Moe(), mesh, {}, mode="validation")


def test_a_tree_has_one_plan():
    module = apply_sharding(Layers(), described_mesh(), {"layers.0.moe.gate": SPEC})
    for tree, plan in ((module, {"a_fn": SPEC}), (module.layers[0].moe.gate, {"": SPEC})):
        with pytest.raises(
            ValueError, match="has a boundary already; declare all boundaries of a tree in one plan, once"
        ):
            apply_sharding(tree, described_mesh(), plan)


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"in_dst": {"x": {}}}, ValueError, "in_dst names 'x', which in_src should declare too"),
        ({"in_src": {"x": None}, "in_dst": {"x": {}}}, ValueError, "in_dst names 'x', which in_src should declare too"),
        (
            {"out_src": {"x": {}}, "out_dst": {"y": {}}},
            ValueError,
            "out_dst names 'y', which out_src should declare too",
        ),
        ({"in_grad": {"x": {}}}, ValueError, "in_grad names 'x', which in_src should declare too"),
        ({"params": {"w": {"tp": Partial()}}}, ValueError, "params: 'w' should be sharded or replicated"),
        ({"params_grad": {"w": {"tp": Shard(0)}}}, ValueError, r"params_grad: 'w' should be Partial\(\) on the axes"),
        ({"params_grad": {"w": {"tp": Partial("max")}}}, ValueError, r"params_grad: 'w' should be Partial\(\) on"),
        ({"in_src": [("x", {})]}, TypeError, "in_src should map names to {mesh axis: placement}, but got"),
        ({"in_src": {0: {}}}, TypeError, "in_src should map names to {mesh axis: placement}, but has the key 0"),
        ({"in_src": {"x": (Shard(0),)}}, TypeError, "in_src: 'x' should be {mesh axis: placement}, such as"),
        ({"in_src": {"x": {"tp": 0}}}, TypeError, "in_src: 'x' should be {mesh axis: placement}, such as"),
        ({"in_srcs": {}}, TypeError, r"ModuleShardingSpec has no field 'in_srcs': did you mean 'in_src'\?"),
        (
            {"mesh": {}},
            TypeError,
            "ModuleShardingSpec has no field 'mesh': there are 'params', 'region_dispatch', 'in_",
        ),
        ({"region_dispatch": None}, TypeError, "region_dispatch should be True or False, but got None"),
    ],
)
def test_specs_that_contradict_themselves(fields, error, message):
    with pytest.raises(error, match=message):
        ModuleShardingSpec(**fields)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(4, 4, bias=False)
        self.head = nn.Linear(4, 4, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x):
        return self.head(self.embed(x))


def test_tied_parameters():
    mesh = described_mesh()
    rows, columns = {"tp": Shard(0)}, {"tp": Shard(1)}
    with pytest.raises(ValueError, match=r"'embed.weight' and 'head.weight' are one, but lie as"):
        apply_sharding(Tied(), mesh, {"embed": linear(rows), "head": linear(columns)})
    with pytest.raises(ValueError, match=r"'embed.weight' and 'head.weight' are one, but only the first lies inside"):
        apply_sharding(Tied(), mesh, {"embed": linear(rows)})
    # What is replicated is used anywhere.
    replicated = spec(in_src={"input": rows}, out_src={"y": rows})
    tied = apply_sharding(Tied(), mesh, {"embed": replicated})
    assert tied.embed.weight is tied.head.weight
    assert boundary_of(tied.embed).parameters[0].axes == (1,)
    module = apply_sharding(Tied(), mesh, {"embed": linear(rows), "head": linear(rows)})
    assert module.embed.weight is module.head.weight
    assert module.head.weight.shape == (2, 4)
    shared = nn.Sequential(block := nn.Linear(4, 4), block)
    with pytest.raises(ValueError, match="'0' and '1' are one object, but have different boundaries"):
        apply_sharding(shared, mesh, {"0": linear(rows), "1": linear(columns)})
    assert with_boundaries(apply_sharding(shared, mesh, {"": spec(in_src={"input": {}}), "*": linear(rows)})) == [
        "",
        "0",
    ]
    apart = nn.ModuleDict({"first": nn.Sequential(nn.Linear(4, 4)), "second": nn.Sequential()})
    apart["second"].append(apart["first"][0])
    plan = {"first": spec(in_src={"input": {}}), "*.0": linear(rows)}
    message = (
        "'first.0' and 'second.0' are one object with a boundary, but lie in different regions: that of 'first' and"
    )
    with pytest.raises(ValueError, match=message):
        apply_sharding(apart, mesh, plan)


def test_a_parameter_that_holds_a_gradient_is_not_cut():
    module = nn.Linear(4, 4)
    module(torch.ones(1, 4)).sum().backward()
    with pytest.raises(ValueError, match="parameter 'weight' holds a gradient of its whole; set its grad to None"):
        apply_sharding(module, described_mesh(), {"": linear({"tp": Shard(0)})})


def test_parameters_stay_the_same_objects_with_memory_of_their_own():
    module = Moe()
    before = dict(module.named_parameters())
    whole = module.experts.down.detach().clone()
    apply_sharding(module, described_mesh(), {"": spec(params={"experts.down": {"dp": Shard(0), "tp": Shard(2)}})})
    assert all(parameter is before[name] for name, parameter in module.named_parameters())
    assert torch.equal(module.experts.down, whole[:2, :, :8])
    assert module.experts.down.untyped_storage().nbytes() == module.experts.down.numel() * 4
    assert module.experts.up.shape == (4, 16, 8)
