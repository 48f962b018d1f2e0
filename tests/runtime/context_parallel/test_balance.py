# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""How evenly the work of a causal call lies on the ranks of a sequence: pairs of a row and a key that it sees.

The pairs are counted from the tokens that a rank holds, without windows; windows have to hold the same ones.
"""

from __future__ import annotations

import numpy as np
import pytest
from window_oracle import dealt_sequence

from hyper_parallel.core.shard.context_parallel.documents import Documents
from hyper_parallel.core.shard.context_parallel.sequence_orders import NATURAL, SequenceOrder
from hyper_parallel.core.shard.context_parallel.windows import document_windows

RANKS = 8
ONE = (32768,)
MIXED = tuple((16 * np.random.default_rng(0).integers(1, 64, 64)).tolist())
HEAD_TAIL, ZIGZAG = SequenceOrder("head_tail"), SequenceOrder("zigzag")
PER_DOCUMENT = [SequenceOrder(name, per_document=True) for name in ("head_tail", "zigzag")]


def pairs(lengths, order):
    """For each rank: row t of a document sees its first t + 1 keys."""
    seen = np.concatenate([np.arange(1, length + 1) for length in lengths])
    held = np.array(dealt_sequence(order, RANKS, lengths)).reshape(RANKS, -1)
    return seen[held].sum(axis=1).tolist()


def pairs_in_windows(lengths, order):
    """Row u of a document's q rows sees the first k - q + u + 1 of its k keys."""
    ends = np.cumsum(lengths)
    return [
        sum(pairs_in(window) for window in document_windows(Documents(ends, ends), order, rank, RANKS))
        for rank in range(RANKS)
    ]


def pairs_in(window):
    rows, keys = np.diff(window.query_ends, prepend=0), np.diff(window.key_ends, prepend=0)
    return int((rows * (2 * keys - rows + 1) // 2).sum())


@pytest.mark.parametrize(
    ("lengths", "order", "least", "most"),
    [
        (ONE, NATURAL, 1.85, 1.9),
        (ONE, HEAD_TAIL, 1.0, 1.02),
        (ONE, ZIGZAG, 1.0, 1.02),
        (MIXED, NATURAL, 1.05, RANKS),
        (MIXED, ZIGZAG, 1.05, RANKS),  # whole documents lie in one chunk
        (MIXED, PER_DOCUMENT[0], 1.0, 1.05),
        (MIXED, PER_DOCUMENT[1], 1.0, 1.05),
    ],
)
def test_the_most_on_a_rank_over_the_mean(lengths, order, least, most):
    expected = pairs(lengths, order)
    assert sum(expected) == sum(length * (length + 1) // 2 for length in lengths)
    assert pairs_in_windows(lengths, order) == expected
    assert least <= max(expected) * RANKS / sum(expected) <= most


@pytest.mark.parametrize("order", PER_DOCUMENT)
def test_each_document_is_balanced(order):
    for length in (16, 48, 1008):
        assert len(set(pairs((length,), order))) == 1
