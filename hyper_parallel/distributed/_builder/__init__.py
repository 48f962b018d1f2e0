# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What the names of `hyper_parallel.distributed` are built from."""
