# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The class of entry points on NumPy."""

from hyper_parallel.platform.operator_class import OperatorsOf


class NumpyCustomOps(metaclass=OperatorsOf, platform="numpy"):
    """Entry points of the operators of all libraries on NumPy; every argument is given by position."""
