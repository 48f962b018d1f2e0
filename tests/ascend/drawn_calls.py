# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Calls of the ten kernels with drawn shapes, documents and optional arguments, and what the host kernels make of them.

A call is made past the public function, as a kernel gets it: arguments by position, arrays for tensors.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np

from hyper_parallel import custom_ops
from hyper_parallel.native.flavours import HostFlavour
from hyper_parallel.native.kernels import native_kernel
from tests.operators import kl_loss_calls, lse_cases, mhc_calls

HALF = ("float16", "bfloat16")
BEHIND_THE_TENSORS = {mhc_calls.PRE: ("hc_eps",), mhc_calls.CLAMP: ("hc_eps", "clamp_min", "clamp_max")}


class DrawnCall(NamedTuple):
    """A kernel, its arguments, and its outputs on the host; None for one that has no meaning."""

    kernel: str
    arguments: tuple[Any, ...]
    outputs: tuple[Any, ...]


def drawn_calls(count: int, seed: int) -> list[DrawnCall]:
    """`count` calls, or a few more; every kernel has its share."""
    rng = np.random.default_rng(seed)
    found: list[DrawnCall] = []
    for draw in cycle((mhc_post, mhc_pre, mhc_pre_clamp, softmax_lse, dense_loss, sparse_loss, top_k)):
        if len(found) >= count:
            return found
        found += (on_host(kernel, arguments) for kernel, arguments in draw(rng))
    raise AssertionError


def on_host(kernel: str, arguments: Sequence[Any]) -> DrawnCall:
    outputs = list(native_kernel(kernel, HostFlavour())(*arguments))
    if kernel == kl_loss_calls.TOP_K and not arguments[-1]:
        outputs[1] = None  # sparse_values, without return_value
    return DrawnCall(kernel, tuple(arguments), tuple(outputs))


def bound(op: str, tensors: dict[str, Any], **attributes: Any) -> tuple[Any, ...]:
    """All arguments of an operator in their order."""
    call = inspect.signature(getattr(custom_ops, op)).bind(**tensors, **attributes)
    call.apply_defaults()
    return call.args + tuple(call.kwargs.values())


def some_tokens(rng: np.random.Generator) -> tuple[int, ...]:
    return tuple(rng.integers(1, 5, size=rng.integers(1, 3)).tolist())


def some_documents(rng: np.random.Generator) -> tuple[list[int], list[int]]:
    """Document ends of queries and keys; documents may be empty, but not all of them."""
    count = int(rng.integers(1, 5))
    queries, keys = (np.cumsum(rng.integers(0, 4, size=count)) for _ in range(2))
    queries[-1] += 1
    keys[-1] += 1
    return queries.tolist(), keys.tolist()


Drawn = Iterator[tuple[str, tuple[Any, ...]]]


def mhc_post(rng: np.random.Generator) -> Drawn:
    tensors = mhc_calls.draw(mhc_calls.POST, some_tokens(rng), str(rng.choice(HALF)))
    arguments = bound(mhc_calls.POST, tensors)
    yield mhc_calls.POST, arguments
    yield f"{mhc_calls.POST}_backward", (rng.standard_normal(tensors["x"].shape).astype(tensors["x"].dtype), *arguments)


def mhc_pre(rng: np.random.Generator) -> Drawn:
    return _mhc_pre(rng, mhc_calls.PRE)


def mhc_pre_clamp(rng: np.random.Generator) -> Drawn:
    return _mhc_pre(rng, mhc_calls.CLAMP)


def _mhc_pre(rng: np.random.Generator, op: str) -> Drawn:
    tensors = mhc_calls.draw(op, some_tokens(rng), str(rng.choice(HALF)))
    arguments = bound(op, tensors, **mhc_calls.ATTRIBUTES[op])
    yield op, arguments
    outputs = on_host(op, arguments).outputs
    cotangents = [rng.standard_normal(value.shape).astype(value.dtype) for value in outputs[:3]]
    streams = tensors["x"].shape[-2]
    cotangents[2] = cotangents[2].reshape(*cotangents[2].shape[:-1], streams, streams)
    behind = [mhc_calls.ATTRIBUTES[op][name] for name in BEHIND_THE_TENSORS[op]]
    kept = outputs[3:]  # what the forward computes for the backward
    yield f"{op}_backward", (*cotangents, *tensors.values(), *kept, *behind)


def softmax_lse(rng: np.random.Generator) -> Drawn:
    dtype = str(rng.choice(HALF))
    if rng.integers(2):
        queries, keys = some_documents(rng)
        tensors = lse_cases.draw("TND", dtype, T1=queries[-1], T2=keys[-1])
        packed = {"layout": "TND", "actual_seq_qlen": queries, "actual_seq_klen": keys}
        yield lse_cases.OP, bound(lse_cases.OP, tensors, **packed)
    else:
        rows = int(rng.integers(1, 4))
        tensors = lse_cases.draw("BSND", dtype, B=int(rng.integers(1, 3)), S1=rows, S2=rows + int(rng.integers(0, 3)))
        yield lse_cases.OP, bound(lse_cases.OP, tensors)


def dense_loss(rng: np.random.Generator) -> Drawn:
    return _loss(rng, kl_loss_calls.DENSE)


def sparse_loss(rng: np.random.Generator) -> Drawn:
    return _loss(rng, kl_loss_calls.SPARSE)


def _loss(rng: np.random.Generator, op: str) -> Drawn:
    options = {
        "dtype": str(rng.choice(HALF)),
        "weights_dtype": str(rng.choice(["", "float32"])),
        "rope": bool(rng.integers(2)),
        "key_heads": int(rng.choice([1, kl_loss_calls.HEADS])),
    }
    if rng.integers(2):
        ends = some_documents(rng)
        tensors, packed = kl_loss_calls.draw(op, (ends[0][-1],), (ends[1][-1],), ends, **options)
    else:
        rows = int(rng.integers(1, 4))
        batch = int(rng.integers(1, 3))
        tensors, packed = kl_loss_calls.draw(op, (batch, rows), (batch, rows + int(rng.integers(0, 3))), **options)
    yield op, bound(op, tensors, **packed, scale_value=kl_loss_calls.SCALE)


def top_k(rng: np.random.Generator) -> Drawn:
    op = kl_loss_calls.TOP_K
    keywords = {
        "sparse_count": int(rng.integers(1, 6)),
        "sparse_mode": int(rng.choice([0, 3])),
        "return_value": bool(rng.integers(2)),
    }
    if rng.integers(2):
        queries, keys = some_documents(rng)
        shapes: Any = ((queries[-1],), (keys[-1],))
        starts = (np.array([0, *ends], np.int32) for ends in (queries, keys))
        keywords |= {"layout": "TND", **dict(zip(("cu_seq_lens_q", "cu_seq_lens_k"), starts, strict=True))}
    else:
        rows = int(rng.integers(1, 4))
        shapes = ((2, rows), (2, rows + int(rng.integers(0, 3))))
    yield op, bound(op, kl_loss_calls.top_k_tensors(*shapes, str(rng.choice(HALF))), **keywords)


def is_right(call: DrawnCall, found: Sequence[Any]) -> bool:
    """Whether outputs have the bits of the host's."""
    pairs = zip(found, call.outputs, strict=True)
    return all(expected is None or given.tobytes() == expected.tobytes() for given, expected in pairs)
