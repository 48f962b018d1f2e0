# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What torch.ops.hyper_parallel.<op> refuses, eager, on meta tensors and while a graph is traced."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import torch

import hyper_parallel.torch_library  # noqa: F401 - defines the operators
from hyper_parallel import custom_ops, library

OPS = torch.ops.hyper_parallel
LSE = OPS.npu_dense_lightning_indexer_softmax_lse


def drawn(*shapes, device="cpu"):
    return [torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(device) for shape in shapes]


def connection(**options):
    return [tensor.requires_grad_() for tensor in drawn((4, 2, 8), (4, 2, 2), (4, 8), (4, 2), **options)]


WRONG = {
    "dims": (lambda device: OPS.npu_mhc_post(*drawn((4, 2, 8), (4, 2, 3), (4, 8), (4, 2), device=device)), "h_res"),
    "dtype": (
        lambda device: OPS.npu_mhc_post(*(tensor.int() for tensor in connection(device=device))),
        "x should have dtype bfloat16, float16, float32, float64, but got int32",
    ),
    "requirement": (lambda device: LSE(*drawn((1, 5, 8, 128), (1, 3, 1, 128), (1, 5, 8), device=device)), "S1 <= S2"),
    "choice": (
        lambda device: LSE(*drawn((1, 2, 8, 128), (1, 3, 1, 128), (1, 2, 8), device=device), layout="BNSD"),
        "layout should be one of 'BSND', 'TND', but got 'BNSD'",
    ),
    "document ends": (
        lambda device: LSE(*drawn((2, 8, 128), (3, 1, 128), (2, 8), device=device), [1], [3], layout="TND"),
        "actual_seq_qlen should end at T1 = 2",
    ),
}


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(("call", "message"), WRONG.values(), ids=WRONG)
def test_the_errors_of_the_public_function(call, message, device):
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        call(device)


def test_found_while_a_graph_is_traced():
    def run(*tensors):
        return OPS.npu_mhc_post(*tensors)

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager", dynamic=True)
    with pytest.raises(Exception, match=r"N \(dim 2\) of h_res should be s\d+, but got s\d+"):
        compiled(*drawn((4, 2, 8), (4, 2, 3), (4, 8), (4, 2)))


def test_document_ends_are_checked_when_a_graph_runs():
    """Those on the device have no values while it is traced."""
    indexer = torch.compile(lambda *args: OPS.npu_lightning_indexer(*args, layout="TND"), backend="aot_eager")
    tensors = drawn((2, 8, 128), (3, 1, 128), (2, 8))
    ends = [torch.tensor(values, dtype=torch.int32) for values in ([0, 2], [0, 3], [0, 9])]
    assert indexer(*tensors, 2, ends[0], ends[1])[0].shape == (2, 1, 2)
    with pytest.raises(ValueError, match=r"cu_seq_lens_k should end at T2 = 3"):
        indexer(*tensors, 2, ends[0], ends[2])


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_document_ends_on_the_device_have_the_dtype_of_the_kernel(device):
    tensors = drawn((2, 8, 128), (3, 1, 128), (2, 8), device=device)
    ends = [torch.tensor(values, device=device) for values in ([0, 2], [0, 3])]
    with pytest.raises(TypeError, match="cu_seq_lens_q should have dtype int32, but got int64"):
        OPS.npu_lightning_indexer(*tensors, 2, *ends, layout="TND")


def test_no_second_derivative():
    tensors = connection()
    (gradient,) = torch.autograd.grad(OPS.npu_mhc_post(*tensors).sum(), tensors[0], create_graph=True)
    with pytest.raises(RuntimeError, match="npu_mhc_post_backward, there is no second derivative"):
        gradient.sum().backward()


def test_an_operator_without_a_backward():
    tensors = [tensor.requires_grad_() for tensor in drawn((1, 2, 8, 128), (1, 3, 1, 128), (1, 2, 8))]
    assert not any(output.requires_grad for output in LSE(*tensors))


def test_those_of_torch_npu_run():
    delegated = {op for op in library.operators() if is_delegated(op)}
    assert delegated == {"npu_dense_lightning_indexer_softmax_lse"}
    tensors = drawn((1, 2, 8, 128), (1, 3, 1, 128), (1, 2, 8))
    with pytest.raises(RuntimeError, match=r"torch_npu\.npu_dense_lightning_indexer_softmax_lse"):
        custom_ops.npu_dense_lightning_indexer_softmax_lse(*tensors)
    assert LSE(*tensors)[0].shape == (1, 1, 2)


def is_delegated(op):
    try:
        getattr(custom_ops, op)(*[None] * 3)
    except RuntimeError:
        return True
    except TypeError:
        return False
    raise AssertionError(f"{op} should refuse None")


@pytest.mark.parametrize(
    ("op", "message"),
    [
        ("npu_mhc_post", "For npu_mhc_post, hyper_parallel::npu_mhc_post has no kernel for NPUs: it runs on"),
        (
            "npu_dense_lightning_indexer_softmax_lse",
            r"call torch_npu\.npu_dense_lightning_indexer_softmax_lse\(\.\.\.\)",
        ),
    ],
)
def test_on_an_npu(op, message):
    """There is none here, so the dispatcher is told that the tensors are on one."""
    shapes = {"npu_mhc_post": ((4, 2, 8), (4, 2, 2), (4, 8), (4, 2))}.get(
        op, ((1, 2, 8, 128), (1, 3, 1, 128), (1, 2, 8))
    )
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.PrivateUse1)
    with pytest.raises(NotImplementedError, match=message):
        getattr(OPS, op).default.redispatch(keys, *drawn(*shapes))


def test_only_on_torch():
    code = "import hyper_parallel.torch_library"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"HYPER_PARALLEL_PLATFORM": "numpy", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "RuntimeError: hyper_parallel.torch_library needs the torch platform" in done.stderr
