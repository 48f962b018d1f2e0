# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What can go wrong on the way to a compiled kernel."""

from __future__ import annotations

REFERENCE_INSTEAD = "set HYPER_PARALLEL_KERNELS=reference to compute with the NumPy references, slowly"


class KernelBuildError(RuntimeError):
    """Kernels cannot be compiled, kept or loaded; the message says why and what to do."""


class EnvironmentFault(KernelBuildError):
    """The machine lacks something: a compiler, a library, a folder that can be written."""
