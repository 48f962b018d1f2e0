# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The runtime's expansion with mistakes in it: every rule that relies on it is wrong then.

The published faults are among them: the last document's end forced to the keys' length where a document crosses a
boundary, and queries taken to be as long as keys.
"""

from __future__ import annotations

from tests.operators.test_expansion_mutants import MUTANTS
from tests.verify.mutants.model import DENSE, LSE, RUNTIME, SPARSE, TOP_K, Mutant

IN_TURN = (LSE, TOP_K, DENSE, SPARSE)
NEEDS_KEY_OUTPUT = ("outputs", "tensor_cuts")
"""Modules in which a mistake is seen in outputs with the key dim, or in sums."""


def mutants() -> list[Mutant]:
    """Each of them in one operator that it shows in, in turn."""
    found = []
    for number, one in enumerate(MUTANTS):
        op = DENSE if one.module in NEEDS_KEY_OUTPUT else IN_TURN[number % len(IN_TURN)]
        if one.mistake in ("the leading zero is lost", "always causal"):
            op = TOP_K  # the others have neither
        found.append(Mutant(one.mistake, op, RUNTIME, ((one.old, one.new),), module=one.module))
    return found
