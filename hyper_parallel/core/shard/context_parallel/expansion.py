# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""An operator on one rank's rows of a sequence: run whole, once per block, on the block's window of the keys.

What happens to a tensor follows from its dims alone.

- Inputs: whoever has the query dim is local already, and cut to the rows of the block where a rank has two; whoever has
  the key dim is cut to the window; document ends and residuals are rewritten to those of the window.
- Outputs: whoever has the query dim is put together from the blocks; whoever has the key dim is written back to where
  the window's keys lie, zero elsewhere, and added up; any other is combined as the rule says.

The operator runs with its backward, so gradients flow through the cuts by the platform's autograd. Every rank computes
its windows from integers that all ranks of the group have, before anything is launched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hyper_parallel.core.shard.context_parallel.blocks import (
    MOST_KEPT,
    Block,
    Blocks,
    SequenceFacts,
    SequenceShare,
)
from hyper_parallel.core.shard.context_parallel.call_lengths import read, rewritten
from hyper_parallel.core.shard.context_parallel.outputs import BlockOutputs
from hyper_parallel.core.shard.context_parallel.sequence_orders import SequenceOrder
from hyper_parallel.core.shard.context_parallel.tensor_cuts import appended, taken
from hyper_parallel.platform.index import Index

if TYPE_CHECKING:
    from hyper_parallel.core.shard.ops.layout_rule import LayoutRule
    from hyper_parallel.core.shard.ops.sequence_inference import SequenceCut


class Expansion:
    """What runs on a rank in the place of `func`. One for each combination of layouts, attributes and order.

    Args:
        op: The operator's name, for messages.
        func: The operator on local tensors, arguments in any form.
        rule: Its layout rule.
        cut: This rank's share of the sequence.
        order: How the sequence was dealt.
        values: Argument -> layout (a tensor) or value (an attribute).
    """

    def __init__(
        self,
        op: str,
        func: Callable[..., Any],
        rule: LayoutRule,
        cut: SequenceCut,
        order: SequenceOrder,
        values: Mapping[str, Any],
    ) -> None:
        context = rule.context_parallel
        assert context is not None
        self._op = op
        self._func = func
        self._arguments = rule.arguments
        self._cut = cut
        self._query = _places(cut, cut.query)
        self._key = _places(cut, cut.key)
        self._query_ends = context.lengths.get(cut.query, "")
        self._key_ends = context.lengths.get(cut.key, "")
        self._leading_zero = context.leading_zero
        ratio, self._residual = context.ratio or ("", "")
        counted = [place for dim in context.counts for place in _places(cut, dim)]
        self._counted = [(name, dim) for name, dim in counted if name != self._residual]
        mask = context.mask if isinstance(context.mask, str) else context.mask(dict(values))
        self._share = SequenceShare(cut.rank, cut.ranks, order, mask, values[ratio] if ratio else 1)
        self._outputs = BlockOutputs(op, cut, context.counts)
        self.host_arguments = tuple(filter(None, (self._query_ends, self._key_ends, self._residual)))
        """The arguments whose values the windows depend on."""
        self._known: dict[SequenceFacts, tuple[Blocks, Index | None]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the operator on local tensors of its arguments.

        Raises:
            ValueError: lengths or extents that cannot be cut, see `SequenceShare.blocks`. Nothing has been launched.
        """
        given = {**dict(zip(self._arguments, args, strict=False)), **kwargs}
        given |= {name: read(given[name]) for name in self.host_arguments if name in given}
        facts = self._facts(given)
        blocks, rows = self._known.get(facts) or self._cut_into_blocks(facts)
        results = []
        for values in [self._on_block(given, block) for block in blocks]:
            by_position = [values[name] for name in self._arguments[: len(args)]]
            results.append(self._func(*by_position, **{name: values[name] for name in kwargs}))
        return self._outputs.merged(results, blocks, rows, facts)

    def _facts(self, given: Mapping[str, Any]) -> SequenceFacts:
        """The whole sequence of this rank's group, as far as integers tell."""
        query_ends = self._ends(given, self._query_ends)
        key_ends = self._ends(given, self._key_ends)
        rows = next(given[name].shape[dim] for name, dim in self._query if given.get(name) is not None)
        rows *= self._cut.ranks
        keys = next((given[name].shape[dim] for name, dim in self._key if given.get(name) is not None), None)
        if keys is None:  # no tensor with keys: documents alone tell
            key_ends = key_ends if self._cut.key else query_ends
            keys = key_ends[-1] if key_ends else rows
        residual = given.get(self._residual)
        if isinstance(residual, int):
            self._check_one_residual(key_ends)
            residual = (residual,) * len(key_ends or (0,))
        return SequenceFacts(rows, keys, query_ends, key_ends, None if residual is None else tuple(residual))

    def _ends(self, given: Mapping[str, Any], name: str) -> tuple[int, ...] | None:
        ends = given.get(name)
        if ends is None:
            return None
        return tuple(ends[1:]) if name in self._leading_zero else tuple(ends)

    def _check_one_residual(self, key_ends: tuple[int, ...] | None) -> None:
        """ValueError, on every rank, for one residual where the windows of documents have differing ones."""
        if key_ends is not None and self._share.mask == "causal" and self._share.ratio > 1:
            raise ValueError(
                f"For {self._op} under context parallelism over {self._cut.axes}: {self._residual} is one number for "
                "all documents, but the windows of packed documents leave different ones over. Pass a batch of fixed "
                "length."
            )

    def _cut_into_blocks(self, facts: SequenceFacts) -> tuple[Blocks, Index | None]:
        try:
            blocks = self._share.blocks(facts)
        except (TypeError, ValueError) as error:
            where = f"For {self._op} under context parallelism over {self._cut.axes}"
            message = str(error).removeprefix("For context parallelism, ")
            raise type(error)(f"{where}: {message[:1].lower()}{message[1:]}") from None
        found = self._known[facts] = blocks, blocks.row_places()
        while len(self._known) > MOST_KEPT:
            self._known.pop(next(iter(self._known)), None)
        return found

    def _on_block(self, given: Mapping[str, Any], block: Block) -> dict[str, Any]:
        """The arguments of one run."""
        values = dict(given)
        for places, intervals in ((self._query, block.rows), (self._key, block.keys)):
            for name, dim in places:
                if values.get(name) is not None:
                    values[name] = taken(values[name], dim, intervals)
        for name, ends in ((self._query_ends, block.query_ends), (self._key_ends, block.key_ends)):
            if ends is not None and values.get(name) is not None:
                values[name] = rewritten(values[name], [0, *ends] if name in self._leading_zero else ends)
        if block.has_added_document:
            for name, dim in self._counted:
                if values.get(name) is not None:
                    values[name] = appended(values[name], dim)
        if block.residuals is not None and values.get(self._residual) is not None:
            values[self._residual] = self._residuals(values[self._residual], block.residuals)
        return values

    def _residuals(self, value: Any, residuals: int | Sequence[int]) -> Any:
        """The residuals of a block, in the form in which they were given."""
        if isinstance(value, int):
            return residuals if isinstance(residuals, int) else residuals[0]
        return rewritten(value, [residuals] * len(value) if isinstance(residuals, int) else residuals)


def _places(cut: SequenceCut, dim: str) -> list[tuple[str, int]]:
    """The tensors that have a dim, and where."""
    return [(name, dims.index(dim)) for name, dims in cut.inputs.items() if dim in dims] if dim else []
