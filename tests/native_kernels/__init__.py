# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The operators on compiled kernels: HYPER_PARALLEL_KERNELS=native."""
