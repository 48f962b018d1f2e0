# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The committed C++ of the dense lightning indexer, compiled and run in both flavours without a framework."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from recorder import Launch, Recorder, compile_recorder

from hyper_parallel.reference.dense_lightning_indexer import INT64_MAX, softmax_lse
from tests.compiler import needs_compiler

ROOT = Path(__file__).resolve().parents[2]
OP = "npu_dense_lightning_indexer_softmax_lse"
GENERATED = ROOT / "generated" / OP / f"{OP}.cc"
TYPES = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16, "float32": np.float32, "float64": np.float64}
N1, D = 8, 128

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def ascend(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    return compile_recorder(GENERATED, [ROOT], "ascend", tmp_path_factory.mktemp("ascend"))


@pytest.fixture(scope="module")
def cpu(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    return compile_recorder(GENERATED, [ROOT], "cpu", tmp_path_factory.mktemp("cpu"))


def attributes(layout: str) -> list[str]:
    return [f"str:{layout}", "int:3", f"int:{INT64_MAX}", f"int:{INT64_MAX}"]


def documented_launch(layout: str, lengths: Sequence[str], shape: str) -> Launch:
    """The kernel's call as its documentation has it: a missing length is an empty array."""
    return Launch(
        "aclnnDenseLightningIndexerSoftmaxLse",
        (
            "input 0",
            "input 1",
            "input 2",
            *lengths,
            f"str {layout}",
            "int64 3",
            f"int64 {INT64_MAX}",
            f"int64 {INT64_MAX}",
            f"output 0 float32 {shape}",
            f"output 1 float32 {shape}",
        ),
    )


def test_launch_in_bsnd(ascend: Recorder) -> None:
    tensors = ["tensor:bfloat16:2,4,8,128", "tensor:bfloat16:2,6,1,128", "tensor:float32:2,4,8"]
    launches = ascend.launches([*tensors, "none", "none", *attributes("BSND")])
    assert launches == [documented_launch("BSND", ["ints []", "ints []"], "[2, 1, 4]")]


def test_launch_in_tnd(ascend: Recorder) -> None:
    tensors = ["tensor:float16:7,64,128", "tensor:float16:9,1,128", "tensor:float16:7,64"]
    launches = ascend.launches([*tensors, "lengths:3,7", "lengths:5,9", *attributes("TND")])
    assert launches == [documented_launch("TND", ["ints [3, 7]", "ints [5, 9]"], "[1, 7]")]


def test_unknown_layout(ascend: Recorder) -> None:
    tensors = ["tensor:float16:7,64,128", "tensor:float16:9,1,128", "tensor:float16:7,64"]
    with pytest.raises(RuntimeError, match=f"For {OP}, layout should be one of 'BSND', 'TND', but got 'BNSD'"):
        ascend.launches([*tensors, "none", "none", *attributes("BNSD")])


def sample(dtype: str, weights_dtype: str, *shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(len(shapes[0]) * 1000 + shapes[0][0] * 100 + shapes[1][0])
    kinds = (dtype, dtype, weights_dtype)
    return [rng.standard_normal(shape).astype(TYPES[kind]) for shape, kind in zip(shapes, kinds, strict=True)]


def assert_equals_reference(cpu: Recorder, tensors: list[Any], *lengths: Any, layout: str) -> None:
    """Errors are measured against the sum of the magnitudes of all terms, since terms cancel in the dot product and in
    the head sum; the row sum's relative error is that of its exponents."""
    got_max, got_sum = cpu.run([*tensors, *lengths, layout, 3, INT64_MAX, INT64_MAX])
    exact = [tensor.astype(np.float64) for tensor in tensors]
    expected_max, expected_sum = softmax_lse(*exact, *lengths, layout=layout)
    magnitude, _ = softmax_lse(*(np.abs(tensor) for tensor in exact), *lengths, layout=layout)
    tolerance = np.finfo(np.float32).eps * magnitude
    assert got_max.dtype == got_sum.dtype == np.float32
    assert got_max.shape == got_sum.shape == expected_max.shape
    seen = np.isfinite(expected_max)
    np.testing.assert_array_equal(got_max[~seen], -np.inf)
    np.testing.assert_array_equal(got_sum[~seen], 0.0)
    assert np.all(np.abs(got_max[seen] - expected_max[seen]) <= tolerance[seen])
    assert np.all(np.abs(got_sum[seen] - expected_sum[seen]) <= 2 * tolerance[seen] * expected_sum[seen])


PACKED = {
    "one document": ([5], [5]),
    "ragged": ([3, 4, 9], [5, 6, 40]),
    "more queries than keys": ([4, 9], [2, 5]),
    "queries without any key": ([3, 5], [0, 4]),
    "empty in the middle": ([2, 2, 5], [3, 3, 17]),
    "empty at both ends": ([0, 4, 4], [0, 16, 16]),
    "all empty": ([0, 0], [0, 0]),
}


@pytest.mark.parametrize(("q_ends", "k_ends"), PACKED.values(), ids=PACKED.keys())
def test_host_kernel_equals_reference_in_tnd(cpu: Recorder, q_ends: list[int], k_ends: list[int]) -> None:
    shapes = (q_ends[-1], N1, D), (k_ends[-1], 1, D), (q_ends[-1], N1)
    tensors = sample("bfloat16", "float32", *shapes)
    assert_equals_reference(cpu, tensors, q_ends, k_ends, layout="TND")


@pytest.mark.parametrize(("s1", "s2"), [(5, 5), (3, 50), (6, 2), (1, 1), (0, 4)])
def test_host_kernel_equals_reference_in_bsnd(cpu: Recorder, s1: int, s2: int) -> None:
    tensors = sample("float16", "float32", (2, s1, N1, D), (2, s2, 1, D), (2, s1, N1))
    assert_equals_reference(cpu, tensors, None, None, layout="BSND")


@pytest.mark.parametrize(
    ("dtype", "weights_dtype"), [*((dtype, dtype) for dtype in TYPES), *((dtype, "float32") for dtype in TYPES)]
)
def test_host_kernel_takes_every_type(cpu: Recorder, dtype: str, weights_dtype: str) -> None:
    tensors = sample(dtype, weights_dtype, (9, N1, D), (12, 1, D), (9, N1))
    assert_equals_reference(cpu, tensors, [3, 9], [5, 12], layout="TND")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_host_kernel_reads_every_16_bit_number(cpu: Recorder, dtype: str) -> None:
    """One head, one dim, query = weight = 1, one key per document: softmax_max is relu of the key, NaN and all."""
    key = np.arange(2**16, dtype=np.uint16).view(TYPES[dtype]).reshape(-1, 1, 1, 1)
    query = np.ones(key.shape, dtype=key.dtype)
    softmax_max, _ = cpu.run([query, key, query[..., 0], None, None, "BSND", 3, INT64_MAX, INT64_MAX])
    np.testing.assert_array_equal(softmax_max.ravel(), np.maximum(key.astype(np.float32).ravel(), 0.0))


MISTAKES = {
    "sparse_mode": ({6: 0}, "sparse_mode should be 3"),
    "missing lengths": ({3: None}, "actual_seq_qlen is missing"),
    "key heads": ({1: np.zeros((6, 2, D), np.float32)}, "expects one key head"),
}


@pytest.mark.parametrize(("change", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_host_kernel_names_mistakes(cpu: Recorder, change: dict[int, Any], message: str) -> None:
    tensors = sample("float32", "float32", (4, N1, D), (6, 1, D), (4, N1))
    arguments = [*tensors, [1, 4], [2, 6], "TND", 3, INT64_MAX, INT64_MAX]
    for position, value in change.items():
        arguments[position] = value
    with pytest.raises(RuntimeError, match=f"For {OP}, .*{message}"):
        cpu.run(arguments)
