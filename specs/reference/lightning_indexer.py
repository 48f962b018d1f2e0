# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Lightning indexer: the keys that a query row should look at. ``top_k`` is the operator ``npu_lightning_indexer``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .documents import Lengths, check_layout, document_slices, visible_keys
from .indexer_scores import index_scores, indexer_rows
from .tensor_checks import bind_dims, check_floating, output_type

DIMS = {
    "BSND": {"query": "B S1 N1 D", "key": "B S2 1 D", "weights": "B S1 N1"},
    "TND": {"query": "T1 N1 D", "key": "T2 1 D", "weights": "T1 N1"},
}


def top_k(
    query: NDArray[Any],
    key: NDArray[Any],
    weights: NDArray[Any],
    sparse_count: int,
    cu_seq_lens_q: Lengths | None = None,
    cu_seq_lens_k: Lengths | None = None,
    cmp_residual_k: NDArray[Any] | None = None,
    block_table: NDArray[Any] | None = None,
    layout: str = "BSND",
    sparse_mode: int = 0,
    cmp_ratio: int = 1,
    return_value: bool = False,  # noqa: ARG001 (the kernel's argument; values are returned in either case)
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The ``sparse_count`` keys of highest score per query row, best first, and their scores.

    The score is ``res[t, j] = sum_n w[t, n] * relu(q[t, n, :] . k[j, :])``. Keys are ranked by the score as it is
    returned, that is after rounding to the output's type; of equal ones the key of lower index comes first. A row that
    sees fewer keys than ``sparse_count`` fills up with index -1 and value -inf.

    Args:
        query: ``[B, S1, N1, D]`` (BSND) or ``[T1, N1, D]`` (TND); bfloat16, float16, float32 or float64.
        key: ``[B, S2, 1, D]`` or ``[T2, 1, D]``; one of the same types.
        weights: ``[B, S1, N1]`` or ``[T1, N1]``; one of the same types.
        sparse_count: K, at least 1.
        cu_seq_lens_q: TND only: cumulative starts of the documents' query rows and, last, ``T1``: a leading zero and
            one number more than documents. Documents may be empty.
        cu_seq_lens_k: TND only: the same of the key rows, as many documents, the last one ``T2``.
        cmp_residual_k: None: compressed keys have no mathematics here.
        block_table: None: paged keys have no mathematics here.
        layout: ``"BSND"`` (every batch row is a document) or ``"TND"``.
        sparse_mode: 0, every row sees its whole document, or 3, causal, aligned at the bottom right.
        cmp_ratio: 1, keys are not compressed.
        return_value: Whether the caller wants the values. They are there in either case.

    Returns:
        ``(sparse_indices, sparse_values)``, both ``[B, S1, 1, K]`` or ``[T1, 1, K]``: positions in the row's own
        document, int32, and scores, float32 (float64 if query is). Scores are computed in float64.

    Raises:
        TypeError: A tensor is not one of the four floating-point types.
        ValueError: A shape, a length, the layout, or an attribute is not as above.
    """
    _check_attributes(layout, sparse_mode, sparse_count, cmp_ratio)
    _check_absent(cmp_residual_k=cmp_residual_k, block_table=block_table)
    check_floating(query=query, key=key, weights=weights)
    bind_dims(DIMS[layout], query=query, key=key, weights=weights)
    rows = indexer_rows(query, key, weights)
    value_type = output_type(query, np.float32)
    indices = np.full((rows.query.shape[0], sparse_count), -1, dtype=np.int32)
    values = np.full(indices.shape, -np.inf, dtype=value_type)
    names = ("cu_seq_lens_q", "cu_seq_lens_k")
    ends = [_ends(name, starts) for name, starts in zip(names, (cu_seq_lens_q, cu_seq_lens_k), strict=True)]
    for document in document_slices(query, key, ends[0], ends[1], layout, names):
        scores = index_scores(*rows.document(document)).astype(value_type)
        mask = visible_keys(*scores.shape) if sparse_mode == 3 else np.ones_like(scores, dtype=np.bool_)
        best = _best_keys(scores, mask, sparse_count)
        used = np.take_along_axis(mask, best, axis=1)
        indices[document.query, : best.shape[1]] = np.where(used, best, -1)
        values[document.query, : best.shape[1]] = np.where(used, np.take_along_axis(scores, best, axis=1), -np.inf)
    shape = (*query.shape[:-2], 1, sparse_count)
    return indices.reshape(shape), values.reshape(shape)


def _best_keys(scores: NDArray[Any], mask: NDArray[np.bool_], count: int) -> NDArray[np.int64]:
    """Indices ``[q, min(count, k)]`` of the highest scores, equal ones in rising order, masked keys last."""
    order: NDArray[np.int64] = np.argsort(-np.where(mask, scores, -np.inf), axis=1, kind="stable")
    return order[:, :count]


def _ends(name: str, starts: Lengths | None) -> list[int] | None:
    """Cumulative ends without the leading zero. ValueError if there is none."""
    if starts is None:
        return None
    values = [int(start) for start in starts]
    if not values or values[0] != 0:
        raise ValueError(f"{name} should begin with 0, the start of the first document, but got {values}.")
    return values[1:]


def _check_attributes(layout: str, sparse_mode: int, sparse_count: int, cmp_ratio: int) -> None:
    check_layout(layout)
    if sparse_mode not in (0, 3):
        raise ValueError(f"sparse_mode should be 0 (no mask) or 3 (causal), but got {sparse_mode}.")
    if sparse_count < 1:
        raise ValueError(f"sparse_count should be at least 1, but got {sparse_count}.")
    if cmp_ratio != 1:
        raise ValueError(f"cmp_ratio should be 1 (keys are not compressed), but got {cmp_ratio}.")


def _check_absent(**tensors: NDArray[Any] | None) -> None:
    for name, tensor in tensors.items():
        if tensor is not None:
            raise ValueError(f"{name} should be None, but is an array of shape {np.shape(tensor)}.")
