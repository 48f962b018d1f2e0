# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Which keys a row sees, as sets of integers, by the definition of the mask and by lists of tokens that are dealt.

None of the formulas of the windows stands here. Sets are the bits of an integer.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from hyper_parallel.core.shard.context_parallel.documents import Documents
from hyper_parallel.core.shard.context_parallel.fixed_length import fixed_length_windows
from hyper_parallel.core.shard.context_parallel.sequence_orders import SequenceOrder
from hyper_parallel.core.shard.context_parallel.windows import document_windows, packed_window

HELD = {
    ("contiguous", 1): [[0]],
    ("contiguous", 2): [[0], [1]],
    ("contiguous", 3): [[0], [1], [2]],
    ("contiguous", 4): [[0], [1], [2], [3]],
    ("contiguous", 8): [[0], [1], [2], [3], [4], [5], [6], [7]],
    ("head_tail", 1): [[0, 1]],
    ("head_tail", 2): [[0, 3], [2, 1]],
    ("head_tail", 3): [[0, 5], [2, 3], [4, 1]],
    ("head_tail", 4): [[0, 7], [2, 5], [4, 3], [6, 1]],
    ("head_tail", 8): [[0, 15], [2, 13], [4, 11], [6, 9], [8, 7], [10, 5], [12, 3], [14, 1]],
    ("zigzag", 1): [[0, 1]],
    ("zigzag", 2): [[0, 3], [1, 2]],
    ("zigzag", 3): [[0, 5], [1, 4], [2, 3]],
    ("zigzag", 4): [[0, 7], [1, 6], [2, 5], [3, 4]],
    ("zigzag", 8): [[0, 15], [1, 14], [2, 13], [3, 12], [4, 11], [5, 10], [6, 9], [7, 8]],
}
"""The natural chunks of every rank, written out."""


@dataclass(frozen=True)
class Code:
    """What is under test: the functions themselves, or those of a changed copy."""

    Documents: Any = Documents
    SequenceOrder: Any = SequenceOrder
    document_windows: Any = document_windows
    packed_window: Any = packed_window
    fixed_length_windows: Any = fixed_length_windows


@dataclass(frozen=True)
class Case:
    """Documents, by their lengths, and the mask on them."""

    queries: tuple[int, ...]
    keys: tuple[int, ...]
    mask: str = "causal"
    ratio: int = 1
    residuals: tuple[int, ...] | None = None


@lru_cache(maxsize=100_000)
def masked(query: int, key: int, mask: str, ratio: int, residual: int) -> tuple[int, ...]:
    """The keys that each row of a document sees, counted in the document.

    Its last row is its last token, and every key stands for `ratio` tokens, the last of which must have come.
    """
    last_token = key * ratio + residual - 1
    sets = []
    for row in range(query):
        token = last_token - (query - 1 - row)
        seen = [j for j in range(key) if mask == "full" or j * ratio + ratio - 1 <= token]
        sets.append(sum(1 << j for j in seen))
    return tuple(sets)


def visible(case: Case) -> list[int]:
    """The keys that each row sees in the whole call, all counted from the first document on."""
    sets, before = [], 0
    residuals = case.residuals or (0,) * len(case.keys)
    for query, key, residual in zip(case.queries, case.keys, residuals, strict=True):
        sets += [seen << before for seen in masked(query, key, case.mask, case.ratio, residual)]
        before += key
    return sets


def dealt(order: SequenceOrder, ranks: int, lengths: tuple[int, ...]) -> list[list[int]]:
    """The natural tokens that each rank holds."""
    if not order.per_document:
        lengths = (sum(lengths),)
    held: list[list[int]] = [[] for _ in range(ranks)]
    start = 0
    for length in lengths:
        tokens = list(range(start, start + length))
        chunks_of_rank = HELD[order.name, ranks]
        size = length // (ranks * len(chunks_of_rank[0]))
        for rank, chunks in enumerate(chunks_of_rank):
            for chunk in chunks:
                held[rank] += tokens[chunk * size : (chunk + 1) * size]
        start += length
    return held


def dealt_sequence(order: SequenceOrder, ranks: int, lengths: tuple[int, ...]) -> list[int]:
    """What the ranks hold, in their order."""
    return [token for held in dealt(order, ranks, lengths) for token in held]


def seen_through(window: Any, case: Case, rows: list[int], keys: list[int]) -> dict[int, int]:
    """The natural keys that each natural row of a window sees by the mask on the window, which is looked at as well.

    `rows` and `keys` are the natural numbers of what the rank holds.
    """
    of_rows, of_keys = [rows[at] for at in window.rows.index], [keys[at] for at in window.keys.index]
    for index, intervals in ((of_rows, window.rows), (of_keys, window.keys)):
        assert len(set(index)) == len(index) == intervals.length
        if intervals.span is not None:
            assert list(range(*intervals.span)) == list(intervals.index)
    assert window.has_rows == bool(of_rows)
    assert window.has_keys == bool(of_keys)
    query_ends, key_ends = list(window.query_ends), list(window.key_ends)
    assert query_ends[-1] == len(of_rows)
    assert key_ends[-1] == len(of_keys)
    assert len(query_ends) == len(key_ends) == len(case.queries) + window.has_added_document
    residuals = [0] * len(key_ends) if window.residuals is None else list(window.residuals)
    assert len(residuals) == len(key_ends)
    assert (window.residuals is None) == (case.residuals is None)
    if of_rows and sum(case.keys):
        assert of_keys
    result, row, key = {}, 0, 0
    for query_end, key_end, residual in zip(query_ends, key_ends, residuals, strict=True):
        assert query_end >= row
        assert key_end >= key
        for seen in masked(query_end - row, key_end - key, case.mask, case.ratio, int(residual)):
            result[of_rows[row]] = sum(1 << natural for j, natural in enumerate(of_keys[key:key_end]) if seen >> j & 1)
            row += 1
        key = key_end
    return result


def ends_of(lengths: tuple[int, ...]) -> list[int]:
    ends, last = [], 0
    for length in lengths:
        last += length
        ends.append(last)
    return ends


def windows_looked_at(code: Code, case: Case, order: SequenceOrder, ranks: int) -> int:
    """Compare the windows of all ranks with the whole call; return how many there are."""
    query_tokens, key_tokens = sum(case.queries), sum(case.keys)
    documents = code.Documents(ends_of(case.queries), ends_of(case.keys), query_tokens, key_tokens)
    options = {"ratio": case.ratio, "residuals": case.residuals}
    expected = visible(case)
    key_lies = list(range(key_tokens))
    if order.keys == "dealt":
        key_lies = dealt_sequence(order, ranks, case.keys)
    its_order = code.SequenceOrder(order.name, order.keys, order.per_document)
    count = 0
    for rank, rows in enumerate(dealt(order, ranks, case.queries)):
        found: dict[int, int] = {}
        windows = code.document_windows(documents, its_order, rank, ranks, case.mask, **options)
        assert len(windows) == len(HELD[order.name, ranks][rank])
        for window in windows:
            here = seen_through(window, case, rows, key_lies)
            assert not here.keys() & found.keys()
            found |= here
            if order.keys == "natural" and not order.per_document:
                assert window.keys.span is not None, "a copy"
                assert window.keys.span[0] == 0
        assert found == {row: expected[row] for row in rows}, (case, order, ranks, rank)
        count += len(windows)
    return count


def uneven_windows_looked_at(code: Code, case: Case, ranks: int) -> int:
    """The same for packed rows in pieces that differ by a row."""
    rows = list(range(sum(case.queries)))
    documents = code.Documents(ends_of(case.queries), ends_of(case.keys))
    expected = visible(case)
    bounds = [len(rows) * rank // ranks for rank in range(ranks + 1)]
    for start, stop in itertools.pairwise(bounds):
        options = {"ratio": case.ratio, "residuals": case.residuals}
        window = code.packed_window(documents, start, stop, case.mask, **options)
        found = seen_through(window, case, rows[start:stop], list(range(sum(case.keys))))
        assert found == dict(zip(rows[start:stop], expected[start:stop], strict=True)), (case, start, stop)
        assert window.keys.span is not None, "a copy"
    return ranks


def fixed_length_looked_at(code: Code, case: Case, order: SequenceOrder, ranks: int) -> int:
    """The same for one document per batch row; a case has one document."""
    (query,), (key,) = case.queries, case.keys
    its_order = code.SequenceOrder(order.name, order.keys, order.per_document)
    residual = case.residuals[0] if case.residuals else None
    expected = visible(case)
    keys = list(range(key))
    if order.keys == "dealt":
        keys = dealt_sequence(order, ranks, case.keys)
    count = 0
    for rank, rows in enumerate(dealt(order, ranks, case.queries)):
        found = {}
        for window in code.fixed_length_windows(
            query, key, its_order, rank, ranks, case.mask, ratio=case.ratio, residual=residual
        ):
            assert window.query_ends is None
            assert window.key_ends is None
            of_rows, of_keys = [rows[at] for at in window.rows.index], [keys[at] for at in window.keys.index]
            assert (window.rows.length, window.keys.length) == (len(of_rows), len(of_keys))
            assert (window.has_rows, window.has_keys) == (bool(of_rows), bool(of_keys))
            assert not set(of_rows) & found.keys()
            sets = masked(len(of_rows), len(of_keys), case.mask, case.ratio, window.residuals or 0)
            for row, seen in zip(of_rows, sets, strict=True):
                found[row] = sum(1 << natural for j, natural in enumerate(of_keys) if seen >> j & 1)
            count += 1
        assert found == {row: expected[row] for row in rows}, (case, order, ranks, rank)
    return count
