# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""How evenly a sequence lies on the ranks that share it, what that is worth, and what a call costs for it.

Run: python benchmarks/context_parallel.py [--tokens 4096] [--ranks 4] [--rounds 3] [--calls 300]

1. Balance: pairs of a row and a key that it sees, the most on any rank over the mean, for 8 ranks. Integers only.
2. A step on real ranks: 4 processes, connected by gloo, run npu_dense_lightning_indexer_softmax_lse and
   npu_dense_lightning_indexer_grad_kl_loss with its backward on compiled kernels: B = 1, 32 query heads and a key head
   of 64, 8 heads of the indexer, causal, float32, one thread a rank. Milliseconds are those that a rank's process was
   running, best of several rounds, so that it does not matter how many processors the ranks share. The critical path is
   the slowest rank's.
3. What a call costs: microseconds of a call of the first operator with 64 packed documents on one of two ranks, of the
   time that the process was running, best of many rounds, with kernels that compute nothing. The dispatcher knows every
   call. `DP`: no context parallelism, each rank has documents of its own. `same`: always the same lengths; `new`: so
   many different ones that their windows are not kept but computed in each call. `more` is what context parallelism
   adds: the cuts, the parts put together, in zigzag order a second run of the operator, and per document copies of rows
   and keys. `windows` is what of it is integers: with new lengths, the windows of a rank, without any tensor.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ["HYPER_PARALLEL_PLATFORM"] = "torch"
os.environ["HYPER_PARALLEL_KERNELS"] = "native"
os.environ["HYPER_PARALLEL_CPU_THREADS"] = "1"

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as processes

from hyper_parallel import DTensor, Replicate, Shard, distribute_tensor, get_platform, init_device_mesh, library
from hyper_parallel.context_parallel import SequenceOrder, current_sequence_order, deal, sequence_order
from hyper_parallel.core.shard.context_parallel.blocks import SequenceFacts, SequenceShare
from hyper_parallel.core.shard.context_parallel.documents import Documents
from hyper_parallel.core.shard.context_parallel.windows import Window, document_windows

CONTIGUOUS, HEAD_TAIL, ZIGZAG = (SequenceOrder(name) for name in ("contiguous", "head_tail", "zigzag"))
PER_DOCUMENT = SequenceOrder("zigzag", per_document=True)
LSE, KL_LOSS = "npu_dense_lightning_indexer_softmax_lse", "npu_dense_lightning_indexer_grad_kl_loss"
HEADS, SIZE, INDEX_HEADS, INDEX_SIZE = 32, 64, 8, 128
DOCUMENTS = 64


def described(order: SequenceOrder) -> str:
    return f"{order.name} per document" if order.per_document else order.name


def print_row(name: str, *figures: str) -> None:
    print(f"{name:<34}" + "".join(f"{figure:>10}" for figure in figures), flush=True)


def visible_pairs(window: Window) -> int:
    """The pairs of a row and a key that it sees in a causal window."""
    assert window.query_ends is not None
    assert window.key_ends is not None
    rows, keys = np.diff(window.query_ends, prepend=0), np.diff(window.key_ends, prepend=0)
    return int((rows * (2 * keys - rows + 1) // 2).sum())


def imbalance(documents: Documents, order: SequenceOrder, ranks: int) -> float:
    """The most pairs on any rank over the mean."""
    work = [sum(map(visible_pairs, document_windows(documents, order, rank, ranks))) for rank in range(ranks)]
    return max(work) * ranks / sum(work)


def show_balance() -> None:
    ranks, tokens = 8, 32768
    mixed = (2 * ranks * np.random.default_rng(0).integers(1, 64, DOCUMENTS)).cumsum()
    print_row("balance on 8 ranks", "max/mean")
    for order in (CONTIGUOUS, HEAD_TAIL, ZIGZAG):
        print_row(
            f"  {tokens} tokens, {described(order)}", f"{imbalance(Documents([tokens], [tokens]), order, ranks):.4f}"
        )
    for order in (CONTIGUOUS, ZIGZAG, PER_DOCUMENT):
        share = imbalance(Documents(mixed, mixed), order, ranks)
        print_row(f"  {DOCUMENTS} documents, {described(order)}", f"{share:.4f}")


def on_ranks(function: Callable[..., None], ranks: int, *args: Any) -> None:
    """Run a function on as many processes, in one process group."""
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder:
        store = Path(folder, "store").as_uri()
        processes.spawn(run_rank, (function, ranks, store, args), nprocs=ranks)


def run_rank(rank: int, function: Callable[..., None], ranks: int, store: str, args: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=ranks)
    function(*args)
    dist.barrier()
    dist.destroy_process_group()


def operator(name: str) -> Callable[..., Any]:
    """By its autograd function: the entry point of one that torch_npu has would be torch_npu's."""
    apply: Callable[..., Any] = library.operator(name).load_dfunction().apply
    return apply


def show_steps(tokens: int, rounds: int) -> None:
    """On every rank: time a step in both orders; rank 0 prints."""
    critical = {}
    for order in (CONTIGUOUS, ZIGZAG):
        with sequence_order(order):
            step = step_of(tokens)
            step()
            mine = min(busy_ms(step) for _ in range(rounds))
        every: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(every, mine)
        critical[order.name] = max(every)
        if dist.get_rank() == 0:
            figures = [*every, max(every), sum(every) / len(every)]
            print_row(f"  {described(order)}", *(f"{x:.0f}" for x in figures), f"{figures[-2] / figures[-1]:.2f}")
    if dist.get_rank() == 0:
        print_row("  critical path, zigzag/contiguous", f"{critical['zigzag'] / critical['contiguous']:.2f}")


def step_of(tokens: int) -> Callable[[], None]:
    """The indexer's loss and the gradients of its tensors, on this rank's rows."""
    generator = torch.Generator().manual_seed(0)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("cp",))

    def normal(*shape: int, scale: float = 0.2) -> torch.Tensor:
        return torch.randn(1, tokens, *shape, generator=generator) * scale

    query, query_index, weights = (
        deal(tensor, mesh, 1)
        for tensor in (normal(HEADS, SIZE), normal(INDEX_HEADS, INDEX_SIZE), normal(INDEX_HEADS, scale=0.4))
    )
    key, key_index = (
        distribute_tensor(tensor, mesh, (Replicate(),)) for tensor in (normal(1, SIZE), normal(1, INDEX_SIZE))
    )
    # Scores are next to zero: row t sees t + 1 keys, all alike.
    row_sum = torch.arange(1.0, tokens + 1)[None, None, :, None].expand(1, 1, tokens, HEADS)
    statistics = [deal(tensor.contiguous(), mesh, 2) for tensor in (torch.zeros_like(row_sum), row_sum)]
    leaves = [tensor.to_local().requires_grad_() for tensor in (query_index, key_index, weights)]

    def step() -> None:
        index_statistics = operator(LSE)(query_index, key_index, weights)
        outputs = operator(KL_LOSS)(
            query, key, query_index, key_index, weights, *statistics, *index_statistics, SIZE**-0.5
        )
        torch.autograd.grad(outputs[3].to_local().sum(), leaves)

    return step


def busy_ms(step: Callable[[], None]) -> float:
    dist.barrier()
    start = time.process_time()
    step()
    return (time.process_time() - start) * 1e3


def show_calls(calls: int, rounds: int) -> None:
    """On rank 0 of two: what a call costs. The other waits, without running."""
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("cp",))
    get_platform().load_kernel = lambda _name: no_kernel  # type: ignore[method-assign]
    if dist.get_rank() == 0:
        for grad in (False, True):
            for order in (CONTIGUOUS, ZIGZAG, PER_DOCUMENT):
                with sequence_order(order), torch.set_grad_enabled(grad):
                    row = call_costs(mesh, calls, rounds)
                print_row(f"  {described(order)}, grad {'on' if grad else 'off'}", *(f"{cost:.1f}" for cost in row))
    dist.barrier()


def no_kernel(query: torch.Tensor, *_others: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return query.new_empty(1, query.shape[0]), query.new_empty(1, query.shape[0])


def call_costs(mesh: Any, calls: int, rounds: int) -> list[float]:
    """Of the same lengths DP, CP and the difference; then of new ones; then the windows alone."""
    rows = 4 * DOCUMENTS  # of both ranks: a chunk of a document has one or several
    grad = torch.is_grad_enabled()
    tensors = [torch.randn(rows // 2, *shape) for shape in ((INDEX_HEADS, INDEX_SIZE), (1, INDEX_SIZE), (INDEX_HEADS,))]
    whole_key = torch.randn(rows, 1, INDEX_SIZE)
    query, own_key, weights = (DTensor.from_local(t.requires_grad_(grad), mesh, (Shard(0),)) for t in tensors)
    all_keys = DTensor.from_local(whole_key.requires_grad_(grad), mesh, (Replicate(),))
    costs: list[float] = []
    for known in (True, False):
        pair = []
        for key, tokens in ((own_key, rows // 2), (all_keys, rows)):
            ends = lengths(tokens, known)
            pair.append(best(query, key, weights, ends, calls, rounds))
        costs += [*pair, pair[1] - pair[0]]
    return [*costs, windows_cost(rows, calls, rounds)]


def windows_cost(rows: int, calls: int, rounds: int) -> float:
    """Microseconds for the windows of one call with new lengths, and for the places where rows and keys lie."""
    share = SequenceShare(0, 2, current_sequence_order(), "causal")
    drawn = [tuple(ends) for ends in itertools.islice(lengths(rows, known=False), calls)]
    least = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        for ends in drawn:
            blocks = share.blocks(SequenceFacts(rows, rows, ends, ends))
            blocks.row_places()
            for block in blocks:
                if block.keys.span is None:
                    block.keys.places  # noqa: B018 - computed when it is asked for
        least = min(least, time.process_time() - start)
    return least / calls * 1e6


def lengths(tokens: int, known: bool) -> Iterator[list[int]]:
    """Cumulative ends of documents, again and again; if their windows are not to be known, more than are kept."""
    least = 4 if tokens == 4 * DOCUMENTS else 2
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(1 if known else 200):
        # Multiples of what can be dealt, some of them empty, that add up to the tokens.
        counts = rng.multinomial(tokens // least, [1 / DOCUMENTS] * DOCUMENTS)
        drawn.append((least * counts).cumsum().tolist())
    return itertools.cycle(drawn)


def best(query: Any, key: Any, weights: Any, ends: Iterator[list[int]], calls: int, rounds: int) -> float:
    """Microseconds of one call."""
    apply = operator(LSE)
    least = float("inf")
    for _ in range(rounds):
        drawn = list(itertools.islice(ends, calls))
        start = time.process_time()
        for each in drawn:
            apply(query, key, weights, each, each, "TND")
        least = min(least, time.process_time() - start)
    return least / calls * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=300)
    given = parser.parse_args()
    show_balance()
    if given.tokens % (2 * given.ranks):
        sys.exit(f"--tokens should be divisible by {2 * given.ranks}, but is {given.tokens}.")
    titles = (*(f"rank {rank}" for rank in range(given.ranks)), "critical", "mean", "max/mean")
    print_row(f"a step of {given.tokens} tokens, CPU ms", *titles)
    on_ranks(show_steps, given.ranks, given.tokens, given.rounds)
    print_row("a call, 64 documents, us", "DP same", "CP same", "more", "DP new", "CP new", "more", "windows")
    on_ranks(show_calls, 2, given.calls, given.rounds * 5)


if __name__ == "__main__":
    main()
