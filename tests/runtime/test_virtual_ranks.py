# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Virtual ranks: results, failures that reach everybody, and collectives that never hang."""

from __future__ import annotations

import contextvars
import threading
import time

import numpy as np
import pytest

from hyper_parallel import init_device_mesh
from hyper_parallel.platform import get_platform
from hyper_parallel.platform.numpy.virtual_ranks import PeerFailedError, run_ranks


def test_results_in_the_order_of_the_ranks():
    def ranks(factor, *, offset):
        time.sleep(0.01 * (3 - get_platform().rank))
        return get_platform().rank * factor + offset, get_platform().world_size

    assert run_ranks(ranks, 4, 10, offset=1) == [(1, 4), (11, 4), (21, 4), (31, 4)]
    assert (get_platform().rank, get_platform().world_size) == (0, 1)


def test_ranks_see_the_context_of_the_caller():
    variable = contextvars.ContextVar("variable")
    variable.set("outer")

    def ranks():
        seen = variable.get()
        variable.set(get_platform().rank)
        return seen

    assert run_ranks(ranks, 2) == ["outer", "outer"]
    assert variable.get() == "outer"


def test_worlds_inside_of_a_rank():
    def inner():
        return get_platform().rank, get_platform().world_size

    def outer():
        return run_ranks(inner, 3), inner()

    assert run_ranks(outer, 2)[1] == ([(0, 3), (1, 3), (2, 3)], (1, 2))


def test_a_failing_rank_breaks_the_collectives_of_its_peers():
    messages = {}

    def ranks():
        mesh = init_device_mesh("cpu", (3,), mesh_dim_names=("dp",))
        if mesh.rank == 1:
            raise KeyError("lost")
        try:
            get_platform().all_reduce(np.ones(2), "sum", mesh, 0)
        except PeerFailedError as error:
            messages[mesh.rank] = str(error)
            raise

    started = threading.active_count()
    with pytest.raises(KeyError, match="lost") as caught:
        run_ranks(ranks, 3)
    assert "raised on virtual rank 1 of 3" in str([*getattr(caught.value, "__notes__", []), *caught.value.args])
    expected = "waits in all_reduce(sum) over mesh axis 'dp', but rank 1 has failed: KeyError('lost')"
    assert messages == {0: f"rank 0 {expected}", 2: f"rank 2 {expected}"}
    assert threading.active_count() == started


def test_a_rank_that_stays_away_is_named_at_once():
    def ranks():
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
        if mesh.rank == 0:
            get_platform().all_gather(np.ones(2), 0, mesh, 0)

    with pytest.raises(PeerFailedError, match=r"rank 0 waits in all_gather\(dim=0\).*rank 1 has ended without calling"):
        run_ranks(ranks, 2, timeout=3600)


def test_waiting_has_an_end():
    released = threading.Event()

    def ranks():
        mesh = init_device_mesh("cpu", (2,))
        if mesh.rank == 0:
            try:
                get_platform().all_gather(np.ones(2), 0, mesh, 0)
            finally:
                released.set()
        released.wait()

    with pytest.raises(PeerFailedError, match=r"rank 0 has waited 0.05 s in all_gather.*for the ranks \[1\]"):
        run_ranks(ranks, 2, timeout=0.05)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda p, m: p.all_gather(np.ones(2 + m.rank), 0, m, 0),
            r"rank 0 all_gather.* of \(2,\).*rank 1 .* of \(3,\)",
        ),
        (lambda p, m: p.all_gather(np.ones(2, ("f4", "f8")[m.rank]), 0, m, 0), "float32.*float64"),
        (lambda p, m: p.all_gather(np.ones((2, 2)), m.rank, m, 0), r"dim=0.*dim=1"),
        (lambda p, m: p.all_reduce(np.ones(2), ("sum", "max")[m.rank], m, 0), r"all_reduce\(sum\).*all_reduce\(max\)"),
        (
            lambda p, m: p.all_reduce(np.ones(2), "sum", m, 0) if m.rank else p.all_gather(np.ones(2), 0, m, 0),
            r"rank 0 all_gather.*rank 1 all_reduce",
        ),
    ],
)
def test_calls_that_do_not_match_fail_on_every_rank_and_can_be_survived(call, message):
    def ranks():
        mesh = init_device_mesh("cpu", (2,))
        with pytest.raises(ValueError, match=message):
            call(get_platform(), mesh)
        return get_platform().all_reduce(np.ones(1), "sum", mesh, 0)[0]

    assert run_ranks(ranks, 2) == [2, 2]


def test_groups_meet_independently():
    def ranks():
        mesh = init_device_mesh("cpu", (2, 3))
        value = np.array([10.0 ** get_platform().rank])
        for _ in range(20):
            down = get_platform().all_reduce(value, "sum", mesh, 0)
            along = get_platform().all_reduce(value, "sum", mesh, 1)
        return down[0], along[0], list(get_platform().all_gather(value, 0, mesh, 1))

    results = run_ranks(ranks, 6)
    assert results[0] == (1001, 111, [1, 10, 100])
    assert results[5] == (100100, 111000, [1000, 10000, 100000])


def test_a_sum_has_the_same_bits_on_every_rank_and_in_every_run():
    values = np.random.default_rng(0).normal(size=(4, 1000)).astype(np.float32)
    expected = ((values[0] + values[1]) + values[2]) + values[3]

    def ranks():
        mesh = init_device_mesh("cpu", (4,))
        return get_platform().all_reduce(values[mesh.rank], "sum", mesh, 0)

    for _ in range(5):
        for result in run_ranks(ranks, 4):
            np.testing.assert_array_equal(result, expected)


def test_short_floats_are_added_in_float32():
    def ranks():
        mesh = init_device_mesh("cpu", (3,))
        part = np.array([(2048, 0.75, 0.75)[mesh.rank]], np.float16)  # 2048 + 0.75 is 2048 in float16
        return get_platform().all_reduce(part, "sum", mesh, 0)

    for result in run_ranks(ranks, 3):
        assert result.dtype == np.float16
        assert result[0] == 2050


def test_a_failure_of_any_kind_is_raised_as_it_is():
    def leave():
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        run_ranks(leave, 2)


@pytest.mark.parametrize(("size", "error"), [(0, ValueError), (-1, ValueError), (2.0, TypeError), (True, TypeError)])
def test_wrong_world_sizes(size, error):
    with pytest.raises(error, match="world_size should be"):
        run_ranks(lambda: None, size)
