# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The order in which sequences have been dealt, as far as the program has said so.

A block says it for itself and what it calls, in a context variable: threads (so the virtual ranks of the NumPy
platform) do not see each other's, and a rank starts with what its `run_ranks` was called in. A thread that something
else has started sees the default of the process. The threads in which a framework runs its backward are such, which is
why an order is read in the forward only, and why a forward that the backward runs once more (a checkpoint) has the same
order by the default alone, or in a block around both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from hyper_parallel.core.shard.context_parallel.sequence_orders import NATURAL, SequenceOrder

_OF_BLOCK: ContextVar[SequenceOrder | None] = ContextVar("sequence_order", default=None)
_of_process = NATURAL


def current_sequence_order() -> SequenceOrder:
    """Return the order of the innermost block that this thread is in, else the default of the process."""
    return _OF_BLOCK.get() or _of_process


@contextmanager
def sequence_order(
    order: str | SequenceOrder, keys: str | None = None, per_document: bool | None = None
) -> Iterator[SequenceOrder]:
    """Declare for a block in which order sequences have been dealt. Blocks nest, and what was before comes back.

    Nothing is moved: `deal` does that.

    Args:
        order: "contiguous", "head_tail" or "zigzag"; or a SequenceOrder, of which the other arguments change facts.
        keys: "natural" (if not given), or "dealt": keys that are whole on every rank lie in dealt order, too.
        per_document: whether each document of a packed sequence was dealt by itself.

    Raises:
        ValueError: a word that is none, or per-document dealing in contiguous order.
        TypeError: an argument of another type.
    """
    token = _OF_BLOCK.set(as_sequence_order(order, keys, per_document))
    try:
        yield current_sequence_order()
    finally:
        _OF_BLOCK.reset(token)


def set_default_sequence_order(
    order: str | SequenceOrder, keys: str | None = None, per_document: bool | None = None
) -> SequenceOrder:
    """Declare the order for the whole process, wherever no block says otherwise; return what it was before.

    The virtual ranks of the NumPy platform are one process. Arguments and errors are those of `sequence_order`.
    """
    global _of_process
    before, _of_process = _of_process, as_sequence_order(order, keys, per_document)
    return before


def as_sequence_order(
    order: str | SequenceOrder | None, keys: str | None = None, per_document: bool | None = None
) -> SequenceOrder:
    """Return the order that arguments describe; without one, the current order, of which the others change facts."""
    if order is None:
        order = current_sequence_order()
    if isinstance(order, str):
        order = SequenceOrder(order)
    if not isinstance(order, SequenceOrder):
        raise TypeError(f"For a sequence order, a name or a SequenceOrder is expected, but got {order!r}.")
    if keys is None and per_document is None:
        return order
    return SequenceOrder(
        order.name,
        order.keys if keys is None else keys,
        order.per_document if per_document is None else per_document,
    )
