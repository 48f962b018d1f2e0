# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Regions on one rank of four, where nothing is communicated: the mesh, DTensors on it, and what is asserted of them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from hyper_parallel import DTensor, Partial, Replicate, Shard, get_platform, init_device_mesh, local_region
from tests.operators.sharded_calls import Framework

VALUES = np.arange(6.0, dtype=np.float32).reshape(2, 3)
ROWS = (Shard(0), Replicate())
COLUMNS = (Replicate(), Shard(1))
WHOLE = (Replicate(), Replicate())
PENDING = (Partial(), Replicate())


def mesh_of_four():
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"), init_backend=False)


def rows(framework: Framework, factor: float = 1.0, placements: Any = ROWS) -> DTensor:
    return DTensor.from_local(framework.tensor(VALUES * np.float32(factor)), mesh_of_four(), placements)


def region(function: Any = None, listed: Any = ("x",), out: Any = ROWS, **keywords: Any) -> Any:
    inputs = listed if isinstance(listed, dict) else dict.fromkeys(listed, ROWS)
    return local_region(function, device_mesh=mesh_of_four(), in_placements=inputs, out_placements=out, **keywords)


def assert_rows(framework: Framework, given: Any, expected: Any, placements: Any = ROWS) -> None:
    assert type(given) is DTensor
    assert given.device_mesh is mesh_of_four()
    assert given.placements == placements
    np.testing.assert_array_equal(framework.array(given.to_local()), expected)


def assert_local(framework: Framework, given: Any, expected: Any) -> None:
    assert get_platform().is_tensor(given)
    np.testing.assert_array_equal(framework.array(given), expected)


def affine(x, y, scale=1):
    """x * scale + y"""
    assert get_platform().is_tensor(x)
    return x * scale + y


def raised(kind, message, call):
    """The call raises that very class, and says that."""
    with pytest.raises(kind, match=re.escape(message)) as caught:
        call()
    assert caught.type is kind


def cases(names: dict[str, Any]) -> dict[str, Any]:
    """The cases of a module, by name."""
    return {name.removeprefix("case_"): value for name, value in names.items() if name.startswith("case_")}
