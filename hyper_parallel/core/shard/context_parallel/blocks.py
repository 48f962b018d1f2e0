# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The blocks of one call on this rank: windows of its lengths, computed once for the same lengths and extents."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hyper_parallel.core.shard.context_parallel.documents import Documents
from hyper_parallel.core.shard.context_parallel.fixed_length import fixed_length_windows
from hyper_parallel.core.shard.context_parallel.intervals import Intervals
from hyper_parallel.core.shard.context_parallel.sequence_orders import IntArray, SequenceOrder
from hyper_parallel.core.shard.context_parallel.windows import Window, document_windows
from hyper_parallel.platform.index import Index

MOST_KEPT = 16
"""Lengths for which windows are kept; the oldest leaves first."""


@dataclass(frozen=True)
class SequenceFacts:
    """What of a call the windows depend on. Ends are cumulative, without a leading zero, None at fixed length.

    Attributes:
        rows: Query rows of the whole group.
        keys: Keys of the group.
        residuals: Of compressed keys: one for each document, or for each batch row.
    """

    rows: int
    keys: int
    query_ends: tuple[int, ...] | None
    key_ends: tuple[int, ...] | None
    residuals: tuple[int, ...] | None = None


class Block:
    """One run of the operator, and where its rows and keys lie."""

    def __init__(self, window: Window, keys: int) -> None:
        self.rows = window.rows
        self.keys = window.keys
        self.has_added_document = window.has_added_document
        self.query_ends = None if window.query_ends is None else window.query_ends.tolist()
        self.key_ends = None if window.key_ends is None else window.key_ends.tolist()
        residuals = window.residuals
        self.residuals = residuals.tolist() if isinstance(residuals, np.ndarray) else residuals
        self._all_keys = keys

    @cached_property
    def key_places(self) -> Index:
        """For every key of the group its place among the block's keys; behind their last if it is not there."""
        places = np.full(self._all_keys, self.keys.length)
        places[self.keys.index] = np.arange(self.keys.length)
        return Index(places)


class Blocks(tuple[Block, ...]):
    """The blocks of a rank, in the order in which their outputs are put together."""

    __slots__ = ()

    def row_places(self) -> Index | None:
        """For every row of the rank its place in the concatenated blocks; None if that is the same."""
        spans = [block.rows.span for block in self]
        stops = [0, *(span[1] for span in spans if span)]
        if all(span and span[0] == before for span, before in zip(spans, stops, strict=False)):
            return None
        held = np.concatenate([block.rows.index for block in self])
        places = np.empty_like(held)
        places[held] = np.arange(len(held))
        return Index(places)


@dataclass(frozen=True)
class SequenceShare:
    """A rank's share: its number among the ranks of its group, the order, the mask, tokens per key."""

    rank: int
    ranks: int
    order: SequenceOrder
    mask: str
    ratio: int = 1

    def blocks(self, facts: SequenceFacts) -> Blocks:
        """Compute the blocks of a call.

        Raises:
            ValueError: a sequence, or documents, that cannot be cut into equal chunks; ends that decrease, do not end
                at the tokens of the group or differ in number; at fixed length, residuals that differ, or a block
                whose rows see no key.
        """
        found = [window for window in self._windows(facts) if window.has_rows]
        if not found:  # no rows at all: the kernel has its say about that, as in a call that is not cut
            query_ends, key_ends = _array(facts.query_ends), _array(facts.key_ends)
            keys = Intervals.single(0, facts.keys)
            found = [Window(Intervals.single(0, 0), keys, query_ends, key_ends, _array(facts.residuals))]
        return Blocks(Block(window, facts.keys) for window in found)

    def _windows(self, facts: SequenceFacts) -> tuple[Window, ...]:
        if facts.query_ends is not None and facts.key_ends is not None:
            # Most often the same, and then looked at once.
            key_ends = facts.query_ends if facts.key_ends == facts.query_ends else facts.key_ends
            documents = Documents(facts.query_ends, key_ends, facts.rows, facts.keys)
            return document_windows(
                documents,
                self.order,
                self.rank,
                self.ranks,
                self.mask,
                ratio=self.ratio,
                residuals=_array(facts.residuals),
            )
        if facts.query_ends is not None or facts.key_ends is not None:
            raise ValueError("the document ends of queries and keys should be given both or not at all.")
        residual = None if facts.residuals is None else _one(facts.residuals)
        windows = fixed_length_windows(
            facts.rows, facts.keys, self.order, self.rank, self.ranks, self.mask, ratio=self.ratio, residual=residual
        )
        self._check_first_block(facts, residual or 0)
        return windows

    def _check_first_block(self, facts: SequenceFacts, residual: int) -> None:
        """ValueError, on every rank, if the first rows of the sequence see no key: a kernel sees no empty tensor."""
        length = facts.rows // (self.ranks * self.order.chunks_per_rank)
        tokens = facts.keys * self.ratio + residual - facts.rows + length
        if self.mask == "causal" and facts.keys and length and tokens < self.ratio:
            raise ValueError(
                f"the first {length} of {facts.rows} query rows should see at least one of {facts.keys} keys, but they "
                "see none, and a block without keys cannot be run at fixed length: pass packed documents."
            )


def _array(integers: tuple[int, ...] | None) -> IntArray | None:
    return None if integers is None else np.array(integers, np.int64)


def _one(residuals: tuple[int, ...]) -> int | None:
    """The residual of all batch rows."""
    if len(set(residuals)) > 1:
        raise ValueError(f"at fixed length all batch rows should have the same residual, but got {list(residuals)}.")
    return residuals[0] if residuals else None
