# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The sharded calls of the seven operators, of all their tables, for the platforms whose ranks are processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hyper_parallel.reference.dense_lightning_indexer import softmax_lse

from . import test_kl_loss_sharded, test_lightning_indexer, test_mhc_linear, test_mhc_sharded
from .kl_loss_calls import DENSE, SPARSE
from .lse_cases import OP, SHARDED_CASES, TENSORS, Axes, ShardedCase
from .mhc_calls import CLAMP, POST, PRE, call
from .sharded_calls import Call, Case, Seen, check_gradients, check_outputs

SMALL_MESHES, LARGE_MESHES = ((2,),), ((4,), (2, 2))


def rows(meshes: tuple[tuple[int, ...], ...]) -> Iterator[tuple[str, Call, Case]]:
    """Name, call and layouts of every row on one of the meshes; the calls are made as they are asked for."""
    for name, (form, *row) in test_mhc_sharded.POST_CASES.items():
        if row[0] in meshes:
            yield f"{POST}: {name}", call(POST, form), test_mhc_sharded.post(*row)
    for name, (form, mesh, inputs, out, gradients) in test_mhc_linear.CASES.items():
        if mesh in meshes:
            words = test_mhc_linear.words
            yield f"{POST}: {name} pending", call(POST, form), Case(mesh, words(inputs), {"out": out}, words(gradients))
    for op in (PRE, CLAMP):
        for name, (form, *row) in test_mhc_sharded.PRE_CASES.items():
            if row[0] in meshes:
                yield f"{op}: {name}", call(op, form), test_mhc_sharded.pre(op, *row)
    for op in (DENSE, SPARSE):
        for name, row in test_kl_loss_sharded.CASES.items():
            if row[1] in meshes:
                case, whole = test_kl_loss_sharded.case_and_call(op, row)
                yield f"{op}: {name}", whole, case
    for name, row in test_lightning_indexer.CASES.items():
        if row[1] in meshes:
            case, whole = test_lightning_indexer.case_and_call(row, sparse_mode=3)
            yield f"{whole.op}: {name}", whole, case
    for name, sharded in SHARDED_CASES.items():
        if sharded.mesh in meshes:
            yield f"{OP}: {name}", lse_call(sharded), lse_case(sharded)


def check_rows(meshes: tuple[tuple[int, ...], ...], of_ranks: Sequence[Sequence[Seen]]) -> None:
    """Compare what each rank has seen of every row with the unsharded call."""
    for (name, whole, case), seen in zip(rows(meshes), zip(*of_ranks, strict=True), strict=True):
        try:
            check_outputs(whole, case, seen)
            check_gradients(whole, case, seen)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


def lse_call(case: ShardedCase) -> Call:
    tensors = case.tensors(dtype="float64")
    found = softmax_lse(*(tensors[name] for name in TENSORS), **case.whole_lengths())
    outputs = dict(zip(("softmax_max", "softmax_sum"), found, strict=True))
    return Call(OP, tensors, case.lengths, outputs, {}, {})


def lse_case(case: ShardedCase) -> Case:
    inputs = {name: in_words(axes) for name, axes in case.maps.items()}
    output = in_words(case.output_map)
    return Case(case.mesh, inputs, {"softmax_max": output, "softmax_sum": output}, {})


def in_words(entries: tuple[Axes, ...]) -> str:
    return " ".join("." if axes == "None" else axes if isinstance(axes, str) else ",".join(axes) for axes in entries)
