# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The class of entry points on torch."""

from hyper_parallel.platform.operator_class import OperatorsOf


class TorchCustomOps(metaclass=OperatorsOf, platform="torch"):
    """Entry points of the operators of all libraries on torch; every argument is given by position."""
