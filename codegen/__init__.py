# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""hpgen: distributed custom operators, each generated from one YAML spec."""

__version__ = "0.1.0"
