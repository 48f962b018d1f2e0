# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What is said of other frameworks' tensors, of torch's classes with the names of ours, and of methods of a DTensor."""

from __future__ import annotations

import copy
import operator
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.distributed.tensor as of_torch

from hyper_parallel import DTensor, Layout, Shard, custom_ops, distribute_tensor, init_device_mesh

SHAPES = (4, 2, 8), (4, 2, 2), (4, 8), (4, 2)  # x, h_res, h_out, h_post
MESH = init_device_mesh("cpu", (1,), init_backend=False)
REGISTERED_ONLY = "a DTensor runs registered operators only: use to_local(), or local_region (docs/modules.md)"


def on_mesh():
    return distribute_tensor(torch.arange(4.0), MESH, (Shard(0),))


def test_arrays_of_numpy():
    with pytest.raises(
        TypeError, match=re.escape("x should be a tensor of torch, but got a numpy.ndarray: torch.from_n")
    ):
        custom_ops.npu_mhc_post(*(np.ones(shape) for shape in SHAPES))
    h_post = np.float64(1)
    with pytest.raises(
        TypeError, match=re.escape("h_post should be a tensor of torch, but got a numpy.generic: torch.t")
    ):
        custom_ops.npu_mhc_post(*(torch.ones(shape) for shape in SHAPES[:3]), h_post)


def test_what_the_message_advises_works():
    tensors = [torch.from_numpy(np.ones(shape)) for shape in SHAPES]
    # x = h_res = h_post = h_out = 1: two streams mixed, and the layer's output.
    torch.testing.assert_close(custom_ops.npu_mhc_post(*tensors), torch.full((4, 2, 8), 3.0, dtype=torch.float64))


def test_tensors_of_mindspore():
    pytest.importorskip("mindspore", reason="gives the tensors of another framework")
    code = (
        "import mindspore\n"
        "from hyper_parallel import custom_ops\n"
        f"custom_ops.npu_mhc_post(*(mindspore.mint.ones(shape) for shape in {SHAPES}))\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (
        "TypeError: For npu_mhc_post, x is a mindspore.Tensor, but this process is on torch; set "
        "HYPER_PARALLEL_PLATFORM=mindspore before the first import of hyper_parallel."
    ) in ended.stderr


@pytest.mark.parametrize("name", ["Shard", "Replicate", "Partial"])
def test_placements_of_torch(name):
    placement = getattr(of_torch, name)(*([0] if name == "Shard" else []))
    message = f"is of the class torch.distributed.tensor.placement_types.{name}; use hyper_parallel.{name}"
    for make in (distribute_tensor, DTensor.from_local):
        with pytest.raises(TypeError, match=re.escape(message)):
            make(torch.ones(4), MESH, (placement,))
    # Without the tuple around it.
    with pytest.raises(TypeError, match=rf"\(torch\.distributed\..*\.{name}\); use hyper_parallel\.{name}"):
        distribute_tensor(torch.ones(4), MESH, placement)


def test_a_mesh_of_torch():
    class DeviceMesh:  # torch's own needs a process group
        __module__, __qualname__ = "torch.distributed.device_mesh", "DeviceMesh"

    message = (
        r"but got .*\(torch\.distributed\.device_mesh\.DeviceMesh\); make one with hyper_parallel\.init_device_mesh"
    )
    with pytest.raises(TypeError, match=message):
        Layout.from_placements(DeviceMesh(), (Shard(0),), 1)


@pytest.mark.parametrize("name", ["sum", "backward", "reshape", "grad", "T"])
def test_a_method_of_a_tensor(name):
    d = on_mesh()
    assert not hasattr(d, name)
    with pytest.raises(AttributeError) as caught:
        getattr(d, name)
    assert str(caught.value) == f"'DTensor' object has no attribute {name!r}: {REGISTERED_ONLY}"


def test_other_names_keep_the_words_of_python():
    d = on_mesh()
    for name in ("_nothing", "__array_interface__", "mro"):
        with pytest.raises(AttributeError) as caught:
            getattr(d, name)
        assert str(caught.value) == f"'DTensor' object has no attribute {name!r}"
    with pytest.raises(AttributeError, match="'DTensor' object has no attribute 'note'"):
        d.note = 1  # the slots stay


OPERATORS = {
    name: getattr(operator, name)
    for name in "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift lt le gt ge iadd imul".split()
}


@pytest.mark.parametrize("compute", OPERATORS.values(), ids=OPERATORS)
def test_arithmetic(compute):
    d = on_mesh()
    for operands in ((d, d), (d, 2), (2, d)):
        with pytest.raises(TypeError, match=re.escape(REGISTERED_ONLY)):
            compute(*operands)


@pytest.mark.parametrize("compute", [operator.neg, operator.pos, operator.invert, abs])
def test_arithmetic_of_one(compute):
    with pytest.raises(TypeError, match=re.escape(REGISTERED_ONLY)):
        compute(on_mesh())


@pytest.mark.parametrize("compute", [operator.add, operator.mul, operator.matmul])
def test_with_a_tensor_the_dispatcher_decides(compute):
    for operands in ((on_mesh(), torch.ones(4)), (torch.ones(4), on_mesh())):
        with pytest.raises(RuntimeError, match="No distributed operator is registered under the name"):
            compute(*operands)


def test_copies_pickles_and_comparisons_stay():
    d = on_mesh()
    for other in (copy.deepcopy(d), pickle.loads(pickle.dumps(d))):
        assert torch.equal(other.to_local(), d.to_local())
    assert copy.copy(d).to_local() is d.to_local()
    assert d != on_mesh()
    assert {d: 1}[d] == 1
