# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Context parallelism: a sequence over several ranks, and the order in which it is dealt to them."""

from __future__ import annotations

from hyper_parallel.context_parallel.current_order import (
    current_sequence_order,
    sequence_order,
    set_default_sequence_order,
)
from hyper_parallel.context_parallel.dealing import deal, undeal
from hyper_parallel.core.shard.context_parallel.sequence_orders import SequenceOrder

__all__ = [
    "SequenceOrder",
    "current_sequence_order",
    "deal",
    "sequence_order",
    "set_default_sequence_order",
    "undeal",
]
