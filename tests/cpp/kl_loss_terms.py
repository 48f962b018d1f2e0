# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The losses in float64 and, for each output, the sum of the magnitudes of all terms that make it.

A kernel rounds every term of every sum, so that its error is bounded by a multiple of eps times these sums, whatever
cancels in them. The sums follow the rounding through the formula: a score's error is that of its dot products, a
probability's relative error is the error of its exponent.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyper_parallel.reference.documents import document_slices, visible_keys
from hyper_parallel.reference.indexer_scores import index_scores, indexer_rows
from hyper_parallel.reference.kl_loss import SMALLEST_PROBABILITY
from hyper_parallel.reference.main_attention import attention_rows, attention_tensors, packed_statistics
from hyper_parallel.reference.row_softmax import probabilities, row_statistics
from hyper_parallel.reference.sparse_lightning_indexer import selected_keys


def terms(
    tensors: dict[str, Any],
    scale: float,
    eps: float,
    layout: str = "BSND",
    actual_seq_qlen: Any = None,
    actual_seq_klen: Any = None,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Of d_query_index, d_key_index, d_weights and loss, in the shapes of the inputs."""
    indexer = indexer_rows(*(tensors[name] for name in ("query_index", "key_index", "weights")))
    ropes = (tensors.get("query_rope"), tensors.get("key_rope"))
    attention = attention_rows(attention_tensors(tensors["query"], tensors["key"], *ropes))
    magnitudes = type(attention)(*map(np.abs, attention))
    main_max, main_sum = (packed_statistics(tensors[name], layout) for name in ("softmax_max", "softmax_sum"))
    d_query, d_key, d_weights = (np.zeros_like(tensor) for tensor in indexer)
    loss = 0.0
    for document in document_slices(tensors["query"], tensors["key"], actual_seq_qlen, actual_seq_klen, layout):
        query, key, weights = indexer.document(document)
        products = np.matmul(query.transpose(1, 0, 2), key.T)
        products_terms = np.matmul(np.abs(query).transpose(1, 0, 2), np.abs(key).T)
        scores = index_scores(query, key, weights)
        scores_terms = np.einsum("qn,nqk->qk", np.abs(weights), products_terms)
        if "sparse_indices" in tensors:
            mask = selected_keys(tensors["sparse_indices"], document)
            row_max, row_sum = row_statistics(scores, mask)
            # The row's maximum carries the error of the score that it is.
            largest = np.max(np.where(mask, scores_terms, 0.0), axis=-1, initial=0.0)
        else:
            mask = visible_keys(*scores.shape)
            row_max, row_sum = (
                tensors[name].astype(np.float64).reshape(-1)[document.query]
                for name in ("softmax_max_index", "softmax_sum_index")
            )
            largest = np.where(row_sum > 0, np.abs(row_max), 0.0)
        s = probabilities(scores, row_max, row_sum, mask)
        s_terms = s * (1 + scores_terms + largest[:, np.newaxis])
        attention_max = main_max[:, document.query]
        parts = probabilities(attention.scores(document, scale), attention_max, main_sum[:, document.query], mask)
        seen_max = np.where(np.isfinite(attention_max), np.abs(attention_max), 0.0)[..., np.newaxis]
        p = parts.mean(axis=0)
        p_terms = (parts * (1 + magnitudes.scores(document, abs(scale)) + seen_max)).mean(axis=0)
        score_terms = s_terms + p_terms
        log_p, log_s = (np.abs(np.log(np.maximum(x, SMALLEST_PROBABILITY))) for x in (p, s))
        ratio = np.divide(p, np.maximum(s, SMALLEST_PROBABILITY))
        loss += float(np.sum((p_terms + p) * (log_p + log_s + 1) + ratio * s_terms))
        d_weights[document.query] = np.einsum("qk,nqk->qn", score_terms, np.maximum(products, 0.0))
        d_weights[document.query] += np.einsum("qk,nqk->qn", np.abs(s - p), products_terms)
        # Where a product is 0 up to rounding, the relu may go either way.
        uncertain = np.abs(products) <= 4 * eps * products_terms
        passed = score_terms * (products > 0) + np.abs(s - p) * uncertain / eps
        passed = passed * np.abs(weights).T[:, :, np.newaxis]
        d_query[document.query] = np.einsum("nqk,kd->qnd", passed, np.abs(key))
        d_key[document.key] = np.einsum("nqk,qnd->kd", passed, np.abs(query))
    names = ("query_index", "key_index", "weights")
    shaped = [x.reshape(tensors[name].shape) for x, name in zip((d_query, d_key, d_weights), names, strict=True)]
    return shaped[0], shaped[1], shaped[2], np.array([loss])
