# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What a rank is told of the others in a collective: that they make another call, or that they are gone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hyper_parallel.core.dtensor.device_mesh import DeviceMesh


def collective_facts(call: str, shape: Sequence[int], dtype: str) -> str:
    """What has to be the same on all ranks of a collective, in words."""
    return f"{call} of {tuple(shape)} {dtype}"


def check_agreement(where: str, ranks: Sequence[int], facts: Sequence[str]) -> None:
    """Raise ValueError if the facts of the ranks differ, which lists them."""
    if any(fact != facts[0] for fact in facts):
        listed = "; ".join(f"rank {rank} {fact}" for rank, fact in zip(ranks, facts, strict=True))
        raise ValueError(
            f"{where} should be the same call with the same shape and dtype on every rank, but got: {listed}"
        )


@contextmanager
def among_ranks(what: str, mesh: DeviceMesh, axis: int, framework: str) -> Iterator[None]:
    """Say in what a rank was left alone: what frameworks report is a connection, or a time-out."""
    try:
        yield
    except RuntimeError as error:
        raise RuntimeError(
            f"{what} along {mesh.axis_names[axis]} of {mesh} did not come to its end on rank {mesh.rank}: another rank "
            f"has failed, or makes another call, and says so itself. {framework}: {error}"
        ) from error
