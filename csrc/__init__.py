# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""C++ sources that every generated operator shares; shipped as data."""
