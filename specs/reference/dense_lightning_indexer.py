# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Dense lightning indexer: a cheap attention score that says which keys a query row should look at.

The score of query row ``t`` and key row ``j`` is ``res[t, j] = sum_n w[t, n] * relu(q[t, n, :] . k[j, :])``: no scale,
and the causal mask comes after the sum over the heads. ``softmax_lse`` is the operator
``npu_dense_lightning_indexer_softmax_lse``, ``grad_kl_loss`` is ``npu_dense_lightning_indexer_grad_kl_loss``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .documents import INT64_MAX, Lengths, check_causal_attributes, document_slices, visible_keys
from .indexer_scores import index_scores, indexer_rows
from .kl_loss import KlLoss
from .row_softmax import probabilities, row_statistics
from .tensor_checks import check_floating

__all__ = ["INT64_MAX", "document_slices", "grad_kl_loss", "index_scores", "softmax_lse", "visible_keys"]


def softmax_lse(
    query_index: NDArray[Any],
    key_index: NDArray[Any],
    weights: NDArray[Any],
    actual_seq_qlen: Lengths | None = None,
    actual_seq_klen: Lengths | None = None,
    layout: str = "BSND",
    sparse_mode: int = 3,
    pre_tokens: int = INT64_MAX,
    next_tokens: int = INT64_MAX,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Row maximum and row sum of the dense lightning-indexer softmax.

    ``softmax_max[t] = max_j res[t, j]`` and ``softmax_sum[t] = sum_j exp(res[t, j] - softmax_max[t])``, where ``j``
    runs over the keys that row ``t`` sees: row ``i`` of a document with ``q`` query and ``k`` key rows sees the keys
    ``j <= k - q + i`` (causal, aligned at the bottom right). A row that sees no key, as there are in documents with
    more queries than keys, has ``softmax_max = -inf`` and ``softmax_sum = 0``.

    Args:
        query_index: ``[B, S1, N1, D]`` (BSND) or ``[T1, N1, D]`` (TND); bfloat16, float16, float32 or float64.
        key_index: ``[B, S2, 1, D]`` or ``[T2, 1, D]``; one of the same types.
        weights: ``[B, S1, N1]`` or ``[T1, N1]``; one of the same types.
        actual_seq_qlen: TND only: cumulative ends of the documents' query rows, without a leading zero, the last one
            ``T1``. Documents may be empty.
        actual_seq_klen: TND only: the same of the key rows, as many documents, the last one ``T2``.
        layout: ``"BSND"`` (every batch row is a document) or ``"TND"``.
        sparse_mode: 3, the causal mask.
        pre_tokens: INT64_MAX, no limit.
        next_tokens: INT64_MAX, no limit.

    Returns:
        ``(softmax_max, softmax_sum)``, both ``[B, 1, S1]`` or ``[1, T1]``. float32, but float64 if an input is float64.
        Everything is computed in float64.

    Raises:
        TypeError: An input is not one of the four floating-point types.
        ValueError: A shape, a length, the layout, or an attribute is not as above.
    """
    check_causal_attributes(layout, sparse_mode, pre_tokens, next_tokens)
    _check_tensors(query_index, key_index, weights, layout)
    rows = indexer_rows(query_index, key_index, weights)
    row_max = np.full(rows.query.shape[0], -np.inf)
    row_sum = np.zeros(rows.query.shape[0])
    for document in document_slices(query_index, key_index, actual_seq_qlen, actual_seq_klen, layout):
        scores = index_scores(*rows.document(document))
        statistics = row_statistics(scores, visible_keys(*scores.shape))
        row_max[document.query], row_sum[document.query] = statistics
    result = _result_type(query_index, key_index, weights)
    shape = (*query_index.shape[:-3], 1, query_index.shape[-3])
    return row_max.astype(result).reshape(shape), row_sum.astype(result).reshape(shape)


def grad_kl_loss(
    query: NDArray[Any],
    key: NDArray[Any],
    query_index: NDArray[Any],
    key_index: NDArray[Any],
    weights: NDArray[Any],
    softmax_max: NDArray[Any],
    softmax_sum: NDArray[Any],
    softmax_max_index: NDArray[Any],
    softmax_sum_index: NDArray[Any],
    scale_value: float,
    query_rope: NDArray[Any] | None = None,
    key_rope: NDArray[Any] | None = None,
    actual_seq_qlen: Lengths | None = None,
    actual_seq_klen: Lengths | None = None,
    layout: str = "BSND",
    sparse_mode: int = 3,
    pre_tokens: int = INT64_MAX,
    next_tokens: int = INT64_MAX,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Divergence of the indexer's softmax from the main attention's, and the gradients of the indexer's tensors.

    ``p = mean over the heads of softmax((q.k + q_rope.k_rope) * scale_value)`` and ``s = softmax(res)``, over the keys
    that a row sees, both rebuilt from their statistics; ``loss = sum over rows of sum_j p * (log p - log s)``, both
    clipped at 1e-8 before the logarithm and not divided by the number of rows. The gradients are those of ``loss``
    with ``p`` held fixed and without the clip: ``d_res = s - p``. A row that sees no key adds nothing.

    Args:
        query: ``[B, S1, N1, D]`` (BSND) or ``[T1, N1, D]`` (TND), of the main attention; bfloat16, float16, float32 or
            float64, like every tensor here.
        key: ``[B, S2, N2, D]`` or ``[T2, N2, D]``; N2 divides N1, and query head n reads key head ``n // (N1 / N2)``.
        query_index: ``[B, S1, N1i, Di]`` or ``[T1, N1i, Di]``.
        key_index: ``[B, S2, 1, Di]`` or ``[T2, 1, Di]``.
        weights: ``[B, S1, N1i]`` or ``[T1, N1i]``.
        softmax_max: ``[B, N2, S1, N1 / N2]`` or ``[N2, T1, N1 / N2]``: row maxima of the main attention.
        softmax_sum: The row sums, likewise.
        softmax_max_index: ``[B, 1, S1]`` or ``[1, T1]``: the first output of ``softmax_lse``.
        softmax_sum_index: The second output.
        scale_value: The main attention's scale.
        query_rope: ``[B, S1, N1, Dr]`` or ``[T1, N1, Dr]``; with key_rope or not at all.
        key_rope: ``[B, S2, N2, Dr]`` or ``[T2, N2, Dr]``.
        actual_seq_qlen: TND only: cumulative document ends, as for ``softmax_lse``.
        actual_seq_klen: TND only: the same of the keys.
        layout: ``"BSND"`` or ``"TND"``.
        sparse_mode: 3, the causal mask.
        pre_tokens: INT64_MAX, no limit.
        next_tokens: INT64_MAX, no limit.

    Returns:
        ``(d_query_index, d_key_index, d_weights, loss)``: the first three shaped and typed like their inputs, loss
        ``[1]`` float32; all float64 if query is. Everything is computed in float64.

    Raises:
        TypeError: A tensor is not one of the four floating-point types.
        ValueError: A shape, a length, the layout, or an attribute is not as above.
    """
    check_causal_attributes(layout, sparse_mode, pre_tokens, next_tokens)
    index_statistics = {"softmax_max_index": softmax_max_index, "softmax_sum_index": softmax_sum_index}
    check_floating(**index_statistics)
    total = KlLoss(
        query,
        key,
        (query_index, key_index, weights),
        (softmax_max, softmax_sum),
        (query_rope, key_rope),
        scale_value,
        (actual_seq_qlen, actual_seq_klen),
        layout,
        **index_statistics,
    )
    row_max, row_sum = (tensor.astype(np.float64).reshape(-1) for tensor in index_statistics.values())
    for document in total.documents:
        scores = index_scores(*total.indexer.document(document))
        mask = visible_keys(*scores.shape)
        total.add(document, probabilities(scores, row_max[document.query], row_sum[document.query], mask), mask)
    return total.outputs()


def _result_type(*tensors: NDArray[Any]) -> type[np.floating[Any]]:
    return np.float64 if any(tensor.dtype == np.float64 for tensor in tensors) else np.float32


def _check_tensors(query: NDArray[Any], key: NDArray[Any], weights: NDArray[Any], layout: str) -> None:
    check_floating(query_index=query, key_index=key, weights=weights)
    rank = 4 if layout == "BSND" else 3
    if query.ndim != rank or key.ndim != rank:
        raise ValueError(
            f"query_index and key_index should have {rank} dims in layout {layout!r}, "
            f"but have shapes {query.shape} and {key.shape}."
        )
    if weights.shape != query.shape[:-1]:
        raise ValueError(
            f"weights should have query_index's shape without its last dim, {query.shape[:-1]}, "
            f"but has shape {weights.shape}."
        )
    if key.shape[-2] != 1:
        raise ValueError(f"N2 (dim {rank - 2}) of key_index should be 1, but key_index has shape {key.shape}.")
    if key.shape[-1] != query.shape[-1] or key.shape[:-3] != query.shape[:-3]:
        raise ValueError(
            "query_index and key_index should agree in batch and head size, "
            f"but have shapes {query.shape} and {key.shape}."
        )
