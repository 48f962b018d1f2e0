# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Wrong rules are found, and correct ones are not complained about."""

from __future__ import annotations

import pytest

from tests.verify.mutants.every import EVERY
from tests.verify.mutants.model import Mutant, find
from tests.verify.mutants.page import PAGE, page
from tests.verify.mutants.variants import variants

QUICK = 9
"""Of so many mutants one is run with the quick tests."""


@pytest.mark.parametrize("mutant", EVERY[::QUICK], ids=str)
def test_some_mistakes_are_found(mutant: Mutant) -> None:
    assert find(mutant).by


@pytest.mark.slow
@pytest.mark.parametrize("variant", variants(), ids=str)
def test_correct_variants_pass(variant: Mutant) -> None:
    found = find(variant)
    assert not found.by
    assert found.cases > 0


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_mistake_is_found_and_the_page_says_how() -> None:
    text = page()
    assert "|  |" not in text.replace("|  |\n", "|\n"), "a mutant that nothing has found"
    assert text == PAGE.read_text(), "run python -m tests.verify.mutants"
    assert len(EVERY) >= 60
