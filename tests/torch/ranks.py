# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Starts torch ranks as processes of their own, connected by gloo over the loopback interface.

``run_gloo_ranks(function, world_size, *args)`` in a test; this file is also what every rank runs.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

from tests.rank_processes import ROOT, FrameworkCrashError, RankError, free_port, run_processes, run_rank

PATIENCE = "GROUP_PATIENCE"

__all__ = ["ROOT", "RankError", "free_port", "run_gloo_ranks"]


def run_gloo_ranks(
    target: str | Callable[..., Any], world_size: int, *args: Any, timeout: float = 120, patience: float = 60
) -> list[Any]:
    """Run a function on ``world_size`` processes and return their results in the order of the ranks.

    ``patience`` is the time-out of their process group. Ranks that a signal ends are started once more, if none of
    them had kernels of this project loaded.
    """
    for is_last in (False, True):
        port = free_port()
        environments = [_environment(rank, world_size, port) | {PATIENCE: str(patience)} for rank in range(world_size)]
        try:
            return run_processes(__file__, environments, target, args, timeout)
        except FrameworkCrashError as error:
            # Once in a thousand starts torch's own threads destroy the heap, with nothing of ours but Python running:
            # "malloc(): unaligned tcache chunk detected". A second time it is ours.
            if is_last:
                raise
            warnings.warn(f"torch has crashed, and its ranks start once more: {error}", stacklevel=2)
    raise AssertionError


def _environment(rank: int, world_size: int, port: int) -> dict[str, str]:
    environment = {
        "HYPER_PARALLEL_PLATFORM": "torch",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
    }
    return {**environment, "GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else environment


def _call(target: Callable[[], tuple[Any, ...]]) -> Any:
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=float(os.environ[PATIENCE])))
    function, args = target()
    result = function(*args)
    dist.barrier()
    return result


if __name__ == "__main__":
    run_rank(sys.argv[1], int(os.environ["RANK"]), _call)
