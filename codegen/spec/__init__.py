# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Reading a spec: text, marked YAML nodes, model, checks."""
