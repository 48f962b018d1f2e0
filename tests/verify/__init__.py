# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the operators on virtual ranks; the tests on torch share their inputs and layouts."""
