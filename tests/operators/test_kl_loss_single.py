# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The two losses on plain arrays, against their references and, for the mathematics, against loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hyper_parallel import custom_ops
from tests.reference.kl_cases import PACKED, SCALE, TYPES, loss_by_loops

from .kl_loss_calls import DENSE, OUTPUTS, SPARSE, by_name, draw, for_loops

OPS = pytest.mark.parametrize("op", [DENSE, SPARSE])
ROPE = pytest.mark.parametrize("rope", [False, True], ids=["no rope", "rope"])


def outputs_of(op: str, tensors: dict[str, Any], packed: dict[str, Any], **keywords: Any) -> dict[str, Any]:
    """Required tensors by position, the others by keyword."""
    required = [value for name, value in tensors.items() if not name.endswith("rope")]
    ropes = {name: value for name, value in tensors.items() if name.endswith("rope")}
    outputs = getattr(custom_ops, op)(*required, SCALE, **ropes, **packed, **keywords)
    return dict(zip(OUTPUTS, outputs, strict=True))


def check(op: str, tensors: dict[str, Any], packed: dict[str, Any], **keywords: Any) -> dict[str, Any]:
    outputs = outputs_of(op, tensors, packed, **keywords)
    for name, value in by_name(op, tensors, packed).items():
        assert outputs[name].dtype == value.dtype, name
        np.testing.assert_array_equal(outputs[name], value, err_msg=name)
    return outputs


@OPS
@ROPE
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("batch", "s1", "s2"), [(1, 1, 1), (2, 3, 5), (0, 2, 3), (2, 0, 3)])
def test_bsnd(op, batch, s1, s2, dtype, rope):
    outputs = check(op, *draw(op, (batch, s1), (batch, s2), dtype=dtype, rope=rope))
    assert outputs["loss"].shape == (1,)
    assert outputs["d_key_index"].dtype == TYPES[dtype]
    assert outputs["loss"].dtype == ("float64" if dtype == "float64" else "float32")


@OPS
@ROPE
@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
@pytest.mark.parametrize("ends", PACKED.values(), ids=PACKED)
def test_tnd(op, ends, dtype, rope):
    check(op, *draw(op, (ends[0][-1],), (ends[1][-1],), ends, dtype=dtype, rope=rope))


@OPS
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_float32_weights_with_half_queries(op, dtype):
    outputs = check(op, *draw(op, (2, 2), (2, 3), dtype=dtype, weights_dtype="float32"))
    assert outputs["d_weights"].dtype == np.float32
    assert outputs["d_query_index"].dtype == TYPES[dtype]


@OPS
@pytest.mark.parametrize("key_heads", [1, 8])
@pytest.mark.parametrize("ends", [None, ([2, 5], [3, 9])], ids=["BSND", "TND"])
def test_grouped_heads(op, key_heads, ends):
    shapes = ((2, 2), (2, 3)) if ends is None else ((5,), (9,))
    check(op, *draw(op, *shapes, ends, key_heads=key_heads, rope=True))


@OPS
@ROPE
@pytest.mark.parametrize(
    "ends", [None, PACKED["ragged"], PACKED["empty in the middle"]], ids=["BSND", "ragged", "empty"]
)
def test_equal_to_loops(op, ends, rope):
    shapes = ((2, 3), (2, 4)) if ends is None else ((ends[0][-1],), (ends[1][-1],))
    tensors, packed = draw(op, *shapes, ends, rope=rope, key_heads=8)
    outputs = outputs_of(op, tensors, packed)
    for name, value in loss_by_loops(for_loops(tensors, packed), tensors.get("sparse_indices")).items():
        np.testing.assert_allclose(outputs[name], value, rtol=1e-9, atol=1e-12, err_msg=name)


@OPS
def test_the_rope_counts(op):
    with_rope, _ = draw(op, (2, 2), (2, 3), rope=True)
    without, _ = draw(op, (2, 2), (2, 3), rope=False)
    np.testing.assert_array_equal(with_rope["query"], without["query"])
    assert outputs_of(op, with_rope, {})["loss"] != outputs_of(op, without, {})["loss"]


@OPS
@pytest.mark.parametrize("lengths", [tuple, np.array, lambda ends: np.array(ends, np.int32)])
def test_forms_of_lengths(op, lengths):
    tensors, packed = draw(op, (5,), (7,), PACKED["empty in the middle"])
    given = {name: value if name == "layout" else lengths(value) for name, value in packed.items()}
    for name, value in outputs_of(op, tensors, given).items():
        np.testing.assert_array_equal(value, outputs_of(op, tensors, packed)[name])


@OPS
@pytest.mark.parametrize(
    "keywords",
    [
        {"sparse_mode": 3, "pre_tokens": 2**63 - 1, "next_tokens": 2**63 - 1},
        {"layout": "BSND", "actual_seq_qlen": None, "actual_seq_klen": None},
        {"query_rope": None, "key_rope": None},
    ],
    ids=",".join,
)
def test_keywords_given_with_their_defaults(op, keywords):
    check(op, *draw(op, (2, 2), (2, 3)), **keywords)


@OPS
@pytest.mark.parametrize("name", ["query_rope", "key_rope"])
def test_one_rope_alone(launches, op, name):
    tensors, _ = draw(op, (2, 2), (2, 3), rope=True)
    del tensors[name]
    with pytest.raises(ValueError, match=rf"^For {op}, \(query_rope is None\) == \(key_rope is None\) is required"):
        outputs_of(op, tensors, {})
    assert launches == []
