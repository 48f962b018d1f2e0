# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The order of dealt tokens, as lists: what each rank is given, written down chunk by chunk.

The runtime computes places; this lists tokens. They share no line, so that one can be judged by the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from .cases import Order


def held_chunks(order: Order, ranks: int) -> list[int]:
    """The natural chunks in the order in which the ranks hold them, one rank after another."""
    last = 2 * ranks - 1
    if order.name == "head_tail":
        return [chunk for rank in range(ranks) for chunk in (2 * rank, last - 2 * rank)]
    if order.name == "zigzag":
        return [chunk for rank in range(ranks) for chunk in (rank, last - rank)]
    return list(range(ranks))


def dealt_tokens(order: Order, ranks: int, documents: Sequence[int]) -> list[int]:
    """The natural tokens of one group in the order in which its ranks hold them."""
    chunks = held_chunks(order, ranks)
    if not order.per_document:
        total = sum(documents)
        length = total // len(chunks)
        return [chunk * length + offset for chunk in chunks for offset in range(length)]
    per_rank = len(chunks) // ranks
    found: list[int] = []
    for rank in range(ranks):
        start = 0
        for tokens in documents:
            length = tokens // len(chunks)
            for chunk in chunks[rank * per_rank : (rank + 1) * per_rank]:
                found += range(start + chunk * length, start + (chunk + 1) * length)
            start += tokens
    return found
