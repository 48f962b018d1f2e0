# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Specs and generated classes with mistakes in them, and whether `hpgen verify` finds each."""
