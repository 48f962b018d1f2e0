# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""How the tokens of a sequence are dealt to N ranks, and where each of them lies then.

A sequence is cut into C equal chunks, in natural order 0 .. C-1. Every rank holds m of them, one after the other:

=============  ====  ===  ==================================
order          C     m    natural chunks of rank r
=============  ====  ===  ==================================
`contiguous`   N     1    `r`
`head_tail`    2N    2    `2r`, `2N-1-2r`
`zigzag`       2N    2    `r`, `2N-1-r`
=============  ====  ===  ==================================

The dealt sequence is what the ranks hold, in the order of the ranks. Its places for chunks are 0 .. C-1, too: place p
is number p%m of rank p//m. `pi(c)` is the place of natural chunk c, so the inverse of the table read row by row:

- `head_tail`: an even c is `2r`, the first of rank c/2, at place c. An odd c is `2N-1-2r`, the second of rank
  (2N-1-c)/2, at place 2(2N-1-c)/2 + 1 = 2N-c.
- `zigzag`: c < N is the first of rank c, at place 2c. Any other is `2N-1-r`, the second of rank 2N-1-c, at place
  2(2N-1-c) + 1.

**Packed** dealing looks at no document: T tokens make chunks of h = T/C. Token t is number o of chunk c, with
`(c, o) = divmod(t, h)`, and lies at `pi(c)*h + o`.

**Per document**, each document is cut into C chunks of its own. Let it start at token s and have k tokens, h = k/C,
`(c, o) = divmod(t - s, h)`, p = pi(c). Every document gives k/N tokens to each rank, so a rank holds T/N in all, and
rank p//m begins at `(p//m)*T/N`. It holds the documents one after the other, those before this one with s/N tokens. Of
this one it holds m chunks: number p%m begins after `(p%m)*h`. So token t lies at

    (p//m)*T/N + s/N + (p%m)*h + o

One document of all tokens, s = 0 and h = T/C, gives `(p//m)*m*h + (p%m)*h + o = p*h + o`: packed dealing is
per-document dealing of one document, and one function below does both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]

ORDERS = ("contiguous", "head_tail", "zigzag")
KEYS = ("natural", "dealt")


@dataclass(frozen=True)
class SequenceOrder:
    """The order in which a sequence was dealt: a property of the data, hashable, equal if all three facts are.

    Raises:
        ValueError: a word that is none, or per-document dealing in contiguous order.
        TypeError: `per_document` is not a bool.
    """

    name: str = "contiguous"
    keys: str = "natural"
    """Whether keys that are whole on every rank lie in natural order or as they were dealt."""
    per_document: bool = False
    """Whether every document of a packed sequence was dealt by itself. At fixed length each row is one document."""

    def __post_init__(self) -> None:
        for what, word, words in (("name", self.name, ORDERS), ("keys", self.keys, KEYS)):
            if word not in words:
                raise ValueError(f"For a sequence order, {what} should be one of {', '.join(words)}, but got {word!r}.")
        if not isinstance(self.per_document, bool):
            raise TypeError(f"For a sequence order, per_document should be a bool, but got {self.per_document!r}.")
        if self.per_document and not self.is_balanced:
            raise ValueError(
                "For per-document dealing, the order should be head_tail or zigzag, but got contiguous: it leaves "
                "documents where they are."
            )

    @property
    def is_balanced(self) -> bool:
        """Whether a rank holds an early and a late chunk, so that causal attention costs every rank the same."""
        return self.name != "contiguous"

    @property
    def chunks_per_rank(self) -> int:
        """The number m of chunks that every rank holds."""
        return 2 if self.is_balanced else 1

    @property
    def has_dealt_keys(self) -> bool:
        """Whether keys lie elsewhere than in natural order."""
        return self.is_balanced and self.keys == "dealt"


NATURAL = SequenceOrder()


def chunks_of_rank(order: SequenceOrder, rank: int, ranks: int) -> tuple[int, ...]:
    """Return the natural chunks that a rank holds, in the order in which it holds them."""
    if order.name == "head_tail":
        return 2 * rank, 2 * ranks - 1 - 2 * rank
    if order.name == "zigzag":
        return rank, 2 * ranks - 1 - rank
    return (rank,)


@lru_cache(maxsize=256)
def chunk_places(order: SequenceOrder, ranks: int) -> IntArray:
    """Return `pi`: the place among the dealt chunks of every natural chunk. Read-only."""
    chunks = [chunk for rank in range(ranks) for chunk in chunks_of_rank(order, rank, ranks)]
    places = np.argsort(np.array(chunks, np.int64)).astype(np.int64)
    places.setflags(write=False)
    return places


def check_rank(rank: int, ranks: int) -> None:
    """Raise ValueError if `rank` is not one of `ranks`."""
    if ranks < 1 or not 0 <= rank < ranks:
        raise ValueError(f"For context parallelism, a rank should be in 0..{ranks - 1}, but got {rank} of {ranks}.")


def check_extent(order: SequenceOrder, ranks: int, extent: int, what: str = "tokens") -> None:
    """Raise ValueError if `extent` tokens cannot be cut into equal chunks. `what` names them in the message."""
    chunks = order.chunks_per_rank * ranks
    if extent % chunks:
        of_ranks = f"2 x {ranks} chunks" if order.is_balanced else f"{ranks} ranks"
        raise ValueError(
            f"For {order.name} order on {ranks} ranks, the number of {what} should be divisible by {chunks} "
            f"({of_ranks}), but got {extent}: pad the sequence."
        )


def check_document_lengths(order: SequenceOrder, ranks: int, lengths: IntArray, what: str = "tokens") -> None:
    """Raise ValueError if one of the documents cannot be cut into equal chunks."""
    chunks = order.chunks_per_rank * ranks
    rests = lengths % chunks
    if np.count_nonzero(rests):
        first = int(np.flatnonzero(rests)[0])
        raise ValueError(
            f"For {order.name} order per document on {ranks} ranks, every document should have a number of {what} "
            f"divisible by {chunks} (2 x {ranks} chunks), but document {first} has {int(lengths[first])}: pad each "
            "document."
        )


def ends_and_lengths(
    ends: Sequence[int] | npt.NDArray[np.integer[Any]], what: str = "document ends"
) -> tuple[IntArray, IntArray]:
    """Return cumulative document ends, and the lengths of the documents, as int64 arrays.

    Raises:
        TypeError: elements that are not integers.
        ValueError: none at all, more than one dim, or ends that decrease or are negative.
    """
    array = np.asarray(ends)
    if array.ndim != 1 or not array.size:
        raise ValueError(f"For context parallelism, {what} should be a list of at least one integer, but got {ends!r}.")
    if array.dtype.kind not in "iu":
        raise TypeError(f"For context parallelism, {what} should be integers, but got {ends!r}.")
    array = array.astype(np.int64, copy=False)
    lengths = array.copy()
    lengths[1:] -= array[:-1]
    if np.count_nonzero(lengths < 0):
        at = int((lengths < 0).argmax())
        before = int(array[at - 1]) if at else 0
        raise ValueError(
            f"For context parallelism, {what} should not decrease from 0 on, but got {int(array[at])} after {before} "
            f"at index {at}."
        )
    return array, lengths


def dealt_lengths(
    order: SequenceOrder,
    ranks: int,
    tokens: int,
    ends: Sequence[int] | IntArray | None = None,
    what: str = "tokens",
) -> tuple[IntArray, IntArray]:
    """Return ends and lengths of what is dealt as one: of every document, or of all tokens in packed dealing.

    Raises:
        ValueError: lengths that cannot be cut into equal chunks, ends that do not end at `tokens`, that are missing
            where documents are dealt, or given where they are not looked at.
        TypeError: ends that are not integers.
    """
    check_rank(0, ranks)
    if not order.per_document:
        if ends is not None:
            raise ValueError(f"For packed {order.name} order, documents are not looked at, but got their ends: {ends}.")
        check_extent(order, ranks, tokens, what)
        return ends_and_lengths([tokens])
    if ends is None:
        raise ValueError(
            f"For {order.name} order per document, the document ends are needed, but got none: pass them, or deal "
            "packed where the dim is one document."
        )
    ends, lengths = ends_and_lengths(ends)
    if ends[-1] != tokens:
        raise ValueError(
            f"For {order.name} order per document, the document ends should end at the {tokens} {what}, but got "
            f"{int(ends[-1])}."
        )
    check_document_lengths(order, ranks, lengths, what)
    return ends, lengths


def segment_starts(order: SequenceOrder, ranks: int, ends: IntArray, lengths: IntArray) -> IntArray:
    """Return where the chunks of documents begin in the dealt sequence: `[documents, C]`, by natural chunk.

    Args:
        ends: of the documents, cumulative; `[tokens]` for packed dealing. Lengths are divisible by C.
        lengths: of the documents: the differences of `ends`.
    """
    held = order.chunks_per_rank
    places = chunk_places(order, ranks)
    of_rank = places // held * (int(ends[-1]) // ranks)
    in_rank = (ends - lengths) // ranks
    within = (lengths // (held * ranks))[:, None] * (places % held)
    starts: IntArray = np.add(in_rank[:, None], of_rank + within)
    return starts


def dealt_positions(
    order: SequenceOrder, ranks: int, tokens: int, ends: Sequence[int] | IntArray | None = None
) -> IntArray:
    """Return where every natural token lies in the dealt sequence: `natural = dealt[result]`.

    Args:
        tokens: their number, of one group of `ranks` ranks.
        ends: the cumulative document ends, for per-document dealing. A leading zero is an empty document.

    Raises:
        ValueError, TypeError: as `dealt_lengths` does.
    """
    ends, lengths = dealt_lengths(order, ranks, tokens, ends)
    dealt = segment_starts(order, ranks, ends, lengths)
    chunk = lengths // dealt.shape[1]
    natural = (ends - lengths)[:, None] + chunk[:, None] * np.arange(dealt.shape[1])
    positions: IntArray = np.arange(tokens) + np.repeat((dealt - natural).ravel(), np.repeat(chunk, dealt.shape[1]))
    return positions


def natural_tokens(
    order: SequenceOrder, ranks: int, tokens: int, ends: Sequence[int] | IntArray | None = None
) -> IntArray:
    """Return which natural token lies at every place of the dealt sequence: `dealt = natural[result]`.

    Rank r holds the places from `r*tokens/ranks` on. Arguments and errors are those of `dealt_positions`.
    """
    positions = dealt_positions(order, ranks, tokens, ends)
    result = np.empty_like(positions)
    result[positions] = np.arange(tokens)
    return result
