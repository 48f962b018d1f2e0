# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""How much is tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from .meshes import MESHES, meshes_of


@dataclass(frozen=True)
class Budget:
    """How much is tried in each format.

    Attributes:
        runs: Cases that are run.
        refusals: Refused placements that are run to see whether they would be right.
        deviations: Bases whose deviations are asked about.
        random: Placements drawn at random.
        partials: The most tensors that are Partial at once.
        meshes: How many of the meshes are gone through.
        others: Cases on each of the other meshes: axes of unequal sizes, three and four ranks, an axis that only
            replicates.
        pending: Cases with Partial inputs that the rule takes.
        ranks: Cases with another number of ranks are left out; 0 where there is any number of them.
    """

    runs: int = 30
    refusals: int = 24
    deviations: int = 2
    random: int = 20
    partials: int = 1
    meshes: int = 2
    others: int = 2
    pending: int = 8
    ranks: int = 0

    @property
    def chosen(self) -> tuple[Mapping[str, int], ...]:
        """The meshes that are gone through."""
        return meshes_of(self.ranks) if self.ranks else MESHES[: self.meshes]

    def without_gradients(self) -> Budget:
        """For an operator without a backward, whose cases cost less: more of them."""
        return replace(self, runs=2 * self.runs, others=2 * self.others)


DEFAULT = Budget()
THOROUGH = Budget(runs=240, refusals=200, deviations=10, random=400, partials=2, meshes=5, others=20, pending=60)
