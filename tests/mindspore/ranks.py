# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Starts MindSpore ranks as processes of their own, connected by mccl over the loopback interface, without msrun.

``run_mccl_ranks(function, world_size, *args)`` in a test; this file is also what every rank and the scheduler run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from tests.rank_processes import GRACE, RankError, end_with_parent, free_port, run_processes, run_rank

__all__ = ["RankError", "run_mccl_ranks"]


def run_mccl_ranks(
    target: str | Callable[..., Any],
    world_size: int,
    *args: Any,
    timeout: float = 240,
    patience: int = 60,
    grace: float = GRACE,
) -> list[Any]:
    """Run a function on ``world_size`` processes and return their results in the order of the ranks.

    ``patience`` is for how many seconds a rank waits in a collective, ``grace`` for how many the ranks may go on after
    one of them has failed.
    """
    cluster = {
        "GLOG_v": "3",  # errors only
        "HYPER_PARALLEL_PLATFORM": "mindspore",
        "MS_CPU_COMM_OP_TIMEOUT": str(patience),
        "MS_RECEIVE_MSG_TIMEOUT": str(patience),
        "MS_RETRY_INTERVAL_LOWER": "1",  # seconds between attempts to reach the scheduler
        "MS_RETRY_INTERVAL_UPPER": "1",
        "MS_SCHED_HOST": "127.0.0.1",
        "MS_SCHED_PORT": str(free_port()),
        "MS_TOPO_TIMEOUT": "60",
        "MS_WORKER_NUM": str(world_size),
    }
    ranks = [{**cluster, "MS_ROLE": "MS_WORKER", "MS_NODE_ID": str(rank)} for rank in range(world_size)]
    scheduler = {**cluster, "MS_ROLE": "MS_SCHED", "MS_NODE_ID": "scheduler"}
    return run_processes(__file__, ranks, target, args, timeout, server=scheduler, grace=grace)


def _call(target: Callable[[], tuple[Any, ...]]) -> Any:
    from mindspore.mint import distributed

    from hyper_parallel import get_platform

    get_platform().init_backend("cpu", get_platform().world_size)
    function, args = target()
    result = function(*args)
    distributed.barrier()
    return result


if __name__ == "__main__":
    if os.environ["MS_ROLE"] == "MS_SCHED":
        from mindspore import communication

        end_with_parent()
        communication.init("mccl")  # serves the ranks until this process is ended
    else:
        run_rank(sys.argv[1], int(os.environ["MS_NODE_ID"]), _call)
