# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Ranks of torch that do not hold parts of one tensor: both are told, and neither goes on with garbage."""

from __future__ import annotations

from ranks import run_gloo_ranks

from tests.runtime.differing_ranks import CASES, EQUAL, LONE, check_compared, check_found_in_the_collective, errors


def test_gloo_is_not_trusted():
    of_rank = run_gloo_ranks(errors, 2, (*CASES, *EQUAL))
    check_found_in_the_collective([found[: len(CASES)] for found in of_rank])
    assert [found[len(CASES) :] for found in of_rank] == [[("", "")] * len(EQUAL)] * 2


def test_compared_ranks(monkeypatch):
    monkeypatch.setenv("HYPER_PARALLEL_CHECK_RANKS", "1")
    of_rank = run_gloo_ranks(errors, 2, (*CASES, LONE, *EQUAL))
    check_compared([found[: -len(EQUAL)] for found in of_rank])
    assert [found[-len(EQUAL) :] for found in of_rank] == [[("", "")] * len(EQUAL)] * 2
