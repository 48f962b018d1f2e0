# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The outputs of the blocks of one rank, put together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from hyper_parallel.core.shard.context_parallel.blocks import Blocks, SequenceFacts
from hyper_parallel.core.shard.context_parallel.tensor_cuts import put_back
from hyper_parallel.platform import get_platform
from hyper_parallel.platform.index import Index

if TYPE_CHECKING:
    from hyper_parallel.core.shard.ops.sequence_inference import SequenceCut


class BlockOutputs:
    """How every output of an operator is put together, by its dims.

    Args:
        op: The operator's name, for messages.
        cut: Its outputs, and which of their dims are cut.
        counts: Dims whose extent is the number of documents.
    """

    def __init__(self, op: str, cut: SequenceCut, counts: Sequence[str]) -> None:
        self._op = op
        self._query = [_place(dims, cut.query) for dims in cut.outputs]
        self._key = [_place(dims, cut.key) for dims in cut.outputs]
        self._counted = [[dims.index(dim) for dim in counts if dim in dims] for dims in cut.outputs]
        self._combine = cut.combine

    def merged(self, results: Sequence[Any], blocks: Blocks, rows: Index | None, facts: SequenceFacts) -> Any:
        """Return the outputs of the rank, in the form of one block's: a tuple or a tensor.

        Args:
            results: What the operator has returned for each of the blocks.
            rows: `blocks.row_places()`.
        """
        first = results[0]
        if not isinstance(first, tuple | list):
            return self._output(0, results, blocks, rows, facts)
        if len(first) != len(self._combine):
            raise RuntimeError(
                f"For {self._op}, {len(first)} outputs came back, but {len(self._combine)} have layouts."
            )
        parts = zip(*results, strict=True)
        return tuple(self._output(index, part, blocks, rows, facts) for index, part in enumerate(parts))

    def _output(
        self, index: int, parts: Sequence[Any], blocks: Blocks, rows: Index | None, facts: SequenceFacts
    ) -> Any:
        platform = get_platform()
        parts = [
            self._without_added(index, part) if block.has_added_document else part
            for part, block in zip(parts, blocks, strict=True)
        ]
        query, key = self._query[index], self._key[index]
        if query is not None:
            whole = parts[0] if len(parts) == 1 else platform.concatenate(parts, query)
            return whole if rows is None else platform.take(whole, query, rows)
        if key is not None:
            parts = [
                put_back(part, key, block.keys, facts.keys, lambda block=block: block.key_places)  # type: ignore[misc]
                for part, block in zip(parts, blocks, strict=True)
            ]
        combine = "sum" if key is not None else self._combine[index]
        if combine == "same":
            return parts[0]
        return reduce(lambda one, other: platform.combine(one, other, combine), parts)

    def _without_added(self, index: int, part: Any) -> Any:
        """The part without what belongs to the added document."""
        for dim in self._counted[index]:
            part = get_platform().narrow(part, dim, 0, part.shape[dim] - 1)
        return part


def _place(dims: tuple[str, ...], dim: str) -> int | None:
    return dims.index(dim) if dim in dims else None
