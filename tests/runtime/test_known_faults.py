# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Faults that dispatchers of this kind have had, one by one, each with what has to come out instead.

``known_fault_mutants.py`` brings each of them back, in a copy of the runtime, and a test here has to find it.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from hyper_parallel import DTensor, Partial, Replicate, Shard, custom_ops, distribute_tensor, init_device_mesh
from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.core.shard._op_dispatch import _OP_DISPATCHER
from hyper_parallel.core.shard.dfunction import DFunction
from hyper_parallel.core.shard.ops.layout_rule import LayoutRule
from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp
from hyper_parallel.core.shard.ops.parallel_ops_register import OperatorRegistry
from hyper_parallel.platform.numpy.virtual_ranks import run_ranks
from hyper_parallel.reference.mhc import post

FULL = np.arange(16.0).reshape(8, 2)
RNG = np.random.default_rng(0)
POST = {  # of npu_mhc_post: [T, N, D], [T, N, N], [T, D], [T, N]
    name: RNG.normal(size=size)
    for name, size in (("x", (8, 2, 3)), ("h_res", (8, 2, 2)), ("h_out", (8, 3)), ("h_post", (8, 2)))
}
(POST_OUT,) = post(*POST.values())


def bind(x: Any, first: Any = 0, second: Any = 0, third: Any = 0) -> tuple[Any, ...]:
    return x, first, second, third


def weights(first: Any, second: Any, third: Any) -> float:
    return 100 * first + 10 * second + third


class Weighted(DFunction):
    _op_name = "weighted_for_known_faults"

    @staticmethod
    def forward(_ctx: Any, x: Any, first: Any = 0, second: Any = 0, third: Any = 0) -> Any:
        return x * weights(first, second, third)


class WeightedDistributedOp(DistributedOp):
    bind_arguments = staticmethod(bind)
    rule = LayoutRule(
        arguments=("x", "first", "second", "third"),
        format_argument="",
        inputs={"M": {"x": ("M", "K")}},
        outputs={"M": {"out": ("M", "K")}},
        shard=("M",),
    )


@pytest.fixture(autouse=True)
def _registered() -> None:
    WeightedDistributedOp(Weighted._op_name)
    SpelledByRule("spelled_for_known_faults")


# --- DTensors in keyword arguments are not seen ---


@pytest.mark.parametrize("by_keyword", [0, 1, 4])
def test_dtensors_in_keyword_arguments_are_seen(by_keyword: int) -> None:
    def on_rank() -> Any:
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
        given = [(name, distribute_tensor(value, mesh, (Shard(0),))) for name, value in POST.items()]
        positions = len(given) - by_keyword
        out = custom_ops.npu_mhc_post(*(value for _, value in given[:positions]), **dict(given[positions:]))
        assert isinstance(out, DTensor)
        return out.full_tensor()

    for whole in run_ranks(on_rank, 2):
        np.testing.assert_array_equal(whole, POST_OUT)


def test_a_dtensor_as_the_only_keyword_argument_is_seen() -> None:
    def on_rank() -> Any:
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
        out = Weighted.apply(x=distribute_tensor(FULL, mesh, (Shard(0),)), third=3)
        return type(out), out.full_tensor()

    for kind, whole in run_ranks(on_rank, 2):
        assert kind is DTensor
        np.testing.assert_array_equal(whole, FULL * 3)


# --- the cache key is str() of hand-picked values: 1 and "1" collide, attributes are forgotten ---


def spelled(value: Any) -> float:
    """A number for each value and type."""
    return float(sum(f"{type(value).__name__} {value!r}".encode()))


class Spelled(DFunction):
    """x times a number that the layout rule has chosen by the attribute, once for each plan."""

    _op_name = "spelled_for_known_faults"

    @staticmethod
    def forward(_ctx: Any, x: Any, first: Any = 0, second: Any = 0, third: Any = 0) -> Any:
        raise AssertionError("what runs is chosen by the rule")


class SpelledByRule(WeightedDistributedOp):
    def get_expand_impl(self, func: Any, infer_result: Any, cache_values: Any) -> Any:
        return lambda x, *_, **__: x * spelled(tuple(cache_values[1:]))


class SpelledByHand(SpelledByRule):
    def preprocess(self, args: Any, kwargs: Any) -> Any:
        bound = bind(*args, **kwargs)
        return (bound[0].to_local(), *bound[1:]), {}, (bound[0].layout, *bound[1:])


COLLIDING = [(1, "1"), (1, True), (1, 1.0), (True, "True"), (None, "None"), (0, False), (0, ""), (2.5, "2.5"), (1, 2)]


@pytest.mark.parametrize("operator", [SpelledByRule, SpelledByHand])
@pytest.mark.parametrize(("one", "other"), COLLIDING)
@pytest.mark.parametrize("position", [0, 1, 2])
def test_another_attribute_is_another_call(operator: Any, one: Any, other: Any, position: int) -> None:
    operator(Spelled._op_name)
    x = DTensor.from_local(np.ones((2, 2)), init_device_mesh("cpu", (1,)), (Shard(0),))
    for value in (one, other, one):
        attributes = [0, 0, 0]
        attributes[position] = value
        found = Spelled.apply(x, *attributes).to_local()
        assert np.unique(found).tolist() == [spelled(tuple(attributes))]


# --- several mesh axes on one dim break or lose Partial ---


def test_several_axes_on_one_dimension_keep_a_pending_reduction() -> None:
    def on_rank() -> Any:
        mesh = init_device_mesh("cpu", (2, 2, 2))
        rows = distribute_tensor(FULL, mesh, (Shard(0), Replicate(), Shard(0))).to_local()
        summed = DTensor.from_local(rows, mesh, (Shard(0), Partial(), Shard(0)))
        assert summed.layout.tensor_map == ((2, 0), -1)
        assert summed.layout.partial == (None, "sum", None)
        return summed.full_tensor(), summed.redistribute(mesh, (Replicate(), Replicate(), Shard(0))).to_local()

    for rank, (whole, part) in enumerate(run_ranks(on_rank, 8)):
        np.testing.assert_array_equal(whole, FULL * 2)
        np.testing.assert_array_equal(part, FULL[4 * (rank % 2) : 4 * (rank % 2) + 4] * 2)


def test_an_operator_keeps_both_too() -> None:
    """Tokens on two axes, x and h_out pending on the third: the output is all of that."""

    def on_rank() -> Any:
        mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("dp", "tp", "cp"))
        share = (0.25, 0.75)[mesh.get_local_rank("tp")]
        whole = (Shard(0), Replicate(), Shard(0))
        tensors = {name: distribute_tensor(value, mesh, whole) for name, value in POST.items()}
        for name in ("x", "h_out"):
            pending = tensors[name].to_local() * share
            tensors[name] = DTensor.from_local(pending, mesh, (Shard(0), Partial(), Shard(0)))
        out = custom_ops.npu_mhc_post(**tensors)
        return out.placements, out.layout.tensor_map, out.full_tensor()

    for placements, tensor_map, whole in run_ranks(on_rank, 8):
        assert placements == (Shard(0), Partial("sum"), Shard(0))
        assert tensor_map == ((2, 0), -1, -1)
        np.testing.assert_allclose(whole, POST_OUT, rtol=1e-12)


# --- an unnamed mesh reads as replicated and gives wrong numbers ---


@pytest.mark.parametrize("names", [None, ("dp", "tp")])
def test_an_unnamed_mesh_shards_like_a_named_one(names: Any) -> None:
    def on_rank() -> Any:
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=names)
        out = custom_ops.npu_mhc_post(
            *(distribute_tensor(value, mesh, (Shard(0), Shard(0))) for value in POST.values())
        )
        assert Layout.from_device_mesh(mesh)(mesh.axis_names[1], "None").tensor_map == (0, -1)
        return out.placements, out.shape, out.layout.alias_tensor_map, out.to_local(), out.full_tensor()

    first, second = names or ("dim_0", "dim_1")
    for rank, (placements, shape, aliases, part, whole) in enumerate(run_ranks(on_rank, 4)):
        assert (placements, shape) == ((Shard(0), Shard(0)), POST_OUT.shape)
        assert aliases == ((first, second), "None", "None")
        np.testing.assert_array_equal(part, POST_OUT[2 * rank : 2 * rank + 2])
        np.testing.assert_array_equal(whole, POST_OUT)


# --- 5 rows over 2 ranks silently become 4 ---


FIVE = np.arange(10.0).reshape(5, 2)
INDIVISIBLE = r"extent 5, which should be divisible by the 2 shards"


def beside_a_sharded_tensor(mesh: Any) -> Any:
    """Replicated tensors are cut to the tokens of the sharded one, of which there are 4."""
    x = distribute_tensor(POST["x"][:4], mesh, (Shard(0),))
    rest = [DTensor.from_local(POST[name][:5], mesh, (Replicate(),)) for name in ("h_res", "h_out", "h_post")]
    return custom_ops.npu_mhc_post(x, *rest)


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (lambda mesh: distribute_tensor(FIVE, mesh, (Shard(0),)), INDIVISIBLE),
        (lambda mesh: DTensor.from_local(FIVE, mesh, (Replicate(),)).redistribute(mesh, (Shard(0),)), INDIVISIBLE),
        (lambda mesh: DTensor.from_local(FIVE[:2], mesh, (Shard(0),), shape=(5, 2)), INDIVISIBLE),
        (beside_a_sharded_tensor, r"T \(dim 0\) of h_res should be 4, but got 5"),
    ],
    ids=["distribute_tensor", "redistribute", "from_local", "operator"],
)
def test_five_rows_over_two_ranks_are_refused(split: Any, message: str) -> None:
    def on_rank() -> None:
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
        with pytest.raises(ValueError, match=message):
            split(mesh)

    run_ranks(on_rank, 2)


# --- a mesh with another rank order is returned from a cache ---


def test_a_mesh_with_another_rank_order_is_another_mesh() -> None:
    orders = list(itertools.permutations(range(3)))

    def on_rank() -> Any:
        meshes = [init_device_mesh("cpu", (3,), rank_list=order) for order in orders * 2]
        assert [mesh.rank_list for mesh in meshes] == orders * 2
        assert len(set(meshes)) == len(orders)
        layouts = [Layout.from_placements(mesh, (Shard(0),), 1) for mesh in meshes]
        assert len({id(layout) for layout in layouts}) == len(orders)
        rows = np.arange(6.0)
        held = [distribute_tensor(rows, mesh, (Shard(0),)) for mesh in meshes]
        positions = [layout.get_split_id(0) for layout in layouts]
        return [(part.to_local(), part.full_tensor()) for part in held], positions

    for rank, (parts, positions) in enumerate(run_ranks(on_rank, 3)):
        assert positions == [order.index(rank) for order in orders * 2]
        for position, (part, whole) in zip(positions, parts, strict=True):
            np.testing.assert_array_equal(part, [2 * position, 2 * position + 1])
            np.testing.assert_array_equal(whole, np.arange(6.0))


# --- environment variables replace the built-in operators ---


def test_environment_variables_add_to_the_built_in_operators(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    built_in = set(OperatorRegistry().entries())
    yaml, python = tmp_path / "yaml", tmp_path / "python"
    yaml.mkdir()
    python.mkdir()
    (yaml / "mine.yaml").write_text("mine: {distributed_op_class: Mine, distributed_op_file: mine.py}\n")
    (python / "mine.py").write_text(
        "from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp\n\n\nclass Mine(DistributedOp):\n    pass\n"
    )
    monkeypatch.setenv("HYPER_PARALLEL_OPS_YAML_DIR", str(yaml))
    monkeypatch.setenv("HYPER_PARALLEL_OPS_PYTHON_PATH", str(python))
    registry = OperatorRegistry()
    assert "npu_mhc_post" in built_in
    assert set(registry.entries()) == {*built_in, "mine"}
    for name, class_name in (("mine", "Mine"), ("npu_mhc_post", "NpuMhcPostDistributedOp")):
        assert type(registry.find(name)).__name__ == class_name


# --- keyword arguments are told from positional ones by counting ---

CALLS = [
    ((1, 2, 3), {}, 123),
    ((1,), {"third": 3, "second": 2}, 123),
    ((), {"third": 3, "first": 1}, 103),
    ((), {"second": 2}, 20),
    ((1,), {"third": 3}, 103),
]


@pytest.mark.parametrize(("args", "kwargs", "factor"), CALLS)
def test_keyword_arguments_are_told_by_their_names(args: Any, kwargs: Any, factor: int) -> None:
    x = DTensor.from_local(FULL, init_device_mesh("cpu", (1,)), (Shard(0),))
    np.testing.assert_array_equal(Weighted.apply(FULL, *args, **kwargs), FULL * factor)
    for _ in range(2):  # planned, and from what is kept
        np.testing.assert_array_equal(Weighted.apply(x, *args, **kwargs).to_local(), FULL * factor)


@pytest.mark.parametrize(("args", "kwargs", "factor"), CALLS)
def test_an_operator_of_the_framework_gets_them_by_name(args: Any, kwargs: Any, factor: int) -> None:
    def weighted(x: Any, *args: Any, **kwargs: Any) -> Any:
        return x * weights(*bind(x, *args, **kwargs)[1:])

    weighted.__name__ = str(Weighted._op_name)
    x = DTensor.from_local(FULL, init_device_mesh("cpu", (1,)), (Shard(0),))
    for _ in range(2):
        np.testing.assert_array_equal(_OP_DISPATCHER.dispatch(weighted, (x, *args), kwargs).to_local(), FULL * factor)


def test_an_operator_of_the_framework_gets_its_tensor_by_keyword() -> None:
    def weighted(x: Any, first: Any = 0, second: Any = 0, third: Any = 0) -> Any:
        assert type(x) is np.ndarray
        return x * weights(first, second, third)

    weighted.__name__ = str(Weighted._op_name)
    x = DTensor.from_local(FULL, init_device_mesh("cpu", (1,)), (Shard(0),))
    np.testing.assert_array_equal(_OP_DISPATCHER.dispatch(weighted, (), {"third": 3, "x": x}).to_local(), FULL * 3)
