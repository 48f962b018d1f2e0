# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The score of the indexers, ``res[t, j] = sum_n w[t, n] * relu(q[t, n, :] . k[j, :])``, and its gradients."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .documents import DocumentSlices


class IndexerRows(NamedTuple):
    """The indexer's tensors in float64, batch and sequence packed into one axis, the key's one head dropped.

    ``query [T1, N1, D]``, ``key [T2, D]``, ``weights [T1, N1]``; gradients have the same shapes.
    """

    query: NDArray[Any]
    key: NDArray[Any]
    weights: NDArray[Any]

    def document(self, document: DocumentSlices) -> IndexerRows:
        """Views of one document's rows."""
        return IndexerRows(self.query[document.query], self.key[document.key], self.weights[document.query])


def indexer_rows(query: NDArray[Any], key: NDArray[Any], weights: NDArray[Any]) -> IndexerRows:
    """Packed rows of ``query [B, S1, N1, D]``, ``key [B, S2, 1, D]``, ``weights [B, S1, N1]``, or of packed tensors."""
    return IndexerRows(
        query.astype(np.float64).reshape(prod(query.shape[:-2]), *query.shape[-2:]),
        key.astype(np.float64).reshape(prod(key.shape[:-2]), key.shape[-1]),
        weights.astype(np.float64).reshape(prod(weights.shape[:-1]), weights.shape[-1]),
    )


def index_scores(query: NDArray[Any], key: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:
    """Unmasked scores ``[q, k]`` of one document from ``query [q, N1, D]``, ``key [k, D]`` and ``weights [q, N1]``."""
    per_head = np.matmul(query.transpose(1, 0, 2), key.T)  # [N1, q, k]
    np.maximum(per_head, 0.0, out=per_head)
    scores: NDArray[Any] = np.einsum("qn,nqk->qk", weights, per_head)
    return scores


def index_scores_backward(d_scores: NDArray[Any], rows: IndexerRows) -> IndexerRows:
    """Gradients of one document's query, key and weights from the gradient ``[q, k]`` of its scores.

    The relu passes nothing where its argument is 0.
    """
    per_head = np.matmul(rows.query.transpose(1, 0, 2), rows.key.T)  # [N1, q, k]
    d_per_head = d_scores * rows.weights.T[:, :, np.newaxis] * (per_head > 0.0)
    return IndexerRows(
        query=np.matmul(d_per_head, rows.key).transpose(1, 0, 2),
        key=np.einsum("nqk,qnd->kd", d_per_head, rows.query, optimize=True),
        weights=np.einsum("qk,nqk->qn", d_scores, np.maximum(per_head, 0.0), optimize=True),
    )
