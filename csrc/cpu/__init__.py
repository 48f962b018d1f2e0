# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""C++ kernels for the host, independent of any framework; shipped as data."""
