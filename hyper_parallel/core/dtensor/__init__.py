# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Device meshes, placements, layouts and the DTensor."""
