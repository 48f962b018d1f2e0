# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of compiled kernels."""
