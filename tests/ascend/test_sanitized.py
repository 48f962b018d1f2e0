# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The same with device, kernels and operators compiled with sanitizers; and many calls, after which nothing is left."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.ascend.toolkit import environment
from tests.sanitizers.sanitized import CALLS, output_of, run_tests

KERNELS = 10
pytestmark = pytest.mark.timeout(900)  # compiles with sanitizers


def test_the_table_of_calls_and_views() -> None:
    done = run_tests("tests/ascend/test_operators.py", "tests/ascend/test_views.py", environment=environment(True))
    assert int(done.split()[0]) > 100, done


def many_calls(kept: int, calls: int, with_sanitizers: bool) -> dict[str, Any]:
    arguments = ("-m", "tests.ascend.many_calls", str(kept), str(calls))
    said = output_of(*arguments, environment=environment(with_sanitizers))
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    assert found["wrong"] == found["faults"] == []
    assert len(found["kernels"]) == KERNELS
    assert found["launched"] == calls
    return found


def test_no_plan_is_kept() -> None:
    """Whoever plans a call destroys all of it behind the launch."""
    found = many_calls(0, 1000, with_sanitizers=False)
    assert found["planned"] == 1000
    last = found["seen"][-1]
    assert {**last, "heap bytes": 0} == dict.fromkeys(last, 0)


def test_plans_are_kept_up_to_a_number() -> None:
    """Old ones give way to new ones, and nothing else lives on, on the heap neither."""
    kept = 2
    found = many_calls(kept, CALLS, with_sanitizers=False)
    assert kept * KERNELS < found["planned"] < CALLS
    first, *_, last = found["seen"][2:]  # the pool of calls has been gone through
    assert last["executor"] == kept * KERNELS
    assert last["device bytes"] == 0
    assert abs(last["tensor"] - first["tensor"]) < kept * KERNELS * 22  # plans differ in their tensors
    assert last["heap bytes"] - first["heap bytes"] < 50 * CALLS  # a call has some ten objects of a hundred bytes


def test_sanitized_calls() -> None:
    many_calls(2, 500, with_sanitizers=True)


def test_plans_are_used_again() -> None:
    """Plans find the tensors of a later call, where only their memory is another one."""
    found = many_calls(-1, 3000, with_sanitizers=False)
    assert found["planned"] < 300
    *_, before, last = found["seen"]
    assert last["executor"] == found["planned"]
    assert {**last, "heap bytes": 0} == {**before, "heap bytes": 0}
