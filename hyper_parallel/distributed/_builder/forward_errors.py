# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What an error in a forward has to do with the boundary around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hyper_parallel.distributed._builder.contract import listed

if TYPE_CHECKING:
    from hyper_parallel.distributed._builder.region_parameters import RegionParameter


def explained(
    error: Exception, module: str, parameters: Sequence[RegionParameter], *, dispatched: bool
) -> Exception | None:
    """Return an error of the same type that says how the module's forward was run; None if that adds nothing.

    Args:
        error: what the forward has raised.
        module: the module's name.
        parameters: those of its region.
        dispatched: whether the forward ran on DTensors.
    """
    kind, text = type(error), str(error)
    # A subclass may need other arguments; an inner boundary has said more than this one can.
    if kind not in (RuntimeError, ValueError, TypeError, AttributeError) or text.startswith("For module "):
        return None
    where = f"For module {module!r}"
    if dispatched and kind is not ValueError and "DTensor" in text:
        return kind(
            f"{where}, region_dispatch=True runs its forward on DTensors: {text.rstrip('.')}. "
            "Give region_dispatch=False to run the forward on local tensors."
        )
    cut = [item for item in parameters if any(not placement.is_replicate() for placement in item.layout.placements)]
    if not cut or kind not in (RuntimeError, ValueError):  # what frameworks raise for shapes that do not fit
        return None
    whole = [item for item in parameters if item not in cut]
    return kind(
        f"{where}, the forward has failed, where these parameters are cut: {_with_shapes(cut)}; "
        f"not cut: {_with_shapes(whole)}: {text}"
    )


def _with_shapes(parameters: Sequence[RegionParameter]) -> str:
    return listed([f"{item.path} {tuple(item.parameter.shape)}" for item in parameters])
