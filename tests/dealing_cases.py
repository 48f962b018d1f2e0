# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Sequences dealt and put back on the ranks of any platform, and what each rank should have then."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from hyper_parallel import Replicate, Shard, distribute_tensor, init_device_mesh
from hyper_parallel.context_parallel import SequenceOrder, deal, undeal
from tests.runtime.context_parallel.window_oracle import dealt


@dataclass(frozen=True)
class Case:
    """A tensor whose dim is dealt over some axes; `group_axis` shards `group_dim` before that."""

    order: SequenceOrder
    mesh: tuple[int, ...]
    axes: tuple[str, ...] | None  # over which it is dealt; None: the default
    shape: tuple[int, ...]
    dim: int
    documents: tuple[int, ...] | None = None  # lengths
    group_dim: int | None = None  # sharded by "dp"
    rank_list: tuple[int, ...] | None = None
    dtype: str = "float32"

    @property
    def names(self) -> tuple[str, ...]:
        return ("cp",) if len(self.mesh) == 1 else ("dp", "cp")


PACKED = [SequenceOrder(name) for name in ("contiguous", "head_tail", "zigzag")]
PER_DOCUMENT = [SequenceOrder(name, per_document=True) for name in ("head_tail", "zigzag")]


def cases_of(ranks: int) -> list[Case]:
    half = ranks // 2
    tokens = 4 * ranks
    documents = (2 * ranks, 0, 2 * ranks)
    cases = [Case(order, (ranks,), None, (tokens, 3), 0) for order in PACKED]
    cases += [Case(order, (ranks,), ("cp",), (2, tokens, 3), -2) for order in PACKED]
    cases += [Case(order, (ranks,), None, (3, tokens), 1, documents) for order in PER_DOCUMENT]
    cases += [Case(order, (2, half), None, (4, tokens), 1, group_dim=0) for order in PACKED]  # a batch over dp
    cases += [Case(order, (2, half), None, (2 * tokens, 2), 0, group_dim=0) for order in PACKED]  # groups
    # Each of two groups has the documents.
    cases += [Case(order, (2, half), ("cp",), (2 * tokens, 2), 0, documents, group_dim=0) for order in PER_DOCUMENT]
    cases += [Case(order, (2, half), axes, (tokens,), 0) for order in PACKED for axes in (("dp", "cp"), ("cp", "dp"))]
    backwards = tuple(reversed(range(ranks)))
    cases += [Case(order, (ranks,), None, (tokens,), 0, rank_list=backwards) for order in PACKED]
    cases += [
        Case(PER_DOCUMENT[1], (ranks,), None, (tokens,), 0, documents, dtype=dtype) for dtype in ("bfloat16", "int64")
    ]
    return cases


@dataclass(frozen=True)
class Framework:
    """The tensors of a platform: from and to arrays, and the gradient of a function of one that returns a scalar."""

    tensor: Callable[[Any, str], Any]
    array: Callable[[Any], Any]
    gradient: Callable[[Callable[[Any], Any], Any], Any]
    wide: Callable[[Any], Any]
    """To float32, differentiable."""


def whole(case: Case) -> Any:
    """Numbers that bfloat16 has, too."""
    return np.arange(math.prod(case.shape), dtype=np.float64).reshape(case.shape)


def run_case(case: Case, framework: Framework) -> dict[str, Any]:
    """What this rank gets: its part, the whole again, and gradients through both."""
    mesh = init_device_mesh("cpu", case.mesh, mesh_dim_names=case.names, rank_list=case.rank_list)
    ends = None if case.documents is None else [int(end) for end in np.cumsum((0, *case.documents))]
    options = {"mesh_axes": case.axes, "cu_seqlens": ends}

    def dealt_part(tensor: Any) -> Any:
        if case.group_dim is not None:
            tensor = distribute_tensor(tensor, mesh, (Shard(case.group_dim), Replicate()))
        return deal(tensor, mesh, case.dim, case.order, **options)

    def put_back(part: Any) -> Any:
        return undeal(part, mesh, case.dim, case.order, **options)

    tensor = framework.tensor(whole(case), case.dtype)
    part = dealt_part(tensor)
    back = put_back(part)
    result = {
        "part": framework.array(part.to_local()),
        "placements": part.placements,
        "shape": part.shape,
        "back": framework.array(back.to_local()),
        "full": framework.array(back.full_tensor()),
    }
    if case.group_dim is None:  # a plain part has no groups
        result["plain"] = framework.array(put_back(part.to_local()).to_local())
    if case.dtype == "int64":
        return result

    def weighted(tensor: Any) -> Any:
        tensor = framework.wide(tensor)
        return (tensor**2 * framework.tensor(framework.array(tensor) % 5 + 1, "float32")).sum()

    result["share gradient"] = framework.gradient(lambda x: weighted(dealt_part(x).to_local()), tensor)
    result["part gradient"] = framework.gradient(
        lambda x: weighted(put_back(type(part).from_layout(x, part.layout)).to_local()), part.to_local()
    )
    return result


def gradient_of(case: Case, values: Any) -> Any:
    """That of `weighted`, in the dtype of the case."""
    gradient = 2 * values * (values % 5 + 1)
    return gradient.astype(ml_dtypes.bfloat16).astype(np.float64) if case.dtype == "bfloat16" else gradient


def check_case(case: Case, found: list[dict[str, Any]]) -> None:
    """Compare what the ranks have with lists of tokens that are cut and put together."""
    full = whole(case)
    ranks = case.rank_list or range(len(found))
    gradients = np.zeros(case.shape)
    parts, groups = math.prod(case.mesh), 1
    axes = case.axes or ("cp",)
    if axes == ("cp",) and len(case.mesh) == 2:
        groups, parts = case.mesh
    for place, rank in enumerate(ranks):
        here = found[rank]
        if axes == ("cp", "dp"):
            group, number = 0, place % case.mesh[1] * case.mesh[0] + place // case.mesh[1]
        else:
            group, number = divmod(place, parts)
        of_group = full if case.group_dim is None else np.split(full, groups, case.group_dim)[group]
        lengths = case.documents or (of_group.shape[case.dim],)
        rows = dealt(case.order, parts, lengths)[number]
        expected = np.take(of_group, rows, case.dim)
        assert np.array_equal(here["part"], expected), (case, rank)
        assert here["shape"] == case.shape
        assert np.array_equal(here["back"], of_group), (case, rank)
        assert np.array_equal(here["full"], full), (case, rank)
        if case.group_dim is None:
            assert np.array_equal(here["plain"], full), (case, rank)
        if case.dtype != "int64":
            assert np.array_equal(here["part gradient"], gradient_of(case, expected)), (case, rank)
            gradients += here["share gradient"]
    if case.dtype != "int64":
        assert np.array_equal(gradients, gradient_of(case, full)), case  # every row has one rank
