# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Windows of blocks where every batch row is one document; derived in `windows`."""

from __future__ import annotations

import numpy as np

from hyper_parallel.core.shard.context_parallel.documents import packed_segments
from hyper_parallel.core.shard.context_parallel.intervals import Intervals
from hyper_parallel.core.shard.context_parallel.sequence_orders import (
    SequenceOrder,
    check_extent,
    check_rank,
    chunks_of_rank,
)
from hyper_parallel.core.shard.context_parallel.windows import Window, check_mask


def fixed_length_windows(
    query_length: int,
    key_length: int,
    order: SequenceOrder,
    rank: int,
    ranks: int,
    mask: str = "causal",
    *,
    ratio: int = 1,
    residual: int | None = None,
) -> tuple[Window, ...]:
    """Return a window for each block of a rank, where every batch row is one document (dealt as such, in any order).

    Args:
        query_length: S1, of the whole group.
        key_length: S2.
        residual: of all batch rows.

    Raises:
        ValueError: as `document_windows` does.
    """
    check_rank(rank, ranks)
    check_mask(mask, ratio)
    if residual is not None and not 0 <= residual < ratio:
        raise ValueError(f"For a ratio of {ratio}, the residual should be in 0..{ratio - 1}, but got {residual}.")
    chunks = chunks_of_rank(order, rank, ranks)
    check_extent(order, ranks, query_length, "query rows")
    length = query_length // (len(chunks) * ranks)
    windows = []
    for at, chunk in enumerate(chunks):
        count, rest = key_length, residual
        if mask == "causal":
            tokens = key_length * ratio + (residual or 0) - query_length + (chunk + 1) * length
            count, rest = divmod(max(0, tokens), ratio)
        if order.has_dealt_keys:
            keys = packed_segments(order, ranks, key_length).prefixes(np.array([count]), count)
        else:
            keys = Intervals.single(0, count)
        rows = Intervals.single(at * length, (at + 1) * length)
        windows.append(Window(rows, keys, residuals=None if residual is None else rest))
    return tuple(windows)
