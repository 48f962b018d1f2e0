# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The Jinja templates. They lay out what the plan holds and decide nothing."""
