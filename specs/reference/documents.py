# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Documents in packed rows, and which keys the rows of a document see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

INT64_MAX = 2**63 - 1

# Cumulative lengths as an operator is given them: integers, or a 1-D array of an integer type.
Lengths = Sequence[int] | NDArray[np.integer[Any]]


class DocumentSlices(NamedTuple):
    """Where one document lies in the packed rows of the query and of the key."""

    query: slice
    key: slice


def visible_keys(query_length: int, key_length: int) -> NDArray[np.bool_]:
    """Bottom-right aligned causal mask ``[q, k]``: True where the row sees the key."""
    rows = np.arange(query_length)[:, np.newaxis]
    keys = np.arange(key_length)[np.newaxis, :]
    mask: NDArray[np.bool_] = keys <= key_length - query_length + rows
    return mask


def document_slices(
    query: NDArray[Any],
    key: NDArray[Any],
    query_ends: Lengths | None,
    key_ends: Lengths | None,
    layout: str,
    names: tuple[str, str] = ("actual_seq_qlen", "actual_seq_klen"),
) -> Iterator[DocumentSlices]:
    """The documents as slices of the rows, once batch and sequence are packed into one axis.

    ValueError, which calls the lengths by ``names``, if the cumulative ends are missing in TND, given in BSND,
    decrease, or do not end at the token count.
    """
    if layout == "BSND":
        if query_ends is not None or key_ends is not None:
            raise ValueError(f"{names[0]} and {names[1]} belong to layout 'TND', but layout is 'BSND'.")
        query_ends = [(row + 1) * query.shape[1] for row in range(query.shape[0])]
        key_ends = [(row + 1) * key.shape[1] for row in range(key.shape[0])]
    else:
        query_ends = _cumulative_ends(names[0], query_ends, query.shape[0])
        key_ends = _cumulative_ends(names[1], key_ends, key.shape[0])
    if len(query_ends) != len(key_ends):
        raise ValueError(
            f"{names[0]} and {names[1]} should have the same number of documents, "
            f"but have {len(query_ends)} and {len(key_ends)}."
        )
    bounds = zip(pairwise([0, *query_ends]), pairwise([0, *key_ends]), strict=True)
    return (DocumentSlices(slice(*rows), slice(*keys)) for rows, keys in bounds)


def check_causal_attributes(layout: str, sparse_mode: int, pre_tokens: int, next_tokens: int) -> None:
    """ValueError unless the layout is known, the mask is the causal one, and no window narrows it."""
    check_layout(layout)
    if sparse_mode != 3:
        raise ValueError(f"sparse_mode should be 3 (causal, aligned at the bottom right), but got {sparse_mode}.")
    for name, value in (("pre_tokens", pre_tokens), ("next_tokens", next_tokens)):
        if value != INT64_MAX:
            raise ValueError(f"{name} should be INT64_MAX (no limit), but got {value}.")


def check_layout(layout: str) -> None:
    """ValueError unless the layout is BSND or TND."""
    if layout not in ("BSND", "TND"):
        raise ValueError(f"layout should be 'BSND' or 'TND', but got {layout!r}.")


def _cumulative_ends(name: str, ends: Lengths | None, tokens: int) -> list[int]:
    if ends is None:
        raise ValueError(f"{name} is missing: layout 'TND' needs the cumulative document ends.")
    values = [int(end) for end in ends]
    if any(end < start for start, end in pairwise([0, *values])):
        raise ValueError(f"{name} should not decrease or be negative, but got {values}.")
    if (values[-1] if values else 0) != tokens:
        raise ValueError(f"{name} should end at the {tokens} tokens of the tensor, but got {values}.")
    return values
