# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Calls on a mesh against the unsharded operator: layouts in words, parts of whole tensors, and what every rank sees.

A layout is written as a word per dim, the mesh axes that shard it or a dot, and behind a plus the mesh axes over which
the tensor is Partial(sum): ``"dp . ."``, ``"tp,dp . ."`` (tp is the outermost), ``". . +dp,tp"``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import prod
from typing import Any, NamedTuple

import autograd
import autograd.numpy as anp
import numpy as np

from hyper_parallel import DeviceMesh, DTensor, Layout, custom_ops, get_platform, init_device_mesh
from hyper_parallel.core.shard.gradients import reduce_gradient
from hyper_parallel.core.shard.ops.parallel_ops_register import get_distributed_op
from hyper_parallel.native.kernel_choice import REFERENCE, uses_reference
from hyper_parallel.platform.numpy.virtual_ranks import run_ranks

AXIS_NAMES = ("dp", "tp")
Comparison = Callable[[Any, Any, str], None]
"""Of what was found with what was expected; the last argument says what that is."""


class Framework(NamedTuple):
    """What the tests have to know of a framework.

    Attributes:
        run: Operator -> what to call it by.
        tensor: An array as a tensor.
        array: A tensor as an array.
        total: The sum of the products of two tensors' elements, taken in float64; differentiable.
        gradients: A function of tensors, and tensors -> its gradients there.
    """

    run: Callable[[str], Callable[..., Any]]
    tensor: Callable[[Any], Any]
    array: Callable[[Any], Any]
    total: Callable[[Any, Any], Any]
    gradients: Callable[[Callable[..., Any], Sequence[Any]], Sequence[Any]]


def autograd_gradients(loss: Callable[..., Any], values: Sequence[Any]) -> Sequence[Any]:
    found: Sequence[Any] = autograd.grad(loss, argnum=tuple(range(len(values))))(*values)
    return found


def total(first: Any, second: Any) -> Any:
    return anp.sum(first.astype(np.float64) * second.astype(np.float64))


NUMPY = Framework(lambda op: getattr(custom_ops, op), np.asarray, np.asarray, total, autograd_gradients)


class Case(NamedTuple):
    """How one call lies on a mesh with axes dp and tp (or dp alone), every layout in words.

    Attributes:
        mesh: Shape of the mesh.
        inputs: Tensor -> its layout.
        outputs: Output -> the layout that it must have.
        gradients: Differentiable tensor -> the layout that its gradient must have before anything is reduced.
    """

    mesh: tuple[int, ...]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    gradients: Mapping[str, str]

    @property
    def ranks(self) -> int:
        return prod(self.mesh)


class Call(NamedTuple):
    """One call on whole tensors, and what comes out of it on one device.

    Attributes:
        op: The operator.
        tensors: Its tensors, whole.
        keywords: Rank -> the other arguments that it passes.
        outputs: Output -> its whole value, in the order of the operator.
        cotangents: Output -> the gradient that comes in; an output that is not there takes no part in the loss.
        gradients: Differentiable tensor -> its whole gradient.
    """

    op: str
    tensors: Mapping[str, Any]
    keywords: Callable[[int], Mapping[str, Any]]
    outputs: Mapping[str, Any]
    cotangents: Mapping[str, Any]
    gradients: Mapping[str, Any]


class Seen(NamedTuple):
    """What one rank sees; layouts in words."""

    outputs: dict[str, Any]
    output_layouts: dict[str, str]
    output_shapes: dict[str, tuple[int, ...]]
    full_outputs: dict[str, Any]
    gradients: dict[str, Any]
    gradient_layouts: dict[str, str]
    reduced: dict[str, Any]


def read(text: str) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """The mesh axes of every dim, outermost first, and those of the pending sum."""
    words = text.split()
    partial = tuple(axis for word in words if word[0] == "+" for axis in word[1:].split(","))
    return [() if word == "." else tuple(word.split(",")) for word in words if word[0] != "+"], partial


def layout_of(text: str, mesh: DeviceMesh) -> Layout:
    dims, partial = read(text)
    from_right = [tuple(mesh.ndim - 1 - AXIS_NAMES.index(axis) for axis in axes) for axes in dims]
    return Layout.from_tensor_map(
        mesh,
        tuple(axes[0] if len(axes) == 1 else axes or -1 for axes in from_right),
        tuple("sum" if AXIS_NAMES[axis] in partial else None for axis in range(mesh.ndim)),
    )


def in_words(layout: Layout) -> str:
    """The inverse of `layout_of`."""
    words = [
        "." if axes == "None" else axes if isinstance(axes, str) else ",".join(axes) for axes in layout.alias_tensor_map
    ]
    assert set(layout.partial) <= {None, "sum"}
    partial = [AXIS_NAMES[axis] for axis, op in enumerate(layout.partial) if op]
    return " ".join(words + (["+" + ",".join(partial)] if partial else []))


def place(axes: Sequence[str], mesh: tuple[int, ...], rank: int) -> tuple[int, int]:
    """The rank's place among the parts on these axes, and the number of the parts."""
    coordinate = dict(zip(AXIS_NAMES, np.unravel_index(rank, mesh), strict=False))
    extent = dict(zip(AXIS_NAMES, mesh, strict=False))
    index = reduce(lambda outer, axis: outer * extent[axis] + int(coordinate[axis]), axes, 0)
    return index, prod(extent[axis] for axis in axes)


def part(whole: Any, text: str, mesh: tuple[int, ...], rank: int) -> Any:
    """The rank's part of a tensor; a pending sum counts as carried out."""
    for dim, axes in enumerate(read(text)[0]):
        index, count = place(axes, mesh, rank)
        whole = np.split(whole, count, axis=dim)[index]
    return whole


def summands(whole: Any, count: int, seed: int = 0) -> list[Any]:
    """Tensors that add up to the whole: uneven and of alternating signs, so that two errors cannot cancel."""
    rng = np.random.default_rng(seed)
    signs = (-1.0) ** np.arange(count)
    parts = [signs[i] * (i + 1) * rng.uniform(0.5, 2.0, whole.shape) for i in range(count - 1)]
    return [*parts, whole - sum(parts)]


def local_tensor(whole: Any, text: str, mesh: tuple[int, ...], rank: int) -> Any:
    """What the rank holds of a tensor: its part, of its own summand where a sum is pending."""
    index, count = place(read(text)[1], mesh, rank)
    return part(summands(whole, count)[index] if count > 1 else whole, text, mesh, rank)


def added_up(parts: Sequence[Any], text: str, mesh: tuple[int, ...], rank: int) -> Any:
    """The sum of what the ranks hold that a pending sum joins with this one."""
    axes = [AXIS_NAMES.index(axis) for axis in read(text)[1]]

    def others(member: int) -> list[int]:
        return [int(x) for axis, x in enumerate(np.unravel_index(member, mesh)) if axis not in axes]

    return reduce(np.add, [held for member, held in enumerate(parts) if others(member) == others(rank)])


def mesh_of(case: Case) -> DeviceMesh:
    return init_device_mesh("cpu", case.mesh, mesh_dim_names=AXIS_NAMES[: len(case.mesh)])


def distributed(call: Call, case: Case, mesh: DeviceMesh, local: Mapping[str, Any]) -> dict[str, DTensor]:
    return {
        name: DTensor.from_local(local[name], mesh, layout_of(case.inputs[name], mesh).placements)
        for name in call.tensors
    }


def as_tuple(outputs: Any) -> tuple[Any, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)


def on_rank(call: Call, case: Case, factor: float = 1.0, framework: Framework = NUMPY) -> Seen:
    """Run the operator and differentiate a loss of its local outputs, times `factor`, on the rank that calls."""
    run, op = framework.run(call.op), get_distributed_op(call.op)
    tensor, array = framework.tensor, framework.array
    mesh, rank = mesh_of(case), get_platform().rank
    local = {
        name: tensor(local_tensor(whole, case.inputs[name], case.mesh, rank)) for name, whole in call.tensors.items()
    }
    cotangents = {
        name: tensor(part(whole, case.outputs[name], case.mesh, rank)) for name, whole in call.cotangents.items()
    }
    keywords = {
        name: tensor(value) if isinstance(value, np.ndarray) else value for name, value in call.keywords(rank).items()
    }

    def loss(*values: Any) -> Any:
        tensors = distributed(call, case, mesh, {**local, **dict(zip(call.gradients, values, strict=True))})
        outputs = dict(zip(call.outputs, as_tuple(run(**tensors, **keywords)), strict=True))
        return factor * sum(framework.total(outputs[name].to_local(), value) for name, value in cotangents.items())

    tensors = distributed(call, case, mesh, local)
    outputs = dict(zip(call.outputs, as_tuple(run(**tensors, **keywords)), strict=True))
    gradients, layouts = {}, {}
    if call.gradients:
        found = framework.gradients(loss, [local[name] for name in call.gradients])
        gradients = dict(zip(call.gradients, found, strict=True))
        layouts = op.grad_layouts(**tensors, **keywords)
    return Seen(
        {name: array(output.to_local()) for name, output in outputs.items()},
        {name: in_words(output.layout) for name, output in outputs.items()},
        {name: output.shape for name, output in outputs.items()},
        {name: array(output.full_tensor()) for name, output in outputs.items()},
        {name: array(gradient) for name, gradient in gradients.items()},
        {name: in_words(layouts[name]) for name in gradients},
        {name: array(reduce_gradient(gradient, layouts[name])) for name, gradient in gradients.items()},
    )


def close(given: Any, expected: Any, what: str) -> None:
    """Equal but for the order in which float64 sums are taken: a batch of another size, a sum over ranks.

    Compiled kernels give some outputs in float32 where the references keep the precision of their inputs.
    """
    assert np.shape(given) == np.shape(expected), what
    if not uses_reference(REFERENCE):
        scale = np.max(np.abs(expected), initial=1.0, where=np.isfinite(expected))
        np.testing.assert_allclose(given, expected, rtol=1e-6, atol=1e-6 * scale, err_msg=what)
        return
    assert np.asarray(given).dtype == np.asarray(expected).dtype, what
    np.testing.assert_allclose(given, expected, rtol=1e-12, atol=1e-12, err_msg=what)


PRECISION = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-16, "float64": 2.0**-44}
"""What tensors of a dtype may differ by from what is computed in float64, as a part of their largest element."""


def near(given: Any, expected: Any, what: str) -> None:
    """Of the same dtype, and equal but for its roundings: of each rank's share, of each block's, and of their sums."""
    assert np.shape(given) == np.shape(expected), what
    assert given.dtype == expected.dtype, what
    if expected.dtype.name not in PRECISION:
        np.testing.assert_array_equal(given, expected, err_msg=what)
        return
    precision = 2 * PRECISION[expected.dtype.name]
    wide, oracle = given.astype(np.float64), expected.astype(np.float64)
    scale = np.max(np.abs(oracle), initial=0.0, where=np.isfinite(oracle))
    np.testing.assert_allclose(wide, oracle, rtol=precision, atol=precision * scale, err_msg=what)


def check_outputs(call: Call, case: Case, seen: Sequence[Seen], close: Comparison = close) -> None:
    """Layouts as the table has them; on every rank its part of the unsharded value, Partial ones after adding up."""
    for rank, one in enumerate(seen):
        assert one.output_layouts == dict(case.outputs)
        for name, whole in call.outputs.items():
            text, what = case.outputs[name], f"{name} on rank {rank}"
            held = added_up([each.outputs[name] for each in seen], text, case.mesh, rank)
            close(held, part(whole, text, case.mesh, rank), what)
            close(one.full_outputs[name], whole, f"full {what}")
            assert one.output_shapes[name] == whole.shape


def check_gradients(
    call: Call, case: Case, seen: Sequence[Seen], factor: float = 1.0, close: Comparison = close
) -> None:
    """Layouts as the table has them; added up by hand or by `reduce_gradient`, the unsharded gradient on every rank."""
    for rank, one in enumerate(seen):
        assert one.gradient_layouts == dict(case.gradients)
        for name, whole in call.gradients.items():
            text, what = case.gradients[name], f"gradient of {name} on rank {rank}"
            expected = (factor * part(whole, text, case.mesh, rank)).astype(whole.dtype)
            close(added_up([each.gradients[name] for each in seen], text, case.mesh, rank), expected, what)
            close(one.reduced[name], expected, f"reduced {what}")


def check_sharded(call: Call, case: Case) -> None:
    """Run the call on every rank and compare what they see with the unsharded call."""
    seen = run_ranks(on_rank, case.ranks, call, case)
    check_outputs(call, case, seen)
    check_gradients(call, case, seen)
