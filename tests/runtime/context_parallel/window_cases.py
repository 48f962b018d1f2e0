# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""All ways to cut tokens into documents, and what is tried of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from window_oracle import Case

from hyper_parallel.core.shard.context_parallel.sequence_orders import SequenceOrder

RANKS = (1, 2, 3, 4)
LONGER = (-1, 0, 1, 2)
"""By how many tokens the keys of a document are longer than its queries."""
BALANCED = ("head_tail", "zigzag")
CONTIGUOUS = SequenceOrder()


def cuts(tokens: int, documents: int) -> Iterator[tuple[int, ...]]:
    """All lists of that many lengths, empty ones included, that add up to the tokens."""
    if documents == 1:
        yield (tokens,)
        return
    for first in range(tokens + 1):
        for rest in cuts(tokens - first, documents - 1):
            yield (first, *rest)


def cuts_up_to(tokens: int, most: int = 4) -> Iterator[tuple[int, ...]]:
    for documents in range(1, most + 1):
        yield from cuts(tokens, documents)


def case_of(queries: tuple[int, ...], longer: tuple[int, ...], mask: str = "causal", ratio: int = 1) -> Case:
    """Keys of as many tokens as the queries and some more; with a ratio, what is left over is the residual."""
    tokens = [max(0, query + more) for query, more in zip(queries, longer, strict=True)]
    keys = tuple(count // ratio for count in tokens)
    return Case(queries, keys, mask, ratio, None if ratio == 1 else tuple(count % ratio for count in tokens))


def quick_key_lengths(documents: int) -> list[tuple[int, ...]]:
    """All documents longer by the same, and by differing numbers in turn."""
    alike = [(more,) * documents for more in LONGER]
    in_turn = [tuple(LONGER[(start + 3 * at) % 4] for at in range(documents)) for start in range(4)]
    return list(dict.fromkeys(alike + in_turn))


def all_key_lengths(documents: int) -> Iterator[tuple[int, ...]]:
    return itertools.product(LONGER, repeat=documents)


def balanced_orders(per_document: bool, keys: str) -> list[SequenceOrder]:
    return [SequenceOrder(name, keys, per_document) for name in BALANCED]


def fits(order: SequenceOrder, ranks: int, case: Case) -> bool:
    """Whether chunks are equal."""
    chunks = ranks * (1 if order.name == "contiguous" else 2)
    dealt = [case.queries, case.keys] if order.keys == "dealt" else [case.queries]
    parts = [length for lengths in dealt for length in (lengths if order.per_document else (sum(lengths),))]
    return all(length % chunks == 0 for length in parts)
