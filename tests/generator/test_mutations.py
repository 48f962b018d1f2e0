# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Single mistakes in the specs: which of them reading the spec finds, and under which id."""

from __future__ import annotations

import pytest

from .mutations import MUTATIONS, RUN, Mutation, table
from .spec_texts import ROOT


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: f"{mutation.op}: {mutation.mistake}")
def test_what_finds_the_mistake(mutation: Mutation) -> None:
    if mutation.found_by == RUN:
        assert mutation.findings() == [], "reading finds it now: say so in the table"
    else:
        assert mutation.found_by in mutation.findings()


def test_there_are_enough_mistakes_in_every_spec() -> None:
    assert len(MUTATIONS) >= 40
    assert len({mutation.op for mutation in MUTATIONS}) == 7
    assert len({(mutation.op, mutation.old, mutation.new) for mutation in MUTATIONS}) == len(MUTATIONS)


def test_the_table_in_the_docs_is_this_one() -> None:
    assert table() in (ROOT / "docs" / "mutations.md").read_text()
