# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What the tests of rejected calls share: DTensors on one rank's view of a mesh, and the check that nothing ran."""

from __future__ import annotations

import re
from typing import Any

import pytest

from hyper_parallel import DeviceMesh, DTensor, Layout, custom_ops, init_device_mesh

from .lse_cases import DIMS, OP, TENSORS, Sharding, draw, entries

run = getattr(custom_ops, OP)

QUERY, KEY, WEIGHTS = TENSORS
LENGTHS = {"BSND": {}, "TND": {"layout": "TND", "actual_seq_qlen": [4], "actual_seq_klen": [6]}}
BOTH = ("dp", "tp")


def mesh_of(shape: tuple[int, ...] = (2, 2), names: tuple[str, ...] = BOTH, ranks: Any = None) -> DeviceMesh:
    return init_device_mesh("cpu", shape, mesh_dim_names=names, rank_list=ranks, init_backend=False)


def tensors_of(form: str) -> dict[str, Any]:
    """What one rank holds."""
    return draw("BSND", B=2, S1=2, S2=4) if form == "BSND" else draw("TND", T1=4, T2=6)


def distributed(form: str, sharding: Sharding, mesh: DeviceMesh) -> dict[str, DTensor]:
    """DTensors of which this rank holds `tensors_of(form)`; what `sharding` does not mention is replicated."""
    layout = Layout.from_device_mesh(mesh)
    placements = {
        name: layout(*entries(dims, sharding.get(name, {}))).freeze().placements for name, dims in DIMS[form].items()
    }
    return {name: DTensor.from_local(tensor, mesh, placements[name]) for name, tensor in tensors_of(form).items()}


def rejects(launches, form, tensors, message, error=ValueError, **keywords):
    with pytest.raises(error, match=f"^{re.escape(f'For {OP}, {message}')}$"):
        run(**tensors, **{**LENGTHS[form], **keywords})
    assert launches == []
