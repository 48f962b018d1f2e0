# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What an operator call on DTensors costs on torch, beside torch's own DTensor, in microseconds.

Run: python benchmarks/dispatch.py [--calls 2000] [--rounds 9]

One rank, one thread, tensors of a few kilobytes, kernels that compute nothing: what is left is the way to the kernel.
Two operators: `lse` is npu_dense_lightning_indexer_softmax_lse as generated (3 tensors, 6 attributes, 2 outputs), `add`
has two tensors. Columns:

  kernel     the kernel itself on local tensors
  Function   torch.autograd.Function.apply of a function with this kernel
  plain      our DFunction.apply on local tensors, its argument checks included
  DTensor    our DFunction.apply on DTensors
  miss       the same for a call that has not been planned or checked before
  library    torch: the kernel as an operator of torch.library, on local tensors
  torch DT   torch: that operator on torch's DTensors, its sharding registered

Each is the best of several rounds. `ratio` compares what DTensors add: (DTensor - Function) / (torch DT - library).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

os.environ["HYPER_PARALLEL_PLATFORM"] = "torch"

import torch
from torch.distributed.tensor import DTensor as TorchDTensor
from torch.distributed.tensor import Replicate as TorchReplicate
from torch.distributed.tensor import Shard as TorchShard
from torch.distributed.tensor.experimental import register_sharding

from hyper_parallel import DTensor, Shard, get_platform, init_device_mesh
from hyper_parallel.core.shard._op_dispatch import _OP_DISPATCHER
from hyper_parallel.core.shard.dfunction import DFunction
from hyper_parallel.core.shard.ops.layout_rule import LayoutRule
from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp
from hyper_parallel.generated.npu_dense_lightning_indexer_softmax_lse.dfunction import (
    NpuDenseLightningIndexerSoftmaxLseDFunction,
)

INT64_MAX = 2**63 - 1
TITLES = ("kernel", "Function", "plain", "DTensor", "miss", "library", "torch DT")


class Case(NamedTuple):
    """One operator: our function, torch's operator, local tensors, and what follows the tensors in a call."""

    name: str
    function: type[DFunction]
    operator: Any
    kernel: Callable[..., Any]
    tensors: tuple[torch.Tensor, ...]
    attributes: tuple[Any, ...]


def lse_kernel(query: torch.Tensor, *_others: Any) -> tuple[torch.Tensor, torch.Tensor]:
    batch, length = query.shape[0], query.shape[1]
    return query.new_empty(batch, 1, length), query.new_empty(batch, 1, length)


def add_kernel(left: torch.Tensor, _right: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(left)


def bind(left: Any, right: Any) -> tuple[Any, ...]:
    return left, right


class BenchAdd(DFunction):
    """Two tensors, one output."""

    _op_name = "bench_add"
    bind_arguments = staticmethod(bind)

    @staticmethod
    def forward(_ctx: Any, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return add_kernel(left, right)

    @staticmethod
    def backward(_ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return grad, grad


class BenchAddDistributedOp(DistributedOp):
    """Both dims may be sharded."""

    bind_arguments = staticmethod(bind)
    rule = LayoutRule(
        arguments=("left", "right"),
        format_argument="",
        inputs={"MN": {"left": ("M", "N"), "right": ("M", "N")}},
        outputs={"MN": {"out": ("M", "N")}},
        shard=("M", "N"),
    )


def cases() -> list[Case]:
    """The operators, with torch's made and sharded like ours."""
    library = torch.library.Library("bench", "FRAGMENT")
    library.define(
        "lse(Tensor q, Tensor k, Tensor w, int[]? ql, int[]? kl, str layout, int mode, int before, int after) "
        "-> (Tensor, Tensor)"
    )
    library.define("add(Tensor left, Tensor right) -> Tensor")
    KEPT.append(library)
    for name, kernel, outputs in (("lse", lse_kernel, 2), ("add", add_kernel, 1)):
        library.impl(name, kernel, "CompositeExplicitAutograd")
        torch.library.register_autograd(f"bench::{name}", no_gradient, lib=library)
        tensors = 3 if name == "lse" else 2
        register_sharding(getattr(torch.ops.bench, name).default)(shardings(outputs, tensors, 9 if tensors == 3 else 2))
    get_platform().load_kernel = lambda _name: lse_kernel  # type: ignore[method-assign]
    BenchAddDistributedOp("bench_add")
    lse = (torch.randn(1, 4, 8, 128), torch.randn(1, 4, 1, 128), torch.randn(1, 4, 8))
    attributes = (None, None, "BSND", 3, INT64_MAX, INT64_MAX)
    add = (torch.randn(8, 64), torch.randn(8, 64))
    return [
        Case("lse", NpuDenseLightningIndexerSoftmaxLseDFunction, torch.ops.bench.lse, lse_kernel, lse, attributes),
        Case("add", BenchAdd, torch.ops.bench.add, add_kernel, add, ()),
    ]


KEPT: list[Any] = []
"""A library of operators goes with its object."""


def no_gradient(_ctx: Any, *_grads: Any) -> Any:
    raise NotImplementedError("the benchmark runs forward only")


def shardings(outputs: int, tensors: int, arguments: int) -> Callable[..., Any]:
    """Everything sharded on dim 0 together, or replicated."""

    def propose(*_args: Any) -> list[Any]:
        rest = [None] * (arguments - tensors)
        return [
            ([placement] * outputs, [placement] * tensors + rest) for placement in (TorchReplicate(), TorchShard(0))
        ]

    return propose


def best(call: Callable[[], Any], calls: int, rounds: int) -> float:
    """Microseconds of one call."""
    least = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        least = min(least, time.perf_counter() - start)
    return least / calls * 1e6


def miss(call: Callable[[], Any], rounds: int) -> float:
    """Microseconds of a call about which nothing is known."""
    least = float("inf")
    for _ in range(rounds * 10):
        _OP_DISPATCHER.forget()
        start = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - start)
    return least * 1e6


def measure(case: Case, grad: bool, calls: int, rounds: int) -> None:
    mesh = init_device_mesh("cpu", (1,), mesh_dim_names=("dp",))
    torch_mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,), mesh_dim_names=("dp",))
    with torch.set_grad_enabled(grad):
        tensors = [tensor.clone().requires_grad_(grad) for tensor in case.tensors]
        ours = [DTensor.from_local(tensor, mesh, (Shard(0),)) for tensor in tensors]
        theirs = [TorchDTensor.from_local(tensor, torch_mesh, [TorchShard(0)]) for tensor in tensors]
        rest, function = case.attributes, case.function
        plain_apply = super(DFunction, function).apply  # type: ignore[misc]
        costs = [
            best(lambda: case.kernel(*tensors, *rest), calls, rounds),
            best(lambda: plain_apply(*tensors, *rest), calls, rounds),
            best(lambda: function.apply(*tensors, *rest), calls, rounds),
            best(lambda: function.apply(*ours, *rest), calls, rounds),
            miss(lambda: function.apply(*ours, *rest), rounds),
            best(lambda: case.operator(*tensors, *rest), calls, rounds),
            best(lambda: case.operator(*theirs, *rest), calls, rounds),
        ]
    ratio = (costs[3] - costs[1]) / (costs[6] - costs[5])
    figures = "".join(f"{cost:>10.1f}" for cost in costs)
    print(f"{case.name:>4} {'on' if grad else 'off':>4}{figures}{ratio:>8.2f}", flush=True)


def import_seconds(statement: str) -> float:
    """Wall time of a process that imports something, the best of three."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", statement], check=True)
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}; microseconds, best of {options.rounds} rounds")
    print(f"{'op':>4} {'grad':>4}" + "".join(f"{title:>10}" for title in TITLES) + f"{'ratio':>8}", flush=True)
    for case in cases():
        for grad in (False, True):
            measure(case, grad, options.calls, options.rounds)
    framework = import_seconds("import torch, torch.distributed.device_mesh")
    whole = import_seconds("import hyper_parallel; hyper_parallel.DTensor; hyper_parallel.custom_ops")
    print(f"import: torch {framework:.2f} s, hyper_parallel with it {whole:.2f} s")


if __name__ == "__main__":
    main()
