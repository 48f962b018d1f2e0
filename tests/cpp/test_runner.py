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
    with pytest.raises(RuntimeError, match=f"For {OP}, layout should be one of BSND, TND, but got BNSD"):
        ascend.launches([*tensors, "none", "none", *attributes("BNSD")])


def sample(dtype: str, weights_dtype: str, *shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(len(shapes[0]) * 1000 + shapes[0][0] * 100 + shapes[1][0])
    kinds = (dtype, dtype, weights_dtype)
    return [rng.standard_normal(shape).astype(TYPES[kind]) for shape, kind in zip(shapes, kinds, strict=True)]


def assert_equals_reference(cpu: Recorder, tensors: list[Any], *lengths: Any, layout: str) -> None:
    """Within two last places plus once eps times the sum of the magnitudes of all terms, since terms cancel in the dot
    product and in the head sum; the row sum's relative error is that of its exponents, a score and the maximum."""
    got_max, got_sum = cpu.run([*tensors, *lengths, layout, 3, INT64_MAX, INT64_MAX])
    exact = [tensor.astype(np.float64) for tensor in tensors]
    expected_max, expected_sum = softmax_lse(*exact, *lengths, layout=layout)
    magnitude, _ = softmax_lse(*(np.abs(tensor) for tensor in exact), *lengths, layout=layout)
    tolerance = np.finfo(np.float32).eps * magnitude
    seen = np.isfinite(expected_max)
    max_bound = 2 * np.spacing(np.abs(expected_max[seen]).astype(np.float32)) + tolerance[seen]
    sum_bound = 2 * np.spacing(expected_sum[seen].astype(np.float32)) + 2 * tolerance[seen] * expected_sum[seen]
    assert got_max.dtype == got_sum.dtype == np.float32
    assert got_max.shape == got_sum.shape == expected_max.shape
    np.testing.assert_array_equal(got_max[~seen], -np.inf)
    np.testing.assert_array_equal(got_sum[~seen], 0.0)
    assert np.all(np.abs(got_max[seen] - expected_max[seen]) <= max_bound)
    assert np.all(np.abs(got_sum[seen] - expected_sum[seen]) <= sum_bound)


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


@pytest.mark.parametrize(("s1", "s2"), [(5, 5), (3, 50), (6, 2), (1, 1), (0, 4), (4, 0), (17, 65), (40, 200)])
def test_host_kernel_equals_reference_in_bsnd(cpu: Recorder, s1: int, s2: int) -> None:
    tensors = sample("float16", "float32", (2, s1, N1, D), (2, s2, 1, D), (2, s1, N1))
    assert_equals_reference(cpu, tensors, None, None, layout="BSND")


@pytest.mark.parametrize(("heads", "size"), [(1, 1), (3, 7), (64, 128), (9, 33)])
def test_host_kernel_takes_any_heads(cpu: Recorder, heads: int, size: int) -> None:
    tensors = sample("float32", "float32", (2, 19, heads, size), (2, 70, 1, size), (2, 19, heads))
    assert_equals_reference(cpu, tensors, None, None, layout="BSND")


def test_host_kernel_takes_an_empty_batch(cpu: Recorder) -> None:
    tensors = sample("float32", "float32", (0, 3, N1, D), (0, 4, 1, D), (0, 3, N1))
    assert_equals_reference(cpu, tensors, None, None, layout="BSND")


def test_rising_scores_do_not_add_up_errors(cpu: Recorder) -> None:
    """Every chunk of keys has a new maximum: the sum is rescaled each time."""
    key = np.linspace(0, 8, 4000, dtype=np.float32).reshape(1, -1, 1, 1)
    query = np.ones((1, 1, 1, 1), np.float32)
    assert_equals_reference(cpu, [query, key, query[..., 0]], None, None, layout="BSND")


@pytest.mark.parametrize("instructions", ["baseline", "avx2", "avx512"])
def test_host_kernel_on_each_instruction_set(cpu: Recorder, instructions: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPER_PARALLEL_CPU_INSTRUCTIONS", instructions)
    tensors = sample("float32", "float32", (2, 35, N1, D), (2, 100, 1, D), (2, 35, N1))
    try:
        assert_equals_reference(cpu, tensors, None, None, layout="BSND")
    except RuntimeError as error:
        if "this processor should have it" not in str(error):
            raise
        pytest.skip(f"this processor has no {instructions}")


def test_number_of_threads_changes_no_bit(cpu: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = sample("float32", "float32", (3, 70, N1, D), (3, 90, 1, D), (3, 70, N1))
    packed = sample("bfloat16", "float32", (60, N1, D), (90, 1, D), (60, N1))
    runs = []
    for threads in ("1", "2", "3", "2"):
        monkeypatch.setenv("HYPER_PARALLEL_CPU_THREADS", threads)
        run = cpu.run([*tensors, None, None, "BSND", 3, INT64_MAX, INT64_MAX])
        run += cpu.run([*packed, [*range(3, 63, 3)], [*range(4, 80, 4), 90], "TND", 3, INT64_MAX, INT64_MAX])
        runs.append([output.tobytes() for output in run])
    assert runs == [runs[0]] * 4


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("argument", [0, 1, 2])
def test_host_kernel_passes_on_what_is_not_finite(cpu: Recorder, argument: int, value: float) -> None:
    """To the rows that see it and to no others."""
    tensors = sample("float32", "float32", (1, 20, N1, D), (1, 20, 1, D), (1, 20, N1))
    tensors[argument][0, 7, 0] = value
    got = cpu.run([*tensors, None, None, "BSND", 3, INT64_MAX, INT64_MAX])
    with np.errstate(invalid="ignore", over="ignore"):
        expected = softmax_lse(*(tensor.astype(np.float64) for tensor in tensors))
    for ours, theirs in zip(got, expected, strict=True):
        assert not np.isfinite(theirs).all()
        np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))
        np.testing.assert_array_equal(np.isinf(ours), np.isinf(theirs))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("weights_dtype", TYPES)
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
    "rank": ({5: "BSND"}, r"query_index should have the 4 dims B S1 N1 D, but .* shape \[4, 8, 128\]"),
    "missing lengths": ({3: None}, "actual_seq_qlen is missing"),
    "short lengths": ({3: [1, 3]}, "actual_seq_qlen should end at 4 tokens, but ends at 3"),
    "decreasing lengths": ({4: [7, 6]}, "actual_seq_klen should not decrease or be negative, but 6 follows 7"),
    "numbers of documents": ({4: [1, 2, 6]}, "same number of documents, but have 2 and 3"),
    "weights": ({2: np.zeros((4, N1 + 1), np.float32)}, r"N1 \(dim 1\) of weights should be 8"),
    "key heads": ({1: np.zeros((6, 2, D), np.float32)}, r"dim 1 of key_index should be 1"),
    "integers": ({2: np.zeros((4, N1), np.int32)}, "weights should be floating-point, but is int32"),
}


@pytest.mark.parametrize(("change", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_host_kernel_names_mistakes(cpu: Recorder, change: dict[int, Any], message: str) -> None:
    tensors = sample("float32", "float32", (4, N1, D), (6, 1, D), (4, N1))
    arguments = [*tensors, [1, 4], [2, 6], "TND", 3, INT64_MAX, INT64_MAX]
    for position, value in change.items():
        arguments[position] = value
    with pytest.raises(RuntimeError, match=f"For {OP}, .*{message}"):
        cpu.run(arguments)
