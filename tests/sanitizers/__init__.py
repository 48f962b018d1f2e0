# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The kernels for the CPU under AddressSanitizer and UndefinedBehaviorSanitizer: make test-sanitizers."""
