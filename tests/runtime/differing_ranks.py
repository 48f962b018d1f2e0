# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Ranks that do not hold parts of one tensor, on any platform: what each of two ranks is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hyper_parallel import DTensor, Partial, Replicate, Shard, get_platform, init_device_mesh, reduce_gradient
from hyper_parallel.core.dtensor.layout import Layout

CASES = (
    # name, shapes of the two ranks, their dtypes, their placements, what is done
    ("more rows on rank 0", ((3, 2), (2, 2)), ("float32", "float32"), (Shard(0), Shard(0)), "full_tensor"),
    ("more rows on rank 1", ((2, 2), (3, 2)), ("float32", "float32"), (Shard(0), Shard(0)), "full_tensor"),
    ("as many bytes in another shape", ((3, 2), (2, 3)), ("float32", "float32"), (Shard(0), Shard(0)), "full_tensor"),
    ("as many bytes of another dtype", ((2, 2), (2, 2)), ("float32", "int32"), (Shard(0), Shard(0)), "full_tensor"),
    ("another dtype", ((2, 2), (2, 2)), ("float32", "float64"), (Shard(0), Shard(0)), "full_tensor"),
    ("another dim", ((2, 2), (2, 2)), ("float32", "float32"), (Shard(0), Shard(1)), "full_tensor"),
    ("a sum and parts", ((2, 2), (2, 2)), ("float32", "float32"), (Partial(), Shard(0)), "full_tensor"),
    ("a sum of unequal parts", ((3, 2), (2, 2)), ("float32", "float32"), (Partial(), Partial()), "full_tensor"),
    ("moved unequal parts", ((4, 2), (2, 2)), ("float32", "float32"), (Shard(0), Shard(0)), "redistribute"),
    ("an unequal gradient", ((3, 2), (2, 2)), ("float32", "float32"), (Partial(), Partial()), "reduce_gradient"),
)
LONE = (
    "only one has something to do",
    ((2, 2), (2, 2)),
    ("float32", "float32"),
    (Shard(0), Replicate()),
    "full_tensor",
)
"""One rank would wait alone: only a comparison finds it."""
EQUAL = (
    ("equal rows", ((2, 2), (2, 2)), ("float32", "float32"), (Shard(0), Shard(0)), "full_tensor"),
    ("a sum", ((2, 2), (2, 2)), ("float32", "float32"), (Partial(), Partial()), "full_tensor"),
    ("moved parts", ((2, 2), (2, 2)), ("float32", "float32"), (Shard(0), Shard(0)), "redistribute"),
    ("a gradient", ((2, 2), (2, 2)), ("float32", "float32"), (Partial(), Partial()), "reduce_gradient"),
)


def errors(cases: tuple[Any, ...]) -> list[tuple[str, str]]:
    """Type and text of the error of each case on this rank of two, empty where there is none."""
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
    found = []
    for _, shapes, dtypes, placements, what in cases:
        rank = mesh.rank
        local = as_tensor(np.arange(np.prod(shapes[rank])).reshape(shapes[rank]).astype(dtypes[rank]))
        found.append(_error_of(_act(what, local, mesh, placements[rank])))
    return found


def _act(what: str, local: Any, mesh: Any, placement: Any) -> Callable[[], Any]:
    if what == "reduce_gradient":
        return lambda: reduce_gradient(local, Layout.from_placements(mesh, (placement,), local.ndim))
    dtensor = DTensor.from_local(local, mesh, (placement,))
    return dtensor.full_tensor if what == "full_tensor" else lambda: dtensor.redistribute(mesh, (Shard(1),))


def _error_of(act: Callable[[], Any]) -> tuple[str, str]:
    try:
        act()
    except (ValueError, RuntimeError) as error:
        return type(error).__name__, str(error)
    return "", ""


def as_tensor(array: np.ndarray) -> Any:
    name = get_platform().name
    if name == "torch":
        import torch

        return torch.from_numpy(array)
    if name == "mindspore":
        from hyper_parallel.platform.mindspore.host_arrays import to_tensor

        return to_tensor(array)
    return array


def check_compared(of_rank: list[list[tuple[str, str]]]) -> None:
    """With HYPER_PARALLEL_CHECK_RANKS=1 both ranks list the two parts, in the same words."""
    for case, first, second in zip((*CASES, LONE), *of_rank, strict=True):
        name, shapes, dtypes, _, what = case
        assert first == second, name
        kind, text = first
        call = "reduce_gradient" if what == "reduce_gradient" else "redistribute"
        assert (kind, text.splitlines()[0]) == (
            "RuntimeError",
            f"For {call}, the ranks of DeviceMesh(cpu, dp=2) do not make the same call:",
        ), name
        for rank, line in enumerate(text.splitlines()[1:]):
            assert line.startswith(f"  rank {rank}: {call}("), name
            assert f"{shapes[rank]} {dtypes[rank]}" in line, name


def check_found_in_the_collective(of_rank: list[list[tuple[str, str]]]) -> None:
    """Without it, what reaches a collective on the host is found there, on both ranks."""
    words = " should be the same call with the same shape and dtype on every rank, but got: "
    for case, *errors_of_case in zip(CASES, *of_rank, strict=True):
        listed = {text.partition(words)[2] for _, text in errors_of_case}
        assert [kind for kind, _ in errors_of_case] == ["ValueError"] * 2, case[0]
        assert len(listed) == 1, case[0]
        assert all(f"{shape} {dtype}" in min(listed) for shape, dtype in zip(case[1], case[2], strict=True))
