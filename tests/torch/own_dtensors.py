# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What the tests of torch's own DTensors share: meshes, placements, and what a DTensor must be."""

from __future__ import annotations

import numpy as np
import torch

from hyper_parallel import library
from hyper_parallel.platform.torch.custom_ops.custom_op_impl import to_array
from tests.operators.sharded_calls import AXIS_NAMES, read


def function_of(op):
    return library.dfunction("".join(word.capitalize() for word in op.split("_")) + "DFunction")


def torch_mesh_of(shape):
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", shape, mesh_dim_names=AXIS_NAMES[: len(shape)])


def torch_placements(text, shape):
    """The placements of a layout in words; on two axes only the left one can lie inside of the right one's cuts."""
    from torch.distributed.tensor import Partial, Replicate, Shard
    from torch.distributed.tensor.placement_types import _StridedShard

    dims, partial = read(text)
    placements = [Replicate() for _ in shape]
    for dim, axes in enumerate(dims):
        for axis in axes:
            placements[AXIS_NAMES.index(axis)] = Shard(dim)
        if axes == ("tp", "dp"):
            placements[0] = _StridedShard(dim, split_factor=shape[1])
    for axis in partial:
        placements[AXIS_NAMES.index(axis)] = Partial("sum")
    return tuple(placements)


def equal(given, expected, what):
    np.testing.assert_allclose(given, expected, rtol=1e-12, atol=1e-12, err_msg=what)


def check_tensor(given, mesh, placements, expected, comparison=equal):
    from torch.distributed.tensor import DTensor

    assert type(given) is DTensor
    assert given.device_mesh is mesh or given.device_mesh == mesh
    assert given.placements == placements
    full = given.detach().full_tensor()
    assert type(full) is torch.Tensor
    comparison(to_array(full), expected, "the whole tensor")
