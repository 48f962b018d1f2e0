# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Pieces of one dim of a tensor: what of it a block takes, in which order."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from hyper_parallel.core.shard.context_parallel.sequence_orders import IntArray
from hyper_parallel.platform.index import Index


class Intervals:
    """Disjoint intervals `[starts[i], stops[i])` of a dim, one after the other; `length` elements in all.

    `span` is what a copy is not needed for: one interval, as a slice. Otherwise `places` gather the elements and put
    them back (each is taken once at most, so that a scatter-add has no collisions).
    """

    def __init__(self, starts: IntArray, stops: IntArray, length: int) -> None:
        self._starts = starts
        self._stops = stops
        self.length = length

    @classmethod
    def single(cls, start: int, stop: int) -> Intervals:
        """Return the elements from `start` to `stop`; no interval if there are none."""
        length = max(0, stop - start)
        result = cls(_NONE, _NONE, length)
        result.span = (start, stop) if length else (0, 0)
        return result

    @cached_property
    def span(self) -> tuple[int, int] | None:
        """Start and stop if one slice is enough, `(0, 0)` if there are no elements; None if it takes a gather."""
        if not self.length:
            return 0, 0
        shifts, lengths = self._shifts
        shifts = shifts[lengths > 0]
        start = int(shifts[0])
        return (start, start + self.length) if np.count_nonzero(shifts == start) == len(shifts) else None

    @cached_property
    def _shifts(self) -> tuple[IntArray, IntArray]:
        """How far the elements of each interval lie behind their places in `index`, and how many they are."""
        lengths = self._stops - self._starts
        return self._starts - lengths.cumsum() + lengths, lengths

    @cached_property
    def pieces(self) -> tuple[IntArray, IntArray]:
        """Starts and stops of the intervals: none is empty, and none begins where the one before it ends."""
        span = self.__dict__.get("span")
        if span is not None and self.length:
            return np.array(span[:1]), np.array(span[1:])
        kept = self._stops > self._starts
        starts, stops = self._starts[kept], self._stops[kept]
        first, last = np.ones(len(starts), bool), np.ones(len(starts), bool)
        first[1:] = last[:-1] = starts[1:] != stops[:-1]
        return starts[first], stops[last]

    @cached_property
    def index(self) -> IntArray:
        """The elements themselves, in their order. Read-only."""
        span = self.__dict__.get("span")
        index: IntArray = np.arange(*span) if span else np.arange(self.length) + np.repeat(*self._shifts)
        index.setflags(write=False)
        return index

    @cached_property
    def places(self) -> Index:
        """The elements, for a tensor to take."""
        return Index(self.index)

    def __repr__(self) -> str:
        return f"Intervals({', '.join(f'{start}:{stop}' for start, stop in zip(*self.pieces, strict=True))})"


_NONE: IntArray = np.empty(0, np.int64)
