# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""All wrong rules."""

from __future__ import annotations

from tests.verify.mutants import class_mutants, rare_mutants, runtime_mutants, spec_mutants
from tests.verify.mutants.model import Mutant

GROUPS = {
    "Specs": spec_mutants.mutants,
    "Generated classes": class_mutants.mutants,
    "Rules that are wrong only sometimes": rare_mutants.mutants,
    "The runtime's expansion": runtime_mutants.mutants,
}
EVERY: list[Mutant] = [mutant for group in GROUPS.values() for mutant in group()]
