# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Dense lightning indexer: a cheap attention score that says which keys a query row should look at.

The score of query row ``t`` and key row ``j`` is ``res[t, j] = sum_n w[t, n] * relu(q[t, n, :] . k[j, :])``: no scale,
and the causal mask comes after the sum over the heads. ``document_slices``, ``index_scores`` and ``visible_keys`` are
what every indexer operator starts from; ``softmax_lse`` is the operator ``npu_dense_lightning_indexer_softmax_lse``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

INT64_MAX = 2**63 - 1
FLOAT_TYPES = tuple(np.dtype(kind) for kind in (ml_dtypes.bfloat16, np.float16, np.float32, np.float64))


class DocumentSlices(NamedTuple):
    """Where one document lies in the packed rows of the query and of the key."""

    query: slice
    key: slice


def softmax_lse(
    query_index: NDArray[Any],
    key_index: NDArray[Any],
    weights: NDArray[Any],
    actual_seq_qlen: Sequence[int] | None = None,
    actual_seq_klen: Sequence[int] | None = None,
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
    _check_attributes(layout, sparse_mode, pre_tokens, next_tokens)
    _check_tensors(query_index, key_index, weights, layout)
    query, key, head_weights = _packed_rows(query_index, key_index, weights)
    row_max = np.full(query.shape[0], -np.inf)
    row_sum = np.zeros(query.shape[0])
    for document in document_slices(query_index, key_index, actual_seq_qlen, actual_seq_klen, layout):
        scores = index_scores(query[document.query], key[document.key], head_weights[document.query])
        statistics = _row_statistics(np.where(visible_keys(*scores.shape), scores, -np.inf))
        row_max[document.query], row_sum[document.query] = statistics
    result = _result_type(query_index, key_index, weights)
    shape = (*query_index.shape[:-3], 1, query_index.shape[-3])
    return row_max.astype(result).reshape(shape), row_sum.astype(result).reshape(shape)


def index_scores(query: NDArray[Any], key: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:
    """Unmasked scores ``[q, k]`` of one document from ``query [q, N1, D]``, ``key [k, D]`` and ``weights [q, N1]``."""
    per_head = np.matmul(query.transpose(1, 0, 2), key.T)  # [N1, q, k]
    np.maximum(per_head, 0.0, out=per_head)
    scores: NDArray[Any] = np.einsum("qn,nqk->qk", weights, per_head)
    return scores


def visible_keys(query_length: int, key_length: int) -> NDArray[np.bool_]:
    """Bottom-right aligned causal mask ``[q, k]``: True where the row sees the key."""
    rows = np.arange(query_length)[:, np.newaxis]
    keys = np.arange(key_length)[np.newaxis, :]
    mask: NDArray[np.bool_] = keys <= key_length - query_length + rows
    return mask


def document_slices(
    query: NDArray[Any],
    key: NDArray[Any],
    query_ends: Sequence[int] | None,
    key_ends: Sequence[int] | None,
    layout: str,
) -> Iterator[DocumentSlices]:
    """The documents as slices of the rows, once batch and sequence are packed into one axis.

    ValueError if the cumulative ends are missing in TND, given in BSND, decrease, or do not end at the token count.
    """
    if layout == "BSND":
        if query_ends is not None or key_ends is not None:
            raise ValueError("actual_seq_qlen and actual_seq_klen belong to layout 'TND', but layout is 'BSND'.")
        query_ends = [(row + 1) * query.shape[1] for row in range(query.shape[0])]
        key_ends = [(row + 1) * key.shape[1] for row in range(key.shape[0])]
    else:
        query_ends = _cumulative_ends("actual_seq_qlen", query_ends, query.shape[0])
        key_ends = _cumulative_ends("actual_seq_klen", key_ends, key.shape[0])
    if len(query_ends) != len(key_ends):
        raise ValueError(
            "actual_seq_qlen and actual_seq_klen should have the same number of documents, "
            f"but have {len(query_ends)} and {len(key_ends)}."
        )
    bounds = zip(pairwise([0, *query_ends]), pairwise([0, *key_ends]), strict=True)
    return (DocumentSlices(slice(*rows), slice(*keys)) for rows, keys in bounds)


def _row_statistics(masked: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Maximum and sum of exponentials per row of ``masked [q, k]``, in which invisible keys are -inf."""
    row_max = np.max(masked, axis=1, initial=-np.inf)
    # -inf minus -inf is NaN: rows without a visible key are shifted by nothing, and exp(-inf) is the 0 they need.
    shift = np.where(np.isneginf(row_max), 0.0, row_max)
    return row_max, np.sum(np.exp(masked - shift[:, np.newaxis]), axis=1)


def _packed_rows(*tensors: NDArray[Any]) -> list[NDArray[Any]]:
    """Query ``[T1, N1, D]``, key ``[T2, D]`` (its one head dropped) and weights ``[T1, N1]`` in float64."""
    query, key, weights = (tensor.astype(np.float64) for tensor in tensors)
    return [
        query.reshape(prod(query.shape[:-2]), *query.shape[-2:]),
        key.reshape(prod(key.shape[:-2]), key.shape[-1]),
        weights.reshape(prod(weights.shape[:-1]), weights.shape[-1]),
    ]


def _result_type(*tensors: NDArray[Any]) -> type[np.floating[Any]]:
    return np.float64 if any(tensor.dtype == np.float64 for tensor in tensors) else np.float32


def _cumulative_ends(name: str, ends: Sequence[int] | None, tokens: int) -> list[int]:
    if ends is None:
        raise ValueError(f"{name} is missing: layout 'TND' needs the cumulative document ends.")
    values = [int(end) for end in ends]
    if any(end < start for start, end in pairwise([0, *values])):
        raise ValueError(f"{name} should not decrease or be negative, but got {values}.")
    if (values[-1] if values else 0) != tokens:
        raise ValueError(f"{name} should end at the {tokens} tokens of the tensor, but got {values}.")
    return values


def _check_attributes(layout: str, sparse_mode: int, pre_tokens: int, next_tokens: int) -> None:
    if layout not in ("BSND", "TND"):
        raise ValueError(f"layout should be 'BSND' or 'TND', but got {layout!r}.")
    if sparse_mode != 3:
        raise ValueError(f"sparse_mode should be 3 (causal, aligned at the bottom right), but got {sparse_mode}.")
    for name, value in (("pre_tokens", pre_tokens), ("next_tokens", next_tokens)):
        if value != INT64_MAX:
            raise ValueError(f"{name} should be INT64_MAX (no limit), but got {value}.")


def _check_tensors(query: NDArray[Any], key: NDArray[Any], weights: NDArray[Any], layout: str) -> None:
    for name, tensor in (("query_index", query), ("key_index", key), ("weights", weights)):
        if tensor.dtype not in FLOAT_TYPES:
            raise TypeError(f"{name} should be bfloat16, float16, float32 or float64, but is {tensor.dtype}.")
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
