# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Inputs that are not free: statistics that belong to their tensors, positions that lie in their row's window."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .dense_lightning_indexer import softmax_lse
from .documents import Lengths, check_layout, document_slices, visible_keys
from .kl_loss import DIMS
from .main_attention import attention_rows, attention_tensors, check_attention, unpacked_statistics
from .row_softmax import row_statistics
from .sparse_lightning_indexer import check_positions_type, selected_keys
from .tensor_checks import bind_dims, output_type


def attention_statistics(
    query: NDArray[Any],
    key: NDArray[Any],
    scale_value: float,
    query_rope: NDArray[Any] | None = None,
    key_rope: NDArray[Any] | None = None,
    actual_seq_qlen: Lengths | None = None,
    actual_seq_klen: Lengths | None = None,
    layout: str = "BSND",
    selection: NDArray[Any] | None = None,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Row maximum and row sum of the softmax of the causal main attention, per query head.

    Args:
        query: ``[B, S1, N1, D]`` or ``[T1, N1, D]``.
        key: ``[B, S2, N2, D]`` or ``[T2, N2, D]``.
        scale_value: Factor of the scores.
        query_rope: ``[B, S1, N1, Dr]`` or ``[T1, N1, Dr]``, or None.
        key_rope: ``[B, S2, N2, Dr]`` or ``[T2, N2, Dr]``, or None.
        actual_seq_qlen: TND only: cumulative ends of the documents' query rows, without a leading zero.
        actual_seq_klen: TND only: the same of the keys.
        layout: ``"BSND"`` or ``"TND"``.
        selection: ``[B, S1, 1, K]`` or ``[T1, 1, K]`` int32, as ``sparse_indices`` makes it: the attention is over
            these keys only, which is what the sparse indexer's statistics are of. None: over every key a row sees.

    Returns:
        ``(softmax_max, softmax_sum)``, both ``[B, N2, S1, N1 / N2]`` or ``[N2, T1, N1 / N2]``; float32, float64 if
        query is. A row without a key has the maximum -inf and the sum 0.

    Raises:
        TypeError: A tensor is not of a floating-point type, or the selection not int32.
        ValueError: A shape, a length, the layout, or the selection is not as above.
    """
    check_layout(layout)
    tensors = attention_tensors(query, key, query_rope, key_rope)
    extents = check_attention(DIMS[layout], **tensors)
    if selection is not None:
        check_positions_type(selection)
        bind_dims(DIMS[layout], query=query, sparse_indices=selection)
    rows = attention_rows(tensors)
    row_max = np.full((extents["N1"], rows.query.shape[0]), -np.inf)
    row_sum = np.zeros_like(row_max)
    for document in document_slices(query, key, actual_seq_qlen, actual_seq_klen, layout):
        scores = rows.scores(document, scale_value)
        mask = visible_keys(*scores.shape[1:]) if selection is None else selected_keys(selection, document)
        row_max[:, document.query], row_sum[:, document.query] = row_statistics(scores, mask)
    result = output_type(query, np.float32)
    softmax_max, softmax_sum = (
        unpacked_statistics(statistics, query, extents["N2"], layout).astype(result, order="C")
        for statistics in (row_max, row_sum)
    )
    return softmax_max, softmax_sum


def index_statistics(
    query_index: NDArray[Any],
    key_index: NDArray[Any],
    weights: NDArray[Any],
    actual_seq_qlen: Lengths | None = None,
    actual_seq_klen: Lengths | None = None,
    layout: str = "BSND",
) -> tuple[NDArray[Any], NDArray[Any]]:
    """``(softmax_max_index, softmax_sum_index)``: the outputs of ``dense_lightning_indexer.softmax_lse``."""
    return softmax_lse(query_index, key_index, weights, actual_seq_qlen, actual_seq_klen, layout)


def dense_kl_loss(
    query: NDArray[Any],
    key: NDArray[Any],
    query_index: NDArray[Any],
    key_index: NDArray[Any],
    weights: NDArray[Any],
    scale_value: float,
    query_rope: NDArray[Any] | None,
    key_rope: NDArray[Any] | None,
    actual_seq_qlen: Lengths | None,
    actual_seq_klen: Lengths | None,
    layout: str,
) -> dict[str, NDArray[Any]]:
    """The statistics that the dense indexer's loss takes, of its other arguments."""
    attention = attention_statistics(
        query, key, scale_value, query_rope, key_rope, actual_seq_qlen, actual_seq_klen, layout
    )
    index = index_statistics(query_index, key_index, weights, actual_seq_qlen, actual_seq_klen, layout)
    names = ("softmax_max", "softmax_sum", "softmax_max_index", "softmax_sum_index")
    return dict(zip(names, (*attention, *index), strict=True))


def sparse_kl_loss(
    rng: np.random.Generator,
    query: NDArray[Any],
    key: NDArray[Any],
    sparse_indices: NDArray[np.int32],
    scale_value: float,
    query_rope: NDArray[Any] | None,
    key_rope: NDArray[Any] | None,
    actual_seq_qlen: Lengths | None,
    actual_seq_klen: Lengths | None,
    layout: str,
) -> dict[str, NDArray[Any]]:
    """A selection for the sparse indexer's loss, and the statistics of the main attention over the selected keys.

    Of the given ``sparse_indices`` only the shape counts.
    """
    selection = selected_positions(rng, query, key, sparse_indices.shape[-1], actual_seq_qlen, actual_seq_klen, layout)
    statistics = attention_statistics(
        query, key, scale_value, query_rope, key_rope, actual_seq_qlen, actual_seq_klen, layout, selection
    )
    return {"sparse_indices": selection, **dict(zip(("softmax_max", "softmax_sum"), statistics, strict=True))}


def selected_positions(
    rng: np.random.Generator,
    query: NDArray[Any],
    key: NDArray[Any],
    sparse_count: int,
    actual_seq_qlen: Lengths | None = None,
    actual_seq_klen: Lengths | None = None,
    layout: str = "BSND",
) -> NDArray[np.int32]:
    """Positions for the sparse indexer: in random order, distinct, each seen by its row, -1 in the places left over.

    Every other row is as full as it can be; the others hold a random number of positions, at least one if the row
    sees a key.

    Args:
        rng: Where the randomness comes from.
        query: ``[B, S1, N, D]`` or ``[T1, N, D]``; only its shape counts.
        key: ``[B, S2, N, D]`` or ``[T2, N, D]``; only its shape counts.
        sparse_count: K, places per row.
        actual_seq_qlen: TND only: cumulative ends of the documents' query rows, without a leading zero.
        actual_seq_klen: TND only: the same of the keys.
        layout: ``"BSND"`` or ``"TND"``.

    Returns:
        ``[B, S1, 1, K]`` or ``[T1, 1, K]`` int32.

    Raises:
        ValueError: A length or the layout is not as above.
    """
    check_layout(layout)
    positions = np.full((*query.shape[:-2], 1, sparse_count), -1, dtype=np.int32)
    by_row = positions.reshape(prod(query.shape[:-2]), sparse_count)
    for document in document_slices(query, key, actual_seq_qlen, actual_seq_klen, layout):
        key_length = document.key.stop - document.key.start
        query_length = document.query.stop - document.query.start
        for row in range(query_length):
            seen = max(0, min(key_length, key_length - query_length + row + 1))
            full = min(seen, sparse_count)
            count = full if row % 2 else int(rng.integers(min(1, full), full, endpoint=True))
            by_row[document.query.start + row, :count] = rng.permutation(seen)[:count]
    return positions
