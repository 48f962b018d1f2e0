# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The host kernels of the two losses, beside the references computed in float64."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from kl_loss_calls import DENSE, REFERENCES, SCALE, SPARSE, arguments, draw
from kl_loss_terms import terms
from recorder import Recorder, compile_recorder

from tests.compiler import needs_compiler
from tests.reference.kl_cases import PACKED, TYPES

ROOT = Path(__file__).resolve().parents[2]
# The multiple of eps that the kernels keep to. The largest seen is a quarter of it, with heads of 128.
C = 1.0

pytestmark = needs_compiler
both = pytest.mark.parametrize("op", [DENSE, SPARSE])


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The kernel of an operator; compiled once."""
    folder = tmp_path_factory.mktemp("kernels")
    return cache(lambda op: compile_recorder(ROOT / "generated" / op / f"{op}.cc", [ROOT], "cpu", folder))


def last_place(values: Any, dtype: Any) -> Any:
    """The distance of the numbers of that type around these values."""
    kind = ml_dtypes.finfo(dtype)
    exponent = np.floor(np.log2(np.maximum(np.abs(values), float(kind.smallest_normal))))
    return np.exp2(exponent - kind.nmant)


def assert_equals_reference(kernel: Recorder, tensors: dict[str, Any], **packed: Any) -> None:
    """Within two last places of the result plus C eps times the sum of the magnitudes of all terms, in the precision
    that the kernel computes in."""
    got = kernel.run(arguments(tensors, **packed))
    exact = {name: t if name == "sparse_indices" else t.astype(np.float64) for name, t in tensors.items()}
    expected = REFERENCES[kernel.op](**exact, scale_value=SCALE, **packed)
    computed = np.float64 if tensors["query"].dtype == np.float64 else np.float32
    eps = float(np.finfo(computed).eps)
    types = [tensors[name].dtype for name in ("query_index", "key_index", "weights")] + [np.dtype(np.float32)]
    for ours, theirs, magnitude, dtype in zip(got, expected, terms(exact, SCALE, eps, **packed), types, strict=True):
        assert ours.dtype == dtype
        assert ours.shape == theirs.shape
        bound = 2 * last_place(theirs, dtype) + C * eps * magnitude
        np.testing.assert_array_less(np.abs(ours.astype(np.float64) - theirs), bound + 1e-300)


def packed_lengths(q_ends: list[int], k_ends: list[int]) -> dict[str, Any]:
    return {"layout": "TND", "actual_seq_qlen": q_ends, "actual_seq_klen": k_ends}


@both
@pytest.mark.parametrize(("q_ends", "k_ends"), PACKED.values(), ids=PACKED.keys())
def test_packed_documents(kernels: Any, op: str, q_ends: list[int], k_ends: list[int]) -> None:
    packed = packed_lengths(q_ends, k_ends)
    assert_equals_reference(kernels(op), draw(op, (q_ends[-1],), (k_ends[-1],), **packed), **packed)


BATCHES = {
    "square": ((2, 5), (2, 5)),
    "many keys": ((2, 3), (2, 150)),
    "more queries than keys": ((1, 9), (1, 4)),
    "one of each": ((1, 1), (1, 1)),
    "several blocks of rows": ((1, 70), (1, 90)),
    "one more than a block and a chunk": ((1, 17), (1, 65)),
    "no batch": ((0, 3), (0, 4)),
    "no queries": ((2, 0), (2, 4)),
    "no keys": ((2, 3), (2, 0)),
}


@both
@pytest.mark.parametrize(("queries", "keys"), BATCHES.values(), ids=BATCHES.keys())
def test_batches(kernels: Any, op: str, queries: tuple[int, int], keys: tuple[int, int]) -> None:
    assert_equals_reference(kernels(op), draw(op, queries, keys))


@both
@pytest.mark.parametrize("weights_dtype", ["", "float32"])
@pytest.mark.parametrize("dtype", TYPES)
def test_types(kernels: Any, op: str, dtype: str, weights_dtype: str) -> None:
    packed = packed_lengths([9, 20], [12, 30])
    tensors = draw(op, (20,), (30,), dtype=dtype, weights_dtype=weights_dtype, **packed)
    assert_equals_reference(kernels(op), tensors, **packed)


HEADS = {
    "as documented": {"heads": (32, 32), "size": 128, "rope": 64, "index": (8, 128)},
    "groups": {"heads": (6, 2), "rope": 3},
    "one key head": {"heads": (5, 1), "index": (9, 17)},
    "one head": {"heads": (1, 1), "size": 1, "index": (1, 1)},
    "rope": {"rope": 64},
}


@both
@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS.keys())
def test_heads(kernels: Any, op: str, heads: dict[str, Any]) -> None:
    assert_equals_reference(kernels(op), draw(op, (2, 18), (2, 70), **heads))
    packed = packed_lengths([3, 20], [12, 30])
    assert_equals_reference(kernels(op), draw(op, (20,), (30,), **heads, **packed), **packed)


@pytest.mark.parametrize("selected", [0, 1, 64, 65])
def test_selected_keys(kernels: Any, selected: int) -> None:
    """None at all, one, a full chunk and one more; every other row holds fewer, the last one none."""
    tensors = draw(SPARSE, (1, 12), (1, 90), selected=selected)
    tensors["sparse_indices"][:, -1] = -1
    assert_equals_reference(kernels(SPARSE), tensors)


def test_order_of_selected_keys_and_unused_places(kernels: Any) -> None:
    tensors = draw(SPARSE, (1, 12), (1, 40), selected=10)
    tensors["sparse_indices"] = np.sort(tensors["sparse_indices"], axis=-1)  # -1 in front
    assert_equals_reference(kernels(SPARSE), tensors)


@both
def test_number_of_threads_changes_no_bit(kernels: Any, op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [(draw(op, (2, 200), (2, 230)), {})]
    packed = packed_lengths([*range(3, 93, 3), 150], [*range(4, 124, 4), 200])
    cases.append((draw(op, (150,), (200,), **packed), packed))
    for tensors, lengths in cases:
        runs = []
        for threads in ("1", "2", "3", "2"):
            monkeypatch.setenv("HYPER_PARALLEL_CPU_THREADS", threads)
            runs.append(kernels(op).run(arguments(tensors, **lengths)))
        for run in runs[1:]:
            for ours, first in zip(run, runs[0], strict=True):
                assert ours.tobytes() == first.tobytes()


@both
@pytest.mark.parametrize("instructions", ["baseline", "avx2", "avx512"])
def test_instruction_sets(kernels: Any, op: str, instructions: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPER_PARALLEL_CPU_INSTRUCTIONS", instructions)
    try:
        assert_equals_reference(kernels(op), draw(op, (2, 35), (2, 100), rope=3))
    except RuntimeError as error:
        if "this processor should have it" not in str(error):
            raise
        pytest.skip(f"this processor has no {instructions}")


def changed(kernel: Recorder, tensors: dict[str, Any], name: str, place: Any, value: float) -> list[tuple[Any, Any]]:
    """The outputs without and with a change of one element."""
    before = kernel.run(arguments(tensors))
    tensor = tensors[name].copy()
    tensor[place] = value
    return list(zip(before, kernel.run(arguments({**tensors, name: tensor})), strict=True))


@both
def test_nan_in_a_row_stays_in_the_row(kernels: Any, op: str) -> None:
    tensors = draw(op, (1, 20), (1, 20))
    for name in ("query", "query_index", "weights"):
        results = changed(kernels(op), tensors, name, (0, 7, 0), np.nan)
        for before, after in (results[0], results[2]):
            assert np.isnan(after[0, 7]).all()
            np.testing.assert_array_equal(np.delete(after, 7, axis=1), np.delete(before, 7, axis=1))
        assert np.isnan(results[3][1]).all()


@both
def test_nan_in_a_key_reaches_who_sees_it(kernels: Any, op: str) -> None:
    tensors = draw(op, (1, 40), (1, 40), selected=40)
    rows = [t for t in range(30, 40) if op == DENSE or 30 in tensors["sparse_indices"][0, t]]
    assert rows
    for name in ("key", "key_index"):
        results = [after for _, after in changed(kernels(op), tensors, name, (0, 30, 0, 0), np.nan)]
        d_query, d_key, d_weights, loss = results
        assert np.isnan(d_query[0, rows]).all()
        assert np.isnan(d_weights[0, rows]).all()
        assert np.isnan(d_key[0, 30]).all()
        assert np.isnan(loss).all()
        assert np.isfinite(d_query[0, :16]).all()  # a vector has at most 16 rows
        assert np.isfinite(d_weights[0, :16]).all()


@both
def test_infinite_scores_are_those_of_the_reference(kernels: Any, op: str) -> None:
    tensors = draw(op, (1, 20), (1, 20))
    tensors["query"][0, 7, 1, 2] = np.inf
    exact = {name: t if name == "sparse_indices" else t.astype(np.float64) for name, t in tensors.items()}
    with np.errstate(all="ignore"):
        expected = REFERENCES[op](**exact, scale_value=SCALE)
    for ours, theirs in zip(kernels(op).run(arguments(tensors)), expected, strict=True):
        assert not np.isfinite(theirs).all()
        np.testing.assert_array_equal(np.isfinite(ours), np.isfinite(theirs))


MISTAKES = {
    "key": (lambda t: t[:, :, :, :-1], "D \\(dim 3\\) of key should be 5"),
    "query_index": (lambda t: t[:, :-1], "S1 \\(dim 1\\) of query_index should be 6"),
    "key_index": (lambda t: np.concatenate([t, t], axis=2), "dim 2 of key_index should be 1"),
    "weights": (lambda t: t.astype(np.int32), "weights should be floating-point, but is int32"),
    "softmax_max": (lambda t: t[..., np.newaxis], "softmax_max should have the 4 dims B N2 S1 G"),
    "softmax_sum": (lambda t: np.concatenate([t, t], axis=-1), "G \\(dim 3\\) of softmax_sum should be 2"),
    "query_rope": (lambda t: t[:, :, :, :-1], "R \\(dim 3\\) of key_rope should be 2"),
    "key_rope": (lambda t: None, "query_rope and key_rope go together"),
}


@both
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_named(kernels: Any, op: str, name: str) -> None:
    change, message = MISTAKES[name]
    tensors = draw(op, (1, 6), (1, 8), heads=(4, 2), rope=3)
    with pytest.raises(RuntimeError, match=f"For {op}, {message}"):
        kernels(op).run(arguments({**tensors, name: change(tensors[name])}))


SELECTIONS = {
    "not seen": (5, "holds 5"),
    "negative": (-2, "holds -2"),
    "beyond the end": (10**9, "holds 1000000000"),
    "twice": (0, "holds 0 twice"),
}


@pytest.mark.parametrize(("position", "message"), SELECTIONS.values(), ids=SELECTIONS.keys())
@pytest.mark.parametrize("threads", ["1", "3"])
def test_wrong_positions(
    kernels: Any, position: int, message: str, threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPER_PARALLEL_CPU_THREADS", threads)
    tensors = draw(SPARSE, (1, 60), (1, 60))
    tensors["sparse_indices"][0, 4, 0, :2] = 0, position
    with pytest.raises(RuntimeError, match=f"row 4 of a document with 60 query and 60 key rows {message}"):
        kernels(SPARSE).run(arguments(tensors))


def test_type_of_positions(kernels: Any) -> None:
    tensors = draw(SPARSE, (1, 6), (1, 8))
    tensors["sparse_indices"] = tensors["sparse_indices"].astype(np.int64)
    with pytest.raises(RuntimeError, match="sparse_indices should be int32, but is int64"):
        kernels(SPARSE).run(arguments(tensors))
