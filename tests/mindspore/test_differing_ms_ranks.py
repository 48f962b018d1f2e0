# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Ranks of MindSpore that do not hold parts of one tensor: both are told, and neither goes on with garbage."""

from __future__ import annotations

import pytest
from ranks import run_mccl_ranks

from tests.runtime.differing_lengths import ON_FOUR, ON_TWO, check_told, check_told_of_dealing, told, told_of_dealing
from tests.runtime.differing_ranks import CASES, EQUAL, LONE, check_compared, check_found_in_the_collective, errors


def errors_and_lengths(cases, of_lengths):
    return errors(cases), told(of_lengths)


def lengths_of_groups(cases):
    return told(cases), told_of_dealing()


def test_mccl_is_not_trusted():
    of_rank = run_mccl_ranks(errors, 2, (*CASES, *EQUAL))
    check_found_in_the_collective([found[: len(CASES)] for found in of_rank])
    assert [found[len(CASES) :] for found in of_rank] == [[("", "")] * len(EQUAL)] * 2


def test_compared_ranks(monkeypatch):
    monkeypatch.setenv("HYPER_PARALLEL_CHECK_RANKS", "1")
    seen = run_mccl_ranks(errors_and_lengths, 2, (*CASES, LONE, *EQUAL), list(ON_TWO.values()))
    of_rank = [found for found, _ in seen]
    check_compared([found[: -len(EQUAL)] for found in of_rank])
    assert [found[-len(EQUAL) :] for found in of_rank] == [[("", "")] * len(EQUAL)] * 2
    check_told(ON_TWO, [lengths for _, lengths in seen])


@pytest.mark.slow
def test_lengths_of_groups(monkeypatch):
    monkeypatch.setenv("HYPER_PARALLEL_CHECK_RANKS", "1")
    seen = run_mccl_ranks(lengths_of_groups, 4, list(ON_FOUR.values()))
    check_told(ON_FOUR, [lengths for lengths, _ in seen])
    check_told_of_dealing([dealing for _, dealing in seen])
