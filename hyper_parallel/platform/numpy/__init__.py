# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The embedded platform: NumPy arrays, and virtual ranks that are threads of one process."""
