# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Documents of packed sequences: ragged, empty, across boundaries, with more queries than keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MOST_DOCUMENTS = 4
LARGEST_STEP_DOWN, LARGEST_STEP_UP = 1, 3
"""How many steps the keys of a document may be fewer or more than its query rows."""


def query_documents(rng: np.random.Generator, groups: int, chunks: int, step: int) -> list[tuple[int, ...]]:
    """Lengths of the documents of each group, divisible by `step`, which add up to a few times `chunks`."""
    rows = chunks * int(rng.integers(1 if chunks > 3 else 2, 4))
    return [cut(rng, rows, step) for _ in range(groups)]


def cut(rng: np.random.Generator, total: int, step: int) -> tuple[int, ...]:
    """Lengths that add up to the total, some of them 0."""
    count = int(rng.integers(1, MOST_DOCUMENTS + 1))
    inner = np.sort(rng.integers(0, total // step + 1, count - 1)) * step
    return tuple(np.diff([0, *inner, total]).tolist())


def key_documents(
    rng: np.random.Generator, queries: Sequence[tuple[int, ...]], step: int, divisor: int
) -> tuple[tuple[int, ...], ...]:
    """Lengths near those of the query documents, with as many keys in each group, divisible by `divisor`."""
    steps = (-LARGEST_STEP_DOWN, LARGEST_STEP_UP + 1)
    found = [[max(0, rows + step * int(rng.integers(*steps))) for rows in group] for group in queries]
    total = max(map(sum, found)) or step
    total += -total % max(divisor, step)
    for group in found:
        group[int(rng.integers(len(group)))] += total - sum(group)
    return tuple(map(tuple, found))
