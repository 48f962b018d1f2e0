# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The process harness: results come back, failures name the rank, and no process stays."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from ranks import RankError, run_gloo_ranks

from tests.rank_processes import is_running

pytest.importorskip("torch")


def process_ids_and_settings():
    import torch

    from hyper_parallel import get_platform

    return os.getpid(), get_platform().name, get_platform().rank, get_platform().world_size, torch.get_num_threads()


def fail_on_rank_one(folder):
    from hyper_parallel import get_platform

    rank = get_platform().rank
    Path(folder, str(os.getpid())).touch()
    if rank == 1:
        raise ArithmeticError("one of us is wrong")
    time.sleep(600)


def exit_silently():
    os._exit(7)


def crash_once(folder, loads_kernels):
    if loads_kernels:
        sys.audit("import", "kernels", "/somewhere/native/kernels.so", None, None, None)
    seen = Path(folder, os.environ["RANK"])
    if not seen.exists() and os.environ["RANK"] == "1":
        seen.touch()
        os.abort()
    return "survived"


def sleep_for_ever(folder):
    Path(folder, str(os.getpid())).touch()
    print("still here", flush=True)
    time.sleep(600)


def test_results_in_the_order_of_the_ranks():
    results = run_gloo_ranks(process_ids_and_settings, 2)
    assert [result[1:] for result in results] == [("torch", 0, 2, 1), ("torch", 1, 2, 1)]
    assert not any(is_running(result[0]) for result in results)


def test_a_crash_of_the_framework_is_tried_again(tmp_path):
    with pytest.warns(UserWarning, match=r"(?s)torch has crashed.*rank 1 of 2: signal 6.*Fatal Python error: Aborted"):
        assert run_gloo_ranks(crash_once, 2, str(tmp_path), False) == ["survived", "survived"]


def test_a_crash_with_kernels_of_ours_is_a_failure(tmp_path):
    with pytest.raises(RankError, match="exit code -6"):
        run_gloo_ranks(crash_once, 2, str(tmp_path), True)


def test_a_failure_carries_the_rank_and_its_traceback(tmp_path):
    with pytest.raises(RankError, match=r"(?s)rank 1 of 2 has failed.*fail_on_rank_one.*one of us is wrong"):
        run_gloo_ranks(fail_on_rank_one, 2, str(tmp_path))
    started = [int(path.name) for path in tmp_path.iterdir()]
    assert started
    assert not any(is_running(pid) for pid in started)


def test_a_silent_death_is_a_failure():
    with pytest.raises(RankError, match=r"rank \d of 2 has ended with exit code 7"):
        run_gloo_ranks(exit_silently, 2)


def test_a_timeout_ends_all_ranks(tmp_path):
    with pytest.raises(TimeoutError, match=r"(?s)ranks \[0, 1\] have not ended within 10 s.*still here"):
        run_gloo_ranks(sleep_for_ever, 2, str(tmp_path), timeout=10)
    assert not any(is_running(int(path.name)) for path in tmp_path.iterdir())


def test_a_function_that_ranks_cannot_import_is_refused():
    with pytest.raises(ValueError, match="top level of a module"):
        run_gloo_ranks(lambda: None, 2)
