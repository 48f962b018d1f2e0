# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Specs that were not written to be generated from, and what the tool must make of each."""
