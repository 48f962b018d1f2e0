# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Windows worked out by hand, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from hyper_parallel.core.shard.context_parallel.documents import Documents
from hyper_parallel.core.shard.context_parallel.fixed_length import fixed_length_windows
from hyper_parallel.core.shard.context_parallel.intervals import Intervals
from hyper_parallel.core.shard.context_parallel.sequence_orders import NATURAL, SequenceOrder
from hyper_parallel.core.shard.context_parallel.windows import document_windows, packed_window

ZIGZAG = SequenceOrder("zigzag")


def facts(window):
    return window.keys.span, window.query_ends.tolist(), window.key_ends.tolist()


def test_a_document_that_crosses_a_rank():
    """Queries 3 and 5, keys 4 and 6; the second document has rows 3 to 7, of which rank 0 holds the first."""
    first, second = (document_windows(Documents([3, 8], [4, 10]), NATURAL, rank, 2)[0] for rank in (0, 1))
    assert facts(first) == ((0, 6), [3, 4], [4, 6])  # its row 0 of 5 sees the first 2 of 6 keys
    assert facts(second) == ((0, 10), [0, 4], [4, 10])


def test_an_empty_last_document():
    window = document_windows(Documents([4, 4], [4, 7]), NATURAL, 1, 2)[0]
    assert facts(window) == ((0, 4), [2, 2], [4, 4])


def test_rows_without_keys_get_a_document_with_one():
    window = document_windows(Documents([4, 5], [2, 6]), NATURAL, 0, 5)[0]  # row 0 of 4 with 2 keys sees none
    assert facts(window) == ((0, 1), [1, 1, 1], [0, 0, 1])
    assert window.has_added_document
    dealt = document_windows(Documents([4], [0]), SequenceOrder("zigzag", "dealt"), 0, 2)[0]
    assert not dealt.has_keys  # there is no key in the whole group
    assert not dealt.has_added_document
    residuals = packed_window(Documents([4], [1]), 0, 1, ratio=2, residuals=np.array([1])).residuals
    assert residuals.tolist() == [0, 0]


def test_a_block_without_rows():
    for order in (NATURAL, ZIGZAG):
        for window in document_windows(Documents([0, 0], [2, 5]), order, 0, 2):
            assert not window.has_rows
            assert not window.has_added_document
    assert not packed_window(Documents([4], [4]), 2, 2).has_rows


def test_two_blocks_of_dealt_documents():
    """Queries and keys 4 and 8 on 2 ranks, chunks of 1 and 2 tokens; rank 0 holds 0 3, 4 5 10 11."""
    order = SequenceOrder("zigzag", "dealt", per_document=True)
    early, late = document_windows(Documents([4, 12], [4, 12]), order, 0, 2)
    assert (early.rows.index.tolist(), late.rows.index.tolist()) == ([0, 2, 3], [1, 4, 5])
    assert (early.key_ends.tolist(), late.key_ends.tolist()) == ([1, 3], [4, 12])
    assert early.keys.index.tolist() == [0, 2, 3]
    assert late.keys.index.tolist() == [0, 6, 7, 1, 2, 3, 8, 9, 10, 11, 4, 5]  # 1 and 2 lie on rank 1: 1 2, 6 7 8 9


def test_natural_keys_of_dealt_documents_are_pieces():
    order = SequenceOrder("zigzag", per_document=True)
    early, late = document_windows(Documents([4, 12], [4, 12]), order, 0, 2)
    starts, stops = early.keys.pieces
    assert list(zip(starts, stops, strict=True)) == [(0, 1), (4, 6)]
    assert early.keys.span is None
    assert late.keys.span == (0, 12)  # touching pieces are one


def test_fixed_length_with_more_queries_than_keys():
    """Rows 0 and 1 of 4 see none of 2 keys, and there is nothing that could be added."""
    first, second = (fixed_length_windows(4, 2, NATURAL, rank, 2)[0] for rank in (0, 1))
    assert (first.has_rows, first.has_keys, first.keys.span) == (True, False, (0, 0))
    assert (second.has_rows, second.has_keys, second.keys.span) == (True, True, (0, 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Documents([4, 3], [4, 4]), "the ends of the query documents should not decrease from 0 on, but got 3 after 4"),
        (lambda: Documents([4], [4, 3]), "the ends of the key documents should not decrease"),
        (lambda: Documents([4], [4], 8, 4), "query documents should end at the 8 query tokens of the whole group, but got 4: pass the lengths of whole"),
        (lambda: Documents([4], [4], 4, 8), "key documents should end at the 8 key tokens of the whole group, but got 4"),
        (lambda: Documents([2, 4], [4]), "queries and keys should have as many documents, but got 2 and 1"),
        (lambda: packed_window(Documents([4], [4]), 2, 5), r"rows should lie in 0\.\.4, but got those from 2 to 5"),
        (lambda: packed_window(Documents([4], [4]), 0, 2, "banded"), "mask should be one of causal, full, but got 'banded'"),
        (lambda: packed_window(Documents([4], [4]), 0, 2, ratio=0), "the ratio should be at least 1, but got 0"),
        (lambda: packed_window(Documents([4], [4]), 0, 2, ratio=2, residuals=[2]), r"residuals should be in 0\.\.1, but got \[2\]"),
        (lambda: packed_window(Documents([4], [4]), 0, 2, ratio=2, residuals=[1, 1]), "an entry for each of 1 documents, but got shape"),
        (lambda: fixed_length_windows(6, 8, ZIGZAG, 0, 2), "the number of query rows should be divisible by 4"),
        (lambda: fixed_length_windows(8, 6, SequenceOrder("zigzag", "dealt"), 0, 2), "the number of keys should be divisible by 4"),
        (lambda: fixed_length_windows(8, 8, ZIGZAG, 0, 2, ratio=2, residual=2), r"the residual should be in 0\.\.1, but got 2"),
        (lambda: fixed_length_windows(8, 8, ZIGZAG, -1, 2), r"a rank should be in 0\.\.1, but got -1"),
    ],
)  # fmt: skip
def test_what_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_pieces_that_touch_are_one():
    pieces = Intervals(np.array([0, 3, 3, 7]), np.array([3, 3, 5, 8]), 6)
    assert repr(pieces) == "Intervals(0:5, 7:8)"
    assert pieces.index.tolist() == [0, 1, 2, 3, 4, 7]
    with pytest.raises(ValueError, match="read-only"):
        pieces.index[0] = 1
    assert Intervals.single(4, 4).index.tolist() == []
