# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Generators of specs and of broken specs, and what must hold of the tool for each of them.

`python -m tests.fuzz --examples 100000` makes a long run; tests/generator/test_fuzz.py makes a short one.
"""
