# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Sparse lightning indexer: the indexer trained on the keys that it selected.

``grad_kl_loss`` is the operator ``npu_sparse_lightning_indexer_grad_kl_loss``.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .documents import INT64_MAX, DocumentSlices, Lengths, check_causal_attributes
from .indexer_scores import index_scores
from .kl_loss import KlLoss
from .row_softmax import probabilities, row_statistics


def grad_kl_loss(
    query: NDArray[Any],
    key: NDArray[Any],
    query_index: NDArray[Any],
    key_index: NDArray[Any],
    weights: NDArray[Any],
    sparse_indices: NDArray[Any],
    softmax_max: NDArray[Any],
    softmax_sum: NDArray[Any],
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
    """Divergence of the indexer's softmax from the main attention's over the selected keys, and its gradients.

    The mathematics of ``dense_lightning_indexer.grad_kl_loss``, where every sum over a row's keys runs over those that
    ``sparse_indices`` names, and ``s`` is a plain softmax over them. ``p`` is rebuilt from softmax_max and softmax_sum
    as they are, so it adds up to 1 only if they are the statistics of the attention over the selected keys. A row
    without a selected key adds nothing. The order of a row's positions means nothing.

    Args:
        query: ``[B, S1, N1, D]`` (BSND) or ``[T1, N1, D]`` (TND), of the main attention; bfloat16, float16, float32 or
            float64, like every tensor here but sparse_indices.
        key: ``[B, S2, N2, D]`` or ``[T2, N2, D]``; N2 divides N1.
        query_index: ``[B, S1, N1i, Di]`` or ``[T1, N1i, Di]``.
        key_index: ``[B, S2, 1, Di]`` or ``[T2, 1, Di]``.
        weights: ``[B, S1, N1i]`` or ``[T1, N1i]``.
        sparse_indices: ``[B, S1, 1, K]`` or ``[T1, 1, K]`` int32: positions of keys in the row's own document, among
            those that the row sees and each at most once, or -1 for an unused place.
        softmax_max: ``[B, N2, S1, N1 / N2]`` or ``[N2, T1, N1 / N2]``: row maxima of the main attention.
        softmax_sum: The row sums, likewise.
        scale_value: The main attention's scale.
        query_rope: ``[B, S1, N1, Dr]`` or ``[T1, N1, Dr]``; with key_rope or not at all.
        key_rope: ``[B, S2, N2, Dr]`` or ``[T2, N2, Dr]``.
        actual_seq_qlen: TND only: cumulative ends of the documents' query rows, without a leading zero.
        actual_seq_klen: TND only: the same of the keys.
        layout: ``"BSND"`` or ``"TND"``.
        sparse_mode: 3, the causal mask.
        pre_tokens: INT64_MAX, no limit.
        next_tokens: INT64_MAX, no limit.

    Returns:
        ``(d_query_index, d_key_index, d_weights, loss)``: the first three shaped and typed like their inputs, loss
        ``[1]`` float32; all float64 if query is. Everything is computed in float64.

    Raises:
        TypeError: A tensor is not one of the four floating-point types, or sparse_indices is not int32.
        ValueError: A shape, a length, a position, the layout, or an attribute is not as above.
    """
    check_causal_attributes(layout, sparse_mode, pre_tokens, next_tokens)
    check_positions_type(sparse_indices)
    total = KlLoss(
        query,
        key,
        (query_index, key_index, weights),
        (softmax_max, softmax_sum),
        (query_rope, key_rope),
        scale_value,
        (actual_seq_qlen, actual_seq_klen),
        layout,
        sparse_indices=sparse_indices,
    )
    for document in total.documents:
        mask = selected_keys(sparse_indices, document)
        scores = index_scores(*total.indexer.document(document))
        total.add(document, probabilities(scores, *row_statistics(scores, mask), mask), mask)
    return total.outputs()


def check_positions_type(sparse_indices: NDArray[Any]) -> None:
    """TypeError unless the positions are int32."""
    if sparse_indices.dtype != np.int32:
        raise TypeError(f"sparse_indices should be int32, but is {sparse_indices.dtype}.")


def selected_keys(sparse_indices: NDArray[Any], document: DocumentSlices) -> NDArray[np.bool_]:
    """Mask ``[q, k]`` of one document: True where the row selects the key.

    ValueError if a position is not among the keys that its row sees, or is there twice.
    """
    query_length = document.query.stop - document.query.start
    key_length = document.key.stop - document.key.start
    shape = sparse_indices.shape
    positions = sparse_indices.reshape(prod(shape[:-2]), shape[-1])[document.query]
    rows, slots = np.nonzero(positions != -1)
    chosen = positions[rows, slots]
    unseen = (chosen < 0) | (chosen > key_length - query_length + rows)
    if unseen.any():
        first = int(np.argmax(unseen))
        raise ValueError(
            "sparse_indices should hold -1 or positions of keys that the row sees, but row "
            f"{rows[first]} of a document with {query_length} query and {key_length} key rows holds {chosen[first]}."
        )
    counts = np.zeros((query_length, key_length), dtype=np.int64)
    np.add.at(counts, (rows, chosen), 1)
    if np.any(counts > 1):
        row, position = np.argwhere(counts > 1)[0]
        raise ValueError(
            f"sparse_indices should hold a position once per row, but row {row} of a document holds {position} "
            f"{counts[row, position]} times."
        )
    mask: NDArray[np.bool_] = counts == 1
    return mask
