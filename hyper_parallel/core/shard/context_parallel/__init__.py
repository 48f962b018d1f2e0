# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Context parallelism in integers: how a sequence is dealt to ranks, and which keys a block of its rows may see.

- `sequence_orders`: `SequenceOrder`, and the index arrays between natural and dealt order.
- `documents`: `Documents`, the cumulative lengths of one group.
- `windows`: `document_windows(documents, order, rank, ranks, mask)`, a `Window` for each kernel call of a rank, and
  the derivation of all of it.
- `fixed_length`: `fixed_length_windows`, the same where every batch row is one document.
- `intervals`: `Intervals`, what a window takes of a dim: a slice, or an index.
"""
