# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The operators on sequences that several ranks share: outputs, gradients and layouts, against the unsharded call."""

from __future__ import annotations

import pytest

from .drawn_sequences import FORMS, MESHES, ORDERS, drawn, small
from .sequence_calls import OPS, check_on_virtual_ranks

QUICK, MANY = 252, 2016


@pytest.mark.parametrize("op", OPS)
def test_every_order_on_every_mesh(op):
    """Half of all kinds, drawn."""
    cases = [case for case in drawn(2 * QUICK, seed=1) if case.op == op][::2]
    assert len(cases) == QUICK // len(OPS)
    for case in cases:
        check_on_virtual_ranks(case)


@pytest.mark.slow
@pytest.mark.parametrize("op", OPS)
def test_many(op):
    """Four of each kind, with other lengths."""
    cases = [case for case in drawn(MANY, seed=2) if case.op == op]
    assert len(cases) == MANY // len(OPS)
    for case in cases:
        check_on_virtual_ranks(case)


def test_what_is_drawn():
    """Every kind once in each round; empty documents, more queries than keys, blocks that see no key."""
    cases = list(drawn(2 * QUICK, seed=1))
    kinds = {(case.op, case.order, case.form, case.mesh, case.over, case.groups_on) for case in cases}
    assert len(kinds) == len(cases) == len(OPS) * len(ORDERS) * len(FORMS) * len(MESHES)
    documents = [pair for case in cases if not case.batch for pair in zip(case.queries[0], case.keys[0], strict=True)]
    assert sum(not query for query, _ in documents) > 20
    assert sum(query > key for query, key in documents) > 20
    assert sum(not key and query > 0 for query, key in documents) > 5
    assert any(case.whole for case in cases)


@pytest.mark.slow
def test_some_of_all_small_ones():
    """Every 40th; `make exhaust` runs all."""
    for index, case in enumerate(small()):
        if index % 40 == 0:
            check_on_virtual_ranks(case)
