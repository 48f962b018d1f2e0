# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What a module with a boundary takes, gives, and still is. On one process."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest
import torch
from plans_of_one_process import SPEC, linear, one_rank, spec
from sharded_modules import HIDDEN, Attention, Block, Softmax
from torch import nn
from torch.utils.checkpoint import checkpoint

from hyper_parallel import DTensor, Replicate, Shard
from hyper_parallel.core.dtensor import layout as layout_module
from hyper_parallel.distributed import FunctionModule, PlacementMismatchError, apply_sharding
from hyper_parallel.distributed._builder.boundary import boundary_of
from tests.boundary_plans import block_plan


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
