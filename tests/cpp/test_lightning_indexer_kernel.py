# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The host kernel of npu_lightning_indexer, compiled and run without a framework, against the reference.

Scores are computed in float32, so that keys whose scores are closer than its rounding may change places. Positions are
therefore compared exactly only where scores are exact: with small integers, which also make many ties.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorder import Recorder, compile_recorder
from tolerance import assert_close, ulp

from hyper_parallel.reference.documents import visible_keys
from hyper_parallel.reference.indexer_scores import index_scores, indexer_rows
from hyper_parallel.reference.lightning_indexer import top_k
from tests.compiler import needs_compiler
from tests.reference.kl_cases import PACKED, TYPES

ROOT = Path(__file__).resolve().parents[2]
OP = "npu_lightning_indexer"
N1, D = 8, 128
# In units of the sum of the magnitudes of a score's terms. What is guaranteed is (N1 + D) / 2.
FACTOR = 8.0
EPS = float(np.finfo(np.float32).eps)
MASKS = pytest.mark.parametrize("sparse_mode", [0, 3], ids=["no mask", "causal"])

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    return compile_recorder(ROOT / "generated" / OP / f"{OP}.cc", [ROOT], "cpu", tmp_path_factory.mktemp("cpu"))


def draw(
    query_shape: tuple[int, ...],
    key_shape: tuple[int, ...],
    dtype: str,
    weights_dtype: str = "",
    *,
    integers: bool = False,
) -> list[Any]:
    rng = np.random.default_rng([*query_shape, *key_shape, integers])
    shapes = [(*query_shape, N1, D), (*key_shape, 1, D), (*query_shape, N1)]
    values = [rng.integers(-1, 2, shape) if integers else rng.standard_normal(shape) for shape in shapes]
    kinds = (dtype, dtype, weights_dtype or dtype)
    return [value.astype(TYPES[kind]) for value, kind in zip(values, kinds, strict=True)]


def starts(ends: list[int]) -> Any:
    return np.array([0, *ends], dtype=np.int32)


def run(
    kernel: Recorder, tensors: list[Any], count: int, sparse_mode: int, cu_q: Any = None, cu_k: Any = None
) -> tuple[Any, Any]:
    layout = "BSND" if cu_q is None else "TND"
    indices, values = kernel.run([*tensors, count, cu_q, cu_k, None, None, layout, sparse_mode, 1, True])
    assert indices.dtype == np.int32
    assert values.dtype == np.float32
    return indices, values


def expected_of(
    tensors: list[Any], count: int, sparse_mode: int, cu_q: Any = None, cu_k: Any = None
) -> tuple[Any, Any]:
    layout = "BSND" if cu_q is None else "TND"
    return top_k(*tensors, count, cu_q, cu_k, layout=layout, sparse_mode=sparse_mode)


def assert_same_choice(kernel: Recorder, tensors: list[Any], count: int, *rest: Any) -> None:
    """For scores that float32 holds exactly."""
    got = run(kernel, tensors, count, *rest)
    expected = expected_of(tensors, count, *rest)
    np.testing.assert_array_equal(got[0], expected[0])
    np.testing.assert_array_equal(got[1], expected[1].astype(np.float32))


@MASKS
@pytest.mark.parametrize("count", [1, 3, 40])
@pytest.mark.parametrize("ends", PACKED.values(), ids=PACKED)
def test_documents(kernel: Recorder, ends: tuple[list[int], list[int]], count: int, sparse_mode: int) -> None:
    tensors = draw((ends[0][-1],), (ends[1][-1],), "bfloat16", integers=True)
    assert_same_choice(kernel, tensors, count, sparse_mode, starts(ends[0]), starts(ends[1]))


@MASKS
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("s1", "s2"), [(1, 1), (5, 9), (9, 5), (3, 0), (0, 4), (33, 130)])
def test_batches(kernel: Recorder, s1: int, s2: int, dtype: str, sparse_mode: int) -> None:
    assert_same_choice(kernel, draw((2, s1), (2, s2), dtype, "float32", integers=True), 7, sparse_mode)


def test_no_batch(kernel: Recorder) -> None:
    assert_same_choice(kernel, draw((0, 3), (0, 4), "float16"), 2, 3)


@MASKS
@pytest.mark.parametrize("count", [1, 63, 64, 65, 200, 900, 1000])
def test_more_keys_than_are_kept(kernel: Recorder, count: int, sparse_mode: int) -> None:
    """900 keys with a few dozen different scores: which of the equal ones stay is decided again and again."""
    tensors = draw((1, 20), (1, 900), "float16", integers=True)
    assert_same_choice(kernel, tensors, count, sparse_mode)


@pytest.mark.parametrize("rising", [False, True], ids=["best first", "best last"])
def test_sorted_keys(kernel: Recorder, rising: bool) -> None:
    """One head, weight 1, and the score is the key itself."""
    query, key = np.zeros((1, 3, 1, 1), np.float32), np.arange(700, dtype=np.float32).reshape(1, 700, 1, 1)
    query[:] = 1.0
    assert_same_choice(kernel, [query, key if rising else key[:, ::-1].copy(), query[..., 0]], 100, 0)


@MASKS
@pytest.mark.parametrize("count", [2, 6, 9, 12])
def test_not_a_number_ranks_behind_all_keys(kernel: Recorder, count: int, sparse_mode: int) -> None:
    tensors = draw((1, 6), (1, 9), "float32", integers=True)
    tensors[1][0, [1, 4]] = np.nan
    assert_same_choice(kernel, tensors, count, sparse_mode)


@MASKS
def test_minus_infinity_is_a_score(kernel: Recorder, sparse_mode: int) -> None:
    query, key = np.ones((1, 6, 1, 1), np.float32), np.arange(1.0, 10.0, dtype=np.float32).reshape(1, 9, 1, 1)
    key[0, [1, 4]] = np.inf
    assert_same_choice(kernel, [query, key, -query[..., 0]], 9, sparse_mode)


def oracle(tensors: list[Any], causal: bool) -> tuple[Any, Any, Any]:
    """Scores of one document in float64, the sums of their terms' magnitudes, and the mask, all [q, k]."""
    rows = indexer_rows(*tensors)
    scores = index_scores(*rows)
    terms = index_scores(*(np.abs(tensor) for tensor in rows))
    return scores, terms, visible_keys(*scores.shape) if causal else np.ones(scores.shape, dtype=np.bool_)


def assert_good_choice(kernel: Recorder, tensors: list[Any], count: int, sparse_mode: int) -> None:
    """Values are right for their positions and descend; where the gap to the others is larger than the error, the
    chosen keys are the best."""
    indices, values = (output.reshape(-1, count) for output in run(kernel, tensors, count, sparse_mode))
    scores, terms, mask = oracle(tensors, sparse_mode == 3)
    # Computed in double, a score has only the rounding of what is returned.
    factor = 0.0 if tensors[0].dtype == np.float64 else FACTOR
    for row in range(len(scores)):
        used = indices[row] >= 0
        chosen = indices[row][used]
        assert used.sum() == min(count, mask[row].sum())
        assert np.all(values[row][~used] == -np.inf)
        assert len(set(chosen)) == len(chosen)
        assert np.all(mask[row, chosen])
        assert_close(values[row][used], scores[row, chosen], terms[row, chosen], factor, EPS, f"row {row}")
        steps = np.diff(values[row][used])
        assert np.all((steps < 0) | ((steps == 0) & (np.diff(chosen) > 0)))
        error = 2 * ulp(scores[row], np.float32) + factor * EPS * terms[row]
        left = np.setdiff1d(np.flatnonzero(mask[row]), chosen)
        if len(left) and len(chosen):
            assert np.max(scores[row, left] - error[left]) <= np.min(scores[row, chosen] + error[chosen])


@MASKS
@pytest.mark.parametrize(
    ("dtype", "weights_dtype"), [*((dtype, dtype) for dtype in TYPES), *((dtype, "float32") for dtype in TYPES)]
)
def test_every_type(kernel: Recorder, dtype: str, weights_dtype: str, sparse_mode: int) -> None:
    assert_good_choice(kernel, draw((1, 21), (1, 300), dtype, weights_dtype), 40, sparse_mode)


def test_doubles_are_ranked_by_what_is_returned(kernel: Recorder) -> None:
    """Scores that differ in float64 and are equal in float32 are equal: the key of lower position comes first."""
    query = np.ones((1, 1, 1, 1))
    key = np.array([1.0, 1.0 + 2.0**-40, 2.0, 1.0 - 2.0**-40]).reshape(1, 4, 1, 1)
    indices, values = run(kernel, [query, key, query[..., 0]], 4, 0)
    assert indices.ravel().tolist() == [2, 0, 1, 3]
    assert values.ravel().tolist() == [2.0, 1.0, 1.0, 1.0]


def test_threads_and_repetition_do_not_change_a_bit(kernel: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """One document, whose rows go to the threads, and many, which do so themselves."""
    for rows, ends in ((45, [45]), (48, [*range(4, 49, 4)])):
        tensors = draw((rows,), (rows * 4,), "bfloat16")
        lengths = starts(ends), starts([4 * end for end in ends])
        runs = []
        for threads in ("1", "1", "2", "3"):
            monkeypatch.setenv("HYPER_PARALLEL_CPU_THREADS", threads)
            runs.append(b"".join(output.tobytes() for output in run(kernel, tensors, 30, 3, *lengths)))
        assert len(set(runs)) == 1


FLOATS = np.zeros((7, N1, D), np.float32)
# What the generated code does not check before the kernel is called.
MISTAKES: dict[str, tuple[dict[int, Any], str]] = {
    "head size": ({1: np.zeros((6, 1, 64), np.float32)}, r"D \(dim 2\) of key should be 128"),
    "key heads": ({1: np.zeros((6, 2, D), np.float32)}, "dim 1 of key should be 1"),
    "no lengths": ({4: None}, "cu_seq_lens_q is missing"),
    "short lengths": ({4: starts([1, 3])}, "cu_seq_lens_q should end at 4 tokens, but ends at 3"),
    "decreasing lengths": ({5: starts([7, 6])}, "cu_seq_lens_k should not decrease or be negative, but 6 follows 7"),
    "compressed": ({6: np.zeros(2, np.int32)}, "keys should not be compressed"),
    "ratio": ({10: 4}, "keys should not be compressed"),
    "paged": ({7: np.zeros((2, 3), np.int32)}, "keys should not be paged"),
    "count": ({3: 0}, "sparse_count should be at least 1, but is 0"),
    "mask": ({9: 1}, "sparse_mode should be 0 or 3, but is 1"),
}


@pytest.mark.parametrize(("change", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_are_named(kernel: Recorder, change: dict[int, Any], message: str) -> None:
    tensors = draw((4,), (6,), "float32")
    arguments: list[Any] = [*tensors, 3, starts([1, 4]), starts([2, 6]), None, None, "TND", 3, 1, False]
    for position, value in change.items():
        arguments[position] = value
    with pytest.raises(RuntimeError, match=f"For {OP}, .*{message}"):
        kernel.run(arguments)
