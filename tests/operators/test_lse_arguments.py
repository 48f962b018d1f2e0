# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Every argument check of npu_dense_lightning_indexer_softmax_lse: error, exact message, and nothing launched."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from hyper_parallel import custom_ops

from .lse_cases import DTYPES, INT64_MAX, OP, draw

PACKED = {"layout": "TND", "actual_seq_qlen": [2, 6], "actual_seq_klen": [3, 9]}

run = getattr(custom_ops, OP)


def rejects(launches, error, message, *args, **keywords):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        run(*args, **keywords)
    assert launches == []


BSND = draw("BSND", B=2, S1=3, S2=5)
TND = draw("TND", T1=6, T2=9)


def zeros(*shape: int, dtype: Any = np.float32) -> Any:
    return np.zeros(shape, dtype)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"query_index": zeros(6, 8, 128)},
            "query_index should have the 4 dims (B, S1, N1, D), but got shape (6, 8, 128)",
        ),
        ({"key_index": zeros(9, 1, 128)}, "key_index should have the 4 dims (B, S2, N2, D), but got shape (9, 1, 128)"),
        ({"weights": zeros(2, 3, 8, 1)}, "weights should have the 3 dims (B, S1, N1), but got shape (2, 3, 8, 1)"),
        ({"key_index": zeros(3, 5, 1, 128)}, "B (dim 0) of key_index should be 2, but got 3"),
        ({"weights": zeros(1, 3, 8)}, "B (dim 0) of weights should be 2, but got 1"),
        ({"weights": zeros(2, 4, 8)}, "S1 (dim 1) of weights should be 3, but got 4"),
        ({"weights": zeros(2, 3, 16)}, "N1 (dim 2) of weights should be 8, but got 16"),
        ({"key_index": zeros(2, 5, 1, 64)}, "D (dim 3) of key_index should be 128, but got 64"),
        (
            {"query_index": zeros(2, 3, 8, 64), "key_index": zeros(2, 5, 1, 64)},
            "D == 128 is required, but got D=64",
        ),
        (
            {"query_index": zeros(2, 3, 12, 128), "weights": zeros(2, 3, 12)},
            "N1 in (8, 16, 32, 64) is required, but got N1=12",
        ),
        ({"key_index": zeros(2, 5, 2, 128)}, "N2 == 1 is required, but got N2=2"),
        ({"key_index": zeros(2, 2, 1, 128)}, "S1 <= S2 is required, but got S1=3, S2=2"),
    ],
)
def test_shapes_in_bsnd(launches, changes, message):
    rejects(launches, ValueError, f"For {OP}, {message}.", **{**BSND, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"query_index": zeros(2, 3, 8, 128)},
            "query_index should have the 3 dims (T1, N1, D), but got shape (2, 3, 8, 128)",
        ),
        ({"key_index": zeros(9, 128)}, "key_index should have the 3 dims (T2, N2, D), but got shape (9, 128)"),
        ({"weights": zeros(6)}, "weights should have the 2 dims (T1, N1), but got shape (6,)"),
        ({"weights": zeros(9, 8)}, "T1 (dim 0) of weights should be 6, but got 9"),
        ({"key_index": zeros(9, 1, 64)}, "D (dim 2) of key_index should be 128, but got 64"),
        ({"query_index": zeros(6, 8, 64), "key_index": zeros(9, 1, 64)}, "D == 128 is required, but got D=64"),
        (
            {"query_index": zeros(6, 4, 128), "weights": zeros(6, 4)},
            "N1 in (8, 16, 32, 64) is required, but got N1=4",
        ),
        ({"key_index": zeros(9, 2, 128)}, "N2 == 1 is required, but got N2=2"),
    ],
)
def test_shapes_in_tnd(launches, changes, message):
    rejects(launches, ValueError, f"For {OP}, {message}.", **{**TND, **PACKED, **changes})


BOTH_LENGTHS = 'actual_seq_qlen is not None and actual_seq_klen is not None if layout == "TND" is required'
GROUP = "the number of tokens"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"actual_seq_qlen": None}, f"{BOTH_LENGTHS}, but got actual_seq_qlen=None, actual_seq_klen=(3, 9)"),
        ({"actual_seq_klen": None}, f"{BOTH_LENGTHS}, but got actual_seq_qlen=(2, 6), actual_seq_klen=None"),
        (
            {"actual_seq_qlen": None, "actual_seq_klen": None},
            f"{BOTH_LENGTHS}, but got actual_seq_qlen=None, actual_seq_klen=None",
        ),
        (
            {"actual_seq_qlen": [4, 2, 6], "actual_seq_klen": [4, 6, 9]},
            "actual_seq_qlen should not decrease, but got 2 after 4 at index 1: [4, 2, 6]",
        ),
        ({"actual_seq_klen": [-1, 9]}, "actual_seq_klen should not decrease, but got -1 after 0 at index 0: [-1, 9]"),
        ({"actual_seq_qlen": [2, 5]}, f"actual_seq_qlen should end at T1 = 6, {GROUP}, but got [2, 5]"),
        ({"actual_seq_klen": [3, 10]}, f"actual_seq_klen should end at T2 = 9, {GROUP}, but got [3, 10]"),
        ({"actual_seq_qlen": []}, f"actual_seq_qlen should end at T1 = 6, {GROUP}, but got []"),
        (
            {"actual_seq_qlen": list(range(10))},
            f"actual_seq_qlen should end at T1 = 6, {GROUP}, but got [0, 1, 2, 3, 4, 5, 6, 7, ...]",
        ),
        (
            {"actual_seq_qlen": [6]},
            "actual_seq_qlen and actual_seq_klen should have as many documents, but got 1 and 2",
        ),
        (
            {"actual_seq_klen": [1, 2, 9]},
            "actual_seq_qlen and actual_seq_klen should have as many documents, but got 2 and 3",
        ),
    ],
)
def test_values_of_lengths(launches, changes, message):
    rejects(launches, ValueError, f"For {OP}, {message}.", **{**TND, **PACKED, **changes})


@pytest.mark.parametrize(
    ("name", "dim", "ends"), [("actual_seq_qlen", "T1", (3, 6)), ("actual_seq_klen", "T2", (5, 10))]
)
def test_lengths_in_bsnd(launches, name, dim, ends):
    message = f"For {OP}, {name} should be None in format BSND, which has no dim {dim}, but got {ends}."
    rejects(launches, ValueError, message, **BSND, **{name: list(ends)})


@pytest.mark.parametrize("name", ["actual_seq_qlen", "actual_seq_klen"])
@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ([2.0, 6.0], TypeError, "expected integers, but got 2.0 (float)"),
        (np.array([2.0, 6.0]), TypeError, "expected a tensor of integers, but got dtype float64"),
        ([True, 6], TypeError, "expected integers, but got True (bool)"),
        (np.array([True, False]), TypeError, "expected a tensor of integers, but got dtype bool"),
        ([[2, 6]], TypeError, "expected integers, but got [2, 6] (list)"),
        (np.array([[2, 6]]), ValueError, "expected a 1-D tensor of integers, but got shape (1, 2)"),
        (np.array(6), ValueError, "expected a 1-D tensor of integers, but got shape ()"),
        (6, TypeError, "expected a list, tuple or 1-D tensor of integers, but got int"),
        ("26", TypeError, "expected a list, tuple or 1-D tensor of integers, but got str"),
    ],
)
def test_types_of_lengths(launches, name, value, error, message):
    with pytest.raises(error, match=re.escape(f"For {OP}, {name} should be cumulative document ends: {message}")):
        run(**TND, **{**PACKED, name: value})
    assert launches == []


HOST_DTYPES = "bfloat16, float16, float32, float64"


@pytest.mark.parametrize(
    ("dtypes", "message"),
    [
        (("int32", "int32", "int32"), f"query_index should have dtype {HOST_DTYPES}, but got int32"),
        (("bool", "bool", "bool"), f"query_index should have dtype {HOST_DTYPES}, but got bool"),
        (("float32", "float16", "float32"), "key_index should have dtype float32, but got float16"),
        (("float16", "bfloat16", "float16"), "key_index should have dtype float16, but got bfloat16"),
        (("bfloat16", "bfloat16", "float16"), "weights should have dtype bfloat16, float32, but got float16"),
        (("float16", "float16", "float64"), "weights should have dtype float16, float32, but got float64"),
        (("float32", "float32", "float64"), "weights should have dtype float32, but got float64"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, tuple) else None,
)
def test_dtypes(launches, dtypes, message):
    tensors = {
        name: tensor.astype(DTYPES.get(dtype, dtype))
        for (name, tensor), dtype in zip(BSND.items(), dtypes, strict=True)
    }
    rejects(launches, TypeError, f"For {OP}, {message}.", **tensors)


@pytest.mark.parametrize("name", BSND)
@pytest.mark.parametrize("value", [None, [[1.0]], 1.0], ids=repr)
def test_not_a_tensor(launches, name, value):
    message = f"For {OP}, {name} should be a tensor, but got {type(value).__name__}."
    rejects(launches, TypeError, message, **{**BSND, name: value})


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("layout", "BNSD", ValueError, "should be one of 'BSND', 'TND', but got 'BNSD'"),
        ("layout", "bsnd", ValueError, "should be one of 'BSND', 'TND', but got 'bsnd'"),
        ("layout", None, TypeError, "should be of type str, but got None of type NoneType"),
        ("layout", 3, TypeError, "should be of type str, but got 3 of type int"),
        ("layout", ["BSND"], TypeError, "should be of type str, but got ['BSND'] of type list"),
        ("sparse_mode", 0, ValueError, "should be 3, but got 0"),
        ("sparse_mode", True, TypeError, "should be of type int, but got True of type bool"),
        ("sparse_mode", 3.0, TypeError, "should be of type int, but got 3.0 of type float"),
        ("sparse_mode", "3", TypeError, "should be of type int, but got '3' of type str"),
        ("sparse_mode", None, TypeError, "should be of type int, but got None of type NoneType"),
        ("pre_tokens", 0, ValueError, f"should be {INT64_MAX}, but got 0"),
        ("pre_tokens", True, TypeError, "should be of type int, but got True of type bool"),
        ("next_tokens", INT64_MAX - 1, ValueError, f"should be {INT64_MAX}, but got {INT64_MAX - 1}"),
        ("next_tokens", True, TypeError, "should be of type int, but got True of type bool"),
    ],
)
def test_attributes(launches, name, value, error, message):
    rejects(launches, error, f"For {OP}, {name} {message}.", **BSND, **{name: value})


@pytest.mark.parametrize(
    ("positional", "keywords", "message"),
    [
        (3, {"scale": 1.0}, "got an unexpected keyword argument 'scale'"),
        (2, {}, "missing 1 required positional argument: 'weights'"),
        (0, {}, "missing 3 required positional arguments: 'query_index', 'key_index', and 'weights'"),
        (3, {"weights": None}, "got multiple values for argument 'weights'"),
    ],
)
def test_signature(launches, positional, keywords, message):
    rejects(launches, TypeError, f"{OP}() {message}", *list(BSND.values())[:positional], **keywords)


def test_lengths_are_keyword_only(launches):
    rejects(launches, TypeError, f"{OP}() takes 3 positional arguments but 4 were given", *BSND.values(), [3])


def test_a_call_that_is_right_loads_the_kernel(launches):
    run(**BSND)
    assert launches == [OP]
