# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""How sequences are dealt, against lists that are cut and put together; what is refused."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from window_cases import RANKS, cuts_up_to
from window_oracle import HELD, dealt_sequence, ends_of

from hyper_parallel.core.shard.context_parallel.documents import Documents
from hyper_parallel.core.shard.context_parallel.sequence_orders import (
    NATURAL,
    ORDERS,
    SequenceOrder,
    chunk_places,
    chunks_of_rank,
    dealt_positions,
    natural_tokens,
)
from hyper_parallel.core.shard.context_parallel.windows import document_windows


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("ranks", RANKS)
def test_the_chunks_of_a_rank(name, ranks):
    order = SequenceOrder(name)
    assert [list(chunks_of_rank(order, rank, ranks)) for rank in range(ranks)] == HELD[name, ranks]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8, 64])
def test_the_places_of_chunks_in_closed_form(ranks):
    chunks = range(2 * ranks)
    head_tail = [c if c % 2 == 0 else 2 * ranks - c for c in chunks]
    zigzag = [2 * c if c < ranks else 2 * (2 * ranks - 1 - c) + 1 for c in chunks]
    assert chunk_places(SequenceOrder("head_tail"), ranks).tolist() == head_tail
    assert chunk_places(SequenceOrder("zigzag"), ranks).tolist() == zigzag
    assert chunk_places(NATURAL, ranks).tolist() == list(range(ranks))


@pytest.mark.parametrize("name", ORDERS)
def test_packed_tokens(name):
    order = SequenceOrder(name)
    for ranks in RANKS:
        chunks = ranks * order.chunks_per_rank
        for tokens in range(0, 4 * chunks + 1, chunks):
            lies = dealt_sequence(order, ranks, (tokens,))
            assert natural_tokens(order, ranks, tokens).tolist() == lies
            assert [lies[at] for at in dealt_positions(order, ranks, tokens)] == list(range(tokens))


@pytest.mark.parametrize("name", ["head_tail", "zigzag"])
def test_tokens_dealt_per_document(name):
    order, count = SequenceOrder(name, per_document=True), 0
    for ranks in RANKS:
        for parts in range(6):
            for cut in cuts_up_to(parts):
                lengths = tuple(2 * ranks * part for part in cut)
                lies = dealt_sequence(order, ranks, lengths)
                ends = ends_of(lengths)
                assert natural_tokens(order, ranks, sum(lengths), ends).tolist() == lies
                assert natural_tokens(order, ranks, sum(lengths), [0, *ends]).tolist() == lies
                assert [lies[at] for at in dealt_positions(order, ranks, sum(lengths), ends)] == list(range(len(lies)))
                count += 1
    assert count == 4 * (6 + 21 + 56 + 126)


def test_an_order_is_a_value():
    order = SequenceOrder("zigzag", "dealt", True)
    assert order == pickle.loads(pickle.dumps(order))
    assert hash(order) == hash(SequenceOrder("zigzag", "dealt", True))
    assert (
        len({order, SequenceOrder("zigzag"), SequenceOrder("zigzag", "dealt"), SequenceOrder("head_tail"), NATURAL})
        == 5
    )
    with pytest.raises(AttributeError):
        order.name = "contiguous"


ZIGZAG, DEALT = SequenceOrder("zigzag"), SequenceOrder("zigzag", "dealt")
PER_DOCUMENT, DEALT_PER_DOCUMENT = (SequenceOrder("head_tail", keys, True) for keys in ("natural", "dealt"))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: SequenceOrder("zig-zag"), ValueError, "name should be one of contiguous, head_tail, zigzag, but got 'zig-zag'"),
        (lambda: SequenceOrder("zigzag", "sorted"), ValueError, "keys should be one of natural, dealt, but got 'sorted'"),
        (lambda: SequenceOrder("zigzag", per_document=1), TypeError, "per_document should be a bool, but got 1"),
        (lambda: SequenceOrder(per_document=True), ValueError, "the order should be head_tail or zigzag, but got contiguous"),
        (lambda: natural_tokens(ZIGZAG, 4, 20), ValueError, r"the number of tokens should be divisible by 8 \(2 x 4 chunks\), but got 20"),
        (lambda: natural_tokens(NATURAL, 4, 10), ValueError, r"the number of tokens should be divisible by 4 \(4 ranks\), but got 10"),
        (lambda: natural_tokens(PER_DOCUMENT, 2, 8, [2, 8]), ValueError, r"divisible by 4 \(2 x 2 chunks\), but document 0 has 2"),
        (lambda: natural_tokens(PER_DOCUMENT, 2, 8, [4]), ValueError, "should end at the 8 tokens, but got 4"),
        (lambda: natural_tokens(PER_DOCUMENT, 2, 8, [8, 4]), ValueError, "should not decrease from 0 on, but got 4 after 8 at index 1"),
        (lambda: natural_tokens(PER_DOCUMENT, 2, 8, [-1, 8]), ValueError, "should not decrease from 0 on, but got -1 after 0 at index 0"),
        (lambda: natural_tokens(PER_DOCUMENT, 2, 8), ValueError, "the document ends are needed, but got none"),
        (lambda: natural_tokens(ZIGZAG, 2, 8, [8]), ValueError, "documents are not looked at, but got their ends"),
        (lambda: natural_tokens(PER_DOCUMENT, 2, 8, [8.0]), TypeError, "document ends should be integers"),
        (lambda: natural_tokens(PER_DOCUMENT, 2, 8, []), ValueError, "should be a list of at least one integer"),
        (lambda: document_windows(Documents([8], [8]), ZIGZAG, 2, 2), ValueError, r"a rank should be in 0\.\.1, but got 2 of 2"),
        (lambda: document_windows(Documents([8], [6]), DEALT, 0, 2), ValueError, r"the number of keys should be divisible by 4 .* but got 6"),
        (lambda: document_windows(Documents([6], [8]), DEALT, 0, 2), ValueError, r"the number of query rows should be divisible by 4 .* but got 6"),
        (lambda: document_windows(Documents([4, 10], [4, 8]), PER_DOCUMENT, 0, 2), ValueError, "a number of query rows divisible by 4 .* document 1 has 6"),
        (lambda: document_windows(Documents([4, 8], [3, 8]), DEALT_PER_DOCUMENT, 0, 2), ValueError, "a number of keys divisible by 4 .* document 0 has 3"),
    ],
)  # fmt: skip
def test_what_cannot_be_dealt_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_large_extents_keep_64_bits():
    documents = Documents([2**34], [2**35])
    early, late = document_windows(documents, ZIGZAG, 0, 4)
    assert (early.rows.span, late.rows.span) == ((0, 2**31), (2**31, 2**32))
    assert (early.keys.span, late.keys.span) == ((0, 2**34 + 2**31), (0, 2**35))
    assert np.int64 == late.key_ends.dtype == late.query_ends.dtype
