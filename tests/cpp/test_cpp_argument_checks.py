# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Wrong arguments of the committed C++, called from Python without the checks in Python.

These are the oracle: an argument that they refuse is refused in C++ by the same exception with the same words, and one
that they take is taken. Left out is what C++ does not look at: a `require` of the spec, and document ends on the device.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from host_module import dtype_of, host_module, value_of
from launch_cases import CASES, CAUSAL, CLAMP, INT64_MAX, LSE, POST, PRE, SPARSE, TOP_K, Case

from hyper_parallel.reference.dense_lightning_indexer import softmax_lse
from tests.compiler import needs_compiler

pytest.importorskip("pybind11", reason="the module for NumPy arrays is built with pybind11")
pytestmark = needs_compiler

FORWARD = {name: case for name, case in CASES.items() if not case.op.endswith("_backward") and "views" not in name}
DTYPES = ("float16", "bfloat16", "float32", "float64", "int32", "int64")
Arguments = list[Any]


def arguments_of(case: Case) -> Arguments:
    """Valid arguments; document ends that start with a zero where the operator takes them on the device."""
    given = case.given.replace("int:3 int:1 int:2", CAUSAL)  # what the kernel takes is no matter here
    values = [value_of(word) for word in given.split()]
    if case.op == SPARSE:
        values[5].fill(-1)  # the zeros would be one key several times
    if case.op == TOP_K and values[8] == "TND":
        values[4:6] = np.array([0, 3, 7], np.int32), np.array([0, 5, 9], np.int32)
    return values


def wrong_tensors(value: Any) -> Iterator[tuple[str, Any]]:
    for dim in range(value.ndim):
        wider = np.concatenate([value, value[(slice(None),) * dim + (slice(0, 1),)]], axis=dim)
        yield f"dim {dim} longer", wider
        yield f"dim {dim} empty", value[(slice(None),) * dim + (slice(0, 0),)]
    yield "a dim more", value[None]
    yield "a dim less", value[0, ...]
    yield "no dims", value.ravel()[0:1].reshape(())
    yield from ((f"dtype {name}", value.astype(dtype_of(name))) for name in DTYPES if dtype_of(name) != value.dtype)


def wrong_lengths(value: list[int]) -> Iterator[tuple[str, Any]]:
    yield "none at all", []
    yield "too short", [*value[:-1], value[-1] - 1]
    yield "too long", [*value[:-1], value[-1] + 1]
    yield "decreasing", [value[-1], *value[:-1]]
    yield "negative", [-1, *value]
    yield "many", [*([0] * 20), *value]


def changes(values: Arguments) -> Iterator[tuple[str, int, Any]]:
    for position, value in enumerate(values):
        if isinstance(value, np.ndarray):
            found = wrong_tensors(value)
        elif isinstance(value, list):
            found = wrong_lengths(value)
        elif value in ("BSND", "TND"):
            found = iter([("unknown", "BNSD"), ("another", {"BSND": "TND", "TND": "BSND"}[value]), ("empty", "")])
        else:
            continue
        for words, other in found:
            yield f"{position}: {words}", position, other


def outcome(call: Callable[[], Any]) -> tuple[str, str]:
    try:
        call()
    except (ValueError, TypeError) as error:
        return type(error).__name__, str(error)
    return "taken", ""


def python_checks(op: str, values: Arguments) -> tuple[str, str]:
    rule = importlib.import_module(f"hyper_parallel.generated.{op}.parallel_{op}")
    return outcome(lambda: rule.check_arguments(*rule.bind_arguments(*values)))


@pytest.mark.parametrize("name", FORWARD)
def test_arguments_are_refused_as_python_refuses_them(name: str) -> None:
    case = FORWARD[name]
    function = getattr(host_module(), case.op)
    refused = 0
    for words, position, value in changes(arguments_of(case)):
        values = arguments_of(case)
        values[position] = value
        if case.op == TOP_K and position in (4, 5):
            continue  # Python reads and converts what lies on the device: see the table below
        expected = python_checks(case.op, values)
        if "is required" in expected[1] or "cu_seq_lens" in expected[1]:
            continue
        got = outcome(lambda values=values: function(*values))
        assert got == expected, f"{words}: {got}"
        refused += expected[0] != "taken"
    assert refused >= 10


# The table's tensors are zeros, and some arguments are there for the NPU: what the host kernel then says itself.
BY_THE_KERNEL = {
    "top k, TND": "cu_seq_lens_q should end at 7 tokens, but ends at 0",
    "top k, everything given": "keys should not be compressed",
    "sparse, BSND": "sparse_indices should hold -1 or positions of keys that the row sees, each once",
    "sparse, BSND with ropes": "sparse_indices should hold -1 or positions of keys that the row sees, each once",
    "sparse, TND": "pre_tokens and next_tokens",
    "sparse, TND with ropes": "sparse_indices should hold -1 or positions of keys that the row sees, each once",
    "dense, TND with ropes": "pre_tokens and next_tokens",
}


@pytest.mark.parametrize("name", CASES)
def test_right_arguments_are_taken(name: str) -> None:
    case = CASES[name]
    values = [value_of(word.replace("view:", "tensor:")) for word in case.given.split()]
    kind, message = outcome(lambda: getattr(host_module(), case.op)(*values))
    if name in BY_THE_KERNEL:
        assert BY_THE_KERNEL[name] in message
    else:
        assert (kind, message) == ("taken", "")


ENDS = "tensor:int32:3"
WRONG_BACKWARD: dict[str, tuple[str, int, str, str]] = {
    # a case of launch_cases.py, the argument that is replaced, what by, and the end of the message
    "gradient of another shape": ("post backward, BSND", 0, "tensor:bfloat16:2,3,4,15", "D (dim 3) of grad_out should be 16, but got 15."),
    "gradient of another rank": ("post backward, BSND", 0, "tensor:bfloat16:2,3,4", "grad_out should have the 4 dims (B, S, N, D), but got shape (2, 3, 4)."),
    "gradient of another dtype": ("post backward, TND, of views", 0, "tensor:float32:5,4,16", "grad_out should have dtype float16, but got float32."),
    "integer gradient": ("pre backward, TNC", 1, "tensor:int32:5,4", "grad_h_post should have dtype float32, float64, but got int32."),
    "gradient of an adapted shape": ("pre backward, BSNC", 2, "tensor:float32:2,3,16", "grad_h_res should have the 4 dims (B, S, N, N), but got shape (2, 3, 16)."),
    "saved tensor of another shape": ("clamp backward, TNC", 9, "tensor:float32:5", "inv_rms should have the 2 dims (T, 1), but got shape (5,)."),
    "saved tensor, an integer dim": ("clamp backward, TNC", 9, "tensor:float32:5,2", "1 (dim 1) of inv_rms should be 1, but got 2."),
    "saved tensor, a dim of an expression": ("pre backward, BSNC", 8, "tensor:float32:2,3,25", "N*N+2*N (dim 2) of hc_before_norm should be 24, but got 25."),
    "argument that does not fit the others": ("post backward, BSND", 2, "tensor:float32:2,3,4,5", "N (dim 3) of h_res should be 4, but got 5."),
    "rank that is no format": ("post backward, BSND", 1, "tensor:bfloat16:4,16", "x should have 4 or 3 dims, but got 2."),
    "document ends of another dtype": ("top k, TND", 4, "tensor:int64:3", "cu_seq_lens_q should have dtype int32, but got int64."),
    "document ends of another rank": ("top k, TND", 4, "tensor:int32:1,3", "cu_seq_lens_q should be cumulative document ends, of one dim, but got shape (1, 3)."),
    "document ends that end none": ("top k, TND", 5, "tensor:int32:1", "cu_seq_lens_k should start with 0 and hold at least one document end, but got shape (1,)."),
    "document ends of other documents": ("top k, TND", 5, "tensor:int32:4", "cu_seq_lens_q and cu_seq_lens_k should have as many documents, but got 2 and 3."),
    "document ends where there are none": ("top k, BSND", 4, ENDS, "cu_seq_lens_q should be None in format BSND, which has no dim T1, but got a tensor of shape (3,)."),
    "values of other documents": ("top k, everything given", 7, "tensor:int32:3,4", "documents (dim 0) of block_table should be 2, but got 3."),
    "output that would have a negative extent": ("top k, TND", 3, "int:-1", "sparse_count (dim 2) of sparse_indices should be at least 0, but got -1."),
    "output that would have fewer than no steps": ("pre, BSNC", 5, "int:-2", "2*num_iters (dim 0) of sum_out should be at least 0, but got -4."),
}  # fmt: skip


@pytest.mark.parametrize(("name", "position", "given", "message"), WRONG_BACKWARD.values(), ids=WRONG_BACKWARD)
def test_what_only_the_kernels_see(name: str, position: int, given: str, message: str) -> None:
    case = CASES[name]
    values = [value_of(word.replace("view:", "tensor:")) for word in case.given.split()]
    values[position] = value_of(given)
    error = TypeError if "dtype" in message else ValueError
    with pytest.raises(error) as raised:
        getattr(host_module(), case.op)(*values)
    assert str(raised.value) == f"For {case.op}, {message}"


def test_every_backward_is_in_the_table() -> None:
    called = {CASES[name].op for name, *_ in WRONG_BACKWARD.values()}
    assert called >= {f"{op}_backward" for op in (POST, PRE, CLAMP)}


@pytest.mark.parametrize("value", [[[1.0]], None, "x", 3])
def test_what_is_no_array_is_refused_by_name(value: Any) -> None:
    """By pybind11: the message has the operator and what it takes."""
    with pytest.raises(TypeError, match=f"{POST}.*incompatible function arguments"):
        getattr(host_module(), POST)(value, *arguments_of(CASES["post, BSND"])[1:])


def test_strided_arrays_are_read_as_they_stand() -> None:
    """Views of every kind give what their copies give."""
    rng = np.random.default_rng(7)
    query = rng.standard_normal((3, 8, 2, 128)).astype(np.float32).transpose(2, 0, 1, 3)
    key = rng.standard_normal((2, 10, 1, 128)).astype(np.float32)[:, ::-2]
    weights = np.broadcast_to(rng.standard_normal((1, 3, 8)).astype(np.float32), (2, 3, 8))
    views = query, key, weights
    assert not any(view.flags.c_contiguous for view in views)
    rest = None, None, "BSND", 3, INT64_MAX, INT64_MAX
    got = getattr(host_module(), LSE)(*views, *rest)
    copied = getattr(host_module(), LSE)(*(np.ascontiguousarray(view) for view in views), *rest)
    expected = softmax_lse(*(view.astype(np.float64) for view in views), None, None, layout="BSND")
    for found, same, right in zip(got, copied, expected, strict=True):
        np.testing.assert_array_equal(found, same)
        np.testing.assert_allclose(found, right, rtol=1e-4)
