# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Packed documents: their query rows, and their keys, natural or dealt."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hyper_parallel.core.shard.context_parallel.intervals import Intervals
from hyper_parallel.core.shard.context_parallel.sequence_orders import (
    IntArray,
    SequenceOrder,
    check_document_lengths,
    check_extent,
    ends_and_lengths,
    segment_starts,
)


class Documents:
    """The documents of one group: cumulative ends, without a leading zero, and lengths of query rows and of keys.

    Raises:
        ValueError: ends that decrease, that do not end at the given number of tokens, or differ in number.
        TypeError: ends that are not integers.
    """

    def __init__(
        self,
        query_ends: Sequence[int] | npt.NDArray[np.integer[Any]],
        key_ends: Sequence[int] | npt.NDArray[np.integer[Any]],
        query_tokens: int | None = None,
        key_tokens: int | None = None,
    ) -> None:
        self.query_ends, self.query_lengths = ends_and_lengths(query_ends, "the ends of the query documents")
        if key_ends is query_ends:
            self.key_ends, self.key_lengths = self.query_ends, self.query_lengths
        else:
            self.key_ends, self.key_lengths = ends_and_lengths(key_ends, "the ends of the key documents")
        if len(self.query_ends) != len(self.key_ends):
            raise ValueError(
                "For context parallelism, queries and keys should have as many documents, but got "
                f"{len(self.query_ends)} and {len(self.key_ends)} document ends."
            )
        self._dealt_keys: dict[tuple[SequenceOrder, int], DealtSegments] = {}
        self.query_tokens = int(self.query_ends[-1])
        self.key_tokens = int(self.key_ends[-1])
        for what, expected, last in (("query", query_tokens, self.query_tokens), ("key", key_tokens, self.key_tokens)):
            if expected is not None and last != expected:
                raise ValueError(
                    f"For context parallelism, the ends of the {what} documents should end at the {expected} {what} "
                    f"tokens of the whole group, but got {last}: pass the lengths of whole documents, not cut per rank."
                )

    def dealt_keys(self, order: SequenceOrder, ranks: int) -> DealtSegments:
        """Return where the chunks of the keys lie; ValueError if these cannot be cut into equal chunks."""
        found = self._dealt_keys.get((order, ranks))
        if found is None:
            if order.per_document:
                check_document_lengths(order, ranks, self.key_lengths, "keys")
                found = DealtSegments(order, ranks, self.key_ends, self.key_lengths)
            else:
                found = packed_segments(order, ranks, self.key_tokens)
            self._dealt_keys[order, ranks] = found
        return found


class DealtSegments:
    """Where the chunks of what was dealt document by document lie, or in packed dealing those of one sequence.

    Args:
        ends: cumulative, of lengths that can be cut into equal chunks.
        lengths: the differences of the ends.
    """

    def __init__(self, order: SequenceOrder, ranks: int, ends: IntArray, lengths: IntArray) -> None:
        self._starts = segment_starts(order, ranks, ends, lengths)
        self._chunk = (lengths // self._starts.shape[1])[:, None]
        self._before = self._chunk * np.arange(self._starts.shape[1])

    def prefixes(self, kept: IntArray, length: int) -> Intervals:
        """Return where the first `kept` tokens of every document lie, `length` in all."""
        # What remains of a prefix when the chunks in front of one are full.
        taken = np.minimum(np.maximum(kept[:, None] - self._before, 0), self._chunk)
        return Intervals(self._starts.ravel(), (self._starts + taken).ravel(), length)


@lru_cache(maxsize=256)
def packed_segments(order: SequenceOrder, ranks: int, keys: int) -> DealtSegments:
    """Return where the chunks of keys lie that were dealt as one; ValueError if they cannot be cut into equal ones."""
    check_extent(order, ranks, keys, "keys")
    extent = np.array([keys], np.int64)
    return DealtSegments(order, ranks, extent, extent)
