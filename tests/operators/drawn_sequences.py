# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Sequences for operators that several ranks share: drawn, the same number of each kind; and all small ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from hyper_parallel.context_parallel import SequenceOrder
from tests.runtime.context_parallel.window_oracle import HELD

from .sequence_calls import OPS, SequenceCase

MESHES = {
    # name: shape, the axes over which the sequence is dealt, the axis of the groups
    "cp 2": ((2,), ("dp",), ""),
    "cp 4": ((4,), ("dp",), ""),
    "dp x cp": ((2, 2), ("tp",), "dp"),
    "cp x dp": ((2, 2), ("dp",), "tp"),
    "cp on two axes": ((2, 2), ("dp", "tp"), ""),
    "cp on two axes, the last outermost": ((2, 2), ("tp", "dp"), ""),
    "cp x idle": ((2, 2), ("dp",), ""),
}
ORDERS = (
    SequenceOrder("contiguous"),
    *(
        SequenceOrder(name, keys, per_document)
        for name in ("head_tail", "zigzag")
        for keys in ("natural", "dealt")
        for per_document in (False, True)
    ),
)
FORMS = ("TND", "BSND")
WITH_QUERIES = {
    OPS[0]: ("query_index", "weights"),
    OPS[1]: ("query", "query_index", "weights", "softmax_max", "softmax_sum_index"),
    OPS[2]: ("query", "query_index", "weights", "sparse_indices", "softmax_sum"),
    OPS[3]: ("query", "weights"),
}


def strata() -> Iterator[tuple[str, SequenceOrder, str, str]]:
    """Operator, order, mesh and format of every kind of case."""
    return itertools.product(OPS, ORDERS, MESHES, FORMS)


def drawn(number: int, seed: int) -> Iterator[SequenceCase]:
    """That many cases, of every kind as many."""
    rng = np.random.default_rng(seed)
    kinds = list(strata())
    while number > 0:
        for index in rng.permutation(len(kinds))[:number]:
            yield draw(rng, *kinds[index])
        number -= len(kinds)


def draw(rng: np.random.Generator, op: str, order: SequenceOrder, mesh: str, form: str) -> SequenceCase:
    shape, over, groups_on = MESHES[mesh]
    ranks = int(np.prod([shape[("dp", "tp").index(axis)] for axis in over]))
    groups = shape[("dp", "tp").index(groups_on)] if groups_on else 1
    chunks = ranks * len(HELD[order.name, ranks][0])
    whole = tuple(name for name in WITH_QUERIES[op] if rng.random() < 0.1)
    common = {
        "groups_on": groups_on,
        "mask": bool(rng.random() < 0.7),
        "rope": bool(rng.random() < 0.2),
        "whole": whole,
    }
    if len(whole) == len(WITH_QUERIES[op]) or (form == "TND" and groups_on):
        common["whole"] = whole[:1]
    if op in (OPS[1], OPS[2]) and form == "TND" and groups_on and rng.random() < 0.3:
        common["whole"] += ("key_index",)  # key tells where the groups lie
    if form == "BSND":
        rows = chunks * int(rng.integers(1, 4))
        keys = rows + (chunks * int(rng.integers(0, 3)) if order.keys == "dealt" else int(rng.integers(0, 2 * chunks)))
        batch = int(rng.integers(1, 3))
        return SequenceCase(op, shape, over, order, ((rows,),) * groups, ((keys,),) * groups, batch=batch, **common)
    step = chunks if order.per_document else 1
    key_step = chunks if order.keys == "dealt" and order.per_document else 1
    rows = chunks * int(rng.integers(1, 5))
    queries = tuple(lengths(rng, rows, step) for _ in range(groups))
    keys = key_lengths(rng, queries[0], key_step, chunks if order.keys == "dealt" else 1)
    others = tuple(lengths(rng, sum(keys), key_step, len(of_group)) for of_group in queries[1:])
    return SequenceCase(op, shape, over, order, queries, (keys, *others), **common)


def lengths(rng: np.random.Generator, total: int, step: int, documents: int = 0) -> tuple[int, ...]:
    """Lengths of documents, some empty, that add up to the total and are divisible by `step`."""
    documents = documents or int(rng.integers(1, 6))
    inner = np.sort(rng.integers(0, total // step + 1, documents - 1)) * step
    return tuple(np.diff([0, *inner, total]).tolist())


def key_lengths(rng: np.random.Generator, queries: tuple[int, ...], step: int, divisor: int) -> tuple[int, ...]:
    """Lengths near those of the query documents, a few more or fewer keys, with a total divisible by the divisor."""
    found = [max(0, query + step * int(rng.integers(-2, 4))) for query in queries]
    found[int(rng.integers(len(found)))] += -sum(found) % divisor
    if not sum(found):
        found[0] += max(step, divisor)
    return tuple(found)


def small() -> Iterator[SequenceCase]:
    """All cuts of up to 8 tokens into up to 3 documents, of every kind; keys longer by -1 to 2, and other than queries."""
    for op, order, mesh in itertools.product(OPS, ORDERS, ("cp 2", "cp 4")):
        shape, over, _ = MESHES[mesh]
        ranks = shape[0]
        chunks = ranks * len(HELD[order.name, ranks][0])
        for tokens in range(chunks, 9, chunks):
            step = chunks if order.per_document else 1
            for queries in cuts(tokens, step):
                for keys in keys_of(queries, order, chunks):
                    yield SequenceCase(op, shape, over, order, (queries,), (keys,))
            for longer in range(5):
                if order.keys == "natural" or longer % chunks == 0:
                    yield SequenceCase(op, shape, over, order, ((tokens,),), ((tokens + longer,),), batch=1)


def cuts(tokens: int, step: int) -> Iterator[tuple[int, ...]]:
    for documents in (1, 2, 3):
        for inner in itertools.combinations_with_replacement(range(0, tokens + 1, step), documents - 1):
            yield tuple(np.diff([0, *inner, tokens]).tolist())


def keys_of(queries: tuple[int, ...], order: SequenceOrder, chunks: int) -> Iterator[tuple[int, ...]]:
    steps = chunks if order.keys == "dealt" and order.per_document else 1
    for longer in itertools.product((-1, 0, 1, 2), repeat=len(queries)):
        keys = tuple(max(0, query + steps * more) for query, more in zip(queries, longer, strict=True))
        if sum(keys) and (order.keys == "natural" or sum(keys) % chunks == 0):
            yield keys
