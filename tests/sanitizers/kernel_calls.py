# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Compiled kernels with arguments that operators have called them with, forward and backward, to be called again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from hyper_parallel import library
from hyper_parallel.native.flavours import HostFlavour
from hyper_parallel.native.kernels import native_module
from tests.operators.kl_loss_calls import DENSE, SPARSE
from tests.operators.mhc_calls import MHC
from tests.operators.plain_table import loss_call, lse_call, mhc_call, observed, plain_calls, top_k_call
from tests.operators.sharded_calls import NUMPY, Call

Function = Callable[..., tuple[Any, ...]]


class Kernel(NamedTuple):
    """A kernel and the arguments of its calls."""

    function: Function
    calls: list[tuple[Any, ...]]


def small_calls() -> Iterable[Call]:
    """Every type and format; most in one piece, which one thread computes."""
    return (call for _, call in plain_calls())


def calls_of_several_pieces() -> Iterator[Call]:
    """More rows than any kernel computes in one piece, in two documents."""
    ends = [40, 90], [50, 120]
    for dtype in ("bfloat16", "float64"):
        yield from (mhc_call(op, (90,), dtype) for op in MHC)
        yield from (loss_call(op, ends, dtype) for op in (DENSE, SPARSE))
        yield from (top_k_call(ends, dtype), lse_call(ends, dtype))


def kernels_with_calls(calls: Iterable[Call]) -> dict[str, Kernel]:
    """Every kernel of the built-in library by name, with how it has been called by these calls and their gradients."""
    with _recording("npu_mhc_post") as kernels:
        for call in calls:
            observed(call, NUMPY)
    return kernels


@contextmanager
def _recording(op: str) -> Iterator[dict[str, Kernel]]:
    """Record the calls of all kernels in the library of an operator."""
    module = native_module(library.operator(op).library, HostFlavour())
    functions = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    kernels = {name: Kernel(function, []) for name, function in functions.items()}

    def recorder(kernel: Kernel) -> Function:
        def call(*arguments: Any) -> tuple[Any, ...]:
            kernel.calls.append(arguments)
            return kernel.function(*arguments)

        return call

    for name, kernel in kernels.items():
        setattr(module, name, recorder(kernel))
    try:
        yield kernels
    finally:
        for name, function in functions.items():
            setattr(module, name, function)
