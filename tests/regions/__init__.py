# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What `local_region` does, in tables that run on NumPy, torch and MindSpore."""
