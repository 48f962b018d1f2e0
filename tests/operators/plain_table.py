# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Calls of the seven operators on one device, in every dtype and format, with what the references say of each.

Frameworks run the same kernels as NumPy, so what comes out of them has to be equal bit for bit, gradients too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hyper_parallel.reference.dense_lightning_indexer import softmax_lse
from tests.reference.kl_cases import PACKED, SCALE, TYPES

from . import kl_loss_calls, lse_cases, mhc_calls
from .kl_loss_calls import DENSE, DIFFERENTIABLE, SPARSE, TOP_K, starts
from .mhc_calls import ATTRIBUTES, MHC
from .sharded_calls import Call, Framework, as_tuple


def plain_calls() -> Iterator[tuple[str, Call]]:
    """Name and call of every row."""
    for dtype in TYPES:
        for op in MHC:
            for form, tokens in (("BSN", (2, 3)), ("TN", (5,))):
                yield f"{op} {form} {dtype}", mhc_call(op, tokens, dtype)
        for name in ("", "ragged", "empty in the middle"):
            ends = PACKED[name] if name else None
            for op in (DENSE, SPARSE):
                yield f"{op} {name or 'BSND'} {dtype}", loss_call(op, ends, dtype)
            yield f"{TOP_K} {name or 'BSND'} {dtype}", top_k_call(ends, dtype)
            yield f"{lse_cases.OP} {name or 'BSND'} {dtype}", lse_call(ends, dtype)


def mhc_call(op: str, tokens: tuple[int, ...], dtype: str) -> Call:
    tensors = mhc_calls.draw(op, tokens, dtype)
    outputs = mhc_calls.forward(op, tensors)
    cotangents = mhc_calls.draw_cotangents(op, outputs)
    gradients = mhc_calls.gradients(op, tensors, cotangents)
    return Call(op, tensors, lambda rank: ATTRIBUTES[op], outputs, cotangents, gradients)


def loss_call(op: str, ends: Any, dtype: str) -> Call:
    shapes = ((2, 2), (2, 3)) if ends is None else ((ends[0][-1],), (ends[1][-1],))
    weights_dtype = "float64" if dtype == "float64" else "float32"
    tensors, packed = kl_loss_calls.draw(op, *shapes, ends, dtype=dtype, weights_dtype=weights_dtype, rope=True)
    outputs = kl_loss_calls.by_name(op, tensors, packed)
    # A power of two scales without rounding, in any of the types.
    cotangents = {"loss": np.full_like(outputs["loss"], -4.0)}
    gradients = {name: (outputs[f"d_{name}"] * -4.0).astype(tensors[name].dtype) for name in DIFFERENTIABLE}
    return Call(op, tensors, lambda rank: {**packed, "scale_value": SCALE}, outputs, cotangents, gradients)


def top_k_call(ends: Any, dtype: str) -> Call:
    shapes = ((2, 3), (2, 5)) if ends is None else ((ends[0][-1],), (ends[1][-1],))
    tensors = kl_loss_calls.top_k_tensors(*shapes, dtype)
    keywords = {"sparse_count": 3, "sparse_mode": 3, "return_value": True}
    if ends is not None:
        keywords |= {"layout": "TND", "cu_seq_lens_q": starts(ends[0]), "cu_seq_lens_k": starts(ends[1])}
    return Call(TOP_K, tensors, lambda rank: keywords, kl_loss_calls.top_k_outputs(tensors, **keywords), {}, {})


def lse_call(ends: Any, dtype: str) -> Call:
    if ends is None:
        tensors, keywords = lse_cases.draw("BSND", dtype, B=2, S1=3, S2=5), {}
    else:
        tensors = lse_cases.draw("TND", dtype, T1=ends[0][-1], T2=ends[1][-1])
        keywords = {"layout": "TND", "actual_seq_qlen": list(ends[0]), "actual_seq_klen": list(ends[1])}
    outputs = dict(zip(("softmax_max", "softmax_sum"), softmax_lse(*tensors.values(), **keywords), strict=True))
    return Call(lse_cases.OP, tensors, lambda rank: keywords, outputs, {}, {})


def check_plain(call: Call, framework: Framework) -> None:
    """Outputs and gradients on the framework have the dtypes and the bits that the call says."""
    outputs, gradients = observed(call, framework)
    assert_same(outputs, call.outputs)
    assert_same(gradients, call.gradients)


def observed(call: Call, framework: Framework) -> tuple[dict[str, Any], dict[str, Any]]:
    """Outputs and gradients on the framework, as arrays by name."""
    run, tensor = framework.run(call.op), framework.tensor
    tensors = {name: tensor(value) for name, value in call.tensors.items()}
    keywords = {
        name: tensor(value) if isinstance(value, np.ndarray) else value for name, value in call.keywords(0).items()
    }
    outputs = as_tuple(run(**tensors, **keywords))
    arrays = {name: framework.array(value) for name, value in zip(call.outputs, outputs, strict=True)}
    if not call.gradients:
        return arrays, {}
    cotangents = {name: tensor(value.astype(np.float64)) for name, value in call.cotangents.items()}

    def loss(*values: Any) -> Any:
        given = {**tensors, **dict(zip(call.gradients, values, strict=True))}
        outputs = dict(zip(call.outputs, as_tuple(run(**given, **keywords)), strict=True))
        return sum(framework.total(outputs[name], value) for name, value in cotangents.items())

    found = framework.gradients(loss, [tensors[name] for name in call.gradients])
    return arrays, {name: framework.array(value) for name, value in zip(call.gradients, found, strict=True)}


def assert_same(given: dict[str, Any], expected: Any) -> None:
    assert given.keys() == expected.keys()
    for name, value in expected.items():
        assert given[name].dtype == value.dtype, name
        np.testing.assert_array_equal(given[name], value, err_msg=name)
