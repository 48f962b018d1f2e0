# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What a distributed tensor is, apart from its values: the dispatcher's keys are made of these."""

from __future__ import annotations

from typing import Any

from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.platform import get_platform

MOST_SPECS = 1 << 16


class TensorSpec:
    """Layout, shape of this rank's part, dtype and device. Interned: equal ones are one object, told by identity."""

    __slots__ = ("described", "layout", "local_shape")

    def __init__(self, layout: Layout, local_shape: tuple[int, ...], described: tuple[Any, ...]) -> None:
        self.layout = layout
        self.local_shape = local_shape
        self.described = described  # the platform's dtype, and its device where there are several

    def __repr__(self) -> str:
        return f"TensorSpec({self.layout!r}, {tuple(self.local_shape)}, {self.described})"


_SPECS: dict[tuple[Any, ...], TensorSpec] = {}


def tensor_spec(layout: Layout, local: Any) -> TensorSpec:
    """The spec of a tensor with this interned layout, of which this rank holds `local`."""
    shape, described = local.shape, get_platform().described(local)
    key = (id(layout), shape, described)  # a spec keeps its layout, so that the number stays that layout's
    found = _SPECS.get(key)
    if found is None:
        if len(_SPECS) >= MOST_SPECS:  # shapes without end: older specs are made again, and their calls planned again
            _SPECS.clear()
        found = _SPECS.setdefault(key, TensorSpec(layout, shape, described))
    return found
