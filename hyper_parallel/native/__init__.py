# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Kernels in C++: compiled once for each content, kept in the user's cache folder, loaded by every process."""
