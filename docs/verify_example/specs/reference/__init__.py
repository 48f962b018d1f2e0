# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The NumPy functions that the example's spec names."""
