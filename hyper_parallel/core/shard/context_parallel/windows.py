# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Which keys the query rows of one block may see, and the lengths that make a kernel's own mask right on them.

Document i has q_i query and k_i key rows. A causal mask is aligned to the bottom right: row t of the document sees the
keys j <= k_i - q_i + t. A block holds the rows `[a_i, b_i)` of every document. What a kernel is given of a document are
these q' = b_i - a_i rows and the first k' keys, its window; it lets its row u = t - a_i see the keys j <= k' - q' + u.
Both are the same for every row if

    k' - (b_i - a_i) + (t - a_i) = k_i - q_i + t,   so   k' = k_i - q_i + b_i

The last row of the block, t = b_i - 1, sees the first k_i - q_i + b_i keys: the window holds these and no more. If
that is negative, no row of the block sees a key, nor does it in a window of none: k' = max(0, k_i - q_i + b_i). It is
at most k_i, since b_i <= q_i. A document without rows in the block needs no keys. Without a mask every row sees all
keys: k'_i = k_i.

**Cumulative lengths** are Q' = cumsum(b - a) and K' = cumsum(k'); K' ends at the number of keys that were cut, as
kernels demand.

**Packed rows from s to e**, of whichever documents: a document that ends in the block or before it (Cq[i] <= e, with
b_i = q_i) has k' = k_i, all its keys. One is cut: j, the first with Cq[j] >= e. Its window ends at
`Ck[j] - (Cq[j] - e)`, or where it begins, `Ck[j-1]`, if that is more. Documents behind it have no rows. The windows are
adjacent, so they are the first `kend` keys, one slice without a copy, with K' = min(Ck, kend). Documents before the
block keep their keys in it, which no row sees.

**Compressed keys**: a key stands for r tokens, and the last res_i tokens of a document have none yet (0 <= res_i < r).
Row t sees a key once all of its tokens may be seen: with k_i*r + res_i key tokens, the keys
`j < (k_i*r + res_i - q_i + t + 1) // r`. For the window to say the same, its tokens must be
`M_i = k_i*r + res_i - q_i + b_i`: k' = max(0, M_i) // r keys, residual max(0, M_i) % r. r = 1 without a residual is the
case above.

**No keys at all** although there are rows: packed, one more document is added, without a row and with the first key, so
that no kernel sees an empty tensor (unless there is no key in the whole group, where the unsharded call sees one, too).

**Fixed length** is one document per batch row, all alike, S1 query and S2 key rows: the first `max(0, S2 - S1 + e)`
keys of each for the rows from s to e, and no lengths. Here nothing can be added: a kernel that has one key shows it to
the last row. So if S1 > S2, a block that ends at row S1 - S2 or before has a window of no keys (`has_keys` is False).
Its rows see nothing, in the whole call too, and what a kernel writes for such rows is its own affair. Whoever runs the
block passes keys of extent 0 if the kernel takes that, and else refuses the call: packed documents always work.

**Dealt keys** are taken at the places where the window's keys lie. They come in natural order, and what is computed for
them is added at the same places.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hyper_parallel.core.shard.context_parallel.documents import Documents
from hyper_parallel.core.shard.context_parallel.intervals import Intervals
from hyper_parallel.core.shard.context_parallel.sequence_orders import (
    NATURAL,
    IntArray,
    SequenceOrder,
    check_document_lengths,
    check_extent,
    check_rank,
    chunks_of_rank,
)

MASKS = ("causal", "full")


@dataclass(frozen=True)
class Window:
    """What one block of rows is run on. To be skipped if it has no rows."""

    rows: Intervals
    """Where the rows lie in the query dim that the rank holds."""
    keys: Intervals
    """Where the keys lie in the key dim, whole on this rank: natural or dealt."""
    query_ends: IntArray | None = None
    """Q', cumulative without a leading zero; None at fixed length."""
    key_ends: IntArray | None = None
    """K', likewise."""
    residuals: IntArray | int | None = None
    """The rewritten residual of every document (at fixed length one for all); None if none was given."""
    has_added_document: bool = False
    """Whether the last document is one without a row, with one key that nobody sees."""

    @property
    def has_rows(self) -> bool:
        """Whether there is anything to compute."""
        return self.rows.length > 0

    @property
    def has_keys(self) -> bool:
        """Whether there are keys to give to a kernel; see `Fixed length` above for what to do without."""
        return self.keys.length > 0


def document_windows(
    documents: Documents,
    order: SequenceOrder,
    rank: int,
    ranks: int,
    mask: str = "causal",
    *,
    ratio: int = 1,
    residuals: IntArray | None = None,
) -> tuple[Window, ...]:
    """Return a window for each block of a rank, in the order in which the rank holds the blocks.

    Args:
        documents: of this group, whole.
        rank: in the group, 0 .. ranks-1.
        mask: `causal` or `full`.
        ratio: tokens per key.
        residuals: `[documents]`, the tokens behind the last key of every document.

    Raises:
        ValueError: rows, or keys if they were dealt, that cannot be cut into equal chunks; a mask, ratio or residual
            that is none.
    """
    check_rank(rank, ranks)
    if order.per_document:
        return _windows_per_document(documents, order, rank, ranks, mask, ratio, residuals)
    check_extent(order, ranks, documents.query_tokens, "query rows")
    chunks = chunks_of_rank(order, rank, ranks)
    length = documents.query_tokens // (len(chunks) * ranks)
    return tuple(
        packed_window(
            documents,
            chunk * length,
            (chunk + 1) * length,
            mask,
            ratio=ratio,
            residuals=residuals,
            held_at=at * length,
            order=order,
            ranks=ranks,
        )
        for at, chunk in enumerate(chunks)
    )


def packed_window(
    documents: Documents,
    start: int,
    stop: int,
    mask: str = "causal",
    *,
    ratio: int = 1,
    residuals: IntArray | None = None,
    held_at: int = 0,
    order: SequenceOrder = NATURAL,
    ranks: int = 1,
) -> Window:
    """Return the window of the packed natural rows from `start` to `stop`.

    Args:
        held_at: where the rows begin in what the rank holds.
        order: how keys were dealt to the `ranks`, if they were; packed.

    Raises:
        ValueError: rows that do not exist, and as for `document_windows`.
    """
    if not 0 <= start <= stop <= documents.query_tokens:
        raise ValueError(
            f"For a block, rows should lie in 0..{documents.query_tokens}, but got those from {start} to {stop}."
        )
    residuals = _checked(mask, ratio, residuals, documents)
    key_ends = documents.key_ends
    if mask == "causal":
        key_ends, residuals = _packed_key_ends(documents, stop, ratio, residuals)
    count = int(key_ends[-1])
    if order.has_dealt_keys:
        keys = documents.dealt_keys(order, ranks).prefixes(np.array([count]), count)
    else:
        keys = Intervals.single(0, count)
    query_ends = np.minimum(np.maximum(documents.query_ends, start), stop) - start
    rows = Intervals.single(held_at, held_at + stop - start)
    return _with_a_key(documents, Window(rows, keys, query_ends, key_ends, residuals))


def _packed_key_ends(
    documents: Documents, stop: int, ratio: int, residuals: IntArray | None
) -> tuple[IntArray, IntArray | None]:
    """K' and the residuals for packed rows that end at `stop`."""
    key_ends = documents.key_ends
    last = int(documents.query_ends.searchsorted(stop))  # the first document that ends there or later
    before = int(key_ends[last - 1]) if last else 0
    rest = 0 if residuals is None else int(residuals[last])
    tokens = (int(key_ends[last]) - before) * ratio + rest - (int(documents.query_ends[last]) - stop)
    count, rest = divmod(max(0, tokens), ratio)
    if residuals is not None:
        residuals = residuals.copy()
        residuals[last] = rest
        residuals[last + 1 :] = 0
    return np.minimum(key_ends, before + count), residuals


def _windows_per_document(
    documents: Documents,
    order: SequenceOrder,
    rank: int,
    ranks: int,
    mask: str,
    ratio: int,
    residuals: IntArray | None,
) -> tuple[Window, ...]:
    """The windows of the blocks that are a chunk of every document. Arrays are `[blocks, documents]`."""
    residuals = _checked(mask, ratio, residuals, documents)
    chunks = chunks_of_rank(order, rank, ranks)
    count = len(chunks) * ranks
    query_ends = documents.query_ends // count
    if np.count_nonzero(query_ends * count - documents.query_ends):  # as soon as one length is not divisible
        check_document_lengths(order, ranks, documents.query_lengths, "query rows")
    rows = int(query_ends[-1])
    chunk_lengths = query_ends.copy()
    chunk_lengths[1:] -= query_ends[:-1]
    if mask == "causal":
        kept, rests = _kept_keys(documents, chunk_lengths, _column(chunks), ratio, residuals)
    else:
        kept = np.broadcast_to(documents.key_lengths, (len(chunks), len(query_ends)))
        rests = None if residuals is None else np.broadcast_to(residuals, kept.shape)
    key_ends = kept.cumsum(axis=1)
    # A rank holds q_i/N rows of every document, one document after the other.
    held_at = (query_ends - chunk_lengths) * len(chunks)
    windows = []
    for at in range(len(chunks)):
        stops = held_at + chunk_lengths
        window = Window(
            Intervals(held_at, stops, rows),
            _key_places(documents, order, ranks, kept[at], int(key_ends[at, -1])),
            query_ends,
            key_ends[at],
            None if rests is None else rests[at],
        )
        windows.append(_with_a_key(documents, window))
        held_at = stops
    return tuple(windows)


def _kept_keys(
    documents: Documents, chunk_lengths: IntArray, chunks: IntArray, ratio: int, residuals: IntArray | None
) -> tuple[IntArray, IntArray | None]:
    """k' and the residual of every document for each of the `chunks`, which are `[blocks, 1]`."""
    tokens = documents.key_lengths * ratio if ratio > 1 else documents.key_lengths
    tokens = tokens - documents.query_lengths
    if residuals is not None:
        tokens += residuals
    tokens = np.maximum(tokens + chunk_lengths * (chunks + 1), 0)
    if np.count_nonzero(chunk_lengths) < len(chunk_lengths):
        tokens[:, chunk_lengths == 0] = 0  # no rows
    if ratio == 1:
        return tokens, None if residuals is None else np.zeros_like(tokens)
    return tokens // ratio, None if residuals is None else tokens % ratio


@lru_cache(maxsize=256)
def _column(chunks: tuple[int, ...]) -> IntArray:
    return np.array(chunks)[:, None]


def _key_places(documents: Documents, order: SequenceOrder, ranks: int, kept: IntArray, count: int) -> Intervals:
    """Where the first `kept` keys of every document lie, `count` in all."""
    if order.has_dealt_keys:
        return documents.dealt_keys(order, ranks).prefixes(kept, count)
    starts = documents.key_ends - documents.key_lengths
    return Intervals(starts, starts + kept, count)


def _with_a_key(documents: Documents, window: Window) -> Window:
    """The window, with a document of one key added if it has rows but no keys."""
    if window.keys.length or not window.rows.length or not documents.key_tokens:
        return window
    query_ends, key_ends, residuals = window.query_ends, window.key_ends, window.residuals
    assert query_ends is not None
    assert key_ends is not None
    return Window(
        window.rows,
        Intervals.single(0, 1),  # natural token 0 lies at place 0 in every order
        np.append(query_ends, query_ends[-1]),
        np.append(key_ends, 1),
        None if residuals is None else np.append(residuals, 0),
        has_added_document=True,
    )


def _checked(mask: str, ratio: int, residuals: IntArray | None, documents: Documents) -> IntArray | None:
    check_mask(mask, ratio)
    if residuals is None:
        return None
    residuals = np.asarray(residuals, np.int64)
    if residuals.shape != documents.key_ends.shape:
        raise ValueError(
            f"For compressed keys, residuals should have an entry for each of {len(documents.key_ends)} documents, but "
            f"got shape {residuals.shape}."
        )
    if np.count_nonzero((residuals < 0) | (residuals >= ratio)):
        raise ValueError(f"For a ratio of {ratio}, residuals should be in 0..{ratio - 1}, but got {residuals}.")
    return residuals


def check_mask(mask: str, ratio: int) -> None:
    """Raise ValueError for a mask or a ratio that is none."""
    if mask not in MASKS:
        raise ValueError(f"For context parallelism, mask should be one of {', '.join(MASKS)}, but got {mask!r}.")
    if ratio < 1:
        raise ValueError(f"For compressed keys, the ratio should be at least 1, but got {ratio}.")
