# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The expansion with mistakes put into it: the comparison with the unsharded call finds each."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from hyper_parallel.context_parallel import SequenceOrder
from hyper_parallel.core.shard import _op_dispatch
from hyper_parallel.core.shard.ops import parallel_ops
from hyper_parallel.core.shard.ops.layout_inference import LayoutInference
from hyper_parallel.core.shard.ops.parallel_ops_register import get_distributed_op
from tests.mutants import Mutant, assert_found, copied_modules

from .drawn_sequences import draw
from .sequence_calls import OPS, SequenceCase, check_on_virtual_ranks

PACKAGE = "hyper_parallel.core.shard.context_parallel"
MODULES = ("windows", "fixed_length", "tensor_cuts", "blocks", "outputs", "expansion")  # each imports only earlier ones
INFERENCE = "sequence_inference"
NAMES = (*(f"{PACKAGE}.{name}" for name in MODULES), f"hyper_parallel.core.shard.ops.{INFERENCE}")


MUTANTS = (
    Mutant("the last document ends with the keys", "windows", "np.minimum(key_ends, before + count)",
           "np.append(np.minimum(key_ends, before + count)[:-1], key_ends[-1])"),
    Mutant("one key too many", "windows", "(int(documents.query_ends[last]) - stop)\n", "(int(documents.query_ends[last]) - stop) + 1\n"),
    Mutant("fixed length: lengths taken to be equal", "fixed_length", "key_length * ratio + (residual or 0) - query_length + ", ""),
    Mutant("every rank has the first rows", "blocks", "                self.order,\n                self.rank,\n", "                self.order,\n                0,\n"),
    Mutant("the order is ignored", "expansion", "cut.ranks, order, mask", "cut.ranks, SequenceOrder(), mask"),
    Mutant("dealt keys taken as natural", "expansion", "cut.ranks, order, mask",
           "cut.ranks, SequenceOrder(order.name, 'natural', order.per_document), mask"),
    Mutant("per-document dealing taken as packed", "expansion", "cut.ranks, order, mask",
           "cut.ranks, SequenceOrder(order.name, order.keys), mask"),
    Mutant("always causal", "expansion", "order, mask, values[ratio]", "order, 'causal', values[ratio]"),
    Mutant("keys are not cut", "expansion", "(self._key, block.keys)", "([], block.keys)"),
    Mutant("rows are not cut", "expansion", "(self._query, block.rows)", "([], block.rows)"),
    Mutant("query lengths stay", "expansion", "(self._query_ends, block.query_ends)", "(self._query_ends, None)"),
    Mutant("the leading zero is lost", "expansion", "[0, *ends] if name in self._leading_zero else ends", "ends"),
    Mutant("the last block only", "expansion", "for values in [self._on_block(given, block) for block in blocks]",
           "for values in [self._on_block(given, blocks[-1]) for block in blocks]"),
    Mutant("lengths of an earlier call", "expansion", "self._known.get(facts)", "next(iter(self._known.values()), None)"),
    Mutant("blocks one after the other", "outputs", "if rows is None else", "if True else"),
    Mutant("the sum over blocks is lost", "outputs", "reduce(lambda one, other: platform.combine(one, other, combine), parts)", "parts[0]"),
    Mutant("the larger of two blocks", "outputs", "(one, other, combine)", "(one, other, 'max')"),
    Mutant("written to the end of the keys", "tensor_cuts", "before, behind = span[0], extent - span[0] - tensor.shape[dim]",
           "before, behind = extent - span[0] - tensor.shape[dim], span[0]"),
    Mutant("written in natural order", "tensor_cuts", "    if span is None:\n        return platform.take(platform",
           "    if span is None:\n        return platform.concatenate((tensor, _zeros(tensor, dim, extent - tensor.shape[dim])), dim) if extent > tensor.shape[dim] else tensor\n        return platform.take(platform"),
    Mutant("the slice begins a row later", "tensor_cuts", "narrow(tensor, dim, span[0], span[1] - span[0])",
           "narrow(tensor, dim, min(span[0] + 1, tensor.shape[dim] - span[1] + span[0]), span[1] - span[0])"),
    Mutant("rows are put back by the index that took them", "blocks", "places[held] = np.arange(len(held))", "places[:] = held"),
    Mutant("the number in the whole mesh", INFERENCE, "inference.part(self.axes)", "inference.part(inference.axes[self.query])"),
    Mutant("the group's axes are the sequence's", INFERENCE, ")[len(axes.get(self.key, ())) :]", ")[:]"),
)  # fmt: skip


@contextmanager
def mutated(mutant: Mutant | None) -> Iterator[None]:
    """The runtime with a copy of the modules that has the mistake in it."""
    known = [get_distributed_op(op) for op in OPS]
    with copied_modules(NAMES, mutant) as copies, pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel_ops, "Expansion", copies["expansion"].Expansion)
        patch.setattr(sys.modules[LayoutInference.__module__], "SequenceInference", copies[INFERENCE].SequenceInference)
        for op in known:
            patch.setattr(op, "_inferences", {})
        _op_dispatch._OP_DISPATCHER.forget()
        try:
            yield
        finally:
            _op_dispatch._OP_DISPATCHER.forget()


def cases() -> Iterator[SequenceCase]:
    """A few of the drawn cases, those first that look at most."""
    rng = np.random.default_rng(5)
    orders = [
        SequenceOrder("zigzag", "dealt", True), SequenceOrder("head_tail", "dealt"), SequenceOrder("contiguous"),
        SequenceOrder("zigzag", "natural", True),
    ]  # fmt: skip
    for mesh in ("cp 2", "dp x cp"):
        for order in orders:
            for form in ("TND", "BSND"):
                for op in OPS[1], OPS[3]:
                    yield draw(rng, op, order, mesh, form)
                    yield draw(rng, op, order, mesh, form)


def check_all() -> None:
    for case in cases():
        check_on_virtual_ranks(case)


def test_the_copy_without_a_mistake_passes() -> None:
    with mutated(None):
        check_all()


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.mistake for mutant in MUTANTS])
def test_a_mistake_is_found(mutant: Mutant) -> None:
    with mutated(mutant):
        assert_found(check_all)
