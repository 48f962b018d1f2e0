# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Context parallelism in integers: how a sequence is dealt to ranks, and which keys a block of its rows may see."""
