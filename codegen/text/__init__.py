# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Expressions and code as text: printing in Python and C++, and laying out."""
