# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The loss that trains an indexer, ``sum over rows KL(p || s)``: what the dense and the sparse operator share.

``p`` is the mean over the heads of the main attention's softmax, ``s`` the softmax of the indexer's scores. With ``p``
held fixed the gradient of the scores is ``s - p``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .documents import DocumentSlices, Lengths, document_slices
from .indexer_scores import IndexerRows, index_scores_backward, indexer_rows
from .main_attention import (
    TENSOR_DIMS,
    attention_rows,
    attention_tensors,
    check_attention,
    packed_statistics,
)
from .row_softmax import probabilities
from .tensor_checks import bind_dims, check_floating, output_type

# The kernels' guard against the logarithm of 0. It is not part of the gradient.
SMALLEST_PROBABILITY = 1e-8

DIMS = {
    "BSND": TENSOR_DIMS["BSND"]
    | {
        "query_index": "B S1 N1i Di",
        "key_index": "B S2 1 Di",
        "weights": "B S1 N1i",
        "softmax_max": "B N2 S1 G",
        "softmax_sum": "B N2 S1 G",
        "softmax_max_index": "B 1 S1",
        "softmax_sum_index": "B 1 S1",
        "sparse_indices": "B S1 1 K",
    },
    "TND": TENSOR_DIMS["TND"]
    | {
        "query_index": "T1 N1i Di",
        "key_index": "T2 1 Di",
        "weights": "T1 N1i",
        "softmax_max": "N2 T1 G",
        "softmax_sum": "N2 T1 G",
        "softmax_max_index": "1 T1",
        "softmax_sum_index": "1 T1",
        "sparse_indices": "T1 1 K",
    },
}


class KlLoss:
    """The loss and its gradients, summed up document by document.

    TypeError or ValueError if the tensors do not fit each other; ``others`` are checked along.

    Attributes:
        indexer: The indexer's rows.
        documents: The documents, to be given to ``add`` one by one.
    """

    def __init__(
        self,
        query: NDArray[Any],
        key: NDArray[Any],
        indexer: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
        statistics: tuple[NDArray[Any], NDArray[Any]],
        ropes: tuple[NDArray[Any] | None, NDArray[Any] | None],
        scale: float,
        lengths: tuple[Lengths | None, Lengths | None],
        layout: str,
        **others: NDArray[Any],
    ) -> None:
        tensors = attention_tensors(query, key, *ropes)
        extents = check_attention(DIMS[layout], **tensors)
        tensors_of_loss = dict(zip(("query_index", "key_index", "weights"), indexer, strict=True))
        tensors_of_loss |= dict(zip(("softmax_max", "softmax_sum"), statistics, strict=True))
        check_floating(**tensors_of_loss)
        bound = bind_dims(DIMS[layout], **tensors, **tensors_of_loss, **others)
        group = extents["N1"] // extents["N2"]
        if bound["G"] != group:
            raise ValueError(f"G (last dim) of softmax_max should be N1 / N2 = {group}, but is {bound['G']}.")
        self.inputs = indexer
        self.types = [output_type(query, tensor.dtype) for tensor in indexer]
        self.loss_type = output_type(query, np.float32)
        self.attention = attention_rows(tensors)
        self.scale = scale
        self.softmax_max, self.softmax_sum = (packed_statistics(tensor, layout) for tensor in statistics)
        self.indexer = indexer_rows(*indexer)
        self.documents = list(document_slices(query, key, *lengths, layout))
        self.gradients = IndexerRows(*(np.zeros_like(tensor) for tensor in self.indexer))
        self.loss = 0.0

    def add(self, document: DocumentSlices, index_probability: NDArray[Any], mask: NDArray[np.bool_]) -> None:
        """Adds a document by its ``s [q, k]``; ``mask [q, k]`` says which keys of a row count."""
        probability = self._main_probability(document, mask)
        self.loss += divergence(probability, index_probability)
        gradients = index_scores_backward(index_probability - probability, self.indexer.document(document))
        for total, part in zip(self.gradients.document(document), gradients, strict=True):
            total[...] = part  # no two documents share a row

    def outputs(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        """``(d_query_index, d_key_index, d_weights, loss)``, shaped and typed like the inputs, loss ``[1]``."""
        d_query, d_key, d_weights = (
            gradient.reshape(tensor.shape).astype(dtype)
            for gradient, tensor, dtype in zip(self.gradients, self.inputs, self.types, strict=True)
        )
        return d_query, d_key, d_weights, np.array([self.loss], dtype=self.loss_type)

    def _main_probability(self, document: DocumentSlices, mask: NDArray[np.bool_]) -> NDArray[Any]:
        """``p [q, k]`` of one document, rebuilt from the statistics."""
        scores = self.attention.scores(document, self.scale)
        row_max, row_sum = self.softmax_max[:, document.query], self.softmax_sum[:, document.query]
        mean: NDArray[Any] = probabilities(scores, row_max, row_sum, mask).mean(axis=0)
        return mean


def divergence(probability: NDArray[Any], index_probability: NDArray[Any]) -> float:
    """``sum p * (log p - log s)``, both clipped before the logarithm. Keys that do not count have ``p = 0``."""
    log_ratio = np.log(np.maximum(probability, SMALLEST_PROBABILITY)) - np.log(
        np.maximum(index_probability, SMALLEST_PROBABILITY)
    )
    return float(np.sum(probability * log_ratio))
