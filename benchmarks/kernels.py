# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What the compiled kernels of the dense lightning indexer cost on the CPU, beside the same formulas in eager torch.

Run: python benchmarks/kernels.py [--lengths 512,2048,4096] [--threads 1,2] [--rounds 5]

B = 1, S1 = S2, 8 heads of 128, one key head (the main attention of the loss: 8), float32, causal mask. `lse` is
npu_dense_lightning_indexer_softmax_lse, `kl` npu_dense_lightning_indexer_grad_kl_loss with its gradients; eager torch
computes both with whole matrices of scores and the mask applied to them, without autograd.

Every case runs in a process of its own. `ms` is the best of several rounds, `ratio` that of eager torch over that of
the kernel; `CPU ms` is the time that all threads were running, which other processes disturb less. `MB` is
how far resident memory rises above what it was before the first call at this size, inputs and a small call to warm up
included in what it was before. The results of both are compared.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HEADS, SIZE, SCALE = 8, 128, 128**-0.5
INT64_MAX = 2**63 - 1
TITLES = (
    "kernel",
    "S",
    "threads",
    "native ms",
    "eager ms",
    "ratio",
    "native CPU ms",
    "eager CPU ms",
    "native MB",
    "eager MB",
)


def draw(kernel: str, length: int) -> list[Any]:
    """The tensors of a call, in its order. The statistics are those of the tensors."""
    import torch

    generator = torch.Generator().manual_seed(length)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator) * SIZE**-0.25

    indexer = [normal(1, length, HEADS, SIZE), normal(1, length, 1, SIZE), normal(1, length, HEADS)]
    if kernel == "lse":
        return indexer
    main = [normal(1, length, HEADS, SIZE), normal(1, length, HEADS, SIZE)]
    query, key = (tensor[0].transpose(0, 1) for tensor in main)
    row_max, row_sum = torch.empty(HEADS, length), torch.empty(HEADS, length)
    for first in range(0, length, 256):  # not all scores at once: they would count as memory that was there before
        rows = slice(first, first + 256)
        scores = hidden(query[:, rows] @ key.transpose(1, 2) * SCALE, first)
        row_max[:, rows] = scores.amax(-1)
        row_sum[:, rows] = torch.exp(scores - scores.amax(-1, keepdim=True)).sum(-1)
    statistics = [tensor.reshape(1, HEADS, length, 1) for tensor in (row_max, row_sum)]
    return [*main, *indexer, *statistics, *native("lse")(*indexer)]


def hidden(scores: Any, first: int = 0) -> Any:
    """Scores [.., q, k] with -inf where row `first + i` does not see the key."""
    import torch

    rows, keys = scores.shape[-2:]
    mask = torch.ones(rows, keys, dtype=torch.bool).triu(first + 1)
    return scores.masked_fill_(mask, -torch.inf)


def eager_lse(query: Any, key: Any, weights: Any) -> tuple[Any, ...]:
    import torch

    products = torch.relu(query.transpose(1, 2) @ key.permute(0, 2, 3, 1))
    scores = hidden(torch.einsum("bqn,bnqk->bqk", weights, products))
    row_max = scores.amax(-1)
    return row_max[:, None], torch.exp(scores - row_max[..., None]).sum(-1)[:, None]


def eager_kl(
    query: Any,
    key: Any,
    query_index: Any,
    key_index: Any,
    weights: Any,
    row_max: Any,
    row_sum: Any,
    row_max_index: Any,
    row_sum_index: Any,
) -> tuple[Any, ...]:
    import torch

    scores = hidden(query.transpose(1, 2) @ key.permute(0, 2, 3, 1) * SCALE)
    p = (torch.exp(scores - row_max) / row_sum).mean(1)
    products = torch.relu(query_index.transpose(1, 2) @ key_index.permute(0, 2, 3, 1))
    index_scores = hidden(torch.einsum("bqn,bnqk->bqk", weights, products))
    s = torch.exp(index_scores - row_max_index[:, 0, :, None]) / row_sum_index[:, 0, :, None]
    loss = (p * (torch.log(p.clamp(min=1e-8)) - torch.log(s.clamp(min=1e-8)))).sum()
    d_scores = s - p
    d_weights = torch.einsum("bqk,bnqk->bqn", d_scores, products)
    d_products = d_scores[:, None] * weights.transpose(1, 2)[..., None] * (products > 0)
    d_query = (d_products @ key_index.transpose(1, 2)).transpose(1, 2)
    d_key = torch.einsum("bnqk,bqnd->bkd", d_products, query_index)[:, :, None]
    return d_query, d_key, d_weights, loss.reshape(1)


def native(kernel: str) -> Callable[..., tuple[Any, ...]]:
    """The compiled kernel on torch tensors."""
    import torch

    from hyper_parallel.native.flavours import HostFlavour
    from hyper_parallel.native.kernels import native_kernel

    op = "npu_dense_lightning_indexer_" + {"lse": "softmax_lse", "kl": "grad_kl_loss"}[kernel]
    compiled = native_kernel(op, HostFlavour())
    absent = [None] * 2 if kernel == "lse" else [SCALE, *[None] * 4]  # ropes and lengths

    def run(*tensors: Any) -> tuple[Any, ...]:
        arrays = [tensor.numpy() for tensor in tensors]
        outputs = compiled(*arrays, *absent, "BSND", 3, INT64_MAX, INT64_MAX)
        return tuple(torch.from_numpy(output) for output in outputs)

    return run


def resident(field: str) -> float:
    """VmRSS, resident memory now, or VmHWM, its highest since it was last reset; in MB."""
    (kilobytes,) = re.findall(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(kilobytes) / 1024


def measure(kernel: str, which: str, length: int, threads: int, rounds: int) -> dict[str, Any]:
    """One case, in this process."""
    import torch

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    eager = {"lse": eager_lse, "kl": eager_kl}[kernel]
    run = native(kernel) if which == "native" else eager
    run(*draw(kernel, 64))
    tensors = draw(kernel, length)
    Path("/proc/self/clear_refs").write_text("5")  # the highest value so far becomes the present one
    before = resident("VmRSS")
    walls, busy = [], []
    for _ in range(rounds):
        start, running = time.perf_counter(), time.process_time()
        outputs = run(*tensors)
        walls.append(time.perf_counter() - start)
        busy.append(time.process_time() - running)
    sums = [float(output.double().abs().sum()) for output in outputs]
    return {"ms": min(walls) * 1e3, "CPU ms": min(busy) * 1e3, "MB": resident("VmHWM") - before, "sums": sums}


def measured(kernel: str, which: str, length: int, threads: int, rounds: int) -> dict[str, Any]:
    """One case, in a process of its own."""
    case = [kernel, which, str(length), str(threads), str(rounds)]
    environment = os.environ | {"HYPER_PARALLEL_PLATFORM": "torch", "HYPER_PARALLEL_CPU_THREADS": str(threads)}
    command = [sys.executable, __file__, "--case", *case]
    shown = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    found: dict[str, Any] = json.loads(shown)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Times and memory of compiled kernels, beside eager torch.")
    parser.add_argument("--lengths", default="512,2048,4096", help="S1 = S2")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--case", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case:
        kernel, which, *numbers = given.case
        print(json.dumps(measure(kernel, which, *map(int, numbers))))
        return
    print("  ".join(f"{title:>9}" for title in TITLES))
    for kernel in ("lse", "kl"):
        for length in map(int, given.lengths.split(",")):
            for threads in map(int, given.threads.split(",")):
                ours, theirs = (measured(kernel, which, length, threads, given.rounds) for which in ("native", "eager"))
                for one, other in zip(ours["sums"], theirs["sums"], strict=True):
                    if not math.isclose(one, other, rel_tol=1e-3):
                        sys.exit(f"{kernel} at {length}: the results differ: {ours['sums']} and {theirs['sums']}")
                cells = [f"{ours['ms']:.1f}", f"{theirs['ms']:.1f}", f"{theirs['ms'] / ours['ms']:.1f}"]
                cells += [f"{side[unit]:.0f}" for unit in ("CPU ms", "MB") for side in (ours, theirs)]
                row = (kernel, str(length), str(threads), *cells)
                print("  ".join(f"{x:>{max(9, len(t))}}" for x, t in zip(row, TITLES, strict=True)), flush=True)


if __name__ == "__main__":
    main()
