# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The class of entry points on MindSpore."""

from hyper_parallel.platform.operator_class import OperatorsOf


class MindSporeCustomOps(metaclass=OperatorsOf, platform="mindspore"):
    """Entry points of the operators of all libraries on MindSpore; every argument is given by position."""
