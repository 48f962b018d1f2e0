# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Golden cases: specs in <case>/specs/, what they must give in <case>/expected/. A new case is a new folder."""
