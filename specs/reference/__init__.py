# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""References of the operators: the mathematics in NumPy, one module per family.

They are the NumPy platform's kernels and the oracle of every test and proof, so they are written for being read and
checked, in float64 inside.
"""
