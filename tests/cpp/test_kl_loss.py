# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The host kernels of the two losses, beside the references computed in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from kl_loss_terms import EPS, terms
from recorder import Recorder, compile_recorder

from hyper_parallel.reference import dense_lightning_indexer, samples, sparse_lightning_indexer
from hyper_parallel.reference.documents import INT64_MAX
from tests.compiler import needs_compiler
from tests.reference.kl_cases import PACKED, TYPES

ROOT = Path(__file__).resolve().parents[2]
DENSE = "npu_dense_lightning_indexer_grad_kl_loss"
SPARSE = "npu_sparse_lightning_indexer_grad_kl_loss"
REFERENCES = {DENSE: dense_lightning_indexer.grad_kl_loss, SPARSE: sparse_lightning_indexer.grad_kl_loss}
SCALE = 0.4
C = 1.0

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recorder]:
    folder = tmp_path_factory.mktemp("kernels")
    return {op: compile_recorder(ROOT / "generated" / op / f"{op}.cc", [ROOT], "cpu", folder) for op in REFERENCES}


def draw(
    op: str,
    query_shape: tuple[int, ...],
    key_shape: tuple[int, ...],
    packed: dict[str, Any] | None = None,
    *,
    dtype: str = "float32",
    weights_dtype: str = "",
    heads: tuple[int, int] = (4, 4),
    size: int = 5,
    rope: int = 0,
    index: tuple[int, int] = (2, 7),
    selected: int = 6,
) -> dict[str, Any]:
    """Tensors by name, in the operator's order, for queries and keys of the shapes [B, S] or [T]."""
    rng = np.random.default_rng([*query_shape, *key_shape, *heads, size])

    def normal(*shape: int, kind: str = dtype, scale: float = 1.0) -> Any:
        return (rng.standard_normal(shape) * scale).astype(TYPES[kind])

    # Scores of size one: no softmax is a single key, and no exponent's error hides the others.
    main, small = (size + rope) ** -0.25 / SCALE**0.5, index[1] ** -0.25

    tensors = {
        "query": normal(*query_shape, heads[0], size, scale=main),
        "key": normal(*key_shape, heads[1], size, scale=main),
        "query_index": normal(*query_shape, *index, scale=small),
        "key_index": normal(*key_shape, 1, index[1], scale=small),
        "weights": normal(*query_shape, index[0], kind=weights_dtype or dtype, scale=index[0] ** -0.5),
    }
    ropes = {}
    if rope:
        ropes = {"query_rope": normal(*query_shape, heads[0], rope, scale=main), "key_rope": normal(*key_shape, heads[1], rope, scale=main)}
    attention = {name: tensors[name] for name in ("query", "key")} | ropes
    packed = packed or {}
    selection = None
    if op == SPARSE:
        selection = samples.sparse_indices(rng, tensors["query"], tensors["key"], selected, **packed)
        tensors["sparse_indices"] = selection
    values = samples.attention_statistics(**attention, scale_value=SCALE, **packed, selection=selection)
    tensors |= dict(zip(("softmax_max", "softmax_sum"), (x.astype(np.float32) for x in values), strict=True))
    if op == DENSE:
        exact = (tensors[name].astype(np.float64) for name in ("query_index", "key_index", "weights"))
        values = samples.index_statistics(*exact, **packed)
        names = ("softmax_max_index", "softmax_sum_index")
        tensors |= dict(zip(names, (x.astype(np.float32) for x in values), strict=True))
    return tensors | ropes


def arguments(tensors: dict[str, Any], packed: dict[str, Any] | None = None) -> list[Any]:
    packed = packed or {}
    given = [tensor for name, tensor in tensors.items() if not name.endswith("rope")]
    lengths = [packed.get("actual_seq_qlen"), packed.get("actual_seq_klen"), packed.get("layout", "BSND")]
    ropes = [tensors.get("query_rope"), tensors.get("key_rope")]
    return [*given, SCALE, *ropes, *lengths, 3, INT64_MAX, INT64_MAX]


def last_place(values: Any, dtype: Any) -> Any:
    """The distance of the numbers of that type around these values."""
    kind = ml_dtypes.finfo(dtype)
    exponent = np.floor(np.log2(np.maximum(np.abs(values), float(kind.smallest_normal))))
    return np.exp2(exponent - kind.nmant)


def assert_equals_reference(
    kernels: dict[str, Recorder], op: str, tensors: dict[str, Any], packed: dict[str, Any] | None = None
) -> None:
    """Within two last places of the result plus C eps of float32 times the sum of the magnitudes of all terms."""
    got = kernels[op].run(arguments(tensors, packed))
    exact = {k: t if k == "sparse_indices" else t.astype(np.float64) for k, t in tensors.items()}
    expected = REFERENCES[op](**exact, scale_value=SCALE, **(packed or {}))
    magnitudes = terms(exact, SCALE, **(packed or {}))
    types = [tensors[name].dtype for name in ("query_index", "key_index", "weights")] + [np.dtype(np.float32)]
    for ours, theirs, magnitude, dtype in zip(got, expected, magnitudes, types, strict=True):
        assert ours.dtype == dtype
        assert ours.shape == theirs.shape
        error = np.abs(ours.astype(np.float64) - theirs)
        bound = 2 * last_place(theirs, dtype) + C * EPS * magnitude
        print(op, dtype, "worst", np.max((error - 2 * last_place(theirs, dtype)) / np.maximum(EPS * magnitude, 1e-300), initial=-9), np.max(error/np.maximum(EPS*magnitude,1e-300),initial=0))
        assert np.all(error <= bound), np.max(error / bound)


@pytest.mark.parametrize("op", REFERENCES)
@pytest.mark.parametrize(("q_ends", "k_ends"), PACKED.values(), ids=PACKED.keys())
def test_packed(kernels: dict[str, Recorder], op: str, q_ends: list[int], k_ends: list[int]) -> None:
    packed = {"layout": "TND", "actual_seq_qlen": q_ends, "actual_seq_klen": k_ends}
    tensors = draw(op, (q_ends[-1],), (k_ends[-1],), packed)
    assert_equals_reference(kernels, op, tensors, packed)

@pytest.mark.parametrize("op", REFERENCES)
@pytest.mark.parametrize(("s1", "s2"), [(5,5),(70,150),(33,64)])
def test_bsnd(kernels: dict[str, Recorder], op: str, s1: int, s2:int) -> None:
    tensors = draw(op, (2,s1,), (2,s2,), size=128,rope=64,index=(8,128),heads=(4,2))
    assert_equals_reference(kernels, op, tensors)
