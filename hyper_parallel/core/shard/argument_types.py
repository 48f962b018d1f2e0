# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Types in the signatures of operators. Tensors belong to whichever framework is in use, so their type is open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

Tensor: TypeAlias = Any
"""A tensor of the framework, or a DTensor."""

Lengths: TypeAlias = "Sequence[int] | Any"
"""Cumulative document ends: a list of integers, a 1-D integer tensor or a DTensor."""

Integers: TypeAlias = "Sequence[int]"
"""A list of integers."""

DType: TypeAlias = Any
"""A dtype of the framework, or its name."""
