# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Context parallelism: how a sequence is dealt to ranks, which keys a block of its rows may see, and operators on that.

In integers:

- `sequence_orders`: `SequenceOrder`, and the index arrays between natural and dealt order.
- `documents`: `Documents`, the cumulative lengths of one group.
- `windows`: `document_windows(documents, order, rank, ranks, mask)`, a `Window` for each kernel call of a rank, and
  the derivation of all of it.
- `fixed_length`: `fixed_length_windows`, the same where every batch row is one document.
- `intervals`: `Intervals`, what a window takes of a dim: a slice, or an index.

On tensors:

- `expansion`: `Expansion`, which runs an operator on a rank's blocks in the place of its kernel.
- `blocks`: the blocks of a call, from its extents and lengths.
- `call_lengths`, `tensor_cuts`, `outputs`: what becomes of lengths, tensors and outputs.
"""
