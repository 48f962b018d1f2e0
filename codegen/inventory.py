# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""A table of the operators of a library."""

from __future__ import annotations

from collections.abc import Sequence

from .spec.model import BackwardCall, Precomputed, Spec

COLUMNS = ("operator", "formats", "in", "out", "shardable", "backward", "kernels")


def inventory(specs: Sequence[Spec]) -> list[str]:
    """One line for each operator under a line of titles, in columns."""
    rows = [COLUMNS, *(row(spec) for spec in sorted(specs, key=lambda spec: spec.op))]
    widths = [max(len(cells[column]) for cells in rows) for column in range(len(COLUMNS))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip() for cells in rows]


def row(spec: Spec) -> tuple[str, ...]:
    shardable = [*spec.sharding.shard, *(f"{dim} (sum)" for dim in spec.sharding.reduce)]
    return (
        spec.op,
        " ".join(spec.format.names),
        str(len(spec.arguments)),
        str(len(spec.outputs)),
        " ".join(shardable) or "-",
        backward(spec),
        " ".join(launch.call.kernel for launch in spec.kernel.launches) if spec.kernel else "layout rule only",
    )


def backward(spec: Spec) -> str:
    if isinstance(spec.backward, Precomputed):
        return "precomputed"
    if isinstance(spec.backward, BackwardCall):
        return " ".join(launch.call.kernel for launch in spec.backward.launches)
    return "none" if spec.kernel else "-"
