# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Windows by exhaustion: every row sees through its window the keys that it sees in the whole call.

The counts are asserted, so that no case gets lost.
"""

from __future__ import annotations

import pytest
from window_cases import (
    CONTIGUOUS,
    RANKS,
    all_key_lengths,
    balanced_orders,
    case_of,
    cuts,
    cuts_up_to,
    fits,
    quick_key_lengths,
)
from window_oracle import Case, Code, fixed_length_looked_at, uneven_windows_looked_at, windows_looked_at

CODE = Code()


def contiguous(cases, ranks=RANKS):
    """Equal pieces as a rank has them, others as rows from and to."""
    return sum(
        windows_looked_at(CODE, case, CONTIGUOUS, count)
        if fits(CONTIGUOUS, count, case)
        else uneven_windows_looked_at(CODE, case, count)
        for case in cases
        for count in ranks
    )


@pytest.mark.parametrize(("documents", "expected"), [(1, 400), (2, 4400), (3, 17600), (4, 57200)])
def test_contiguous_rows(documents, expected):
    cases = (
        case_of(queries, longer)
        for tokens in range(10)
        for queries in cuts(tokens, documents)
        for longer in quick_key_lengths(documents)
    )
    assert contiguous(cases) == expected


@pytest.mark.slow
@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize(("documents", "expected"), [(1, 40), (2, 880), (3, 14080), (4, 183040)])
def test_contiguous_rows_with_keys_of_every_length(documents, expected, ranks):
    cases = (
        case_of(queries, longer)
        for tokens in range(10)
        for queries in cuts(tokens, documents)
        for longer in all_key_lengths(documents)
    )
    assert contiguous(cases, (ranks,)) == expected * ranks


@pytest.mark.parametrize("ratio", [2, 4])
def test_contiguous_rows_of_compressed_keys(ratio):
    cases = (
        case_of(queries, longer, ratio=ratio)
        for tokens in range(8)
        for queries in cuts_up_to(tokens, 3)
        for longer in quick_key_lengths(len(queries))
    )
    assert contiguous(cases) == 12800


def test_contiguous_rows_without_a_mask():
    cases = (
        case_of(queries, longer, "full", ratio)
        for ratio in (1, 2)
        for tokens in range(8)
        for queries in cuts_up_to(tokens, 3)
        for longer in quick_key_lengths(len(queries))
    )
    assert contiguous(cases) == 25600


def balanced(cases, orders):
    return sum(
        windows_looked_at(CODE, case, order, ranks)
        for case in cases
        for order in orders
        for ranks in RANKS
        if fits(order, ranks, case)
    )


def packed_cases(tokens, documents, key_lengths, **options):
    return (
        case_of(queries, longer, **options) for queries in cuts(tokens, documents) for longer in key_lengths(documents)
    )


BALANCED_COUNTS = [
    *(("natural", 1, 640), ("natural", 2, 10944), ("natural", 3, 73312), ("natural", 4, 387040)),
    *(("dealt", 1, 236), ("dealt", 2, 2868), ("dealt", 3, 23408), ("dealt", 4, 159548)),
]


def as_long(documents):
    return [(0,) * documents]


@pytest.mark.parametrize("keys", ["natural", "dealt"])
@pytest.mark.parametrize(
    ("documents", "expected"), [(1, 160), (2, 1368), (3, 9164), pytest.param(4, 48380, marks=pytest.mark.slow)]
)
def test_balanced_packed_rows(documents, expected, keys):
    cases = (case for tokens in range(17) for case in packed_cases(tokens, documents, as_long))
    assert balanced(cases, balanced_orders(False, keys)) == expected


@pytest.mark.slow
@pytest.mark.parametrize(("keys", "documents", "expected"), BALANCED_COUNTS)
def test_balanced_packed_rows_with_keys_of_other_lengths(keys, documents, expected):
    cases = (case for tokens in range(17) for case in packed_cases(tokens, documents, quick_key_lengths))
    assert balanced(cases, balanced_orders(False, keys)) == expected


@pytest.mark.parametrize(
    ("mask", "ratio", "of_dealt"), [("causal", 2, 3880), ("causal", 4, 4456), ("full", 1, 5948), ("full", 2, 3880)]
)
def test_balanced_packed_rows_of_other_masks(mask, ratio, of_dealt):
    def cases():
        for tokens in range(9):
            for documents in (1, 2, 3):
                yield from packed_cases(tokens, documents, quick_key_lengths, mask=mask, ratio=ratio)

    assert balanced(cases(), balanced_orders(False, "natural")) == 19824
    assert balanced(cases(), balanced_orders(False, "dealt")) == of_dealt


def per_document_cases(order, ranks, documents, mask, ratio):
    """Queries of up to 16 tokens where every length can be dealt; keys, too, if they are."""
    chunks = 2 * ranks
    step = chunks if order.keys == "dealt" else 1
    for queries in (cut for parts in range(16 // chunks + 1) for cut in cuts(parts, documents)):
        for longer in quick_key_lengths(documents):
            keys = [max(0, chunks * query // ratio + step * more) for query, more in zip(queries, longer, strict=True)]
            residuals = tuple((3 * at + 1) % ratio for at in range(documents)) if ratio > 1 else None
            lengths = tuple(chunks * query for query in queries)
            yield Case(lengths, tuple(key - key % step for key in keys), mask, ratio, residuals)


def per_document(documents, mask, ratio):
    return sum(
        windows_looked_at(CODE, case, order, ranks)
        for keys in ("natural", "dealt")
        for order in balanced_orders(True, keys)
        for ranks in RANKS
        for case in per_document_cases(order, ranks, documents, mask, ratio)
    )


MASKS = [("causal", 1), ("causal", 2), ("causal", 4), ("full", 1), ("full", 4)]


@pytest.mark.parametrize(("mask", "ratio"), MASKS)
@pytest.mark.parametrize(("documents", "expected"), [(1, 1280), (2, 7488)])
def test_rows_dealt_per_document(documents, expected, mask, ratio):
    assert per_document(documents, mask, ratio) == expected


@pytest.mark.slow
@pytest.mark.parametrize(("mask", "ratio"), MASKS)
@pytest.mark.parametrize(("documents", "expected"), [(3, 19520), (4, 47360)])
def test_more_rows_dealt_per_document(documents, expected, mask, ratio):
    assert per_document(documents, mask, ratio) == expected


FIXED_LENGTHS = [(s1, s2) for s2 in range(13) for s1 in range(s2 + 1)] + [
    (s1, s2) for s1 in range(1, 7) for s2 in range(s1)
]


@pytest.mark.parametrize(("keys", "expected"), [("natural", 2718), ("dealt", 1206)])
@pytest.mark.parametrize(("mask", "ratio"), MASKS)
def test_fixed_length(keys, expected, mask, ratio):
    count = 0
    orders = [CONTIGUOUS, *balanced_orders(False, keys), *balanced_orders(True, keys)]
    for (s1, s2), residual in ((lengths, residual) for lengths in FIXED_LENGTHS for residual in range(ratio)):
        case = Case((s1,), (s2,), mask, ratio, (residual,) if ratio > 1 else None)
        for order in orders:
            for ranks in RANKS:
                if fits(order, ranks, case):
                    count += fixed_length_looked_at(CODE, case, order, ranks)
    assert count == expected * ratio
