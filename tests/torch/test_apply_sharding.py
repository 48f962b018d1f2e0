# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Plans: which modules they match, what is refused, and what a module with a boundary still is. On one process."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest
import torch
from sharded_modules import HIDDEN, Attention, Block, Moe, Softmax
from torch import nn
from torch.utils.checkpoint import checkpoint

from hyper_parallel import DTensor, Partial, Replicate, Shard, init_device_mesh
from hyper_parallel.core.dtensor import layout as layout_module
from hyper_parallel.distributed import FunctionModule, ModuleShardingSpec, PlacementMismatchError, apply_sharding
from hyper_parallel.distributed._builder.boundary import boundary_of
from tests.boundary_plans import attention_spec, block_plan

SPEC = ModuleShardingSpec(region_dispatch=False, in_src={"x": {"dp": Shard(0)}}, out_src={"y": {"dp": Shard(0)}})
OTHER = ModuleShardingSpec(region_dispatch=False, in_src={"x": {"tp": Shard(0)}}, out_src={"y": {"tp": Shard(0)}})


def described_mesh():
    """Of four ranks, for plans that are applied and not run."""
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"), init_backend=False)


def one_rank():
    return init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))


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


def spec(**fields):
    return ModuleShardingSpec(region_dispatch=False, **fields)


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


def linear(placement, **more):
    return spec(params={"weight": placement}, in_src={"input": {}}, out_src={"y": {}}, **more)


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


class Several(nn.Module):
    def forward(self, x, y=None, *rest, z=None, **more):
        return x, y, rest, z, more


def test_inputs_are_found_by_name():
    module = apply_sharding(Several(), one_rank(), {"": spec(in_src={"x": {}, "y": {}, "z": {}, "w": None})})
    a, b, c = torch.ones(1), torch.ones(2), torch.ones(3)
    assert module(a, b, 5, z=c, w=6) == (a, b, (5,), c, {"w": 6})
    assert module(y=b, x=a) == (a, b, (), None, {})
    with pytest.raises(TypeError, match=r"input 'y' is declared, so it should be a tensor, but got int$"):
        module(a, 4)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        module()


class Seen(nn.Module):
    def forward(self, *args, **kwargs):
        return args, kwargs


def test_the_only_input_may_have_any_name():
    mesh = one_rank()
    module = apply_sharding(Seen(), mesh, {"": spec(in_src={"x": {"dp": Shard(0)}})}, mode="validate")
    # In a contract: checked, so that a number is refused. Not in it: whatever it is.
    x = torch.ones(2)
    assert module(x, 5, y=6) == ((x, 5), {"y": 6})
    with pytest.raises(TypeError, match="input 'x' is declared"):
        module(5, x)
    assert module(5, x=x) == ((5,), {"x": x})
    with pytest.raises(TypeError, match="'x' stands for the first positional argument, but the call has none"):
        module(y=x)


def test_several_inputs_need_names():
    module = apply_sharding(Seen(), one_rank(), {"": spec(in_src={"x": {}, "y": {}})})
    x = torch.ones(2)
    assert module(x=x, y=x) == ((), {"x": x, "y": x})
    with pytest.raises(TypeError, match="input 'x' should be given by keyword: the forward has no names for its"):
        module(x, x)


class Returns(nn.Module):
    def __init__(self, result):
        super().__init__()
        self.result = result

    def forward(self, x):
        return self.result(x)


def test_several_outputs_go_by_the_order_of_the_keys():
    from collections import OrderedDict, namedtuple

    pair = namedtuple("pair", "first second")
    x = torch.ones(2, 2)
    contract = {"first": {"dp": Shard(0)}, "second": {"dp": Shard(1)}}

    def run(result, out_src=contract):
        plan = {"": spec(in_src={"x": {}}, out_src=out_src)}
        return apply_sharding(Returns(result), one_rank(), plan, mode="validate")(x)

    for result in (lambda x: (x, x), lambda x: [x, x], lambda x: pair(x, x)):
        outputs = run(result)
        assert type(outputs) is type(result(x))
        assert [output.placements[0] for output in outputs] == [Shard(0), Shard(1)]
    outputs = run(lambda x: OrderedDict(second=x, other=7, first=x))
    assert (list(outputs), outputs["other"]) == (["second", "other", "first"], 7)
    assert (outputs["first"].placements[0], outputs["second"].placements[0]) == (Shard(0), Shard(1))
    first, second = run(lambda x: (x, None))
    assert (type(first), second) == (DTensor, None)
    first, second = run(lambda x: (x, "text"), {"first": {}, "second": None})
    assert (type(first), second) == (DTensor, "text")
    assert run(lambda x: "text", None) == "text"
    for result, message in (
        (lambda x: x, r"out_src declares 2 outputs \(first, second\), but the forward returned 1"),
        (lambda x: (x, x, x), r"out_src declares 2 outputs \(first, second\), but the forward returned 3"),
        (lambda x: {"first": x}, r"out_src declares \['second'\], but the forward returned \['first'\]"),
    ):
        with pytest.raises(ValueError, match=message):
            run(result)
    with pytest.raises(TypeError, match=r"output 'second' is declared, so it should be a tensor, but got int$"):
        run(lambda x: (x, 1))


def test_an_input_to_which_nothing_happens_is_the_very_tensor():
    module = apply_sharding(Returns(lambda x: x), one_rank(), {"": spec(in_src={"x": {}}, out_src={"y": {}})})
    x = torch.ones(2, requires_grad=True)
    assert module(x) is x


def test_production_works_on_local_tensors():
    mesh = one_rank()
    module = apply_sharding(FunctionModule(Softmax), mesh, {"": SPEC})
    with pytest.raises(
        TypeError, match="input 'x' should be this rank's local tensor in production mode, but got a DT"
    ):
        module(DTensor.from_local(torch.ones(2), mesh, (Shard(0), Replicate())))


def test_a_placement_on_a_dim_that_the_input_lacks():
    module = apply_sharding(FunctionModule(Softmax), one_rank(), {"": spec(in_src={"x": {"tp": Shard(2)}})}, "validate")
    with pytest.raises(
        ValueError, match=r"module '', input 'x': Shard\(dim=2\) on mesh axis 'tp' should name one of the 2"
    ):
        module(torch.ones(2, 2))


def test_layouts_are_made_once(monkeypatch):
    module = apply_sharding(Block(), one_rank(), block_plan("tp", ("dp",)))
    x = torch.randn(2, 3, HIDDEN)
    expected = module(x)
    made = []
    split = layout_module.split_of_placements
    monkeypatch.setattr(layout_module, "split_of_placements", lambda *args: made.append(args) or split(*args))
    assert torch.equal(module(x)[0], expected[0])
    assert made == []
    module.moe.gate(torch.randn(2, HIDDEN))  # of another number of dimensions
    assert len(made) > 0


def test_copies_and_loaded_modules_have_boundaries_of_their_own():
    reference = Block()
    module = apply_sharding(copy.deepcopy(reference), one_rank(), block_plan("tp", ("dp",)))
    x = torch.randn(2, 3, HIDDEN)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert boundary_of(other.attn).module is other.attn
        assert boundary_of(other.attn).parameters[0].owner is other.attn
        with torch.no_grad():
            other.attn.temperature.add_(1.0)
            assert not torch.equal(other(x)[0], module(x)[0])
        assert torch.equal(module(x)[0], reference(x)[0])
    assert list(module.state_dict()) == list(reference.state_dict())
    module.load_state_dict(reference.state_dict())
    assert repr(module) == repr(reference)
    assert inspect.signature(module.attn.forward) == inspect.signature(Attention().forward)


def test_hooks_of_users_see_what_stands_outside():
    class Doubled(nn.Module):
        def forward(self, x):
            seen.append(("forward", type(x)))
            return x

    seen = []
    module = Doubled()
    module.register_forward_pre_hook(lambda module, args: seen.append(("before", type(args[0]))))
    module.register_forward_hook(lambda module, args, output: seen.append(("after", type(output))))
    apply_sharding(module, one_rank(), {"": SPEC}, mode="validate")
    module.register_forward_pre_hook(lambda module, args: seen.append(("before, later", type(args[0]))))
    module.register_forward_hook(lambda module, args, output: seen.append(("after, later", type(output))))
    module(torch.ones(2))
    assert seen == [
        ("before", torch.Tensor),
        ("before, later", torch.Tensor),
        ("forward", torch.Tensor),
        ("after", DTensor),
        ("after, later", DTensor),
    ]


def test_a_forward_that_was_replaced_before_is_kept():
    module = nn.Linear(2, 2)
    module.forward = lambda input: input + 1
    assert torch.equal(apply_sharding(module, one_rank(), {"": linear({})})(torch.ones(2)), torch.full((2,), 2.0))


@pytest.mark.parametrize("reentrant", [False, True])
def test_under_a_checkpoint(reentrant):
    reference = Block()
    module = apply_sharding(copy.deepcopy(reference), one_rank(), block_plan("tp", ("dp",)))
    x = torch.randn(2, 3, HIDDEN, requires_grad=True)
    checkpoint(module, x, use_reentrant=reentrant)[0].square().sum().backward()
    found, x.grad = x.grad, None
    reference(x)[0].square().sum().backward()
    torch.testing.assert_close(found, x.grad)
    for name, parameter in reference.named_parameters():
        torch.testing.assert_close(module.get_parameter(name).grad, parameter.grad)


def test_under_compile():
    reference = Block()
    module = apply_sharding(copy.deepcopy(reference), one_rank(), block_plan("tp", ("dp",)))
    x = torch.randn(2, 3, HIDDEN, requires_grad=True)
    compiled = torch.compile(module, backend="eager")
    for _ in range(2):
        compiled(x)[0].square().sum().backward()
        found, x.grad = x.grad, None
        reference(x)[0].square().sum().backward()
        torch.testing.assert_close(found, x.grad)
        x.grad = None


def test_the_error_says_what_and_can_be_sent():
    error = PlacementMismatchError("moe.gate", "out_src", "y", (Shard(0),), (Replicate(),), "Look there.")
    for found in (error, pickle.loads(pickle.dumps(error))):
        assert isinstance(found, ValueError)
        assert (found.module, found.stage, found.name) == ("moe.gate", "out_src", "y")
        assert (found.expected, found.actual) == ((Shard(0),), (Replicate(),))
        assert str(found) == (
            "For module 'moe.gate', out_src declares (Shard(dim=0),) for 'y', but got (Replicate(),). Look there."
        )
