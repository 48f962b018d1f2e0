# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""npu_dense_lightning_indexer_softmax_lse on plain arrays, against the oracle."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from hyper_parallel import custom_ops

from .lse_cases import DTYPES, INT64_MAX, OP, draw, oracle

# The kernel computes in float64, as the oracle does, and rounds its outputs to float32 once: half a unit in the last
# place, 2**-24. Float64 outputs are not rounded at all.
RTOL = {"float32": 2.0**-23, "float64": 0.0}

PACKED = {"layout": "TND", "actual_seq_qlen": [2, 6], "actual_seq_klen": [3, 9]}

run = getattr(custom_ops, OP)


def check_against_oracle(tensors: dict[str, Any], **keywords: Any) -> None:
    result = "float64" if any(tensor.dtype == np.float64 for tensor in tensors.values()) else "float32"
    outputs = run(*tensors.values(), **keywords)
    assert isinstance(outputs, tuple)
    for output, expected in zip(outputs, oracle(tensors, **keywords), strict=True):
        assert output.dtype == result
        np.testing.assert_allclose(output, expected, rtol=RTOL[result], atol=0.0)
        assert output.shape == expected.shape


def test_by_hand():
    # Two queries and three keys of one head that counts (weight 2; the others have weight 0). q . k = 128 * q * k.
    query = np.zeros((1, 2, 8, 128), np.float32)
    query[0, :, 0] = [[1.0 / 128], [-1.0 / 128]]
    key = np.array([1.0, -2.0, 3.0], np.float32).repeat(128).reshape(1, 3, 1, 128)
    weights = np.zeros((1, 2, 8), np.float32)
    weights[0, :, 0] = 2.0
    # Row 0 sees the keys 0 and 1: relu gives 1 and 0. Row 1 sees all of them: relu gives 0, 2 and 0.
    softmax_max, softmax_sum = run(query, key, weights)
    np.testing.assert_array_equal(softmax_max, [[[2.0, 4.0]]])
    np.testing.assert_allclose(softmax_sum, [[[1 + math.exp(-2), 1 + 2 * math.exp(-4)]]], rtol=RTOL["float32"])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("batch", "s1", "s2", "heads"),
    [(1, 1, 1, 8), (2, 3, 3, 16), (3, 4, 9, 32), (2, 1, 7, 64), (2, 0, 3, 8), (0, 2, 3, 8)],
    ids=["one row", "S1 = S2", "S1 < S2", "one query", "no query", "no batch"],
)
def test_bsnd(batch, s1, s2, heads, dtype):
    check_against_oracle(draw("BSND", dtype, B=batch, S1=s1, S2=s2, N1=heads))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("query_ends", "key_ends"),
    [
        pytest.param([5], [8], id="one document"),
        pytest.param([1, 3, 9], [2, 4, 12], id="ragged"),
        pytest.param([2, 2, 5], [3, 3, 9], id="an empty document"),
        pytest.param([0, 4, 4, 7, 7], [0, 6, 6, 9, 9], id="empty documents first and last"),
        pytest.param([0, 4], [2, 6], id="keys without queries"),
        pytest.param([2, 4], [0, 4], id="queries without keys"),
        pytest.param([4, 6], [1, 6], id="more queries than keys"),
    ],
)
def test_tnd(query_ends, key_ends, dtype):
    tensors = draw("TND", dtype, T1=query_ends[-1], T2=key_ends[-1])
    check_against_oracle(tensors, layout="TND", actual_seq_qlen=query_ends, actual_seq_klen=key_ends)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_float32_weights_with_half_queries(dtype):
    check_against_oracle(draw("BSND", dtype, "float32", B=2, S1=3, S2=5))
    check_against_oracle(draw("TND", dtype, "float32", T1=6, T2=9), **PACKED)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_float32_weights_are_not_rounded_to_half(dtype):
    tensors = draw("BSND", dtype, "float32", B=2, S1=3, S2=5)
    rounded = {**tensors, "weights": tensors["weights"].astype(DTYPES[dtype])}
    assert not np.array_equal(run(*tensors.values())[0], run(*rounded.values())[0])


def test_rows_without_keys_have_no_maximum():
    tensors = draw("TND", T1=4, T2=1)
    softmax_max, softmax_sum = run(*tensors.values(), layout="TND", actual_seq_qlen=[4], actual_seq_klen=[1])
    np.testing.assert_array_equal(softmax_max[0, :3], [-math.inf] * 3)
    np.testing.assert_array_equal(softmax_sum, [[0.0, 0.0, 0.0, 1.0]])


def test_tnd_of_equal_documents_is_bsnd():
    tensors = draw("BSND", B=3, S1=2, S2=4)
    packed = [tensor.reshape(-1, *tensor.shape[2:]) for tensor in tensors.values()]
    outputs = run(*packed, layout="TND", actual_seq_qlen=[2, 4, 6], actual_seq_klen=[4, 8, 12])
    for output, expected in zip(outputs, run(*tensors.values()), strict=True):
        np.testing.assert_array_equal(output.reshape(expected.shape), expected)


@pytest.mark.parametrize(
    "lengths",
    [list, tuple, np.array, lambda ends: np.array(ends, np.int32), lambda ends: [np.int64(end) for end in ends]],
    ids=["list", "tuple", "ndarray", "int32 ndarray", "list of NumPy integers"],
)
def test_forms_of_lengths(lengths):
    tensors = draw("TND", T1=6, T2=9)
    outputs = run(*tensors.values(), layout="TND", actual_seq_qlen=lengths([2, 6]), actual_seq_klen=lengths([3, 9]))
    for output, expected in zip(outputs, run(*tensors.values(), **PACKED), strict=True):
        np.testing.assert_array_equal(output, expected)


@pytest.mark.parametrize(
    "keywords",
    [
        {"actual_seq_qlen": None},
        {"actual_seq_klen": None},
        {"layout": "BSND"},
        {"sparse_mode": 3},
        {"pre_tokens": INT64_MAX},
        {"next_tokens": INT64_MAX},
        {
            "actual_seq_qlen": None,
            "actual_seq_klen": None,
            "layout": "BSND",
            "sparse_mode": 3,
            "pre_tokens": INT64_MAX,
            "next_tokens": INT64_MAX,
        },
    ],
    ids=",".join,
)
def test_a_keyword_given_with_its_default(keywords):
    tensors = draw("BSND", B=2, S1=3, S2=5)
    for output, expected in zip(run(*tensors.values(), **keywords), run(*tensors.values()), strict=True):
        np.testing.assert_array_equal(output, expected)


def test_tensors_by_keyword():
    tensors = draw("BSND", B=2, S1=3, S2=5)
    for output, expected in zip(run(**dict(reversed(tensors.items()))), run(*tensors.values()), strict=True):
        np.testing.assert_array_equal(output, expected)


def test_inputs_stay_as_they_are():
    tensors = draw("TND", T1=6, T2=9)
    copies = {name: tensor.copy() for name, tensor in tensors.items()}
    lengths = np.array([2, 6])
    run(*tensors.values(), **{**PACKED, "actual_seq_qlen": lengths})
    for name, copy in copies.items():
        np.testing.assert_array_equal(tensors[name], copy)
    np.testing.assert_array_equal(lengths, [2, 6])
